//! Bytes to modules: checkpoint formats, key maps, LoRA, tokenizer files, the hub, and the
//! checkpoint inside the binary.
//!
//! [`Checkpoint::open`] takes a diffusers folder, a single file (safetensors or PyTorch), the name
//! of a known checkpoint or `toybox`; its `load_…` functions build the networks of
//! [`prepose_models`], with every stored tensor used and every parameter found, or an error that
//! lists what is amiss. [`describe_file`] says what a file is. Only [`hub::pull`] uses the network.

#![warn(clippy::unwrap_used)]

mod agreement;
mod checkpoint;
mod configs;
mod delta;
mod describe;
mod detector;
mod detr;
mod error;
mod eyes;
mod family;
mod files;
mod folder;
mod gligen;
mod hash;
pub mod hub;
mod ip_adapter;
mod keys;
mod lora;
mod owl_vit;
mod part;
mod prediction;
mod random;
mod single;
pub mod steer;
mod tensors;
pub mod tokenizer;
mod tokenizer_files;
#[cfg(feature = "toybox")]
mod toybox;
mod trained;
mod vae;
mod wordpiece;

pub use checkpoint::{Checkpoint, LoadOptions, Parameters};
pub use describe::{Description, describe_file};
pub use detector::DetectorWeights;
pub use detr::{DetrKind, GroundingDinoWeights, RtDetrWeights, detr_kind};
pub use error::{Mismatch, Misshaped, WeightsError};
pub use eyes::{EyeKind, EyeWeights};
pub use family::{Family, FileKind};
pub use files::MemoryFolder;
pub use gligen::GligenFormat;
pub use hash::{FileHash, sha256_file};
pub use ip_adapter::{AdapterSpec, AdapterWeights, NewAdapter};
pub use lora::{LoraFormat, LoraLayer, LoraSpec};
pub use owl_vit::OwlVitWeights;
pub use prediction::Prediction;
pub use prepose_formats::{FormatError, SharedBytes, StoredType, TensorFile, TensorInfo};
pub use random::RandomCheckpoint;
pub use trained::TrainedTensor;
pub use wordpiece::BertTokenizer;

/// The name under which [`Checkpoint::open`] finds the checkpoint inside the binary.
pub const TOYBOX: &str = "toybox";
/// The name under which [`EyeWeights::open`] finds the toybox's CLIP.
pub const TOYBOX_CLIP: &str = "toybox-clip";
