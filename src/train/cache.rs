//! Latents and states of text encoders in files, by what they are made of: made once, whatever training asks for them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use prepose_formats::TensorFile;
use prepose_optimizer::rule::Part;
use prepose_optimizer::state::{Array, numbers, safetensors};
use prepose_store::files::write_atomically;
use sha2::{Digest, Sha256};

use super::error::TrainError;

/// Arrays of f32 by name, with their shapes.
pub(super) type Arrays = Vec<(&'static str, Vec<usize>, Vec<f32>)>;

/// A folder of them.
pub(super) struct Cache {
    folder: PathBuf,
}

/// The name of what is made of these.
pub(super) fn key(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    format!("{:x}", hash.finalize())
}

impl Cache {
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    fn path(&self, key: &str) -> PathBuf {
        self.folder
            .join(&key[..2])
            .join(format!("{}.safetensors", &key[2..]))
    }

    pub fn has(&self, key: &str) -> bool {
        TensorFile::open(&self.path(key)).is_ok()
    }

    pub fn put(&self, key: &str, arrays: &Arrays) -> Result<(), TrainError> {
        let path = self.path(key);
        let arrays: Vec<Array> = (arrays.iter())
            .map(|(name, shape, values)| Array {
                name: (*name).to_owned(),
                shape: shape.clone(),
                values: Part::F32(values),
            })
            .collect();
        let bytes = safetensors(&arrays, HashMap::new()).map_err(|error| TrainError::Read {
            path: path.clone(),
            why: error.to_string(),
        })?;
        self.write(key, &bytes)
    }

    /// Puts a file that is there whole or not at all.
    pub fn write(&self, key: &str, bytes: &[u8]) -> Result<(), TrainError> {
        let path = self.path(key);
        let folder = path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder).map_err(|error| TrainError::Read {
            path: folder.to_owned(),
            why: format!("it cannot be made: {error}"),
        })?;
        Ok(write_atomically(&path, bytes)?)
    }

    /// What was put.
    pub fn file(&self, key: &str) -> Result<TensorFile, TrainError> {
        let path = self.path(key);
        TensorFile::open(&path).map_err(|error| TrainError::Read {
            why: format!("{error}; remove the file, and it is made again"),
            path,
        })
    }

    /// An array with its shape.
    pub fn get(&self, key: &str, name: &str) -> Result<(Vec<usize>, Vec<f32>), TrainError> {
        let path = self.path(key);
        let wrong = |why: String| TrainError::Read {
            path: path.clone(),
            why,
        };
        let file = TensorFile::open(&path).map_err(|error| wrong(error.to_string()))?;
        let missing = || {
            wrong(format!(
                "it has no {name}; remove the file, and it is made again"
            ))
        };
        let shape = file.info(name).ok_or_else(missing)?.shape.clone();
        let values = numbers(&file, name).ok_or_else(missing)?;
        Ok((shape, values))
    }
}
