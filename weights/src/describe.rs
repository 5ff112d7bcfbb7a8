//! What a file of weights is, for `prepose info`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use prepose_formats::TensorFile;
use prepose_untrusted::printable;
use serde::Serialize;

use crate::detr;
use crate::error::WeightsError;
use crate::eyes;
use crate::family::{self, FileKind};
use crate::files::Files;
use crate::folder::open_folder;
use crate::hub;
use crate::lora;
use crate::part::Part;
use crate::steer::{SteerConfig, SteerFile};

/// What is in a file or folder of weights. [`std::fmt::Display`] writes it for people, serde for
/// programs.
#[derive(Debug, Clone, Serialize)]
pub struct Description {
    /// The file or folder.
    pub path: PathBuf,
    /// Its format: `safetensors`, `PyTorch`, `diffusers folder`.
    pub format: &'static str,
    /// What it is.
    pub kind: FileKind,
    /// Tensors in it.
    pub tensors: usize,
    /// Numbers in it.
    pub parameters: u64,
    /// Tensors and numbers by the type in which they are stored.
    pub types: BTreeMap<String, Count>,
    /// Tensors and numbers by network, or by the beginning of the name.
    pub parts: BTreeMap<String, Count>,
    /// What comes with it and is loaded where it is asked for: the toybox's layers of GLIGEN's, and its IP-Adapter.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub on_request: BTreeMap<String, Count>,
    /// What a LoRA changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lora: Option<LoraDescription>,
    /// What guidance learned of a checkpoint, where a classifier comes with it or is the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steer: Option<SteerConfig>,
    /// The scheduler's class, in a diffusers folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<String>,
    /// The free-form text in a safetensors header.
    pub metadata: BTreeMap<String, String>,
}

/// How much there is of something.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Count {
    /// Tensors.
    pub tensors: usize,
    /// Numbers in them.
    pub parameters: u64,
}

/// A LoRA's size.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LoraDescription {
    /// Modules that it changes.
    pub modules: usize,
    /// How many modules have which rank.
    pub ranks: BTreeMap<usize, usize>,
    /// How many modules have which alpha; those without one (alpha = rank) are left out.
    pub alphas: BTreeMap<String, usize>,
    /// Tensors that a plain LoRA has not.
    pub other_tensors: usize,
}

/// Says what lies at `path`: a file of tensors of any kind, a diffusers folder, `toybox` or the name
/// of a known checkpoint. Weights are not read.
///
/// # Errors
/// [`WeightsError`] if there is nothing, or nothing that holds tensors.
pub fn describe_file(path: &Path) -> Result<Description, WeightsError> {
    #[cfg(feature = "toybox")]
    if path == Path::new(crate::TOYBOX) {
        let mut description = describe_folder(path, crate::toybox::files())?;
        let more = [
            ("gligen", crate::toybox::gligen()?),
            ("ip-adapter", crate::toybox::ip_adapter()?),
        ];
        for (name, file) in more {
            let tensors = file.tensors().map(|(_, info)| info.elements() as u64);
            let tensors: Vec<u64> = tensors.collect();
            let count = Count {
                tensors: tensors.len(),
                parameters: tensors.iter().sum(),
            };
            description.on_request.insert(name.into(), count);
        }
        description.steer = SteerFile::toybox().ok().map(|file| file.config);
        return Ok(description);
    }
    #[cfg(feature = "toybox")]
    if path == Path::new(crate::TOYBOX_CLIP) {
        let file = crate::toybox::clip_files().tensors("model.safetensors")?;
        return Ok(describe_tensors(path, &file));
    }
    let path = hub::resolve(path)?;
    let metadata = std::fs::metadata(&path).map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => WeightsError::NotFound {
            path: path.clone(),
            hint: hub::not_found_hint(&path.to_string_lossy()),
        },
        _ => WeightsError::Io {
            path: path.clone(),
            source,
        },
    })?;
    if metadata.is_dir() {
        let single = eyes::described(&path).or_else(|| detr::weights_in(&path));
        if let Some(file) = single {
            let description = describe_single(&file)?;
            return Ok(Description {
                path,
                ..description
            });
        }
        let description = describe_folder(&path, Files::Folder(path.clone()))?;
        let steer = SteerFile::open(&path.join("steer/steer.safetensors"));
        Ok(Description {
            steer: steer.ok().map(|file| file.config),
            ..description
        })
    } else {
        describe_single(&path)
    }
}

/// How many lines of metadata people are shown.
const METADATA: usize = 100;

fn empty(path: &Path, format: &'static str, kind: FileKind) -> Description {
    Description {
        path: path.to_path_buf(),
        format,
        kind,
        tensors: 0,
        parameters: 0,
        types: BTreeMap::new(),
        parts: BTreeMap::new(),
        on_request: BTreeMap::new(),
        lora: None,
        steer: None,
        scheduler: None,
        metadata: BTreeMap::new(),
    }
}

impl Description {
    fn count(&mut self, file: &TensorFile, part: impl Fn(&str) -> String) {
        for (name, info) in file.tensors() {
            let parameters = info.elements() as u64;
            self.tensors += 1;
            self.parameters += parameters;
            let by_type = self.types.entry(info.dtype.to_string()).or_default();
            let by_part = self.parts.entry(part(name)).or_default();
            for count in [by_type, by_part] {
                count.tensors += 1;
                count.parameters += parameters;
            }
        }
    }
}

fn describe_single(path: &Path) -> Result<Description, WeightsError> {
    Ok(describe_tensors(path, &TensorFile::open(path)?))
}

fn describe_tensors(path: &Path, file: &TensorFile) -> Description {
    let kind = family::kind(file);
    let mut description = empty(path, file.format(), kind);
    description.count(file, |name| beginning(name, kind));
    description.metadata = file.metadata().cloned().unwrap_or_default();
    if kind == FileKind::Lora {
        description.lora = Some(describe_lora(file));
    }
    description.steer = SteerConfig::of(file);
    description
}

/// The network that a tensor belongs to in a single file: the beginning of its name.
fn beginning(name: &str, kind: FileKind) -> String {
    if kind == FileKind::Lora {
        const NETWORKS: &[&str] = &[
            "lora_unet",
            "lora_te1",
            "lora_te2",
            "lora_te",
            "text_encoder_2",
            "text_encoder",
            "unet",
        ];
        return NETWORKS
            .iter()
            .find(|network| name.starts_with(*network))
            .unwrap_or(&"other")
            .to_string();
    }
    let words = if name.starts_with("conditioner.embedders.") {
        3
    } else {
        1
    };
    name.split('.').take(words).collect::<Vec<_>>().join(".")
}

fn describe_lora(file: &TensorFile) -> LoraDescription {
    let (modules, others) = lora::modules(file);
    let mut ranks = BTreeMap::new();
    let mut alphas = BTreeMap::new();
    for module in modules.values() {
        if let Some(rank) = module.rank(file) {
            *ranks.entry(rank).or_insert(0) += 1;
        }
        let alpha = module
            .alpha
            .as_ref()
            .and_then(|key| lora::alpha(file, key).ok().flatten());
        if let Some(alpha) = alpha {
            *alphas.entry(alpha.to_string()).or_insert(0) += 1;
        }
    }
    LoraDescription {
        modules: modules.len(),
        ranks,
        alphas,
        other_tensors: others.len(),
    }
}

fn describe_folder(path: &Path, files: Files) -> Result<Description, WeightsError> {
    let parts = open_folder(files)?;
    let mut description = empty(path, "diffusers folder", FileKind::Checkpoint(parts.family));
    description.scheduler = parts.scheduler["_class_name"].as_str().map(str::to_string);
    for part in [&parts.unet, &parts.vae].into_iter().chain(&parts.text) {
        for file in files_of(part) {
            description.count(file, |_| part.name.to_string());
        }
    }
    Ok(description)
}

fn files_of(part: &Part) -> Vec<&Arc<TensorFile>> {
    let mut files: Vec<&Arc<TensorFile>> = Vec::new();
    for entry in part.entries.values() {
        if !files.iter().any(|known| Arc::ptr_eq(known, &entry.file)) {
            files.push(&entry.file);
        }
    }
    files
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.path.display(), self.kind.name())?;
        writeln!(f, "format      {}", self.format)?;
        writeln!(
            f,
            "parameters  {} in {} tensors",
            thousands(self.parameters),
            self.tensors
        )?;
        let shares = |counts: &BTreeMap<String, Count>| {
            let mut counts: Vec<_> = counts.iter().collect();
            counts.sort_by_key(|(_, count)| std::cmp::Reverse(count.parameters));
            counts
                .iter()
                .map(|(name, count)| format!("{name} {}", thousands(count.parameters)))
                .collect::<Vec<_>>()
        };
        writeln!(f, "types       {}", shares(&self.types).join(", "))?;
        writeln!(
            f,
            "parts       {}",
            crate::error::list(&shares(&self.parts))
        )?;
        if !self.on_request.is_empty() {
            writeln!(f, "on request  {}", shares(&self.on_request).join(", "))?;
        }
        if let Some(scheduler) = &self.scheduler {
            writeln!(f, "scheduler   {}", printable(scheduler))?;
        }
        if let Some(lora) = &self.lora {
            let ranks: Vec<_> = lora.ranks.keys().map(usize::to_string).collect();
            writeln!(
                f,
                "lora        {} modules, rank {}",
                lora.modules,
                crate::error::list(&ranks)
            )?;
            let alphas: Vec<_> = lora.alphas.keys().cloned().collect();
            if !alphas.is_empty() {
                writeln!(f, "alpha       {}", crate::error::list(&alphas))?;
            }
            if lora.other_tensors > 0 {
                writeln!(
                    f,
                    "            {} tensors that a plain LoRA has not",
                    lora.other_tensors
                )?;
            }
        }
        if let Some(steer) = &self.steer {
            writeln!(
                f,
                "steer       a classifier of relations, trained on {} pictures (--guide steer)",
                steer.pictures
            )?;
        }
        // Trainers store whole tag statistics here; the JSON form has all of it.
        for (key, value) in self.metadata.iter().take(METADATA) {
            writeln!(f, "metadata    {} = {}", printable(key), printable(value))?;
        }
        if self.metadata.len() > METADATA {
            writeln!(f, "            {} more", self.metadata.len() - METADATA)?;
        }
        Ok(())
    }
}

/// `1,234,567`.
fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn thousands() {
        assert_eq!(super::thousands(7), "7");
        assert_eq!(super::thousands(859_520_964), "859,520,964");
    }
}
