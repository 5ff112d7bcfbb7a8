//! What a UNet predicts, where its weights do not tell.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use prepose_formats::TensorFile;
use prepose_untrusted::read_regular;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::WeightsError;

/// What a UNet predicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Prediction {
    /// The noise.
    Epsilon,
    /// The velocity √ᾱ·ε − √(1 − ᾱ)·x₀ (Salimans and Ho, 2022).
    V,
}

impl Prediction {
    /// diffusers' name for it.
    fn diffusers(self) -> &'static str {
        match self {
            Self::Epsilon => "epsilon",
            Self::V => "v_prediction",
        }
    }

    /// Writes it into a scheduler's configuration.
    pub(crate) fn mark(self, scheduler: &mut Value) {
        scheduler["prediction_type"] = json!(self.diffusers());
    }

    /// What the file at `path` says that it is: in its metadata, or in the YAML file beside it.
    ///
    /// # Errors
    /// A file beside it that cannot be read.
    pub(crate) fn stated(path: &Path, file: &TensorFile) -> Result<Option<Self>, WeightsError> {
        let metadata = |key: &str| file.metadata()?.get(key).map(|value| value.to_lowercase());
        // The specification's name for it, and ComfyUI's.
        let keys = ["modelspec.prediction_type", "modelspec.predict_key"];
        let mut said = keys.into_iter().filter_map(metadata);
        if let Some(stated) = said.find_map(|kind| kind.parse().ok()) {
            return Ok(Some(stated));
        }
        if let Some(kind) = metadata("modelspec.architecture") {
            let published = [("-v2-768-v", Self::V), ("-v2-512", Self::Epsilon)];
            let found = published.iter().find(|(part, _)| kind.contains(part));
            if let Some((_, prediction)) = found {
                return Ok(Some(*prediction));
            }
        }
        let sidecar = path.with_extension("yaml");
        if !sidecar.exists() {
            return Ok(None);
        }
        /// The published ones have two thousand bytes.
        const MOST: u64 = 1 << 20;
        let text = read_regular(&sidecar, MOST).map_err(|source| WeightsError::Io {
            path: sidecar,
            source,
        })?;
        let text = String::from_utf8_lossy(&text);
        let lines = text.lines().filter_map(|line| line.split_once(':'));
        let said = lines.filter(|(key, _)| key.trim() == "parameterization");
        let mut said = said.map(|(_, value)| value.trim().trim_matches(['"', '\'']));
        // Without the line it is latent-diffusion's default.
        Ok(Some(match said.next_back() {
            Some("v") => Self::V,
            _ => Self::Epsilon,
        }))
    }
}

impl fmt::Display for Prediction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Epsilon => "epsilon",
            Self::V => "v",
        })
    }
}

impl FromStr for Prediction {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "epsilon" => Ok(Self::Epsilon),
            "v" | "v_prediction" => Ok(Self::V),
            other => Err(format!(
                "{other:?} is not a prediction; there are epsilon and v"
            )),
        }
    }
}
