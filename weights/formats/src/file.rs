//! A file of named tensors, whatever its format.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::bytes::FileBytes;
use crate::error::FormatError;
use crate::info::{TensorInfo, TensorPart};
use crate::pytorch::PytorchFile;
use crate::safetensors::SafetensorsFile;
use crate::shared::{SharedBytes, SharedTensors};
use crate::sniff::{Content, content_of_weights};

/// An open file of tensors. Opening reads names, types and shapes only.
#[derive(Debug)]
pub struct TensorFile {
    path: PathBuf,
    bytes: FileBytes,
    format: Format,
}

#[derive(Debug)]
enum Format {
    Safetensors(SafetensorsFile),
    Pytorch(PytorchFile),
    Shared(SharedTensors),
}

impl TensorFile {
    /// Opens the file at `path`, in the format that its content has.
    ///
    /// # Errors
    /// [`FormatError`] if it cannot be read, is damaged, holds no tensors, would run code in Python, or has a name
    /// that promises another format.
    pub fn open(path: &Path) -> Result<Self, FormatError> {
        Self::read_from(path.to_path_buf(), FileBytes::map(path)?)
    }

    /// A file in memory; `path` names it in messages.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn from_bytes(
        path: PathBuf,
        bytes: impl Into<Cow<'static, [u8]>>,
    ) -> Result<Self, FormatError> {
        Self::read_from(path, FileBytes::Memory(bytes.into()))
    }

    /// Tensors that another library holds in this process, which are no file; `path` names them in messages.
    ///
    /// # Errors
    /// A tensor that does not have the bytes of its shape; none, or too many.
    pub fn shared(
        path: PathBuf,
        tensors: BTreeMap<String, (TensorInfo, SharedBytes)>,
    ) -> Result<Self, FormatError> {
        Ok(Self {
            format: Format::Shared(SharedTensors::new(&path, tensors)?),
            bytes: FileBytes::Memory(Cow::Borrowed(&[])),
            path,
        })
    }

    /// Whether it is no file, but what another library holds.
    pub fn is_shared(&self) -> bool {
        matches!(self.format, Format::Shared(_))
    }

    fn read_from(path: PathBuf, bytes: FileBytes) -> Result<Self, FormatError> {
        let all = bytes.as_slice();
        let format = match content_of_weights(&path, all)? {
            Content::Safetensors => Format::Safetensors(SafetensorsFile::read(&path, all)?),
            content => Format::Pytorch(PytorchFile::read(&path, all, content)?),
        };
        Ok(Self {
            path,
            bytes,
            format,
        })
    }

    /// The whole file, if it is in the binary.
    pub fn embedded_bytes(&self) -> Option<&'static [u8]> {
        match self.bytes {
            FileBytes::Memory(Cow::Borrowed(bytes)) if !self.is_shared() => Some(bytes),
            _ => None,
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The format's name: `safetensors` or `PyTorch`, or `memory` of what is no file.
    pub fn format(&self) -> &'static str {
        match self.format {
            Format::Safetensors(_) => "safetensors",
            Format::Pytorch(_) => "PyTorch",
            Format::Shared(_) => "memory",
        }
    }

    /// Names, types and shapes, in the order of the names.
    pub fn tensors(&self) -> Box<dyn Iterator<Item = (&str, &TensorInfo)> + '_> {
        match &self.format {
            Format::Safetensors(file) => Box::new(file.tensors()),
            Format::Pytorch(file) => Box::new(file.tensors()),
            Format::Shared(file) => Box::new(file.tensors()),
        }
    }

    /// The tensors' names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors().map(|(name, _)| name)
    }

    /// Type and shape of the tensor `name`.
    pub fn info(&self, name: &str) -> Option<&TensorInfo> {
        match &self.format {
            Format::Safetensors(file) => file.info(name),
            Format::Pytorch(file) => file.info(name),
            Format::Shared(file) => file.info(name),
        }
    }

    /// The free-form text that a safetensors header can carry.
    pub fn metadata(&self) -> Option<&BTreeMap<String, String>> {
        match &self.format {
            Format::Safetensors(file) => Some(file.metadata()),
            Format::Pytorch(_) | Format::Shared(_) => None,
        }
    }

    /// How many names start with `prefix`.
    pub fn count(&self, prefix: &str) -> usize {
        self.names().filter(|name| name.starts_with(prefix)).count()
    }

    /// Hands the little-endian bytes of a part of the tensor `name`, in row-major order, to `take` in pieces of whole
    /// elements. An unknown name has none.
    pub fn pieces(&self, name: &str, part: TensorPart, take: &mut dyn FnMut(&[u8])) {
        match &self.format {
            Format::Safetensors(file) => file.pieces(&self.bytes, name, part, take),
            Format::Pytorch(file) => file.pieces(&self.bytes, name, part, take),
            Format::Shared(file) => file.pieces(name, part, take),
        }
    }
}
