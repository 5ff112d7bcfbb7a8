//! CLIP whole (Radford et al. 2021): transformers' `CLIPModel`, which says how well texts describe pictures.

use burn::module::Param;
use burn::prelude::*;
use burn::tensor::DType;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::clip::{ClipTextConfig, ClipTextModel, HiddenLayer};
use crate::clip_vision::{ClipVisionConfig, ClipVisionModel};
use crate::config::{Check, ConfigError, limit};
use crate::params::Params;

/// The `config.json` of a whole CLIP; missing keys have transformers' defaults.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default)]
pub struct ClipConfig {
    /// The text encoder.
    #[serde(deserialize_with = "without_nulls")]
    pub text_config: ClipTextConfig,
    /// The picture encoder.
    #[serde(deserialize_with = "without_nulls")]
    pub vision_config: ClipVisionConfig,
    /// Channels of the space that both project to. What the encoders' own configurations say of it does not count.
    pub projection_dim: usize,
}

impl Default for ClipConfig {
    fn default() -> Self {
        Self {
            text_config: ClipTextConfig::default(),
            vision_config: ClipVisionConfig::default(),
            projection_dim: 512,
        }
    }
}

/// Old configurations write every key that there is, with null for those that say nothing.
fn without_nulls<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: serde::de::DeserializeOwned + Default,
{
    let mut value = Value::deserialize(deserializer)?;
    match &mut value {
        Value::Null => return Ok(T::default()),
        Value::Object(keys) => keys.retain(|_, value| !value.is_null()),
        _ => {}
    }
    serde_json::from_value(value).map_err(serde::de::Error::custom)
}

impl ClipConfig {
    /// Refuses what cannot be built.
    ///
    /// # Errors
    /// [`ConfigError`] names the first key that is unsupported or makes no sense, with its value.
    pub fn check(&self) -> Result<(), ConfigError> {
        const CHECK: Check = Check { network: "CLIP" };
        CHECK.within("projection_dim", [self.projection_dim], limit::CHANNELS)?;
        self.text().check()?;
        let positions = self.text_config.max_position_embeddings;
        if positions < 3 {
            let reason = "a text has a beginning, an end and something between them";
            return Err(CHECK.invalid("max_position_embeddings", positions, reason));
        }
        self.vision().check()
    }

    fn text(&self) -> ClipTextConfig {
        let mut text = self.text_config.clone();
        // The projection is there, whatever class the part says that it is of.
        text.architectures.clear();
        text.projection_dim = self.projection_dim;
        text
    }

    /// The picture encoder's configuration, with the projection that it has here.
    pub fn vision(&self) -> ClipVisionConfig {
        ClipVisionConfig {
            projection_dim: self.projection_dim,
            ..self.vision_config.clone()
        }
    }
}

/// A text encoder and a picture encoder with one space of embeddings.
#[derive(Module, Debug)]
pub struct Clip {
    text: ClipTextModel,
    vision: ClipVisionModel,
    logit_scale: Param<Tensor<1>>,
}

impl Clip {
    /// Builds both encoders.
    ///
    /// # Errors
    /// [`ConfigError`] if the configuration asks for something that is not implemented or makes no sense. Problems with
    /// parameters are the source's to report.
    pub fn load(config: &ClipConfig, mut params: Params) -> Result<Self, ConfigError> {
        config.check()?;
        let vision = ClipVisionModel::load(&config.vision(), params.reborrow())?;
        let logit_scale = params
            .reborrow()
            .f32()
            .tensor_stored("logit_scale", &[], [1]);
        Ok(Self {
            text: ClipTextModel::load(&config.text(), params)?,
            vision,
            logit_scale,
        })
    }

    /// The text encoder.
    pub fn text(&self) -> &ClipTextModel {
        &self.text
    }

    /// The picture encoder.
    pub fn vision(&self) -> &ClipVisionModel {
        &self.vision
    }

    /// What cosines are multiplied by to be logits, `[1]`; about 100.
    pub fn logit_scale(&self) -> Tensor<1> {
        self.logit_scale.val().exp()
    }

    /// Embeddings of texts `[B, N]` of length 1, `[B, projection_dim]`, f32; see [`ClipTextModel::forward`] for
    /// `eos_positions`.
    ///
    /// # Panics
    /// As [`ClipTextModel::forward`].
    pub fn embed_texts(&self, tokens: Tensor<2, Int>, eos_positions: &[usize]) -> Tensor<2> {
        let encoding = self.text.forward(tokens, eos_positions, HiddenLayer::Last);
        unit(encoding.pooled)
    }

    /// Embeddings of normalised pictures ([`ClipVisionModel::prepare`]) of length 1, `[B, projection_dim]`, f32.
    ///
    /// # Panics
    /// As [`ClipVisionModel::forward`].
    pub fn embed_pictures(&self, pictures: Tensor<4>) -> Tensor<2> {
        let encoding = self.vision.forward(pictures, 0);
        unit(encoding.embedding.unwrap_or(encoding.pooled))
    }
}

/// Rows `[B, C]` divided by their lengths.
fn unit(x: Tensor<2>) -> Tensor<2> {
    let x = x.cast(DType::F32);
    let length = x.clone().powi_scalar(2).sum_dim(1).sqrt();
    x / length
}
