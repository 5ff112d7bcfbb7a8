//! Attention, the one place where it happens, and the hook that lets an observer see its
//! probabilities.
//!
//! Layers that nobody asks about take the fused path; only a layer that an [`AttentionProbe`] wants
//! forms its probabilities.

use burn::prelude::*;
use burn::tensor::DType;
use prepose_kernels as kernels;

use crate::layers::Linear;
use crate::params::Params;

/// Where in the UNet a layer stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// In `down_blocks`.
    Down,
    /// In `mid_block`.
    Mid,
    /// In `up_blocks`.
    Up,
}

/// One cross-attention layer during one forward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayerInfo<'a> {
    /// Its name in the checkpoint, such as `down_blocks.1.attentions.0.transformer_blocks.0.attn2`.
    pub name: &'a str,
    /// Where it stands.
    pub place: Place,
    /// Which cross-attention layer it is, counted from 0 in the order of execution.
    pub index: usize,
    /// Height of the feature map that asks, in feature pixels.
    pub height: usize,
    /// Width of the feature map that asks, in feature pixels.
    pub width: usize,
    /// Number of heads.
    pub heads: usize,
    /// Number of text tokens that are asked about.
    pub tokens: usize,
}

/// An observer of cross-attention.
pub trait AttentionProbe {
    /// Whether the probabilities of this layer are wanted. Asked once per layer and pass.
    fn wants(&self, layer: &LayerInfo) -> bool;

    /// The probabilities `[B, heads, height · width, tokens]` of a wanted layer, rows of the feature
    /// map first. They sum to 1 over the tokens. Under autodiff they carry their graph.
    fn record(&mut self, layer: &LayerInfo, probabilities: Tensor<4>);
}

/// The observer that wants nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoProbe;

impl AttentionProbe for NoProbe {
    fn wants(&self, _layer: &LayerInfo) -> bool {
        false
    }

    fn record(&mut self, _layer: &LayerInfo, _probabilities: Tensor<4>) {}
}

/// The keys and values `[B, heads, tokens, D]` of one cross-attention layer for one context.
#[derive(Debug, Clone)]
pub(crate) struct KeyValue {
    pub key: Tensor<4>,
    pub value: Tensor<4>,
}

impl KeyValue {
    pub fn tokens(&self) -> usize {
        self.key.dims()[2]
    }

    /// The rows `start..start + count` of the batch.
    pub fn narrow(&self, start: usize, count: usize) -> Self {
        let narrow = |x: &Tensor<4>| x.clone().narrow(0, start, count);
        Self {
            key: narrow(&self.key),
            value: narrow(&self.value),
        }
    }
}

/// What an attention layer looks like in a checkpoint.
pub(crate) struct AttentionShape {
    /// Channels of what asks and of the result.
    pub query_dim: usize,
    /// Channels of what is asked about.
    pub context_dim: usize,
    pub heads: usize,
    /// Whether the query, key and value projections have a bias. The output projection has one.
    pub qkv_bias: bool,
    /// Names of the query, key, value and output projections.
    pub names: [&'static str; 4],
    /// Compute scores and result in f32 whatever the type of the weights.
    pub upcast: bool,
}

/// The names of diffusers' attention layers.
pub(crate) const DIFFUSERS_NAMES: [&str; 4] = ["to_q", "to_k", "to_v", "to_out.0"];

/// Multi-head attention with its projections.
#[derive(Module, Debug)]
pub(crate) struct Attention {
    to_q: Linear,
    to_k: Linear,
    to_v: Linear,
    to_out: Linear,
    heads: usize,
    upcast: bool,
}

impl Attention {
    pub fn load(mut params: Params, shape: &AttentionShape) -> Self {
        let AttentionShape {
            query_dim,
            context_dim,
            heads,
            qkv_bias,
            names,
            upcast,
        } = *shape;
        let [q, k, v, out] = names;
        Self {
            to_q: Linear::load(params.pp(q), query_dim, query_dim, qkv_bias),
            to_k: Linear::load(params.pp(k), context_dim, query_dim, qkv_bias),
            to_v: Linear::load(params.pp(v), context_dim, query_dim, qkv_bias),
            to_out: Linear::load(params.pp(out), query_dim, query_dim, true),
            heads,
            upcast,
        }
    }

    pub fn heads(&self) -> usize {
        self.heads
    }

    /// `x` `[B, N, C]` attends to itself.
    pub fn to_self(&self, x: Tensor<3>) -> Tensor<3> {
        let [query, key, value] = self.project(x);
        self.finish(kernels::attention(query, key, value))
    }

    /// `x` `[B, N, C]` attends to itself, each position to itself and those before it.
    pub fn to_past(&self, x: Tensor<3>) -> Tensor<3> {
        let [query, key, value] = self.project(x);
        self.finish(kernels::causal_attention(query, key, value))
    }

    /// Queries, keys and values `[B, heads, N, D]` of `x` `[B, N, C]` for itself.
    pub fn project(&self, x: Tensor<3>) -> [Tensor<4>; 3] {
        let KeyValue { key, value } = self.keys_values(x.clone());
        [self.queries(x), key, value]
    }

    /// Queries `[B, heads, N, D]` of `x` `[B, N, C]`.
    pub fn queries(&self, x: Tensor<3>) -> Tensor<4> {
        self.split_heads(self.to_q.forward(x))
    }

    /// Keys and values of a context `[B, M, context_dim]`.
    pub fn keys_values(&self, context: Tensor<3>) -> KeyValue {
        let context = context.cast(self.to_k.dtype());
        KeyValue {
            key: self.split_heads(self.to_k.forward(context.clone())),
            value: self.split_heads(self.to_v.forward(context)),
        }
    }

    /// `[B, N, heads · D]` to `[B, heads, N, D]`.
    fn split_heads(&self, x: Tensor<3>) -> Tensor<4> {
        let [batch, n, channels] = x.dims();
        let x = if self.upcast { x.cast(DType::F32) } else { x };
        x.reshape([batch, n, self.heads, channels / self.heads])
            .swap_dims(1, 2)
    }

    /// `[B, heads, N, D]` to `[B, N, heads · D]`, in the type of the weights.
    fn join_heads(&self, y: Tensor<4>) -> Tensor<3> {
        let [batch, heads, n, d] = y.dims();
        let y = y.swap_dims(1, 2).reshape([batch, n, heads * d]);
        y.cast(self.to_out.dtype())
    }

    /// Joins the heads of an attention's result `[B, heads, N, D]` and projects it.
    pub fn finish(&self, y: Tensor<4>) -> Tensor<3> {
        self.to_out.forward(self.join_heads(y))
    }

    /// The gradient to the input of [`Self::finish`] from that of its result.
    pub fn finish_input_grad(&self, grad: Tensor<3>) -> Tensor<4> {
        self.split_heads(self.to_out.input_grad(grad))
    }

    /// The gradient to the input of [`Self::queries`] from that of its result.
    pub fn queries_input_grad(&self, grad: Tensor<4>) -> Tensor<3> {
        self.to_q.input_grad(self.join_heads(grad))
    }

    /// The gradient to the input of [`Self::project`] from those of its results.
    pub fn project_input_grad(
        &self,
        (query, key, value): (Tensor<4>, Tensor<4>, Tensor<4>),
    ) -> Tensor<3> {
        let query = self.queries_input_grad(query);
        let key = self.to_k.input_grad(self.join_heads(key));
        let value = self.to_v.input_grad(self.join_heads(value));
        query + key + value
    }
}
