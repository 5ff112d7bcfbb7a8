//! The toybox: a Stable Diffusion in miniature, inside the binary. What it is and how it was made is
//! on its card, `weights/toybox/README.md`.

use std::sync::Arc;

use prepose_formats::TensorFile;

use crate::error::WeightsError;
use crate::files::Files;
use crate::{TOYBOX, TOYBOX_CLIP};

macro_rules! embed {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_bytes!(concat!("../toybox/", $name)))),*]
    };
}

const FILES: &[(&str, &[u8])] = embed![
    "model_index.json",
    "scheduler/scheduler_config.json",
    "text_encoder/config.json",
    "text_encoder/model.safetensors",
    "tokenizer/merges.txt",
    "tokenizer/tokenizer_config.json",
    "tokenizer/vocab.json",
    "unet/config.json",
    "unet/diffusion_pytorch_model.safetensors",
    "vae/config.json",
    "vae/diffusion_pytorch_model.safetensors",
];

/// The toybox as a diffusers folder.
pub(crate) fn files() -> Files {
    Files::Embedded {
        name: TOYBOX,
        files: FILES,
    }
}

/// What `steer` guidance learned of the toybox: its name in messages, and the file.
pub(crate) const STEER: (&str, &[u8]) = (
    "toybox/steer/steer.safetensors",
    include_bytes!("../toybox/steer/steer.safetensors"),
);

const DETECTOR: &[(&str, &[u8])] = &[
    (
        "config.json",
        include_bytes!("../toybox/detector/config.json"),
    ),
    (
        "model.safetensors",
        include_bytes!("../toybox/detector/model.safetensors"),
    ),
];

/// The toybox's detector, a folder by itself.
pub(crate) fn detector_files() -> Files {
    Files::Embedded {
        name: "toybox/detector",
        files: DETECTOR,
    }
}

const CLIP: &[(&str, &[u8])] = &[
    ("config.json", include_bytes!("../toybox/clip/config.json")),
    (
        "model.safetensors",
        include_bytes!("../toybox/clip/model.safetensors"),
    ),
    // As the toybox itself.
    (
        "merges.txt",
        include_bytes!("../toybox/tokenizer/merges.txt"),
    ),
    (
        "tokenizer_config.json",
        include_bytes!("../toybox/tokenizer/tokenizer_config.json"),
    ),
    (
        "vocab.json",
        include_bytes!("../toybox/tokenizer/vocab.json"),
    ),
];

/// The toybox's CLIP, a folder by itself.
pub(crate) fn clip_files() -> Files {
    Files::Embedded {
        name: TOYBOX_CLIP,
        files: CLIP,
    }
}

/// The toybox's IP-Adapter, whose picture encoder is that CLIP's.
pub(crate) fn ip_adapter() -> Result<Arc<TensorFile>, WeightsError> {
    const FILE: &[u8] = include_bytes!("../toybox/ip-adapter/ip_adapter.safetensors");
    Ok(Arc::new(TensorFile::from_bytes(
        "toybox/ip-adapter".into(),
        FILE,
    )?))
}

/// GLIGEN's layers for the toybox, in a file by themselves.
const GLIGEN: &[u8] = include_bytes!("../toybox/gligen/gligen.safetensors");

/// GLIGEN's layers for the toybox.
pub(crate) fn gligen() -> Result<Arc<TensorFile>, WeightsError> {
    Ok(Arc::new(TensorFile::from_bytes(
        "toybox/gligen".into(),
        GLIGEN,
    )?))
}
