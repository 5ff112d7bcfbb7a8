//! The networks of a request.

use std::path::{Path, PathBuf};

use prepose_weights::{Prediction, TOYBOX};
use serde::{Deserialize, Serialize};

use crate::dtype::Dtype;

/// The networks of a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelRequest {
    /// `toybox`, a diffusers folder or a single file.
    pub checkpoint: String,
    /// SHA-256 of the checkpoint's files, filled in when the picture is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// A folder with the configuration of a single file of unusual size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<PathBuf>,
    /// A separate autoencoder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vae: Option<PathBuf>,
    /// GLIGEN's layers, put into the checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gligen: Option<PathBuf>,
    /// IP-Adapters, by which pictures are shown to the UNet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub adapters: Vec<Adapter>,
    /// What the UNet predicts, if not what the checkpoint says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prediction: Option<Prediction>,
    /// LoRA files and their weights, merged in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loras: Vec<Lora>,
    /// Load what fits although tensors are missing, left over or of another shape.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_mismatch: bool,
    /// The type of the weights: `f32`, `f16` or `bf16`.
    pub dtype: Dtype,
}

impl ModelRequest {
    /// The toybox's own layers of GLIGEN's, where objects are to be put into boxes and no others are named.
    pub fn ground_toybox(&mut self) {
        if self.checkpoint == TOYBOX && self.gligen.is_none() {
            self.gligen = Some(TOYBOX.into());
            self.sha256 = None;
        }
    }

    /// The same without the toybox's own layers of GLIGEN's; none if it has none.
    pub fn ungrounded_toybox(&self) -> Option<Self> {
        let own = self.checkpoint == TOYBOX && self.gligen.as_deref() == Some(Path::new(TOYBOX));
        own.then(|| Self {
            gligen: None,
            sha256: None,
            ..self.clone()
        })
    }

    /// The toybox's own IP-Adapter, where pictures are to be shown to it and no adapter is named.
    pub fn show_toybox(&mut self) {
        if self.checkpoint == TOYBOX && self.adapters.is_empty() {
            self.adapters.push(Adapter {
                path: TOYBOX.into(),
                encoder: None,
            });
            self.sha256 = None;
        }
    }

    /// A checkpoint as it is: its own autoencoder, no LoRAs.
    pub fn new(checkpoint: impl Into<String>, dtype: Dtype) -> Self {
        Self {
            checkpoint: checkpoint.into(),
            sha256: None,
            config: None,
            vae: None,
            gligen: None,
            adapters: Vec::new(),
            prediction: None,
            loras: Vec::new(),
            allow_mismatch: false,
            dtype,
        }
    }
}

/// An IP-Adapter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Adapter {
    /// The file.
    pub path: PathBuf,
    /// Its picture encoder; without one it is looked for beside the adapter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoder: Option<PathBuf>,
}

/// A LoRA file with its weight.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lora {
    /// The file.
    pub path: PathBuf,
    /// How strongly it is merged.
    pub weight: f32,
}
