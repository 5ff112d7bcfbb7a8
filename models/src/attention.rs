//! Attention, the one place where it happens, and the hook that lets an observer see its
//! probabilities.
//!
//! Layers that nobody asks about take the fused path; only a layer that an [`AttentionProbe`] wants
//! forms its probabilities.

use std::ops::Range;

use burn::prelude::*;
use burn::tensor::DType;
use prepose_kernels as kernels;

use crate::layers::Linear;
use crate::params::{Gate, Params};

/// Where in the UNet a layer stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// In `down_blocks`, on the way to lower resolutions.
    Down,
    /// In `mid_block`, at the lowest resolution.
    Mid,
    /// In `up_blocks`, on the way back.
    Up,
}

/// One cross-attention layer during one forward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayerInfo<'a> {
    /// Its name in the checkpoint, such as `down_blocks.1.attentions.0.transformer_blocks.0.attn2`.
    pub name: &'a str,
    /// The part of the UNet that it is in.
    pub place: Place,
    /// Which cross-attention layer it is, counted from 0 in the order of execution.
    pub index: usize,
    /// Height of the feature map that asks, in feature pixels.
    pub height: usize,
    /// Width of the feature map that asks, in feature pixels.
    pub width: usize,
    /// Heads, each of which has its own map.
    pub heads: usize,
    /// Number of text tokens that are asked about.
    pub tokens: usize,
}

/// An observer of cross-attention.
pub trait AttentionProbe: Send {
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
    pub channels: usize,
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

/// Multi-head attention of a sequence to itself. Queries, keys and values come from one product: three smaller ones
/// would read the same input three times, and leave more of a GPU idle in their last round each.
#[derive(Module, Debug)]
pub(crate) struct SelfAttention {
    /// `[3 · C, C]`.
    to_qkv: Linear,
    output: Output,
}

impl SelfAttention {
    pub fn load(mut params: Params, shape: &AttentionShape) -> Self {
        Self::load_scaled(&mut params, shape, None)
    }

    /// One whose result is `gate` times what the checkpoint's would be.
    pub fn load_gated(mut params: Params, shape: &AttentionShape, gate: &Gate) -> Self {
        Self {
            to_qkv: Self::load_projections(&mut params, shape),
            output: Output::load(params.pp(shape.names[3]).gated(gate), shape, None),
        }
    }

    /// As [`Self::load`]; the result's channels are multiplied by `scale`, if given.
    pub fn load_scaled(params: &mut Params, shape: &AttentionShape, scale: Option<&[f32]>) -> Self {
        Self {
            to_qkv: Self::load_projections(params, shape),
            output: Output::load(params.pp(shape.names[3]), shape, scale),
        }
    }

    fn load_projections(params: &mut Params, shape: &AttentionShape) -> Linear {
        let channels = shape.channels;
        let projections = shape.names[..3].iter().map(|&name| (name, channels));
        let projections: Vec<_> = projections.collect();
        Linear::load_stacked(params, &projections, channels, shape.qkv_bias)
    }

    /// `x` `[B, N, C]` attends to itself; the result is added `onto` `[B, N, C]`.
    pub fn forward(&self, x: Tensor<3>, onto: Tensor<3>) -> Tensor<3> {
        let [query, key, value] = self.project(x);
        self.finish(kernels::attention(query, key, value), onto)
    }

    /// As [`Self::forward`], each position attending to itself and those before it.
    pub fn forward_causal(&self, x: Tensor<3>, onto: Tensor<3>) -> Tensor<3> {
        let [query, key, value] = self.project(x);
        self.finish(kernels::causal_attention(query, key, value), onto)
    }

    /// Queries, keys and values `[B, heads, N, D]` of `x` `[B, N, C]`, parts of one tensor.
    pub fn project(&self, x: Tensor<3>) -> [Tensor<4>; 3] {
        let joined = self.to_qkv.forward(x);
        let heads = self.output.heads;
        [0, 1, 2].map(|part| {
            self.output
                .split_heads(&joined, part * heads..(part + 1) * heads)
        })
    }

    /// Joins the heads of an attention's result `[B, heads, N, D]`, projects it, and adds it `onto` `[B, N, C]`.
    pub fn finish(&self, y: Tensor<4>, onto: Tensor<3>) -> Tensor<3> {
        self.output.forward(y, onto)
    }

    /// The gradient to the input of [`Self::finish`] from that of its result.
    pub fn finish_input_grad(&self, grad: Tensor<3>) -> Tensor<4> {
        self.output.input_grad(grad)
    }

    /// The gradient to the input of [`Self::project`] from those of its results.
    pub fn project_input_grad(&self, grads: [Tensor<4>; 3]) -> Tensor<3> {
        let [query, key, value] = grads.map(|grad| self.output.join_heads(grad));
        let channels = query.dims()[2];
        let of_part = |part: usize, grad| self.to_qkv.rows_input_grad(grad, part * channels);
        let of_query_and_key = kernels::add(of_part(0, query), of_part(1, key));
        kernels::add(of_query_and_key, of_part(2, value))
    }
}

/// Multi-head attention to a context that stays what it is while the queries change.
#[derive(Module, Debug)]
pub(crate) struct ContextAttention {
    to_q: Linear,
    to_k: Linear,
    to_v: Linear,
    output: Output,
}

impl ContextAttention {
    /// `context` is the number of channels of what is asked about.
    pub fn load(mut params: Params, shape: &AttentionShape, context: usize) -> Self {
        let (channels, bias) = (shape.channels, shape.qkv_bias);
        let [q, k, v, out] = shape.names;
        Self {
            to_q: Linear::load(params.pp(q), channels, channels, bias),
            to_k: Linear::load(params.pp(k), context, channels, bias),
            to_v: Linear::load(params.pp(v), context, channels, bias),
            output: Output::load(params.pp(out), shape, None),
        }
    }

    pub fn heads(&self) -> usize {
        self.output.heads
    }

    /// Queries `[B, heads, N, D]` of `x` `[B, N, C]`.
    pub fn queries(&self, x: Tensor<3>) -> Tensor<4> {
        self.output.split_all_heads(self.to_q.forward(x))
    }

    /// Keys and values of a context `[B, M, context]`.
    pub fn keys_values(&self, context: Tensor<3>) -> KeyValue {
        let context = context.cast(self.to_k.dtype());
        KeyValue {
            key: self
                .output
                .split_all_heads(self.to_k.forward(context.clone())),
            value: self.output.split_all_heads(self.to_v.forward(context)),
        }
    }

    /// Joins the heads of an attention's result `[B, heads, N, D]`, projects it, and adds it `onto` `[B, N, C]`.
    pub fn finish(&self, y: Tensor<4>, onto: Tensor<3>) -> Tensor<3> {
        self.output.forward(y, onto)
    }

    /// The gradient to the input of [`Self::finish`] from that of its result.
    pub fn finish_input_grad(&self, grad: Tensor<3>) -> Tensor<4> {
        self.output.input_grad(grad)
    }

    /// The gradient to the input of [`Self::queries`] from that of its result.
    pub fn queries_input_grad(&self, grad: Tensor<4>) -> Tensor<3> {
        self.to_q.input_grad(self.output.join_heads(grad))
    }
}

/// The heads of an attention layer, and the projection of what they found.
#[derive(Module, Debug)]
struct Output {
    projection: Linear,
    heads: usize,
    upcast: bool,
}

impl Output {
    /// `projection` is its place.
    fn load(projection: Params, shape: &AttentionShape, scale: Option<&[f32]>) -> Self {
        let channels = shape.channels;
        Self {
            projection: Linear::load_scaled(projection, channels, channels, scale),
            heads: shape.heads,
            upcast: shape.upcast,
        }
    }

    /// `[B, heads, N, D]` to `[B, N, C]`, added `onto` that.
    fn forward(&self, y: Tensor<4>, onto: Tensor<3>) -> Tensor<3> {
        self.projection.forward_onto(self.join_heads(y), onto)
    }

    /// The gradient to the input of [`Self::forward`] from that of its result.
    fn input_grad(&self, grad: Tensor<3>) -> Tensor<4> {
        self.split_all_heads(self.projection.input_grad(grad))
    }

    /// `[B, N, heads · D]` to `[B, heads, N, D]`.
    fn split_all_heads(&self, x: Tensor<3>) -> Tensor<4> {
        self.split_heads(&x, 0..self.heads)
    }

    /// These heads of `x` `[B, N, some · D]`, where heads are as wide as here.
    fn split_heads(&self, x: &Tensor<3>, heads: Range<usize>) -> Tensor<4> {
        let [channels, _] = self.projection.shape();
        let x = kernels::split_heads(x.clone(), channels / self.heads, heads);
        if self.upcast { x.cast(DType::F32) } else { x }
    }

    /// `[B, heads, N, D]` to `[B, N, heads · D]`, in the type of the weights.
    fn join_heads(&self, y: Tensor<4>) -> Tensor<3> {
        let [batch, heads, n, d] = y.dims();
        let y = y.swap_dims(1, 2).reshape([batch, n, heads * d]);
        y.cast(self.projection.dtype())
    }
}
