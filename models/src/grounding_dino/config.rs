//! The configuration of a Grounding DINO.

use serde::Deserialize;

use crate::bert::BertConfig;
use crate::config::{Check, ConfigError, Rest, limit};
use crate::swin::SwinConfig;

/// transformers' `config.json` of a Grounding DINO; missing keys have its defaults, which are those of the published ones.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default)]
pub struct GroundingDinoConfig {
    /// The kind of network: `grounding-dino`.
    pub model_type: String,
    /// Of the network that sees.
    pub backbone_config: SwinConfig,
    /// Of the network that reads.
    pub text_config: BertConfig,
    /// Channels between the layers.
    pub d_model: usize,
    /// Boxes that are looked for.
    pub num_queries: usize,
    /// Layers that mix text and picture.
    pub encoder_layers: usize,
    /// Channels inside their feed-forward layers; half as many inside the attention between text and picture.
    pub encoder_ffn_dim: usize,
    /// Heads of their deformable attention; half as many of the attention between and within text.
    pub encoder_attention_heads: usize,
    /// Places for each head and map.
    pub encoder_n_points: usize,
    /// Layers that move boxes.
    pub decoder_layers: usize,
    /// Channels inside their feed-forward layers.
    pub decoder_ffn_dim: usize,
    /// Heads in them.
    pub decoder_attention_heads: usize,
    /// Places for each head and map.
    pub decoder_n_points: usize,
    /// Maps, with those that are made of the coarsest of the backbone's.
    pub num_feature_levels: usize,
    /// The longest text, in tokens.
    pub max_text_len: usize,
    /// Of the positions of pixels.
    pub positional_embedding_temperature: f64,
    /// Added to the variance in layer norms.
    pub layer_norm_eps: f64,
    #[serde(flatten)]
    rest: Rest,
}

impl Default for GroundingDinoConfig {
    fn default() -> Self {
        Self {
            model_type: "grounding-dino".to_string(),
            backbone_config: SwinConfig::default(),
            text_config: BertConfig::default(),
            d_model: 256,
            num_queries: 900,
            encoder_layers: 6,
            encoder_ffn_dim: 2048,
            encoder_attention_heads: 8,
            encoder_n_points: 4,
            decoder_layers: 6,
            decoder_ffn_dim: 2048,
            decoder_attention_heads: 8,
            decoder_n_points: 4,
            num_feature_levels: 4,
            max_text_len: 256,
            positional_embedding_temperature: 20.0,
            layer_norm_eps: 1e-5,
            rest: Rest::new(),
        }
    }
}

/// Groups of the norms behind the projections of the maps.
pub(super) const GROUPS: usize = 32;

impl GroundingDinoConfig {
    /// Refuses what cannot be built.
    ///
    /// # Errors
    /// [`ConfigError`] names the first key that is unsupported or makes no sense, with its value.
    pub fn check(&self) -> Result<(), ConfigError> {
        const CHECK: Check = Check {
            network: "detector",
        };
        if self.model_type != "grounding-dino" {
            let supported = "\"grounding-dino\"";
            return Err(CHECK.unsupported("model_type", self.model_type.as_str(), supported));
        }
        CHECK.only(
            &self.rest,
            &[
                ("activation_function", "relu".into()),
                ("position_embedding_type", "sine".into()),
                ("two_stage", true.into()),
                ("embedding_init_target", true.into()),
                ("query_dim", 4.into()),
                ("decoder_bbox_embed_share", true.into()),
                ("two_stage_bbox_embed_share", false.into()),
            ],
        )?;
        self.backbone_config.check()?;
        self.text_config.check()?;
        for (key, size, limit) in [
            ("d_model", self.d_model, limit::CHANNELS),
            ("num_queries", self.num_queries, limit::LENGTH),
            ("encoder_layers", self.encoder_layers, limit::LAYERS),
            ("encoder_ffn_dim", self.encoder_ffn_dim, limit::CHANNELS),
            ("encoder_n_points", self.encoder_n_points, 64),
            ("decoder_layers", self.decoder_layers, limit::LAYERS),
            ("decoder_ffn_dim", self.decoder_ffn_dim, limit::CHANNELS),
            ("decoder_n_points", self.decoder_n_points, 64),
            (
                "max_text_len",
                self.max_text_len,
                self.text_config.max_position_embeddings,
            ),
        ] {
            CHECK.within(key, [size], limit)?;
        }
        let maps = self.backbone_config.out_indices.len();
        let most = prepose_kernels::Levels::MOST;
        if !(maps..=most.min(maps + 1)).contains(&self.num_feature_levels) {
            let reason = format!(
                "with {maps} maps of the backbone it must be between {maps} and {}",
                most.min(maps + 1)
            );
            return Err(CHECK.invalid("num_feature_levels", self.num_feature_levels, reason));
        }
        let temperature = self.positional_embedding_temperature;
        CHECK.number("positional_embedding_temperature", [temperature], 1.0..=1e6)?;
        CHECK.number("layer_norm_eps", [self.layer_norm_eps], limit::EPS)?;
        // Norms in groups, and a sine and a cosine for each half of the channels.
        CHECK.divides("d_model", &[self.d_model], GROUPS)?;
        let pairs = self.encoder_attention_heads;
        CHECK.divides("encoder_attention_heads", &[pairs], 2)?;
        CHECK.divides("encoder_attention_heads", &[self.d_model], pairs)?;
        CHECK.divides("encoder_ffn_dim", &[self.encoder_ffn_dim], pairs)?;
        let heads = self.decoder_attention_heads;
        CHECK.divides("decoder_attention_heads", &[self.d_model], heads)
    }
}
