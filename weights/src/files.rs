//! The files of a folder, on the disk or in the binary, and the JSON in them.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use prepose_formats::TensorFile;
use prepose_untrusted::read_regular;
use serde_json::Value;

use crate::error::WeightsError;
use crate::hub;

/// The largest text that is read, in bytes; the largest of a checkpoint, `tokenizer.json`, has a few million. What is made
/// of JSON can take some twenty times as much.
const MAX_TEXT: u64 = 1 << 24;

/// The files in which networks of transformers are opened, the first that is there.
pub(crate) const TRANSFORMERS_WEIGHTS: [&str; 3] =
    ["model.safetensors", "pytorch_model.bin", "model.pth"];
/// Those of networks that look at pictures by their authors' names, which are looked for after transformers'.
pub(crate) const AUTHORS_WEIGHTS: [&str; 3] = [
    "open_clip_model.safetensors",
    "open_clip_pytorch_model.bin",
    "ImageReward.pt",
];

/// The files of a folder.
#[derive(Debug, Clone)]
pub(crate) enum Files {
    /// On the disk.
    Folder(PathBuf),
    /// In the binary, by their path below the root.
    #[cfg_attr(not(feature = "toybox"), allow(dead_code))]
    Embedded {
        name: &'static str,
        files: &'static [(&'static str, &'static [u8])],
    },
    /// What another library holds in this process.
    Memory(Arc<MemoryFolder>),
}

/// A diffusers folder in memory: networks that another library has loaded.
#[derive(Debug, Default)]
pub struct MemoryFolder {
    /// What it is called.
    pub name: String,
    /// Configurations and tokenizers, by their paths below the folder: `unet/config.json`.
    pub texts: BTreeMap<String, Vec<u8>>,
    /// Tensors, by the paths that their files would have: `unet/diffusion_pytorch_model.safetensors`.
    pub tensors: BTreeMap<String, Arc<TensorFile>>,
}

impl MemoryFolder {
    fn has(&self, name: &str) -> bool {
        self.texts.contains_key(name) || self.tensors.contains_key(name)
    }
}

impl Files {
    /// Where `name` is, for reading or for messages.
    pub fn path(&self, name: &str) -> PathBuf {
        match self {
            Self::Folder(path) => path.join(name),
            Self::Embedded { name: root, .. } => Path::new(root).join(name),
            Self::Memory(folder) => Path::new(&folder.name).join(name),
        }
    }

    pub fn has(&self, name: &str) -> bool {
        match self {
            // A link that leads nowhere is there, and reading it says what is wrong.
            Self::Folder(path) => path.join(name).symlink_metadata().is_ok(),
            Self::Embedded { .. } => self.embedded(name).is_some(),
            Self::Memory(folder) => folder.has(name),
        }
    }

    fn embedded(&self, name: &str) -> Option<&'static [u8]> {
        match self {
            Self::Folder(_) | Self::Memory(_) => None,
            Self::Embedded { files, .. } => files
                .iter()
                .find(|(n, _)| *n == name)
                .map(|(_, bytes)| *bytes),
        }
    }

    pub fn read(&self, name: &str) -> Result<Vec<u8>, WeightsError> {
        let path = self.path(name);
        let there = match self {
            Self::Folder(_) => {
                return read_regular(&path, MAX_TEXT)
                    .map_err(|source| WeightsError::Io { path, source });
            }
            Self::Embedded { .. } => self.embedded(name).map(<[u8]>::to_vec),
            Self::Memory(folder) => folder.texts.get(name).cloned(),
        };
        there.ok_or_else(|| WeightsError::Io {
            path,
            source: std::io::ErrorKind::NotFound.into(),
        })
    }

    pub fn json(&self, name: &str) -> Result<Value, WeightsError> {
        parse_json(&self.path(name), &self.read(name)?)
    }

    pub fn tensors(&self, name: &str) -> Result<Arc<TensorFile>, WeightsError> {
        let path = self.path(name);
        if let Self::Memory(folder) = self
            && let Some(file) = folder.tensors.get(name)
        {
            return Ok(Arc::clone(file));
        }
        let file = match self.embedded(name) {
            Some(bytes) => TensorFile::from_bytes(path, bytes)?,
            None => TensorFile::open(&path)?,
        };
        Ok(Arc::new(file))
    }
}

/// What records call what lies at `path`: a file by its name without the ending, a folder by its name, or by its repository's
/// in the hub's cache.
pub(crate) fn short_name(path: &Path, is_folder: bool) -> String {
    let own = match is_folder {
        true => hub::repository_of(path)
            .map(OsStr::new)
            .or(path.file_name()),
        false => path.file_stem(),
    };
    let own = own.unwrap_or(path.as_os_str());
    own.to_string_lossy().into_owned()
}

/// Reads the JSON file at `path`.
pub(crate) fn read_json(path: &Path) -> Result<Value, WeightsError> {
    let bytes = read_regular(path, MAX_TEXT).map_err(|source| WeightsError::Io {
        path: path.to_path_buf(),
        source,
    })?;
    parse_json(path, &bytes)
}

/// Parses `bytes`; `path` is for messages. Python writes numbers that JSON does not have (diffusers'
/// DPM-Solver++ has `"lambda_min_clipped": -Infinity`); they become null, which diffusers' classes
/// and ours take for their default.
pub(crate) fn parse_json(path: &Path, bytes: &[u8]) -> Result<Value, WeightsError> {
    let plain = || -> Option<Value> {
        let mut text = std::str::from_utf8(bytes).ok()?.to_string();
        for number in ["-Infinity", "Infinity", "NaN"] {
            text = text.replace(&format!(": {number}"), ": null");
        }
        serde_json::from_str(&text).ok()
    };
    let parsed = serde_json::from_slice(bytes).or_else(|error| plain().ok_or(error));
    parsed.map_err(|source| WeightsError::Json {
        path: path.to_path_buf(),
        what: "this is not valid JSON".into(),
        source: Some(source),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names() {
        for (path, is_folder, name) in [
            ("models/sd-1.5", true, "sd-1.5"),
            ("models/sd-1.5.safetensors", false, "sd-1.5"),
            ("hub/models--me--tiny-sd/snapshots/0a0b", true, "tiny-sd"),
            (
                "hub/models--me--tiny-sd/snapshots/0a0b/tiny.ckpt",
                false,
                "tiny",
            ),
            ("me/tiny-sd", true, "tiny-sd"),
            ("..", true, ".."),
        ] {
            assert_eq!(short_name(Path::new(path), is_folder), name);
        }
    }

    #[test]
    fn pythons_numbers_are_read() {
        let path = Path::new("x.json");
        let value = parse_json(path, br#"{"a": -Infinity, "b": 1, "c": NaN}"#).unwrap();
        assert_eq!(value, serde_json::json!({"a": null, "b": 1, "c": null}));
        assert!(parse_json(path, b"{").is_err());
    }
}
