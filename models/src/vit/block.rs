//! A transformer block with its norms before attention and feed-forward layers.

use burn::prelude::*;
use prepose_kernels as kernels;

use crate::attention::{AttentionShape, SelfAttention};
use crate::layers::{LayerNorm, Linear};
use crate::params::Params;

/// The function between the two feed-forward layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activation {
    /// OpenAI's approximation.
    QuickGelu,
    Gelu,
    Relu,
}

impl Activation {
    /// By the name that transformers gives it.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "quick_gelu" => Some(Self::QuickGelu),
            "gelu" => Some(Self::Gelu),
            "relu" => Some(Self::Relu),
            _ => None,
        }
    }

    pub fn forward(self, x: Tensor<3>) -> Tensor<3> {
        match self {
            Self::QuickGelu => kernels::quick_gelu(x),
            Self::Gelu => kernels::gelu(x),
            Self::Relu => burn::tensor::activation::relu(x),
        }
    }
}

/// Two layers with an activation between them.
#[derive(Module, Debug)]
pub(crate) struct Mlp {
    fc1: Linear,
    fc2: Linear,
    #[module(skip)]
    activation: Activation,
}

impl Mlp {
    /// The layers `names`, from `channels` to `inner` and back. The results are multiplied by `scale`, if given.
    pub fn load(
        params: &mut Params,
        names: [&str; 2],
        [channels, inner]: [usize; 2],
        activation: Activation,
        scale: Option<&[f32]>,
    ) -> Self {
        Self {
            fc1: Linear::load(params.pp(names[0]), channels, inner, true),
            fc2: Linear::load_scaled(params.pp(names[1]), inner, channels, scale),
            activation,
        }
    }

    /// `[B, N, C]` to the same, added `onto` that.
    pub fn forward_onto(&self, x: Tensor<3>, onto: Tensor<3>) -> Tensor<3> {
        let h = self.activation.forward(self.fc1.forward(x));
        self.fc2.forward_onto(h, onto)
    }
}

/// What the parts of a block are called in a checkpoint.
#[derive(Clone, Copy)]
pub(crate) struct BlockNames {
    /// Before attention, and before the feed-forward layers.
    pub norms: [&'static str; 2],
    /// Query, key, value and output projections.
    pub attention: [&'static str; 4],
    pub mlp: [&'static str; 2],
    /// Factors of what attention and feed-forward layers add (Touvron et al. 2021), where there are any.
    pub scales: Option<[&'static str; 2]>,
}

impl BlockNames {
    /// transformers' `CLIPEncoderLayer`.
    pub const CLIP: Self = Self {
        norms: ["layer_norm1", "layer_norm2"],
        attention: [
            "self_attn.q_proj",
            "self_attn.k_proj",
            "self_attn.v_proj",
            "self_attn.out_proj",
        ],
        mlp: ["mlp.fc1", "mlp.fc2"],
        scales: None,
    };
    /// BLIP's own code, queries, keys and values apart.
    pub const BLIP: Self = Self {
        norms: ["norm1", "norm2"],
        attention: ["attn.q", "attn.k", "attn.v", "attn.proj"],
        mlp: ["mlp.fc1", "mlp.fc2"],
        scales: None,
    };
    /// transformers' `Dinov2Layer`, as files have it.
    pub const DINOV2: Self = Self {
        norms: ["norm1", "norm2"],
        attention: [
            "attention.attention.query",
            "attention.attention.key",
            "attention.attention.value",
            "attention.output.dense",
        ],
        mlp: ["mlp.fc1", "mlp.fc2"],
        scales: Some(["layer_scale1.lambda1", "layer_scale2.lambda1"]),
    };
}

/// Sizes of a block.
#[derive(Clone, Copy)]
pub(crate) struct BlockShape {
    pub channels: usize,
    /// Channels inside the feed-forward layers.
    pub inner: usize,
    pub heads: usize,
    pub qkv_bias: bool,
    pub activation: Activation,
    pub eps: f64,
}

/// `x + attention(norm(x))`, and then `x + mlp(norm(x))`.
#[derive(Module, Debug)]
pub(crate) struct Block {
    norm1: LayerNorm,
    attention: SelfAttention,
    norm2: LayerNorm,
    mlp: Mlp,
}

impl Block {
    pub fn load(mut params: Params, names: &BlockNames, shape: &BlockShape) -> Self {
        let channels = shape.channels;
        let mut scale = |i: usize| {
            names
                .scales
                .and_then(|names| params.values(names[i], channels))
        };
        let scales = [scale(0), scale(1)];
        let attention = AttentionShape {
            channels,
            heads: shape.heads,
            qkv_bias: shape.qkv_bias,
            names: names.attention,
            upcast: false,
        };
        let sizes = [channels, shape.inner];
        Self {
            norm1: LayerNorm::load(params.pp(names.norms[0]), channels, shape.eps),
            attention: SelfAttention::load_scaled(&mut params, &attention, scales[0].as_deref()),
            norm2: LayerNorm::load(params.pp(names.norms[1]), channels, shape.eps),
            mlp: Mlp::load(
                &mut params,
                names.mlp,
                sizes,
                shape.activation,
                scales[1].as_deref(),
            ),
        }
    }

    /// `[B, N, C]` to the same.
    pub fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let normed = self.norm1.forward(x.clone());
        self.feed(self.attention.forward(normed, x))
    }

    /// As [`Self::forward`], each position attending to itself and those before it.
    pub fn forward_causal(&self, x: Tensor<3>) -> Tensor<3> {
        let normed = self.norm1.forward(x.clone());
        self.feed(self.attention.forward_causal(normed, x))
    }

    fn feed(&self, x: Tensor<3>) -> Tensor<3> {
        self.mlp.forward_onto(self.norm2.forward(x.clone()), x)
    }
}
