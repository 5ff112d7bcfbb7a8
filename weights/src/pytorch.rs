//! PyTorch's own files: `.ckpt`, `.pt`, `.pth`, `.bin`, in every layout that `torch.save` has had.
//!
//! The `pytorch-reader` crate interprets the pickle without running anything: it knows how tensors
//! and dictionaries are put together, and everything else in the file (the callbacks that a trainer
//! left there, or an attack) stays an inert name. Tensors are read one at a time.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pytorch_reader::{PytorchError, PytorchReader, Tensor};

use crate::dtype::StoredType;
use crate::error::WeightsError;
use crate::tensors::TensorInfo;

/// An open PyTorch checkpoint.
#[derive(Debug)]
pub(crate) struct PytorchFile {
    path: PathBuf,
    tensors: BTreeMap<String, (TensorInfo, Tensor)>,
}

/// Where trainers put the weights when they save more than those.
const STATE_DICT: &str = "state_dict.";

impl PytorchFile {
    pub fn open(path: &Path) -> Result<Self, WeightsError> {
        let reader = PytorchReader::new(path).map_err(|source| pytorch_error(path, source))?;
        let nested = reader
            .tensors()
            .keys()
            .any(|name| name.starts_with(STATE_DICT));
        let mut tensors = BTreeMap::new();
        for (name, tensor) in reader.into_tensors() {
            let name = match name.strip_prefix(STATE_DICT) {
                Some(inner) => inner.to_string(),
                None if nested => continue, // The optimizer's, or another copy of the weights.
                None => name,
            };
            let info = TensorInfo {
                dtype: StoredType::from_pytorch(tensor.dtype()),
                shape: tensor.shape().to_vec(),
            };
            tensors.insert(name, (info, tensor));
        }
        if tensors.is_empty() {
            return Err(WeightsError::NotWeights {
                path: path.to_path_buf(),
                what: "this is a Python pickle without tensors".into(),
                hint: "nothing in it was run; get the checkpoint from a source that you trust"
                    .into(),
            });
        }
        Ok(Self {
            path: path.to_path_buf(),
            tensors,
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn tensors(&self) -> impl Iterator<Item = (&str, &TensorInfo)> {
        self.tensors
            .iter()
            .map(|(name, (info, _))| (name.as_str(), info))
    }

    pub fn info(&self, name: &str) -> Option<&TensorInfo> {
        self.tensors.get(name).map(|(info, _)| info)
    }

    /// As [`crate::safetensors::SafetensorsFile::read`].
    pub fn read(
        &self,
        name: &str,
        (index, of): (usize, usize),
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<(), WeightsError> {
        if let Some((_, tensor)) = self.tensors.get(name) {
            let bytes = tensor
                .read()
                .map_err(|source| pytorch_error(&self.path, PytorchError::Io(source)))?;
            let part = bytes.len() / of;
            take(&bytes[index * part..(index + 1) * part]);
        }
        Ok(())
    }
}

fn pytorch_error(path: &Path, source: PytorchError) -> WeightsError {
    WeightsError::Pytorch {
        path: path.to_path_buf(),
        source,
    }
}
