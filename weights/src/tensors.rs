//! A file of named tensors, whatever its format.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use burn::tensor::{DType, TensorData};
use half::vec::HalfBitsVecExt;
use half::{bf16, f16};

use crate::bytes::FileBytes;
use crate::dtype::StoredType;
use crate::error::WeightsError;
use crate::pytorch::PytorchFile;
use crate::safetensors::SafetensorsFile;
use crate::sniff::{Content, sniff_bytes, weights_content};

/// What a file says about one of its tensors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TensorInfo {
    pub dtype: StoredType,
    pub shape: Vec<usize>,
}

/// An open file of tensors. Opening reads names, types and shapes only.
#[derive(Debug)]
pub(crate) enum TensorFile {
    Safetensors(SafetensorsFile),
    Pytorch(PytorchFile),
}

/// A tensor's values, with what was noticed while reading them.
pub(crate) struct Values {
    pub data: TensorData,
    /// Neither NaN nor infinite.
    pub finite: bool,
}

impl TensorFile {
    /// Opens the file at `path`, in the format that its content has. A name that promises another
    /// one is an error.
    pub fn open(path: &Path) -> Result<Self, WeightsError> {
        match weights_content(path)? {
            Content::Safetensors => Ok(Self::Safetensors(SafetensorsFile::open(
                path,
                FileBytes::map(path)?,
            )?)),
            content => Ok(Self::Pytorch(PytorchFile::open(path, content)?)),
        }
    }

    /// A safetensors file that is compiled into the binary; `path` names it in messages.
    pub fn embedded(path: PathBuf, bytes: &'static [u8]) -> Result<Self, WeightsError> {
        debug_assert_eq!(
            sniff_bytes(&bytes[..bytes.len().min(512)], bytes.len() as u64),
            Content::Safetensors
        );
        Ok(Self::Safetensors(SafetensorsFile::open(
            &path,
            FileBytes::Embedded(bytes),
        )?))
    }

    /// The whole file, if it is in the binary.
    pub fn embedded_bytes(&self) -> Option<&'static [u8]> {
        match self {
            Self::Safetensors(file) => file.embedded_bytes(),
            Self::Pytorch(_) => None,
        }
    }

    pub fn path(&self) -> &Path {
        match self {
            Self::Safetensors(file) => file.path(),
            Self::Pytorch(file) => file.path(),
        }
    }

    /// Names, types and shapes, in the order of the names.
    pub fn tensors(&self) -> Box<dyn Iterator<Item = (&str, &TensorInfo)> + '_> {
        match self {
            Self::Safetensors(file) => Box::new(file.tensors()),
            Self::Pytorch(file) => Box::new(file.tensors()),
        }
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors().map(|(name, _)| name)
    }

    pub fn info(&self, name: &str) -> Option<&TensorInfo> {
        match self {
            Self::Safetensors(file) => file.info(name),
            Self::Pytorch(file) => file.info(name),
        }
    }

    /// The free-form text that a safetensors header can carry.
    pub fn metadata(&self) -> Option<&BTreeMap<String, String>> {
        match self {
            Self::Safetensors(file) => Some(file.metadata()),
            Self::Pytorch(_) => None,
        }
    }

    /// How many names start with `prefix`.
    pub fn count(&self, prefix: &str) -> usize {
        self.names().filter(|name| name.starts_with(prefix)).count()
    }

    /// The tensor `name`, or the `index`-th of `of` equal parts along its first axis. f64 comes as
    /// f32, the other floats as they are stored.
    pub fn read(&self, name: &str, (index, of): (usize, usize)) -> Result<Values, WeightsError> {
        let info = self.info(name).ok_or_else(|| WeightsError::Json {
            path: self.path().to_path_buf(),
            what: format!("there is no tensor {name}"),
            source: None,
        })?;
        let dtype = info.dtype.float().ok_or_else(|| WeightsError::Dtype {
            path: self.path().to_path_buf(),
            name: name.to_string(),
            dtype: info.dtype.to_string(),
        })?;
        let mut shape = info.shape.clone();
        if let Some(rows) = shape.first_mut() {
            *rows /= of;
        }
        let elements = shape.iter().product();
        let part = (index, of);
        let (data, finite) = match dtype {
            DType::F16 => {
                let (bits, finite) = self.words(name, part, elements, u16::from_le_bytes, |bits| {
                    bits & 0x7c00 == 0x7c00
                });
                (
                    TensorData::new(bits.reinterpret_into::<f16>(), shape),
                    finite,
                )
            }
            DType::BF16 => {
                let (bits, finite) = self.words(name, part, elements, u16::from_le_bytes, |bits| {
                    bits & 0x7f80 == 0x7f80
                });
                (
                    TensorData::new(bits.reinterpret_into::<bf16>(), shape),
                    finite,
                )
            }
            DType::F32 => {
                let (values, finite) = self.words(name, part, elements, f32::from_le_bytes, |x| {
                    x.to_bits() & 0x7f80_0000 == 0x7f80_0000
                });
                (TensorData::new(values, shape), finite)
            }
            _ => {
                let narrow = |bytes| f64::from_le_bytes(bytes) as f32;
                let (values, finite) = self.words(name, part, elements, narrow, |x| !x.is_finite());
                (TensorData::new(values, shape), finite)
            }
        };
        Ok(Values { data, finite })
    }

    /// The elements of a tensor, and whether `is_bad` is true of none. In two simple loops over
    /// pieces that stay in the cache, so that both run at the speed of memory.
    fn words<const N: usize, T: Copy>(
        &self,
        name: &str,
        part: (usize, usize),
        elements: usize,
        from_bytes: impl Fn([u8; N]) -> T,
        is_bad: impl Fn(T) -> bool,
    ) -> (Vec<T>, bool) {
        let mut values: Vec<T> = Vec::with_capacity(elements);
        let mut bad = false;
        self.pieces(name, part, &mut |piece| {
            let start = values.len();
            values.extend(
                piece
                    .as_chunks::<N>()
                    .0
                    .iter()
                    .map(|bytes| from_bytes(*bytes)),
            );
            bad |= values[start..]
                .iter()
                .fold(false, |bad, value| bad | is_bad(*value));
        });
        (values, !bad)
    }

    fn pieces(&self, name: &str, part: (usize, usize), take: &mut dyn FnMut(&[u8])) {
        match self {
            Self::Safetensors(file) => file.read(name, part, take),
            Self::Pytorch(file) => file.read(name, part, take),
        }
    }
}
