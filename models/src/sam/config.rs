//! What a SAM looks like.

use serde::Deserialize;

use crate::config::{Check, ConfigError, limit};

/// The `config.json` of a SAM; missing keys have transformers' defaults, which are those of ViT-B.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct SamConfig {
    /// What looks at the picture.
    pub vision_config: SamVisionConfig,
    /// What reads boxes and points.
    pub prompt_encoder_config: SamPromptConfig,
    /// What makes masks of both.
    pub mask_decoder_config: SamDecoderConfig,
}

/// The picture encoder of a [`SamConfig`].
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default)]
pub struct SamVisionConfig {
    /// Channels of each token.
    pub hidden_size: usize,
    /// Channels of what it gives.
    pub output_channels: usize,
    /// Transformer layers.
    pub num_hidden_layers: usize,
    /// Heads in each layer.
    pub num_attention_heads: usize,
    /// Channels of pictures: 3.
    pub num_channels: usize,
    /// The longer side of the pictures that it looks at, in pixels.
    pub image_size: usize,
    /// The side of a patch, in pixels.
    pub patch_size: usize,
    /// The activation of the feed-forward layers: `gelu`.
    pub hidden_act: String,
    /// Added to the variance in layer norms.
    pub layer_norm_eps: f64,
    /// Whether queries, keys and values have a bias.
    pub qkv_bias: bool,
    /// Channels inside the feed-forward layers, as a multiple of `hidden_size`.
    pub mlp_ratio: f64,
    /// The same as a number.
    pub mlp_dim: Option<usize>,
    /// A table of positions: true.
    pub use_abs_pos: bool,
    /// Tables of relative positions in each layer: true.
    pub use_rel_pos: bool,
    /// The side of the windows in which most layers attend, in patches.
    pub window_size: usize,
    /// The layers that attend to the whole picture, counted from 0.
    pub global_attn_indexes: Vec<usize>,
    /// Frequencies of the encoding of coordinates.
    pub num_pos_feats: usize,
}

impl Default for SamVisionConfig {
    fn default() -> Self {
        Self {
            hidden_size: 768,
            output_channels: 256,
            num_hidden_layers: 12,
            num_attention_heads: 12,
            num_channels: 3,
            image_size: 1024,
            patch_size: 16,
            hidden_act: "gelu".to_string(),
            layer_norm_eps: 1e-6,
            qkv_bias: true,
            mlp_ratio: 4.0,
            mlp_dim: None,
            use_abs_pos: true,
            use_rel_pos: true,
            window_size: 14,
            global_attn_indexes: vec![2, 5, 8, 11],
            num_pos_feats: 128,
        }
    }
}

/// The prompt encoder of a [`SamConfig`].
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default)]
pub struct SamPromptConfig {
    /// Channels of a token.
    pub hidden_size: usize,
    /// Channels of given masks, which are not used here.
    pub mask_input_channels: usize,
    /// Kinds of points: 4.
    pub num_point_embeddings: usize,
}

impl Default for SamPromptConfig {
    fn default() -> Self {
        Self {
            hidden_size: 256,
            mask_input_channels: 16,
            num_point_embeddings: 4,
        }
    }
}

/// The mask decoder of a [`SamConfig`].
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default)]
pub struct SamDecoderConfig {
    /// Channels of a token.
    pub hidden_size: usize,
    /// The activation of the feed-forward layers: `relu`.
    pub hidden_act: String,
    /// Channels inside the feed-forward layers.
    pub mlp_dim: usize,
    /// Layers.
    pub num_hidden_layers: usize,
    /// Heads in each layer.
    pub num_attention_heads: usize,
    /// By how much attention between tokens and picture is narrower.
    pub attention_downsample_rate: usize,
    /// Masks of an ambiguous prompt.
    pub num_multimask_outputs: usize,
    /// Layers of the head that predicts how good masks are.
    pub iou_head_depth: usize,
    /// Its channels.
    pub iou_head_hidden_dim: usize,
    /// Added to the variance in the layers' norms: 1e-6 in transformers, 1e-5 in the authors' code.
    pub layer_norm_eps: f64,
}

impl Default for SamDecoderConfig {
    fn default() -> Self {
        Self {
            hidden_size: 256,
            hidden_act: "relu".to_string(),
            mlp_dim: 2048,
            num_hidden_layers: 2,
            num_attention_heads: 8,
            attention_downsample_rate: 2,
            num_multimask_outputs: 3,
            iou_head_depth: 3,
            iou_head_hidden_dim: 256,
            layer_norm_eps: 1e-6,
        }
    }
}

const CHECK: Check = Check {
    network: "segmenter",
};

impl SamConfig {
    /// Refuses what cannot be built.
    ///
    /// # Errors
    /// [`ConfigError`] names the first key that is unsupported or makes no sense, with its value.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.vision_config.check()?;
        let channels = self.vision_config.output_channels;
        self.mask_decoder_config.check(channels)?;
        let prompts = &self.prompt_encoder_config;
        for (key, size) in [
            ("hidden_size", prompts.hidden_size),
            (
                "num_pos_feats",
                self.vision_config.num_pos_feats.saturating_mul(2),
            ),
        ] {
            if size != channels {
                let reason = format!("the picture encoder gives {channels} channels");
                return Err(CHECK.invalid(key, size, reason));
            }
        }
        if prompts.num_point_embeddings != 4 {
            let key = "num_point_embeddings";
            return Err(CHECK.unsupported(key, prompts.num_point_embeddings, "4"));
        }
        CHECK.within(
            "mask_input_channels",
            [prompts.mask_input_channels],
            limit::CHANNELS,
        )?;
        CHECK.divides("mask_input_channels", &[prompts.mask_input_channels], 4)
    }
}

impl SamVisionConfig {
    fn check(&self) -> Result<(), ConfigError> {
        if self.hidden_act != "gelu" {
            return Err(CHECK.unsupported("hidden_act", self.hidden_act.as_str(), "\"gelu\""));
        }
        if self.num_channels != 3 {
            return Err(CHECK.unsupported("num_channels", self.num_channels, "3"));
        }
        for (key, value) in [
            ("use_abs_pos", self.use_abs_pos),
            ("use_rel_pos", self.use_rel_pos),
        ] {
            if !value {
                return Err(CHECK.unsupported(key, false, "true"));
            }
        }
        for (key, size, limit) in [
            ("hidden_size", self.hidden_size, limit::CHANNELS),
            ("output_channels", self.output_channels, limit::CHANNELS),
            ("num_hidden_layers", self.num_hidden_layers, limit::LAYERS),
            ("image_size", self.image_size, limit::SIDE),
            ("patch_size", self.patch_size, self.image_size),
            ("num_pos_feats", self.num_pos_feats, limit::CHANNELS),
        ] {
            CHECK.within(key, [size], limit)?;
        }
        CHECK.number("mlp_ratio", [self.mlp_ratio], 1e-3..=64.0)?;
        CHECK.within("mlp_dim", [self.inner()], limit::CHANNELS)?;
        CHECK.within("window_size", [self.window_size], self.side())?;
        CHECK.within("image_size", [self.side() * self.side()], limit::LENGTH)?;
        CHECK.number("layer_norm_eps", [self.layer_norm_eps], limit::EPS)?;
        CHECK.divides(
            "num_attention_heads",
            &[self.hidden_size],
            self.num_attention_heads,
        )
    }

    /// Patches along a side.
    pub(super) fn side(&self) -> usize {
        self.image_size / self.patch_size.max(1)
    }

    /// Channels inside the feed-forward layers.
    pub(super) fn inner(&self) -> usize {
        let ratio = (self.hidden_size as f64 * self.mlp_ratio) as usize;
        self.mlp_dim.unwrap_or(ratio)
    }
}

impl SamDecoderConfig {
    fn check(&self, channels: usize) -> Result<(), ConfigError> {
        if self.hidden_act != "relu" {
            return Err(CHECK.unsupported("hidden_act", self.hidden_act.as_str(), "\"relu\""));
        }
        if self.hidden_size != channels {
            let reason = format!("the picture encoder gives {channels} channels");
            return Err(CHECK.invalid("hidden_size", self.hidden_size, reason));
        }
        for (key, size, limit) in [
            ("mlp_dim", self.mlp_dim, limit::CHANNELS),
            ("num_hidden_layers", self.num_hidden_layers, limit::LAYERS),
            ("num_multimask_outputs", self.num_multimask_outputs, 16),
            (
                "iou_head_hidden_dim",
                self.iou_head_hidden_dim,
                limit::CHANNELS,
            ),
            (
                "attention_downsample_rate",
                self.attention_downsample_rate,
                channels,
            ),
        ] {
            CHECK.within(key, [size], limit)?;
        }
        if !(2..=limit::LAYERS).contains(&self.iou_head_depth) {
            let reason = format!("it must be between 2 and {}", limit::LAYERS);
            return Err(CHECK.invalid("iou_head_depth", self.iou_head_depth, reason));
        }
        CHECK.number("layer_norm_eps", [self.layer_norm_eps], limit::EPS)?;
        CHECK.divides("hidden_size", &[channels], 8)?;
        let rate = self.attention_downsample_rate;
        CHECK.divides("attention_downsample_rate", &[channels], rate)?;
        let widths = [channels, channels / rate];
        CHECK.divides("num_attention_heads", &widths, self.num_attention_heads)
    }
}
