//! The autoencoder between pictures and latents: diffusers' `AutoencoderKL` (Kingma & Welling 2014;
//! Rombach et al. 2022).

mod blocks;
mod config;
mod footprint;
mod tiling;

use burn::prelude::*;
use burn::tensor::DType;
use prepose_kernels::keep_awake;

pub use config::VaeConfig;

use crate::config::ConfigError;
use crate::layers::Conv2d;
use crate::params::Params;
use blocks::{Decoder, Encoder};
use tiling::Tiles;

/// A diagonal normal distribution over latents.
#[derive(Debug, Clone)]
pub struct LatentDistribution {
    /// Mean, and mode, `[B, latent_channels, h, w]`, f32, not scaled by the scaling factor.
    pub mean: Tensor<4>,
    /// Logarithm of the variance, of the same shape, in `[-30, 20]`.
    pub logvar: Tensor<4>,
}

impl LatentDistribution {
    fn from_moments(moments: Tensor<4>) -> Self {
        let channels = moments.dims()[1] / 2;
        let moments = moments.cast(DType::F32);
        Self {
            mean: moments.clone().narrow(1, 0, channels),
            logvar: moments.narrow(1, channels, channels).clamp(-30.0, 20.0),
        }
    }

    /// The sample that standard normal `noise` of the mean's shape stands for.
    pub fn sample(&self, noise: Tensor<4>) -> Tensor<4> {
        self.mean.clone() + (self.logvar.clone() * 0.5).exp() * noise
    }
}

/// A half of the autoencoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VaeHalf {
    /// From pictures to latents.
    Encoder,
    /// From latents to pictures.
    Decoder,
}

impl VaeHalf {
    /// Whether the parameter of this name, as diffusers calls it, belongs to this half.
    pub fn has(self, name: &str) -> bool {
        let encoder = name.starts_with("encoder.") || name.starts_with("quant_conv.");
        encoder == (self == Self::Encoder)
    }
}

/// diffusers' `AutoencoderKL`.
#[derive(Module, Debug)]
pub struct AutoencoderKl {
    encoder: Option<Encoder>,
    decoder: Option<Decoder>,
    quant_conv: Option<Conv2d>,
    post_quant_conv: Option<Conv2d>,
    #[module(skip)]
    config: VaeConfig,
}

impl AutoencoderKl {
    /// Builds the network.
    ///
    /// # Errors
    /// [`ConfigError`] if the configuration asks for something that is not implemented or makes no
    /// sense. Problems with parameters are the source's to report.
    pub fn load(config: &VaeConfig, params: Params) -> Result<Self, ConfigError> {
        Self::load_halves(config, |_| true, params)
    }

    /// As [`load`](Self::load), without the other half.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn load_half(
        config: &VaeConfig,
        half: VaeHalf,
        params: Params,
    ) -> Result<Self, ConfigError> {
        Self::load_halves(config, |other| other == half, params)
    }

    fn load_halves(
        config: &VaeConfig,
        wanted: impl Fn(VaeHalf) -> bool,
        mut params: Params,
    ) -> Result<Self, ConfigError> {
        config.check()?;
        let latent = config.latent_channels;
        let (encodes, decodes) = (wanted(VaeHalf::Encoder), wanted(VaeHalf::Decoder));
        let mut conv = |name, channels| Conv2d::load(params.pp(name), channels, channels, 1);
        let quant_conv = (encodes && config.use_quant_conv).then(|| conv("quant_conv", 2 * latent));
        let post_quant_conv =
            (decodes && config.use_post_quant_conv).then(|| conv("post_quant_conv", latent));
        Ok(Self {
            encoder: encodes.then(|| Encoder::load(params.pp("encoder"), config)),
            decoder: decodes.then(|| Decoder::load(params.pp("decoder"), config)),
            quant_conv,
            post_quant_conv,
            config: config.clone(),
        })
    }

    /// The configuration that the network was built from.
    pub fn config(&self) -> &VaeConfig {
        &self.config
    }

    /// The diffusion model works on `(latents − shift_factor) · scaling_factor`.
    pub fn scaling_factor(&self) -> f64 {
        self.config.scaling_factor
    }

    /// See [`Self::scaling_factor`]; 0 in SD 1.x and SDXL.
    pub fn shift_factor(&self) -> f64 {
        self.config.shift_factor.unwrap_or(0.0)
    }

    /// Pixels of the picture along each side of one latent pixel: 8 in SD 1.x and SDXL.
    pub fn downscale(&self) -> usize {
        self.config.downscale()
    }

    /// Pictures `[B, 3, H, W]` in `[-1, 1]`, f32, to the distribution of their latents
    /// `[B, latent_channels, H/8, W/8]`. H and W must be multiples of [`Self::downscale`].
    ///
    /// # Panics
    /// If only the decoder was loaded.
    pub fn encode(&self, image: Tensor<4>) -> LatentDistribution {
        LatentDistribution::from_moments(self.encode_moments(image))
    }

    /// Latents `[B, latent_channels, h, w]`, f32, without the scaling factor, to pictures
    /// `[B, 3, 8h, 8w]`, f32, about in `[-1, 1]` and not clamped.
    ///
    /// # Panics
    /// If only the encoder was loaded.
    pub fn decode(&self, latents: Tensor<4>) -> Tensor<4> {
        let decoder = self.decoder.as_ref().expect("the decoder was loaded");
        let latents = latents.cast(decoder.dtype());
        let latents = match &self.post_quant_conv {
            Some(conv) => conv.forward(latents),
            None => latents,
        };
        keep_awake(&latents.device(), || {
            decoder.forward(latents).cast(DType::F32)
        })
    }

    /// As [`Self::encode`], one picture after the other and in overlapping tiles of the size that
    /// the network was trained on, so that memory does not grow with batch and size. Same as
    /// [`Self::encode`] for pictures that fit in one tile, and diffusers' result for larger ones.
    pub fn encode_tiled(&self, image: Tensor<4>) -> LatentDistribution {
        let Tiles { input, output } = Tiles::of_decoder(&self.config);
        let tiles = Tiles {
            input: output,
            output: input,
        };
        let moments = one_by_one(image, |image| {
            if tiles.needed(&image) {
                tiles.map(image, |tile| self.encode_moments(tile))
            } else {
                self.encode_moments(image)
            }
        });
        LatentDistribution::from_moments(moments)
    }

    /// As [`Self::decode`], one picture after the other and in overlapping tiles; see
    /// [`Self::encode_tiled`].
    pub fn decode_tiled(&self, latents: Tensor<4>) -> Tensor<4> {
        let tiles = Tiles::of_decoder(&self.config);
        one_by_one(latents, |latents| {
            if tiles.needed(&latents) {
                tiles.map(latents, |tile| self.decode(tile))
            } else {
                self.decode(latents)
            }
        })
    }

    fn encode_moments(&self, image: Tensor<4>) -> Tensor<4> {
        let encoder = self.encoder.as_ref().expect("the encoder was loaded");
        let moments = keep_awake(&image.device(), || {
            encoder.forward(image.cast(encoder.dtype()))
        });
        match &self.quant_conv {
            Some(conv) => conv.forward(moments),
            None => moments,
        }
    }
}

/// Applies `f` to each sample of `x` `[B, C, H, W]` alone.
fn one_by_one(x: Tensor<4>, f: impl Fn(Tensor<4>) -> Tensor<4>) -> Tensor<4> {
    let outputs: Vec<_> = x.split(1, 0).into_iter().map(f).collect();
    Tensor::cat(outputs, 0)
}
