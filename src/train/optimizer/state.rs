//! A training in one file: what is trained, its moments and averages, and how far it is.
//!
//! The file is safetensors. It is written beside its place, forced onto the disk and renamed, so that after a kill it is the
//! new one or the one before, and never half of one.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use prepose_formats::{FormatError, StoredType, TensorFile, TensorPart};
use prepose_store::files::{WriteError, write_atomically};
use safetensors::tensor::{Dtype, TensorView};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::rule::{Part, PartMut, Trained};
use crate::scale::Scale;

/// How far a training is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Steps of the optimiser that are done.
    pub step: u64,
    /// Batches that are done: several a step where gradients are accumulated.
    pub batch: u64,
    /// Steps that moved nothing, because a gradient of 16 bits was not finite.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub skipped: u64,
    /// What losses are multiplied with, if they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<Scale>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Why a state cannot be read or written.
#[derive(Debug, Error)]
pub enum StateError {
    /// It cannot be written; the one before is still there.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// It is no safetensors file.
    #[error(transparent)]
    Read(#[from] FormatError),
    /// It is not the state of this training.
    #[error("{} is not the state of this training: {why}", path.display())]
    Other {
        /// The file.
        path: PathBuf,
        /// What differs.
        why: String,
    },
}

/// The key of [`Place`] in a file's metadata.
const PLACE: &str = "prepose.training.place";

/// An array of a file.
pub struct Array<'a> {
    /// Its name.
    pub name: String,
    /// Its extents.
    pub shape: Vec<usize>,
    /// Its elements.
    pub values: Part<'a>,
}

/// The bytes of a safetensors file.
///
/// # Errors
/// Shapes that do not fit the elements, a header that is too large.
pub fn safetensors(
    arrays: &[Array],
    metadata: HashMap<String, String>,
) -> Result<Vec<u8>, safetensors::SafeTensorError> {
    let bytes = arrays.iter().map(|array| match array.values {
        Part::F32(values) => values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect(),
        Part::U8(values) => values.to_vec(),
    });
    let bytes: Vec<Vec<u8>> = bytes.collect();
    let views = arrays.iter().zip(&bytes).map(|(array, bytes)| {
        let dtype = match array.values {
            Part::F32(_) => Dtype::F32,
            Part::U8(_) => Dtype::U8,
        };
        let view = TensorView::new(dtype, array.shape.clone(), bytes)?;
        Ok((array.name.as_str(), view))
    });
    let views: Vec<_> = views.collect::<Result<_, safetensors::SafeTensorError>>()?;
    safetensors::serialize(views, Some(metadata))
}

/// The f32 array `name` of a file, if it has one.
pub fn numbers(file: &TensorFile, name: &str) -> Option<Vec<f32>> {
    (file.info(name)?.dtype == StoredType::F32).then(|| {
        let mut values = Vec::new();
        file.pieces(name, TensorPart::WHOLE, &mut |bytes| {
            let (words, _) = bytes.as_chunks::<4>();
            values.extend(words.iter().map(|word| f32::from_le_bytes(*word)));
        });
        values
    })
}

fn codes(file: &TensorFile, name: &str) -> Option<Vec<u8>> {
    (file.info(name)?.dtype == StoredType::Other("U8", 8)).then(|| {
        let mut values = Vec::new();
        file.pieces(name, TensorPart::WHOLE, &mut |bytes| values.extend(bytes));
        values
    })
}

/// Writes a training to `path`: afterwards the file holds all of it, or what it held before.
///
/// # Errors
/// [`StateError::Write`], on a full disk for example.
pub fn save(
    path: &Path,
    place: &Place,
    trained: &[Trained],
    averages: &[Vec<f32>],
) -> Result<(), StateError> {
    let mut arrays = Vec::new();
    for tensor in trained {
        arrays.push(Array {
            name: format!("weights/{}", tensor.name),
            shape: tensor.shape.clone(),
            values: Part::F32(&tensor.values),
        });
        for (part, values) in tensor.moments.parts() {
            let length = match values {
                Part::F32(values) => values.len(),
                Part::U8(values) => values.len(),
            };
            arrays.push(Array {
                name: format!("moments/{}/{part}", tensor.name),
                shape: vec![length],
                values,
            });
        }
    }
    for (tensor, average) in trained.iter().zip(averages) {
        arrays.push(Array {
            name: format!("average/{}", tensor.name),
            shape: tensor.shape.clone(),
            values: Part::F32(average),
        });
    }
    let other = |why: String| StateError::Other {
        path: path.to_path_buf(),
        why,
    };
    let text = serde_json::to_string(place).map_err(|error| other(error.to_string()))?;
    let metadata = HashMap::from([(PLACE.to_owned(), text)]);
    let bytes = safetensors(&arrays, metadata).map_err(|error| other(error.to_string()))?;
    Ok(write_atomically(path, &bytes)?)
}

/// Reads a training from `path` into `trained` and `averages`, which are as [`save`] was given them but for their values.
///
/// # Errors
/// [`StateError::Read`] and [`StateError::Other`]; `trained` may have been changed then.
pub fn load(
    path: &Path,
    trained: &mut [Trained],
    averages: &mut [Vec<f32>],
) -> Result<Place, StateError> {
    let file = TensorFile::open(path)?;
    let other = |why: String| StateError::Other {
        path: path.to_path_buf(),
        why,
    };
    let place =
        parsed(&file, PLACE).ok_or_else(|| other("it does not say how far it is".into()))?;
    let mut arrays = 0;
    let mut fill = |name: String, into: PartMut| {
        let filled = match into {
            PartMut::F32(into) => numbers(&file, &name)
                .filter(|values| values.len() == into.len())
                .map(|values| into.copy_from_slice(&values)),
            PartMut::U8(into) => codes(&file, &name)
                .filter(|values| values.len() == into.len())
                .map(|values| into.copy_from_slice(&values)),
        };
        arrays += 1;
        filled.ok_or_else(|| other(format!("{name} is not in it, or of another size")))
    };
    for tensor in &mut *trained {
        let name = tensor.name.clone();
        fill(format!("weights/{name}"), PartMut::F32(&mut tensor.values))?;
        for (part, into) in tensor.moments.parts_mut() {
            fill(format!("moments/{name}/{part}"), into)?;
        }
    }
    for (tensor, average) in trained.iter().zip(averages) {
        fill(format!("average/{}", tensor.name), PartMut::F32(average))?;
    }
    match file.tensors().count() == arrays {
        true => Ok(place),
        false => Err(other("it has tensors that this training does not".into())),
    }
}

fn parsed<T: DeserializeOwned>(file: &TensorFile, key: &str) -> Option<T> {
    serde_json::from_str(file.metadata()?.get(key)?).ok()
}
