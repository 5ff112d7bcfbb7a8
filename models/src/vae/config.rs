//! The autoencoder's configuration.

use serde::Deserialize;
use serde_json::json;

use crate::config::{Check, ConfigError, OneOrMany, Rest, limit};

/// The `config.json` of diffusers' `AutoencoderKL`; missing keys have diffusers' defaults.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default)]
pub struct VaeConfig {
    /// Channels of the picture that goes in.
    pub in_channels: usize,
    /// Channels of the picture that comes out.
    pub out_channels: usize,
    /// `DownEncoderBlock2D`, for each resolution.
    pub down_block_types: Vec<String>,
    /// `UpDecoderBlock2D`, for each resolution.
    pub up_block_types: Vec<String>,
    /// Channels at each resolution, highest first.
    pub block_out_channels: Vec<usize>,
    /// Residual blocks at each resolution of the encoder; one more in the decoder.
    pub layers_per_block: usize,
    /// Channels of the latents.
    pub latent_channels: usize,
    /// Groups of the group norms.
    pub norm_num_groups: usize,
    /// Width and height of the pictures that the network was trained on: the size of a tile.
    pub sample_size: OneOrMany,
    /// The diffusion model works on `(latents − shift_factor) · scaling_factor`.
    pub scaling_factor: f64,
    /// See `scaling_factor`; none is 0.
    pub shift_factor: Option<f64>,
    /// Whether the network overflows in f16 and must run in f32. Nothing is done about it here.
    pub force_upcast: bool,
    /// Whether a 1×1 convolution follows the encoder.
    pub use_quant_conv: bool,
    /// Whether a 1×1 convolution precedes the decoder.
    pub use_post_quant_conv: bool,
    /// Whether there is attention at the lowest resolution.
    pub mid_block_add_attention: bool,
    #[serde(flatten)]
    rest: Rest,
}

const DOWN: &str = "DownEncoderBlock2D";
const UP: &str = "UpDecoderBlock2D";

impl Default for VaeConfig {
    fn default() -> Self {
        Self {
            in_channels: 3,
            out_channels: 3,
            down_block_types: vec![DOWN.to_string()],
            up_block_types: vec![UP.to_string()],
            block_out_channels: vec![64],
            layers_per_block: 1,
            latent_channels: 4,
            norm_num_groups: 32,
            sample_size: OneOrMany::One(32),
            scaling_factor: 0.18215,
            shift_factor: None,
            force_upcast: true,
            use_quant_conv: true,
            use_post_quant_conv: true,
            mid_block_add_attention: true,
            rest: Rest::new(),
        }
    }
}

impl VaeConfig {
    /// Pixels of the picture along each side of one latent pixel.
    pub fn downscale(&self) -> usize {
        1 << self.block_out_channels.len().saturating_sub(1)
    }

    /// Refuses what cannot be built.
    ///
    /// # Errors
    /// [`ConfigError`] names the first key that is unsupported or makes no sense, with its value.
    pub fn check(&self) -> Result<(), ConfigError> {
        const CHECK: Check = Check {
            network: "autoencoder",
        };
        CHECK.class(&self.rest, &["AutoencoderKL"])?;
        CHECK.only(
            &self.rest,
            &[
                ("act_fn", json!("silu")),
                ("latents_mean", json!(null)),
                ("latents_std", json!(null)),
            ],
        )?;
        CHECK.block_types("down_block_types", &self.down_block_types, &[DOWN])?;
        CHECK.block_types("up_block_types", &self.up_block_types, &[UP])?;
        let n = self.block_out_channels.len();
        let channels = &self.block_out_channels;
        CHECK.levels("block_out_channels", channels)?;
        let width = channels.iter().copied();
        CHECK.within("block_out_channels", width, limit::CHANNELS)?;
        for (key, planes) in [
            ("in_channels", self.in_channels),
            ("out_channels", self.out_channels),
            ("latent_channels", self.latent_channels),
        ] {
            CHECK.within(key, [planes], limit::PLANES)?;
        }
        CHECK.within("layers_per_block", [self.layers_per_block], limit::LAYERS)?;
        CHECK.sides("sample_size", &self.sample_size)?;
        CHECK.number("scaling_factor", [self.scaling_factor], 1e-3..=1e3)?;
        CHECK.number("shift_factor", self.shift_factor, -1e3..=1e3)?;
        for (key, types) in [
            ("down_block_types", &self.down_block_types),
            ("up_block_types", &self.up_block_types),
        ] {
            if types.len() != n {
                let reason = format!("`block_out_channels` has {n} blocks");
                return Err(CHECK.invalid(key, types, reason));
            }
        }
        let groups = self.norm_num_groups;
        CHECK.divides("norm_num_groups", &self.block_out_channels, groups)
    }
}
