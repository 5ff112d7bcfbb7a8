//! Files of named tensors, read without trust: safetensors and what `torch.save` writes. And NumPy's `.npz` ([`npz`]).
//!
//! [`TensorFile::open`] recognises the format by its content, reads names, types and shapes, and checks that every
//! tensor lies within the file. It runs nothing, and memory stays in proportion to the file whatever is in it. Numbers
//! stay bytes: this crate knows no tensor library, so that its tests and fuzz targets build in seconds.

#![warn(clippy::unwrap_used)]

mod bytes;
mod dtype;
mod error;
mod file;
mod info;
pub mod npz;
mod pytorch;
mod safetensors;
mod shared;
mod sniff;
mod zip;

#[cfg(test)]
mod tests;

pub use dtype::StoredType;
pub use error::FormatError;
pub use file::TensorFile;
pub use info::{TensorInfo, TensorPart};
pub use shared::SharedBytes;

/// The most tensors that a file may have, and the most entries of its metadata; checkpoints have a few thousand.
pub const MAX_TENSORS: usize = 1 << 16;

/// The most axes that a tensor may have; those of networks have four.
pub const MAX_AXES: usize = 8;
