//! diffusers folders.

use std::collections::BTreeMap;
use std::sync::Arc;

use prepose_formats::TensorFile;
use serde_json::{Value, json};

use crate::configs::Configs;
use crate::error::WeightsError;
use crate::family::Family;
use crate::files::Files;
use crate::keys::{self, Target};
use crate::part::{Part, Parts, View};

/// Opens the diffusers folder `files`.
pub(crate) fn open_folder(files: Files) -> Result<Parts, WeightsError> {
    const INDEX: &str = "model_index.json";
    if !files.has(INDEX) {
        let hint = if files.has("config.json") {
            "this is one part of a checkpoint: give the folder above it, which holds model_index.json"
        } else {
            "give the folder that holds model_index.json, or a single checkpoint file"
        };
        return Err(WeightsError::Folder {
            path: files.path(""),
            what: "this folder is not a diffusers checkpoint: it has no model_index.json".into(),
            hint: hint.into(),
        });
    }
    let index = files.json(INDEX)?;
    let family = family(&files, &index)?;
    let configs = Configs::Folder(files.clone());

    let mut unet = part("unet", &configs, &files)?;
    for file in weight_files(&files, "unet")? {
        for name in file.names() {
            let view = projection_view(name, &unet.config);
            unet.insert(name.to_string(), &file, name, view);
        }
    }
    let mut vae = part("vae", &configs, &files)?;
    for file in weight_files(&files, "vae")? {
        insert_diffusers_vae(&mut vae, &file);
    }
    let names: &[&'static str] = match family {
        Family::Sd1 | Family::Sd2 => &["text_encoder"],
        Family::Sdxl => &["text_encoder", "text_encoder_2"],
    };
    let mut text = Vec::new();
    for name in names {
        let mut part = part(name, &configs, &files)?;
        let projected = has_projection(&part);
        for file in weight_files(&files, name)? {
            for key in file.names() {
                insert(&mut part, &file, key, keys::clip(key, projected));
            }
        }
        text.push(part);
    }
    let scheduler = configs.get("scheduler")?.0;
    let tokenizers = vec![Some(files); names.len()];
    Ok(Parts {
        family,
        unet,
        vae,
        text,
        scheduler,
        index,
        tokenizers,
    })
}

fn part(name: &'static str, configs: &Configs, files: &Files) -> Result<Part, WeightsError> {
    let (config, config_path) = configs.get(name)?;
    Ok(Part::new(name, &files.path(name), config, &config_path))
}

/// Adds the tensor `key` where its rule says.
pub(crate) fn insert(part: &mut Part, file: &Arc<TensorFile>, key: &str, target: Target) {
    match target {
        Target::Parameters(names) => {
            for (name, view) in names {
                part.insert(name, file, key, view);
            }
        }
        Target::Ignored => {}
        Target::Unknown => part.strays.push(key.to_string()),
    }
}

/// How the UNet's parameter `name` is read: some tools store the transformers' projections as 1×1 convolutions although
/// they are linear layers here.
pub(crate) fn projection_view(name: &str, config: &Value) -> View {
    let projection = name.ends_with("proj_in.weight") || name.ends_with("proj_out.weight");
    match projection && config["use_linear_projection"] == json!(true) {
        true => View::Linear,
        false => View::Whole,
    }
}

/// Adds an autoencoder that diffusers wrote, whose attention had other names in old versions.
pub(crate) fn insert_diffusers_vae(part: &mut Part, file: &Arc<TensorFile>) {
    const ATTENTION: &str = "mid_block.attentions.0.";
    for key in file.names() {
        let old = key.split_once(ATTENTION).and_then(|(half, rest)| {
            Some(format!("{half}{ATTENTION}{}", keys::vae_attention(rest)?))
        });
        match old {
            Some(name) => part.insert(name, file, key, View::Linear),
            None => part.insert(key.to_string(), file, key, View::Whole),
        }
    }
}

/// Whether the text encoder `part` projects its pooled output: its class says so, or in a
/// configuration without one its place.
pub(crate) fn has_projection(part: &Part) -> bool {
    match part.config["architectures"][0].as_str() {
        Some(class) => class == "CLIPTextModelWithProjection",
        None => part.name == "text_encoder_2",
    }
}

/// The family that `model_index.json` declares, or what else it is.
fn family(files: &Files, index: &Value) -> Result<Family, WeightsError> {
    let class = index["_class_name"].as_str().unwrap_or_default();
    let unsupported = |what: String, hint: &str| WeightsError::Unsupported {
        path: files.path(""),
        what,
        hint: hint.into(),
    };
    let family = match class {
        "StableDiffusionPipeline"
        | "StableDiffusionImg2ImgPipeline"
        | "StableDiffusionGLIGENPipeline"
        | "LatentConsistencyModelPipeline" => Family::Sd1,
        "StableDiffusionXLPipeline" | "StableDiffusionXLImg2ImgPipeline" => Family::Sdxl,
        other => {
            return Err(unsupported(
                format!("a checkpoint of the class {other:?}"),
                "use a checkpoint of SD 1.x or 2.x (StableDiffusionPipeline) or SDXL (StableDiffusionXLPipeline)",
            ));
        }
    };
    if family == Family::Sdxl && index["text_encoder"][1].is_null() {
        return Err(unsupported(
            "a Stable Diffusion XL refiner".into(),
            "use the SDXL base checkpoint, which makes pictures on its own",
        ));
    }
    let unet = files.json("unet/config.json")?;
    // SD 2.x shares SD 1.x's class; its projections give it away.
    let is_sd2 = family == Family::Sd1 && unet["use_linear_projection"] == json!(true);
    if let Some(channels @ (5 | 7 | 8 | 9)) = unet["in_channels"].as_u64() {
        return Err(unsupported(
            format!(
                "a checkpoint whose UNet takes {channels} channels, for inpainting, editing or enlarging pictures or \
                 for depths"
            ),
            "use the plain text-to-image checkpoint that it was made from",
        ));
    }
    Ok(if is_sd2 { Family::Sd2 } else { family })
}

/// The files that hold the weights of the part in the folder `part`: one, or the shards that an
/// index lists. Full precision is preferred to half, safetensors to pickles.
pub(crate) fn weight_files(
    files: &Files,
    part: &str,
) -> Result<Vec<Arc<TensorFile>>, WeightsError> {
    let is_text = part.starts_with("text_encoder");
    let (safetensors, bin) = match is_text {
        true => ("model", "pytorch_model"),
        false => ("diffusion_pytorch_model", "diffusion_pytorch_model"),
    };
    let below = |name: &str| {
        if part.is_empty() {
            name.to_string()
        } else {
            format!("{part}/{name}")
        }
    };
    let mut tried = Vec::new();
    for (stem, extension) in [(safetensors, "safetensors"), (bin, "bin")] {
        for variant in ["", ".fp16"] {
            let name = below(&format!("{stem}{variant}.{extension}"));
            // diffusers puts the variant after `index`, transformers in the same place.
            let index = below(&format!("{stem}.{extension}.index{variant}.json"));
            let is_split = files.has(&index);
            // Of both, one is older: diffusers reads the shards then, and transformers the whole file.
            if files.has(&name) && (is_text || !is_split) {
                return Ok(vec![files.tensors(&name)?]);
            }
            if is_split {
                return shards(files, &index, part);
            }
            tried.push(name);
        }
    }
    Err(WeightsError::Folder {
        path: files.path(part),
        what: format!("no weights here: none of {}", tried.join(", ")),
        hint: "download the folder again with its weights".into(),
    })
}

fn shards(files: &Files, index: &str, part: &str) -> Result<Vec<Arc<TensorFile>>, WeightsError> {
    let table = files.json(index)?;
    let bad = |what: String| WeightsError::Json {
        path: files.path(index),
        what,
        source: None,
    };
    let map = table["weight_map"]
        .as_object()
        .ok_or_else(|| bad("there is no weight_map in it".into()))?;
    let mut shards: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (tensor, file) in map {
        let file = file
            .as_str()
            .ok_or_else(|| bad(format!("the file of {tensor} is not a name")))?;
        // A name, not a path: an index must not reach outside of its folder.
        if file.contains(['/', '\\']) || file.starts_with("..") {
            return Err(bad(format!(
                "{file:?} is not the name of a file in this folder"
            )));
        }
        shards.entry(file).or_default().push(tensor);
    }
    let mut opened = Vec::new();
    for (name, tensors) in shards {
        let name = if part.is_empty() {
            name.to_string()
        } else {
            format!("{part}/{name}")
        };
        if !files.has(&name) {
            return Err(WeightsError::Folder {
                path: files.path(part),
                what: format!("the shard {name} is missing, which {index} lists"),
                hint: "download it as well".into(),
            });
        }
        let file = files.tensors(&name)?;
        if let Some(tensor) = tensors.iter().find(|tensor| file.info(tensor).is_none()) {
            return Err(bad(format!(
                "{tensor} is not in {name}, where the index says it is"
            )));
        }
        opened.push(file);
    }
    Ok(opened)
}
