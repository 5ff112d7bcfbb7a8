//! A small autoencoder for previews: diffusers' `AutoencoderTiny` (TAESD, Bohan 2023).

use burn::prelude::*;
use burn::tensor::{DType, activation::relu};
use prepose_kernels as kernels;
use serde::Deserialize;
use serde_json::json;

use crate::config::{Check, ConfigError, Rest};
use crate::layers::Conv2d;
use crate::params::Params;

/// The `config.json` of diffusers' `AutoencoderTiny`; missing keys have diffusers' defaults.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default)]
pub struct TinyVaeConfig {
    /// Channels of the picture that goes in.
    pub in_channels: usize,
    /// Channels of the picture that comes out.
    pub out_channels: usize,
    /// Channels at each stage of the encoder; all the same.
    pub encoder_block_out_channels: Vec<usize>,
    /// Channels at each stage of the decoder; all the same.
    pub decoder_block_out_channels: Vec<usize>,
    /// Channels of the latents.
    pub latent_channels: usize,
    /// Residual blocks at each stage of the encoder.
    pub num_encoder_blocks: Vec<usize>,
    /// Residual blocks at each stage of the decoder.
    pub num_decoder_blocks: Vec<usize>,
    /// Latents lie about in `±latent_magnitude`.
    pub latent_magnitude: f64,
    /// Where 0 lies once latents are scaled to `[0, 1]`.
    pub latent_shift: f64,
    /// The diffusion model works on `latents · scaling_factor`.
    pub scaling_factor: f64,
    #[serde(flatten)]
    rest: Rest,
}

impl Default for TinyVaeConfig {
    fn default() -> Self {
        Self {
            in_channels: 3,
            out_channels: 3,
            encoder_block_out_channels: vec![64; 4],
            decoder_block_out_channels: vec![64; 4],
            latent_channels: 4,
            num_encoder_blocks: vec![1, 3, 3, 3],
            num_decoder_blocks: vec![3, 3, 3, 1],
            latent_magnitude: 3.0,
            latent_shift: 0.5,
            scaling_factor: 1.0,
            rest: Rest::new(),
        }
    }
}

impl TinyVaeConfig {
    /// Refuses what cannot be built.
    ///
    /// # Errors
    /// [`ConfigError`] names the first key that is unsupported or makes no sense, with its value.
    pub fn check(&self) -> Result<(), ConfigError> {
        const CHECK: Check = Check {
            network: "tiny autoencoder",
        };
        CHECK.class(&self.rest, &["AutoencoderTiny"])?;
        CHECK.only(
            &self.rest,
            &[
                ("act_fn", json!("relu")),
                ("shift_factor", json!(0)),
                ("upsample_fn", json!("nearest")),
                ("upsampling_scaling_factor", json!(2)),
            ],
        )?;
        for (key, channels, blocks) in [
            (
                "encoder_block_out_channels",
                &self.encoder_block_out_channels,
                &self.num_encoder_blocks,
            ),
            (
                "decoder_block_out_channels",
                &self.decoder_block_out_channels,
                &self.num_decoder_blocks,
            ),
        ] {
            let reason = match channels.as_slice() {
                [] => "it is empty",
                _ if channels.len() != blocks.len() => "the numbers of blocks are another length",
                [first, rest @ ..] if rest.iter().any(|c| c != first) => {
                    "the stages of such a network are equally wide"
                }
                _ => continue,
            };
            return Err(CHECK.invalid(key, channels, reason));
        }
        Ok(())
    }
}

/// Three convolutions around a residual connection.
#[derive(Module, Debug)]
struct TinyBlock {
    conv: Vec<Conv2d>,
}

impl TinyBlock {
    fn load(mut params: Params, channels: usize) -> Self {
        let conv = |i| Conv2d::load(params.pp(format!("conv.{i}")), channels, channels, 3);
        Self {
            conv: [0, 2, 4].into_iter().map(conv).collect(),
        }
    }

    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let h = relu(self.conv[0].forward(x.clone()));
        let h = relu(self.conv[1].forward(h));
        relu(self.conv[2].forward(h) + x)
    }
}

/// Blocks at one resolution. In the encoder the convolution comes before the blocks and halves the
/// resolution (but in the first stage); in the decoder it comes after them and after doubling the
/// resolution (but in the last stage).
#[derive(Module, Debug)]
struct Stage {
    conv: Conv2d,
    blocks: Vec<TinyBlock>,
}

/// diffusers' `AutoencoderTiny`.
#[derive(Module, Debug)]
pub struct AutoencoderTiny {
    encoder: Vec<Stage>,
    encoder_out: Conv2d,
    decoder_in: Conv2d,
    decoder: Vec<Stage>,
    #[module(skip)]
    config: TinyVaeConfig,
}

impl AutoencoderTiny {
    /// Builds the network.
    ///
    /// # Errors
    /// [`ConfigError`] if the configuration asks for something that is not implemented or makes no
    /// sense. Problems with parameters are the source's to report.
    pub fn load(config: &TinyVaeConfig, mut params: Params) -> Result<Self, ConfigError> {
        config.check()?;
        let (encoder, encoder_out) = load_encoder(params.pp("encoder.layers"), config);
        let (decoder_in, decoder) = load_decoder(params.pp("decoder.layers"), config);
        Ok(Self {
            encoder,
            encoder_out,
            decoder_in,
            decoder,
            config: config.clone(),
        })
    }

    /// The configuration that the network was built from.
    pub fn config(&self) -> &TinyVaeConfig {
        &self.config
    }

    /// The diffusion model works on `latents · scaling_factor`.
    pub fn scaling_factor(&self) -> f64 {
        self.config.scaling_factor
    }

    /// Pictures `[B, 3, H, W]` in `[-1, 1]`, f32, to latents `[B, latent_channels, H/8, W/8]`, f32.
    pub fn encode(&self, image: Tensor<4>) -> Tensor<4> {
        let mut x = ((image + 1.0) / 2.0).cast(self.decoder_in.dtype());
        for stage in &self.encoder {
            x = stage.conv.forward(x);
            for block in &stage.blocks {
                x = block.forward(x);
            }
        }
        self.encoder_out.forward(x).cast(DType::F32)
    }

    /// Latents `[B, latent_channels, h, w]`, f32, to pictures `[B, 3, 8h, 8w]`, f32, about in
    /// `[-1, 1]` and not clamped.
    pub fn decode(&self, latents: Tensor<4>) -> Tensor<4> {
        let x = (latents / 3.0).tanh() * 3.0;
        let mut x = relu(self.decoder_in.forward(x.cast(self.decoder_in.dtype())));
        let last = self.decoder.len() - 1;
        for (i, stage) in self.decoder.iter().enumerate() {
            for block in &stage.blocks {
                x = block.forward(x);
            }
            if i < last {
                x = kernels::upsample_nearest2x(x);
            }
            x = stage.conv.forward(x);
        }
        x.cast(DType::F32) * 2.0 - 1.0
    }

    /// Latents to `[0, 1]`, as they are stored in pictures.
    pub fn scale_latents(&self, latents: Tensor<4>) -> Tensor<4> {
        let scaled = latents / (2.0 * self.config.latent_magnitude) + self.config.latent_shift;
        scaled.clamp(0.0, 1.0)
    }

    /// The inverse of [`Self::scale_latents`] where that did not clamp.
    pub fn unscale_latents(&self, scaled: Tensor<4>) -> Tensor<4> {
        (scaled - self.config.latent_shift) * (2.0 * self.config.latent_magnitude)
    }
}

/// diffusers numbers every layer of a half, those without parameters too.
fn load_encoder(mut params: Params, config: &TinyVaeConfig) -> (Vec<Stage>, Conv2d) {
    let channels = config.encoder_block_out_channels[0];
    let mut next = 0..;
    let mut stages = Vec::new();
    for (i, &blocks) in config.num_encoder_blocks.iter().enumerate() {
        let conv = params.pp(next.next().unwrap_or_default());
        let conv = match i {
            0 => Conv2d::load(conv, config.in_channels, channels, 3),
            _ => Conv2d::load_with(conv, [channels, channels, 3, 2, 1], false),
        };
        let blocks = next.by_ref().take(blocks);
        let blocks = blocks.map(|i: usize| TinyBlock::load(params.pp(i), channels));
        stages.push(Stage {
            conv,
            blocks: blocks.collect(),
        });
    }
    let out = params.pp(next.next().unwrap_or_default());
    (
        stages,
        Conv2d::load(out, channels, config.latent_channels, 3),
    )
}

fn load_decoder(mut params: Params, config: &TinyVaeConfig) -> (Conv2d, Vec<Stage>) {
    let channels = config.decoder_block_out_channels[0];
    let conv_in = Conv2d::load(params.pp(0), config.latent_channels, channels, 3);
    // Layer 1 is the activation.
    let mut next = 2..;
    let last = config.num_decoder_blocks.len() - 1;
    let mut stages = Vec::new();
    for (i, &blocks) in config.num_decoder_blocks.iter().enumerate() {
        let blocks = next.by_ref().take(blocks);
        let blocks = blocks
            .map(|i: usize| TinyBlock::load(params.pp(i), channels))
            .collect();
        let output = if i == last {
            config.out_channels
        } else {
            // The upsampling has a number of its own.
            next.next();
            channels
        };
        let conv = params.pp(next.next().unwrap_or_default());
        let conv = Conv2d::load_with(conv, [channels, output, 3, 1, 1], i == last);
        stages.push(Stage { conv, blocks });
    }
    (conv_in, stages)
}
