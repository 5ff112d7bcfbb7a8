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
        Ok(Self::in_yaml(&String::from_utf8_lossy(&text)))
    }

    /// What a configuration of latent-diffusion or of generative-models says; none where that is something else than
    /// noise or velocity.
    fn in_yaml(text: &str) -> Option<Self> {
        let lines = text.lines().filter_map(|line| line.split_once(':'));
        let lines: Vec<_> = lines
            .map(|(key, value)| (key.trim(), scalar(value)))
            .collect();
        // generative-models names a class for it.
        if lines.iter().any(|(key, _)| *key == "denoiser_config") {
            let mut classes = lines.iter().filter(|(key, _)| *key == "target");
            return classes.find_map(|(_, class)| match class.rsplit('.').next() {
                Some("VScaling") => Some(Self::V),
                Some("EpsScaling") => Some(Self::Epsilon),
                _ => None,
            });
        }
        let said = lines.iter().rfind(|(key, _)| *key == "parameterization");
        match said.map(|(_, value)| *value) {
            Some("v") => Some(Self::V),
            // Without the line it is latent-diffusion's default.
            Some("eps") | None => Some(Self::Epsilon),
            Some(_) => None,
        }
    }
}

/// The plain or quoted value of a line of YAML, without the comment behind it.
fn scalar(value: &str) -> &str {
    let comment = [" #", "\t#"].iter().filter_map(|mark| value.find(mark));
    let end = comment.min().unwrap_or(value.len());
    value[..end].trim().trim_matches(['"', '\''])
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_in_yaml() {
        let (v, epsilon) = (Some(Prediction::V), Some(Prediction::Epsilon));
        let ldm = |line: &str| {
            format!(
                "model:\n  target: ldm.models.diffusion.ddpm.LatentDiffusion\n  params:\n    {line}\n    timesteps: 1000\n"
            )
        };
        for (line, expected) in [
            (r#"parameterization: "v""#, v),
            (r#"parameterization: "v"  # the 768 model"#, v),
            ("parameterization: v\t# \"eps\" for the 512 one", v),
            ("parameterization: 'eps' # not \"v\"", epsilon),
            ("# parameterization: \"v\"", epsilon),
            ("parameterization: x0", None),
            ("parameterization: # v", None),
        ] {
            assert_eq!(Prediction::in_yaml(&ldm(line)), expected, "{line}");
        }
        let sgm = |class: &str| {
            format!(
                "model:\n  target: sgm.models.diffusion.DiffusionEngine\n  params:\n    denoiser_config:\n      \
                 target: sgm.modules.diffusionmodules.denoiser.DiscreteDenoiser\n      params:\n        \
                 scaling_config:\n          target: sgm.modules.diffusionmodules.denoiser_scaling.{class}\n"
            )
        };
        for (class, expected) in [
            ("VScaling", v),
            ("EpsScaling # as published", epsilon),
            ("EDMScaling", None),
        ] {
            assert_eq!(Prediction::in_yaml(&sgm(class)), expected, "{class}");
        }
    }
}
