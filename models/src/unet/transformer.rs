//! The transformers of the UNet: self-attention, attention to the text, and a gated feed-forward.

use burn::module::Param;
use burn::prelude::*;
use prepose_kernels as kernels;

use super::pass::Pass;
use crate::attention::{Attention, AttentionShape, DIFFUSERS_NAMES};
use crate::layers::{GroupNorm, LayerNorm, Linear};
use crate::params::Params;

/// What the transformers of one resolution have in common.
#[derive(Clone, Copy)]
pub(crate) struct TransformerOptions {
    pub channels: usize,
    pub context_dim: usize,
    pub heads: usize,
    pub depth: usize,
    pub groups: usize,
    pub linear_projection: bool,
    pub upcast: bool,
}

/// diffusers' `Transformer2DModel` on feature maps.
#[derive(Module, Debug)]
pub(crate) struct Transformer2d {
    norm: GroupNorm,
    proj_in: Projection,
    transformer_blocks: Vec<TransformerBlock>,
    proj_out: Projection,
}

impl Transformer2d {
    pub fn load(mut params: Params, options: TransformerOptions) -> Self {
        let TransformerOptions {
            channels, groups, ..
        } = options;
        let linear = options.linear_projection;
        let norm = GroupNorm::load(params.pp("norm"), groups, channels, 1e-6);
        let proj_in = Projection::load(params.pp("proj_in"), channels, linear);
        let mut blocks = params.pp("transformer_blocks");
        Self {
            norm,
            proj_in,
            transformer_blocks: (0..options.depth)
                .map(|i| TransformerBlock::load(blocks.pp(i), options))
                .collect(),
            proj_out: Projection::load(params.pp("proj_out"), channels, linear),
        }
    }

    /// The attention layers to the text, in the order of execution.
    pub fn cross_attentions(&self) -> impl Iterator<Item = &Attention> {
        self.transformer_blocks.iter().map(|block| &block.attn2)
    }

    /// `[B, C, H, W]` to the same.
    pub fn forward(&self, x: Tensor<4>, pass: &mut Pass) -> Tensor<4> {
        let [_, _, height, width] = x.dims();
        let mut h = self.proj_in.map_to_tokens(self.norm.forward(x.clone()));
        for block in &self.transformer_blocks {
            h = block.forward(h, height, width, pass);
        }
        x + self.proj_out.tokens_to_map(h, height, width)
    }
}

/// One affine map of the channels at every position, stored as a linear layer or as a 1×1
/// convolution: the same numbers in either case, so it is applied in whichever form needs no copy.
#[derive(Module, Debug)]
struct Projection {
    weight: Param<Tensor<2>>,
    bias: Param<Tensor<1>>,
}

impl Projection {
    fn load(mut params: Params, channels: usize, linear: bool) -> Self {
        let shape = [channels, channels];
        let stored = [channels, channels, 1, 1];
        let stored = if linear { &stored[..2] } else { &stored[..] };
        Self {
            weight: params.tensor_stored("weight", stored, shape),
            bias: params.tensor("bias", [channels]),
        }
    }

    /// `[B, C, H, W]` to `[B, H · W, C]`.
    fn map_to_tokens(&self, x: Tensor<4>) -> Tensor<3> {
        let [batch, channels, height, width] = x.dims();
        let x = x.reshape([batch, channels, height * width]).swap_dims(1, 2);
        kernels::linear(x, self.weight.val(), Some(self.bias.val()))
    }

    /// `[B, H · W, C]` to `[B, C, H, W]`.
    fn tokens_to_map(&self, x: Tensor<3>, height: usize, width: usize) -> Tensor<4> {
        let [batch, _, channels] = x.dims();
        let x = x
            .reshape([batch, height, width, channels])
            .permute([0, 3, 1, 2]);
        let weight = self.weight.val().reshape([channels, channels, 1, 1]);
        kernels::conv2d(x, weight, Some(self.bias.val()), 1, 0)
    }
}

/// diffusers' `BasicTransformerBlock` with its default options.
#[derive(Module, Debug)]
struct TransformerBlock {
    norm1: LayerNorm,
    attn1: Attention,
    norm2: LayerNorm,
    attn2: Attention,
    norm3: LayerNorm,
    ff: FeedForward,
}

impl TransformerBlock {
    fn load(mut params: Params, options: TransformerOptions) -> Self {
        let channels = options.channels;
        const EPS: f64 = 1e-5;
        let attention = |context_dim| AttentionShape {
            query_dim: channels,
            context_dim,
            heads: options.heads,
            qkv_bias: false,
            names: DIFFUSERS_NAMES,
            upcast: options.upcast,
        };
        Self {
            norm1: LayerNorm::load(params.pp("norm1"), channels, EPS),
            attn1: Attention::load(params.pp("attn1"), &attention(channels)),
            norm2: LayerNorm::load(params.pp("norm2"), channels, EPS),
            attn2: Attention::load(params.pp("attn2"), &attention(options.context_dim)),
            norm3: LayerNorm::load(params.pp("norm3"), channels, EPS),
            ff: FeedForward::load(params.pp("ff"), channels),
        }
    }

    /// `[B, H · W, C]` to the same.
    fn forward(&self, x: Tensor<3>, height: usize, width: usize, pass: &mut Pass) -> Tensor<3> {
        let x = self.attn1.to_self(self.norm1.forward(x.clone())) + x;
        let query = self.norm2.forward(x.clone());
        let x = pass.cross_attention(&self.attn2, query, height, width) + x;
        self.ff.forward(self.norm3.forward(x.clone())) + x
    }
}

/// Four times as wide inside, gated with GELU.
#[derive(Module, Debug)]
struct FeedForward {
    proj: Linear,
    out: Linear,
}

impl FeedForward {
    fn load(mut params: Params, channels: usize) -> Self {
        let inner = 4 * channels;
        Self {
            proj: Linear::load(params.pp("net.0.proj"), channels, 2 * inner, true),
            out: Linear::load(params.pp("net.2"), inner, channels, true),
        }
    }

    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        self.out.forward(kernels::geglu(self.proj.forward(x)))
    }
}
