//! LoRA files for other programs: as kohya's scripts write them, and as diffusers and peft do.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use safetensors::tensor::{Dtype, TensorView};
use serde_json::{Value, json};

use super::fits;
use crate::error::WeightsError;
use crate::family::Family;
use crate::keys::UnetBlocks;
use crate::part::Parts;

/// Whose names a LoRA file has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoraFormat {
    /// kohya's, which A1111, ComfyUI and diffusers read: `lora_unet_….lora_down.weight`, alphas as tensors, `ss_…` in the
    /// metadata.
    Kohya,
    /// diffusers': `unet.….lora_A.weight`, alphas in peft's configuration in the metadata.
    Diffusers,
}

/// The change of one layer of the UNet: `alpha / rank · (up · down)`.
#[derive(Debug, Clone, PartialEq)]
pub struct LoraLayer {
    /// The layer, in diffusers' naming.
    pub name: String,
    /// `[rank, In]`, or `[rank, In, k, k]` of a convolution.
    pub down: (Vec<usize>, Vec<f32>),
    /// `[Out, rank]`, or `[Out, rank, 1, 1]` of a convolution.
    pub up: (Vec<usize>, Vec<f32>),
    /// Scales the change.
    pub alpha: f32,
}

impl LoraLayer {
    fn rank(&self) -> usize {
        self.down.0.first().copied().unwrap_or(0)
    }
}

/// As [`crate::Checkpoint::lora_file`].
pub(crate) fn file(
    parts: &Parts,
    format: LoraFormat,
    layers: &[LoraLayer],
    about: &BTreeMap<String, String>,
) -> Result<Vec<u8>, WeightsError> {
    let refused = |what: String| WeightsError::Lora {
        path: parts.unet.path.clone(),
        what,
        hint: format!(
            "a LoRA for {} changes its linear layers and convolutions",
            parts.family
        ),
    };
    for layer in layers {
        let weight = parts.unet.entries.get(&format!("{}.weight", layer.name));
        let shape = weight.map(|entry| entry.shape()).unwrap_or_default();
        if fits(&shape, &layer.down.0, &layer.up.0).is_none() {
            let (name, up, down) = (&layer.name, &layer.up.0, &layer.down.0);
            return Err(refused(format!(
                "{name} is {up:?} · {down:?} for a weight of {shape:?}"
            )));
        }
    }
    let bytes =
        |values: &[f32]| -> Vec<u8> { values.iter().flat_map(|v| v.to_le_bytes()).collect() };
    let mut tensors: Vec<(String, Vec<usize>, Vec<u8>)> = Vec::new();
    let names = match format {
        LoraFormat::Kohya => kohya_names(parts, layers),
        LoraFormat::Diffusers => layers
            .iter()
            .map(|layer| format!("unet.{}", layer.name))
            .collect(),
    };
    let [down, up] = match format {
        LoraFormat::Kohya => ["lora_down", "lora_up"],
        LoraFormat::Diffusers => ["lora_A", "lora_B"],
    };
    for (layer, name) in layers.iter().zip(names) {
        let factors = [(down, &layer.down), (up, &layer.up)];
        tensors.extend(factors.map(|(role, (shape, values))| {
            (
                format!("{name}.{role}.weight"),
                shape.clone(),
                bytes(values),
            )
        }));
        if format == LoraFormat::Kohya {
            tensors.push((format!("{name}.alpha"), Vec::new(), bytes(&[layer.alpha])));
        }
    }
    let mut metadata: HashMap<String, String> = about.clone().into_iter().collect();
    match format {
        LoraFormat::Kohya => metadata.extend(kohya_metadata(parts.family, layers)),
        LoraFormat::Diffusers => {
            metadata.insert("format".into(), "pt".into());
            let config = peft_config(layers).to_string();
            metadata.insert("lora_adapter_metadata".into(), config);
        }
    }
    let views = tensors.iter().map(|(name, shape, bytes)| {
        Ok((
            name.as_str(),
            TensorView::new(Dtype::F32, shape.clone(), bytes)?,
        ))
    });
    let views: Result<Vec<_>, safetensors::SafeTensorError> = views.collect();
    let whole = views.and_then(|views| safetensors::serialize(views, Some(metadata)));
    let whole = whole.map_err(|error| refused(error.to_string()))?;
    Ok(sorted(whole))
}

/// The file with its metadata in the order of their names: the same training has the same bytes.
pub(crate) fn sorted(mut file: Vec<u8>) -> Vec<u8> {
    let Some((start, rest)) = file.split_first_chunk_mut::<8>() else {
        return file;
    };
    let length = usize::try_from(u64::from_le_bytes(*start)).unwrap_or(usize::MAX);
    let Some(header) = rest.get_mut(..length) else {
        return file;
    };
    if let Ok(mut table) = serde_json::from_slice::<Value>(header) {
        if let Some(metadata) = table["__metadata__"].as_object_mut() {
            metadata.sort_keys();
        }
        let text = table.to_string();
        if text.len() <= header.len() {
            header.fill(b' ');
            header[..text.len()].copy_from_slice(text.as_bytes());
        }
    }
    file
}

/// kohya names the layers of SD 1.x and 2.x as diffusers does, and those of SDXL as the original code.
fn kohya_names(parts: &Parts, layers: &[LoraLayer]) -> Vec<String> {
    let blocks = match parts.family {
        Family::Sdxl => Some(UnetBlocks::of(&parts.unet.config)),
        Family::Sd1 | Family::Sd2 => None,
    };
    let attends = |block: &str| {
        let inside = format!("{block}.attentions.");
        let mut names = parts.unet.entries.keys();
        names.any(|name| name.starts_with(&inside))
    };
    let original = |name: &str| {
        let found = blocks.as_ref();
        let found = found.and_then(|blocks| blocks.original(name, attends));
        found.unwrap_or_else(|| name.to_owned())
    };
    let names = layers.iter();
    names
        .map(|layer| format!("lora_unet_{}", original(&layer.name).replace('.', "_")))
        .collect()
}

/// The most frequent of some values, as text.
fn usual<T: Ord + Copy>(values: impl Iterator<Item = T>) -> Option<T> {
    let mut counts: BTreeMap<T, usize> = BTreeMap::new();
    values.for_each(|value| *counts.entry(value).or_default() += 1);
    counts
        .into_iter()
        .max_by_key(|(_, count)| *count)
        .map(|(value, _)| value)
}

/// Whether a layer is a convolution of more than single pixels, which kohya gives a rank of its own.
fn is_wide(layer: &LoraLayer) -> bool {
    matches!(layer.down.0.as_slice(), [_, _, height, width] if *height > 1 || *width > 1)
}

fn kohya_metadata(family: Family, layers: &[LoraLayer]) -> BTreeMap<String, String> {
    let version = match family {
        Family::Sd1 => "sd_v1",
        Family::Sd2 => "sd_v2",
        Family::Sdxl => "sdxl_base_v1-0",
    };
    let of = |wide: bool| {
        let mut some = layers.iter().filter(move |layer| is_wide(layer) == wide);
        let first = some.next()?;
        Some((first.rank(), first.alpha))
    };
    let mut metadata = BTreeMap::from([
        ("ss_network_module".to_owned(), "networks.lora".to_owned()),
        ("ss_base_model_version".to_owned(), version.to_owned()),
        (
            "ss_v2".to_owned(),
            (if family == Family::Sd2 {
                "True"
            } else {
                "False"
            })
            .to_owned(),
        ),
    ]);
    if let Some((rank, alpha)) = of(false).or(of(true)) {
        metadata.insert("ss_network_dim".into(), rank.to_string());
        metadata.insert("ss_network_alpha".into(), alpha.to_string());
    }
    if let Some((rank, alpha)) = of(true) {
        let args = json!({"conv_dim": rank.to_string(), "conv_alpha": alpha.to_string()});
        metadata.insert("ss_network_args".into(), args.to_string());
    }
    metadata
}

/// peft's configuration, as diffusers writes it for a UNet: the usual rank and alpha, and the layers that have others.
fn peft_config(layers: &[LoraLayer]) -> Value {
    let rank = usual(layers.iter().map(LoraLayer::rank)).unwrap_or(0);
    let bits = usual(layers.iter().map(|layer| layer.alpha.to_bits())).unwrap_or(0);
    let (mut ranks, mut alphas) = (serde_json::Map::new(), serde_json::Map::new());
    for layer in layers {
        if layer.rank() != rank {
            ranks.insert(layer.name.clone(), layer.rank().into());
        }
        if layer.alpha.to_bits() != bits {
            alphas.insert(layer.name.clone(), f64::from(layer.alpha).into());
        }
    }
    let names: BTreeSet<&str> = layers.iter().map(|layer| layer.name.as_str()).collect();
    json!({
        "unet.r": rank,
        "unet.lora_alpha": f64::from(f32::from_bits(bits)),
        "unet.rank_pattern": ranks,
        "unet.alpha_pattern": alphas,
        "unet.target_modules": names,
        "unet.peft_type": "LORA",
        "unet.lora_dropout": 0.0,
        "unet.lora_bias": false,
        "unet.use_dora": false,
        "unet.use_rslora": false,
        "unet.bias": "none",
        "unet.fan_in_fan_out": false,
        "unet.init_lora_weights": true,
    })
}
