//! From a picture's encoding to tokens.

use burn::module::Param;
use burn::prelude::*;
use prepose_kernels as kernels;

use super::config::{AdapterKind, IpAdapterConfig, PLAIN_TOKENS, ResamplerConfig};
use crate::layers::{LayerNorm, Linear};
use crate::params::Params;

const EPS: f64 = 1e-5;
/// Channels of a resampler's heads.
const HEAD: usize = 64;

/// From what the picture encoder gives, `[B, rows, E]`, to tokens `[B, T, D]`.
#[derive(Module, Debug)]
pub(super) enum Projector {
    Plain(Plain),
    FullFace(FullFace),
    Plus(Resampler),
}

impl Projector {
    pub fn load(params: Params, config: &IpAdapterConfig) -> Self {
        let sizes = [config.picture_dim, config.context_dim];
        match (config.kind, &config.resampler) {
            (AdapterKind::Plus, Some(resampler)) => {
                Self::Plus(Resampler::load(params, sizes, resampler))
            }
            (AdapterKind::FullFace, _) => Self::FullFace(FullFace::load(params, sizes)),
            _ => Self::Plain(Plain::load(params, sizes)),
        }
    }

    pub fn forward(&self, features: Tensor<3>) -> Tensor<3> {
        match self {
            Self::Plain(projector) => projector.forward(features),
            Self::FullFace(projector) => projector.forward(features),
            Self::Plus(projector) => projector.forward(features),
        }
    }
}

/// diffusers' `ImageProjection`: several tokens of one row.
#[derive(Module, Debug)]
pub(super) struct Plain {
    proj: Linear,
    norm: LayerNorm,
    width: usize,
}

impl Plain {
    fn load(mut params: Params, [input, width]: [usize; 2]) -> Self {
        Self {
            proj: Linear::load(params.pp("proj"), input, PLAIN_TOKENS * width, true),
            norm: LayerNorm::load(params.pp("norm"), width, EPS),
            width,
        }
    }

    fn forward(&self, features: Tensor<3>) -> Tensor<3> {
        let [batch, rows, _] = features.dims();
        let x = self.proj.forward(features.cast(self.proj.dtype()));
        let x = x.reshape([batch, rows * PLAIN_TOKENS, self.width]);
        self.norm.forward(x)
    }
}

/// diffusers' `IPAdapterFullImageProjection`: a token of each row.
#[derive(Module, Debug)]
pub(super) struct FullFace {
    input: Linear,
    output: Linear,
    norm: LayerNorm,
}

impl FullFace {
    fn load(params: Params, [input, width]: [usize; 2]) -> Self {
        let mut params = params;
        let mut params = params.pp("proj");
        Self {
            input: Linear::load(params.pp("0"), input, input, true),
            output: Linear::load(params.pp("2"), input, width, true),
            norm: LayerNorm::load(params.pp("3"), width, EPS),
        }
    }

    fn forward(&self, features: Tensor<3>) -> Tensor<3> {
        let x = self.input.forward(features.cast(self.input.dtype()));
        self.norm.forward(self.output.forward(kernels::gelu(x)))
    }
}

/// diffusers' `IPAdapterPlusImageProjection` (Perceiver, Jaegle et al. 2021; Flamingo, Alayrac et al. 2022): learned
/// queries that look at all rows and at each other.
#[derive(Module, Debug)]
pub(super) struct Resampler {
    latents: Param<Tensor<3>>,
    proj_in: Linear,
    layers: Vec<ResamplerLayer>,
    proj_out: Linear,
    norm_out: LayerNorm,
}

#[derive(Module, Debug)]
struct ResamplerLayer {
    norm1: LayerNorm,
    norm2: LayerNorm,
    to_q: Linear,
    /// Keys, then values.
    to_kv: Linear,
    to_out: Linear,
    heads: usize,
    norm: LayerNorm,
    wide: Linear,
    narrow: Linear,
}

impl Resampler {
    fn load(mut params: Params, [input, output]: [usize; 2], sizes: &ResamplerConfig) -> Self {
        let width = sizes.width;
        let mut layers = params.pp("layers");
        let layers = (0..sizes.depth)
            .map(|i| ResamplerLayer::load(layers.pp(i), width, sizes.heads))
            .collect();
        Self {
            latents: params.tensor("latents", [1, sizes.latents, width]),
            proj_in: Linear::load(params.pp("proj_in"), input, width, true),
            layers,
            proj_out: Linear::load(params.pp("proj_out"), width, output, true),
            norm_out: LayerNorm::load(params.pp("norm_out"), output, EPS),
        }
    }

    fn forward(&self, features: Tensor<3>) -> Tensor<3> {
        let x = self.proj_in.forward(features.cast(self.proj_in.dtype()));
        let [batch, ..] = x.dims();
        let latents = self.latents.val();
        let [_, count, width] = latents.dims();
        let latents = latents.expand([batch, count, width]);
        let layers = self.layers.iter();
        let latents = layers.fold(latents, |latents, layer| layer.forward(&x, latents));
        self.norm_out.forward(self.proj_out.forward(latents))
    }
}

impl ResamplerLayer {
    fn load(mut params: Params, width: usize, heads: usize) -> Self {
        let inner = heads * HEAD;
        let mut attention = params.pp("0");
        let norm1 = LayerNorm::load(attention.pp("norm1"), width, EPS);
        let norm2 = LayerNorm::load(attention.pp("norm2"), width, EPS);
        let to_q = Linear::load(attention.pp("to_q"), width, inner, false);
        let to_kv = Linear::load(attention.pp("to_kv"), width, 2 * inner, false);
        let to_out = Linear::load(attention.pp("to_out"), inner, width, false);
        let mut feed = params.pp("1");
        Self {
            norm1,
            norm2,
            to_q,
            to_kv,
            to_out,
            heads,
            norm: LayerNorm::load(feed.pp("0"), width, EPS),
            wide: Linear::load(feed.pp("1"), width, 4 * width, false),
            narrow: Linear::load(feed.pp("3"), 4 * width, width, false),
        }
    }

    /// The queries `latents` `[B, T, W]` look at `x` `[B, rows, W]`, which stays what it is.
    fn forward(&self, x: &Tensor<3>, latents: Tensor<3>) -> Tensor<3> {
        let heads = self.heads;
        let asking = self.norm2.forward(latents.clone());
        let seen = Tensor::cat(vec![self.norm1.forward(x.clone()), asking.clone()], 1);
        let query = kernels::split_heads(self.to_q.forward(asking), HEAD, 0..heads);
        let seen = self.to_kv.forward(seen);
        let key = kernels::split_heads(seen.clone(), HEAD, 0..heads);
        let value = kernels::split_heads(seen, HEAD, heads..2 * heads);
        let y = kernels::attention(query, key, value);
        let [batch, _, count, _] = y.dims();
        let y = y.swap_dims(1, 2).reshape([batch, count, heads * HEAD]);
        let latents = self.to_out.forward_onto(y, latents);
        let h = self.wide.forward(self.norm.forward(latents.clone()));
        self.narrow.forward_onto(kernels::gelu(h), latents)
    }
}
