//! The halves of the autoencoder.

use burn::prelude::*;
use burn::tensor::DType;
use prepose_kernels as kernels;

use super::config::VaeConfig;
use crate::attention::{AttentionShape, DIFFUSERS_NAMES, SelfAttention};
use crate::layers::{Conv2d, GroupNorm};
use crate::params::Params;
use crate::resnet::{Downsample, ResnetBlock, ResnetOptions, Upsample};

const EPS: f64 = 1e-6;

fn options(config: &VaeConfig) -> ResnetOptions {
    ResnetOptions {
        groups: config.norm_num_groups,
        eps: EPS,
        timed: false,
    }
}

fn resnets(
    mut params: Params,
    layers: usize,
    [input, output]: [usize; 2],
    options: ResnetOptions,
) -> Vec<ResnetBlock> {
    (0..layers)
        .map(|i| {
            let input = if i == 0 { input } else { output };
            ResnetBlock::load(params.pp(i), input, output, options)
        })
        .collect()
}

/// Residual blocks at one resolution of the encoder, then half the resolution.
#[derive(Module, Debug)]
struct DownBlock {
    resnets: Vec<ResnetBlock>,
    downsampler: Option<Downsample>,
}

/// Residual blocks at one resolution of the decoder, then double the resolution.
#[derive(Module, Debug)]
struct UpBlock {
    resnets: Vec<ResnetBlock>,
    upsampler: Option<Upsample>,
}

/// Attention of one head over all positions, with its norm and residual connection.
#[derive(Module, Debug)]
struct MidAttention {
    group_norm: GroupNorm,
    attention: SelfAttention,
}

impl MidAttention {
    fn load(mut params: Params, channels: usize, groups: usize) -> Self {
        let shape = AttentionShape {
            channels,
            heads: 1,
            qkv_bias: true,
            names: DIFFUSERS_NAMES,
            upcast: false,
        };
        let group_norm = GroupNorm::load(params.pp("group_norm"), groups, channels, EPS);
        Self {
            group_norm,
            attention: SelfAttention::load(params, &shape),
        }
    }

    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let [_, _, height, width] = x.dims();
        let h = kernels::picture_to_tokens(self.group_norm.forward(x.clone()));
        let h = self.attention.forward(h, kernels::picture_to_tokens(x));
        kernels::tokens_to_picture(h, [height, width])
    }
}

/// `UNetMidBlock2D` without a time embedding.
#[derive(Module, Debug)]
struct MidBlock {
    resnets: Vec<ResnetBlock>,
    attention: Option<MidAttention>,
}

impl MidBlock {
    fn load(mut params: Params, channels: usize, config: &VaeConfig) -> Self {
        let shape = [channels, channels];
        let groups = config.norm_num_groups;
        Self {
            resnets: resnets(params.pp("resnets"), 2, shape, options(config)),
            attention: (config.mid_block_add_attention)
                .then(|| MidAttention::load(params.pp("attentions.0"), channels, groups)),
        }
    }

    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let x = self.resnets[0].forward(x, None);
        let x = match &self.attention {
            Some(attention) => attention.forward(x),
            None => x,
        };
        self.resnets[1].forward(x, None)
    }
}

/// Pictures to the moments of their latents' distribution.
#[derive(Module, Debug)]
pub(super) struct Encoder {
    conv_in: Conv2d,
    down_blocks: Vec<DownBlock>,
    mid_block: MidBlock,
    conv_norm_out: GroupNorm,
    conv_out: Conv2d,
}

impl Encoder {
    pub fn load(mut params: Params, config: &VaeConfig) -> Self {
        let channels = &config.block_out_channels;
        let last = channels.len() - 1;
        let conv_in = Conv2d::load(params.pp("conv_in"), config.in_channels, channels[0], 3);
        let down_block = |i: usize| {
            let shape = [channels[i.saturating_sub(1)], channels[i]];
            let mut params = params.pp(format!("down_blocks.{i}"));
            let layers = config.layers_per_block;
            DownBlock {
                resnets: resnets(params.pp("resnets"), layers, shape, options(config)),
                downsampler: (i < last)
                    .then(|| Downsample::load(params.pp("downsamplers.0"), channels[i], true)),
            }
        };
        let down_blocks = (0..=last).map(down_block).collect();
        let top = channels[last];
        let groups = config.norm_num_groups;
        Self {
            conv_in,
            down_blocks,
            mid_block: MidBlock::load(params.pp("mid_block"), top, config),
            conv_norm_out: GroupNorm::load(params.pp("conv_norm_out"), groups, top, EPS),
            conv_out: Conv2d::load(params.pp("conv_out"), top, 2 * config.latent_channels, 3),
        }
    }

    pub fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let mut x = self.conv_in.forward(x);
        for block in &self.down_blocks {
            for resnet in &block.resnets {
                x = resnet.forward(x, None);
            }
            if let Some(downsampler) = &block.downsampler {
                x = downsampler.forward(x);
            }
        }
        let x = self.mid_block.forward(x);
        self.conv_out.forward(self.conv_norm_out.forward_silu(x))
    }

    /// The type that the layers compute in.
    pub fn dtype(&self) -> DType {
        self.conv_in.dtype()
    }
}

/// From latents to pixels, eight times as high and wide in Stable Diffusion.
#[derive(Module, Debug)]
pub(super) struct Decoder {
    conv_in: Conv2d,
    mid_block: MidBlock,
    up_blocks: Vec<UpBlock>,
    conv_norm_out: GroupNorm,
    conv_out: Conv2d,
}

impl Decoder {
    pub fn load(mut params: Params, config: &VaeConfig) -> Self {
        let channels = &config.block_out_channels;
        let last = channels.len() - 1;
        let latent = config.latent_channels;
        let conv_in = Conv2d::load(params.pp("conv_in"), latent, channels[last], 3);
        let mid_block = MidBlock::load(params.pp("mid_block"), channels[last], config);
        let up_block = |i: usize| {
            let level = last - i;
            let shape = [channels[(level + 1).min(last)], channels[level]];
            let mut params = params.pp(format!("up_blocks.{i}"));
            let layers = config.layers_per_block + 1;
            UpBlock {
                resnets: resnets(params.pp("resnets"), layers, shape, options(config)),
                upsampler: (level > 0)
                    .then(|| Upsample::load(params.pp("upsamplers.0"), channels[level])),
            }
        };
        let up_blocks = (0..=last).map(up_block).collect();
        let groups = config.norm_num_groups;
        Self {
            conv_in,
            mid_block,
            up_blocks,
            conv_norm_out: GroupNorm::load(params.pp("conv_norm_out"), groups, channels[0], EPS),
            conv_out: Conv2d::load(params.pp("conv_out"), channels[0], config.out_channels, 3),
        }
    }

    pub fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let x = self.conv_in.forward(x);
        let mut x = self.mid_block.forward(x);
        for block in &self.up_blocks {
            for resnet in &block.resnets {
                x = resnet.forward(x, None);
            }
            if let Some(upsampler) = &block.upsampler {
                x = upsampler.forward(x);
            }
        }
        self.conv_out.forward(self.conv_norm_out.forward_silu(x))
    }

    /// The type that the layers compute in.
    pub fn dtype(&self) -> DType {
        self.conv_in.dtype()
    }
}
