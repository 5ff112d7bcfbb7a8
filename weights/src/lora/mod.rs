//! LoRA (Hu et al. 2021): low-rank changes to weights, merged while these are loaded.
//!
//! `W + weight · alpha / rank · (up · down)`, computed in f32 whatever the types in the files.

mod alphas;
mod names;
mod write;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use prepose_formats::{TensorFile, TensorPart};
use prepose_untrusted::printable;

use crate::delta::Delta;
use crate::error::{WeightsError, list};
use crate::family::{FileKind, kind};
use crate::keys::UnetBlocks;
use crate::part::{Part, Parts};
use crate::tensors;

use alphas::Alphas;
use names::Network;
pub(crate) use names::{Role, split};
pub use write::{LoraFormat, LoraLayer};
pub(crate) use write::{file, sorted};

/// A LoRA file and how strongly to apply it.
#[derive(Debug, Clone, PartialEq)]
pub struct LoraSpec {
    /// The file, in kohya's, diffusers' or peft's naming.
    pub path: PathBuf,
    /// Factor on the change: 1 as trained, 0 nothing, negative the opposite.
    pub weight: f32,
}

/// The tensors of one changed module, as found in a file.
#[derive(Debug, Default)]
pub(crate) struct Module {
    pub down: Option<String>,
    pub up: Option<String>,
    pub alpha: Option<String>,
}

impl Module {
    /// The rank: rows of `down`.
    pub fn rank(&self, file: &TensorFile) -> Option<usize> {
        file.info(self.down.as_ref()?)?.shape.first().copied()
    }
}

/// The modules that a LoRA file changes, by the file's names for them, and the tensors that are no
/// part of a plain LoRA. Of a file that has the UNet's blocks under both of their names, diffusers'
/// count, as in diffusers (`_maybe_map_sgm_blocks_to_diffusers`).
pub(crate) fn modules(file: &TensorFile) -> (BTreeMap<String, Module>, Vec<String>) {
    let mut modules: BTreeMap<String, Module> = BTreeMap::new();
    let mut others = Vec::new();
    for key in file.names() {
        match split(key) {
            Some((module, role)) => {
                let module = modules.entry(module).or_default();
                let slot = match role {
                    Role::Down => &mut module.down,
                    Role::Up => &mut module.up,
                    Role::Alpha => &mut module.alpha,
                };
                *slot = Some(key.to_string());
            }
            None => others.push(key.to_string()),
        }
    }
    if modules.keys().any(|name| names::in_diffusers_blocks(name)) {
        modules.retain(|name, _| !names::in_original_blocks(name));
    }
    (modules, others)
}

/// Notes in `parts` what each LoRA adds. Nothing is read but headers and alphas; every tensor of
/// every file must be understood and fit a weight.
pub(crate) fn apply(
    specs: &[LoraSpec],
    parts: &mut Parts,
) -> Result<Vec<Arc<TensorFile>>, WeightsError> {
    let mut files = Vec::new();
    for spec in specs {
        let file = Arc::new(TensorFile::open(&spec.path)?);
        apply_one(spec, &file, parts)?;
        files.push(file);
    }
    Ok(files)
}

fn apply_one(
    spec: &LoraSpec,
    file: &Arc<TensorFile>,
    parts: &mut Parts,
) -> Result<(), WeightsError> {
    let fail = |what: String, hint: &str| WeightsError::Lora {
        path: spec.path.clone(),
        what,
        hint: hint.into(),
    };
    let modules = plain_modules(spec, file).map_err(|(what, hint)| fail(what, hint))?;
    let found = Found::new(spec, file, parts, &modules)?;
    for (names, what) in [
        (&found.unknown, "are not in this checkpoint"),
        (&found.misfits, "do not fit"),
    ] {
        if !names.is_empty() {
            let (wrong, all) = (names.len(), modules.len());
            return Err(fail(
                format!("{wrong} of {all} modules {what}: {}", list(names)),
                &format!("use a LoRA made for {}", parts.family),
            ));
        }
    }
    for ((network, parameter), delta) in found.deltas {
        if let Some(part) = parts.part_mut(network) {
            part.deltas.entry(parameter).or_default().push(delta);
        }
    }
    Ok(())
}

/// The modules of a plain LoRA, or what the file is instead and the way out.
fn plain_modules(
    spec: &LoraSpec,
    file: &TensorFile,
) -> Result<BTreeMap<String, Module>, (String, &'static str)> {
    if !spec.weight.is_finite() {
        return Err((format!("its weight is {}", spec.weight), "give a number"));
    }
    let found = kind(file);
    if found != FileKind::Lora {
        let what = format!("this is {}, not a LoRA", found.name());
        return Err((what, "give a LoRA here"));
    }
    let (modules, others) = modules(file);
    if let Some(relative) = others.iter().find_map(|key| names::relative(key)) {
        return Err((
            format!("this is a {relative}, or holds one, and only plain LoRAs are supported"),
            "use a plain LoRA, or a checkpoint into which it is merged",
        ));
    }
    if !others.is_empty() {
        return Err((
            format!(
                "{} tensors are not part of a LoRA: {}",
                others.len(),
                list(&others)
            ),
            "use a plain LoRA in kohya's or diffusers' naming",
        ));
    }
    Ok(modules)
}

/// What the modules of a LoRA change in a checkpoint.
#[derive(Default)]
struct Found {
    /// By network and parameter: a weight that the file names twice is changed once.
    deltas: BTreeMap<(Network, String), Delta>,
    /// Modules that the checkpoint does not have.
    unknown: Vec<String>,
    /// Modules of another shape, in words.
    misfits: Vec<String>,
}

impl Found {
    fn new(
        spec: &LoraSpec,
        file: &Arc<TensorFile>,
        parts: &Parts,
        modules: &BTreeMap<String, Module>,
    ) -> Result<Self, WeightsError> {
        let names = Names::new(parts);
        let peft = modules
            .iter()
            .any(|(name, module)| module.alpha.is_none() && name.starts_with(names::PEFT));
        let alphas = Alphas::read(file, peft)?;
        let mut found = Self::default();
        for (name, module) in modules {
            let (Some(down), Some(up)) = (&module.down, &module.up) else {
                let what = format!("{name} is not complete (up and down)");
                found.misfits.push(what);
                continue;
            };
            let target = names.find(name).and_then(|(network, parameter)| {
                let shape = parts.part(network)?.entries.get(&parameter)?.shape();
                Some((network, parameter, shape))
            });
            let Some((network, parameter, target)) = target else {
                found.unknown.push(name.clone());
                continue;
            };
            let shape = |key: &str| {
                file.info(key)
                    .map(|info| info.shape.clone())
                    .unwrap_or_default()
            };
            let Some(rank) = fits(&target, &shape(down), &shape(up)) else {
                found.misfits.push(format!(
                    "{name} is {:?} · {:?} for a weight of {target:?}",
                    shape(up),
                    shape(down)
                ));
                continue;
            };
            let scale = match &module.alpha {
                Some(key) => scalar(file, key)? / rank as f32,
                None => alphas.scale(name, rank),
            };
            let delta = Delta {
                file: file.clone(),
                down: down.clone(),
                up: up.clone(),
                scale: spec.weight * scale,
            };
            found.deltas.entry((network, parameter)).or_insert(delta);
        }
        Ok(found)
    }
}

/// The rank, if `up · down` has the target's shape: `[O, r] · [r, I]` for a linear layer, `[O, r, 1,
/// 1] · [r, I, k, k]` for a convolution, where trailing 1s do not count.
fn fits(target: &[usize], down: &[usize], up: &[usize]) -> Option<usize> {
    fn trim(shape: &[usize]) -> &[usize] {
        let mut shape = shape;
        while let [rest @ .., 1] = shape
            && rest.len() >= 2
        {
            shape = rest;
        }
        shape
    }
    let (target, down, up) = (trim(target), trim(down), trim(up));
    let [out, rank] = *up else { return None };
    (target.len() >= 2
        && rank > 0
        && down.first() == Some(&rank)
        && target.first() == Some(&out)
        && down.get(1..) == target.get(1..))
    .then_some(rank)
}

fn scalar(file: &TensorFile, key: &str) -> Result<f32, WeightsError> {
    alpha(file, key)?.ok_or_else(|| WeightsError::Lora {
        path: file.path().to_path_buf(),
        what: format!("{} is not a number", printable(key)),
        hint: "the file is damaged; download it again".into(),
    })
}

/// The one number in the tensor `key`, if it is one and finite.
pub(crate) fn alpha(file: &TensorFile, key: &str) -> Result<Option<f32>, WeightsError> {
    // A small file can show one number millions of times.
    if file.info(key).is_none_or(|info| info.elements() != 1) {
        return Ok(None);
    }
    // diffusers converts to kohya's naming with alphas that are ranks, as integers.
    if let Some(integer) = tensors::integer(file, key) {
        return Ok(Some(integer as f32));
    }
    let values = tensors::read(file, key, TensorPart::WHOLE)?;
    let value = values.data.iter::<f32>().next();
    Ok(value.filter(|value| value.is_finite()))
}

/// How to find the weight that a module name means.
struct Names {
    /// kohya's names for the UNet's modules: diffusers' or latent-diffusion's with underscores.
    unet: HashMap<String, String>,
    /// The same for the text encoders.
    text: Vec<HashMap<String, String>>,
}

impl Names {
    fn new(parts: &Parts) -> Self {
        let underscored = |part: &Part| {
            let modules = part
                .entries
                .keys()
                .filter_map(|name| name.strip_suffix(".weight"));
            modules
                .map(|module| (module.replace('.', "_"), format!("{module}.weight")))
                .collect()
        };
        let mut unet: HashMap<String, String> = underscored(&parts.unet);
        let blocks: Vec<(String, String)> = UnetBlocks::of(&parts.unet.config).modules().collect();
        for name in parts.unet.entries.keys() {
            let Some(module) = name.strip_suffix(".weight") else {
                continue;
            };
            for (ldm, diffusers) in &blocks {
                if let Some(rest) = module.strip_prefix(diffusers.as_str())
                    && (rest.is_empty() || rest.starts_with('.'))
                {
                    unet.insert(format!("{ldm}{rest}").replace('.', "_"), name.clone());
                }
            }
        }
        Self {
            unet,
            text: parts.text.iter().map(underscored).collect(),
        }
    }

    fn find(&self, module: &str) -> Option<(Network, String)> {
        let (network, rest, kohya) = names::network(module)?;
        if !kohya {
            return Some((
                network,
                format!("{}.weight", names::diffusers(network, rest)),
            ));
        }
        let table = match network {
            Network::Unet => &self.unet,
            Network::Text(index) => self.text.get(index)?,
        };
        Some((network, table.get(rest)?.clone()))
    }
}

impl Parts {
    fn part(&self, network: Network) -> Option<&Part> {
        match network {
            Network::Unet => Some(&self.unet),
            Network::Text(index) => self.text.get(index),
        }
    }

    fn part_mut(&mut self, network: Network) -> Option<&mut Part> {
        match network {
            Network::Unet => Some(&mut self.unet),
            Network::Text(index) => self.text.get_mut(index),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes() {
        assert_eq!(fits(&[8, 6], &[2, 6], &[8, 2]), Some(2));
        assert_eq!(fits(&[8, 6, 1, 1], &[2, 6], &[8, 2]), Some(2));
        assert_eq!(fits(&[8, 6], &[2, 6, 1, 1], &[8, 2, 1, 1]), Some(2));
        assert_eq!(fits(&[8, 6, 3, 3], &[2, 6, 3, 3], &[8, 2, 1, 1]), Some(2));
        assert_eq!(fits(&[8, 6], &[1, 6], &[8, 1]), Some(1));
        assert_eq!(fits(&[8, 6, 3, 3], &[2, 6, 1, 1], &[8, 2, 3, 3]), None);
        assert_eq!(fits(&[8, 6], &[2, 7], &[8, 2]), None);
        assert_eq!(fits(&[8, 6], &[3, 6], &[8, 2]), None);
        assert_eq!(fits(&[8], &[2, 1], &[8, 2]), None);
    }
}
