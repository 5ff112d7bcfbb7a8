//! Bytes to modules: checkpoint formats, key maps, LoRA, tokenizer files, the hub, and the
//! checkpoint inside the binary.
//!
//! [`Checkpoint::open`] takes a diffusers folder, a single file (safetensors or PyTorch), the name
//! of a known checkpoint or `toybox`; its `load_…` functions build the networks of
//! [`prepose_models`], with every stored tensor used and every parameter found, or an error that
//! lists what is amiss. [`describe_file`] says what a file is. Only [`hub::pull`] uses the network.

#![warn(clippy::unwrap_used)]

mod bytes;
mod checkpoint;
mod configs;
mod describe;
mod detector;
mod dtype;
mod error;
mod family;
mod folder;
mod hash;
pub mod hub;
mod keys;
mod lora;
mod part;
mod pytorch;
mod random;
mod safetensors;
mod single;
mod sniff;
mod tensors;
pub mod tokenizer;
mod tokenizer_files;
#[cfg(feature = "toybox")]
mod toybox;
mod vae;

#[cfg(feature = "toybox")]
pub use checkpoint::TOYBOX;
pub use checkpoint::{Checkpoint, LoadOptions, Parameters};
pub use describe::{Description, describe_file};
pub use detector::DetectorWeights;
pub use dtype::StoredType;
pub use error::{Mismatch, Misshaped, WeightsError};
pub use family::{Family, FileKind};
pub use hash::{FileHash, sha256_file};
pub use lora::LoraSpec;
pub use random::RandomCheckpoint;
pub use vae::load_tiny_vae;
