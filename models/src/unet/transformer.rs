//! The transformers of the UNet: self-attention, attention to the text, and a gated feed-forward.

use burn::module::Param;
use burn::prelude::*;
use prepose_kernels as kernels;

use super::feed_forward::FeedForward;
use super::grounding::{Fuser, Kept};
use super::merging::Merging;
use super::pass::{Pass, Tape};
use crate::attention::{
    AttentionShape, ContextAttention, DIFFUSERS_NAMES, KeyValue, SelfAttention,
};
use crate::ip_adapter::PictureLayer;
use crate::layers::{GroupNorm, LayerNorm};
use crate::low_rank::LowRank;
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
    /// Width of GLIGEN's object tokens, in a network that has its layers.
    pub objects: Option<usize>,
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
    pub fn cross_attentions(&self) -> impl Iterator<Item = &ContextAttention> {
        self.transformer_blocks.iter().map(|block| &block.attn2)
    }

    pub fn blocks(&self) -> &[TransformerBlock] {
        &self.transformer_blocks
    }

    /// Feature maps `[B, C, H, W]` to tokens `[B, H, W, C]`.
    pub fn enter(&self, x: Tensor<4>) -> Tensor<4> {
        let [batch, channels, height, width] = x.dims();
        let tokens = self.proj_in.map_to_tokens(self.norm.forward(x));
        tokens.reshape([batch, height, width, channels])
    }

    /// The gradient to the input `x` of [`Self::enter`] from that of its result.
    pub fn enter_input_grad(&self, grad: Tensor<4>, x: Tensor<4>) -> Tensor<4> {
        let grad = self.proj_in.map_to_tokens_input_grad(grad);
        self.norm.input_grad(grad, x)
    }

    /// Tokens `[B, H, W, C]` to feature maps `[B, C, H, W]`, added `onto` those that entered.
    pub fn leave(&self, x: Tensor<4>, onto: Tensor<4>) -> Tensor<4> {
        self.proj_out.tokens_to_map(x, onto)
    }

    /// The gradient to the input of [`Self::leave`] from that of its result.
    pub fn leave_input_grad(&self, grad: Tensor<4>) -> Tensor<4> {
        self.proj_out.tokens_to_map_input_grad(grad)
    }
}

/// One affine map of the channels at every position, stored as a linear layer or as a 1×1
/// convolution: the same numbers in either case, so it is applied in whichever form needs no copy.
#[derive(Module, Debug)]
struct Projection {
    weight: Param<Tensor<2>>,
    bias: Param<Tensor<1>>,
    /// What is trained beside a frozen weight.
    #[module(skip)]
    branch: Option<LowRank>,
}

impl Projection {
    fn load(mut params: Params, channels: usize, linear: bool) -> Self {
        let shape = [channels, channels];
        let stored = [channels, channels, 1, 1];
        let stored = if linear { &stored[..2] } else { &stored[..] };
        Self {
            weight: params.tensor_stored("weight", stored, shape),
            bias: params.tensor("bias", [channels]),
            branch: params.low_rank().map(LowRank::new),
        }
    }

    /// `[B, C, H, W]` to `[B, H · W, C]`.
    fn map_to_tokens(&self, x: Tensor<4>) -> Tensor<3> {
        let x = kernels::picture_to_tokens(x);
        let (weight, bias) = (self.weight.val(), Some(self.bias.val()));
        match &self.branch {
            None => kernels::linear(x, weight, bias),
            Some(branch) => branch.onto(x.clone(), kernels::linear(x, weight, bias)),
        }
    }

    /// `[B, H, W, C]` to `[B, C, H, W]`, added `onto` that.
    fn tokens_to_map(&self, x: Tensor<4>, onto: Tensor<4>) -> Tensor<4> {
        let x = x.permute([0, 3, 1, 2]);
        let bias = Some(self.bias.val());
        match &self.branch {
            None => kernels::pointwise_onto(x, self.kernel(), bias, onto),
            Some(branch) => {
                let y = kernels::pointwise_onto(x.clone(), self.kernel(), bias, onto);
                branch.pixels_onto(x, y)
            }
        }
    }

    /// The gradient to the input of [`Self::map_to_tokens`], `[B, C, H, W]`, from that of its result
    /// as `[B, H, W, C]`.
    fn map_to_tokens_input_grad(&self, grad: Tensor<4>) -> Tensor<4> {
        let grad = grad.permute([0, 3, 1, 2]);
        let shape = grad.dims();
        match &self.branch {
            None => kernels::conv2d_input_grad(grad, self.kernel(), shape, 1, 0),
            Some(branch) => {
                let inner = branch.pixels_input_grad(grad.clone());
                kernels::conv2d_input_grad(grad, self.kernel(), shape, 1, 0) + inner
            }
        }
    }

    /// The gradient to the input of [`Self::tokens_to_map`] from that of its result.
    fn tokens_to_map_input_grad(&self, grad: Tensor<4>) -> Tensor<4> {
        let [batch, channels, height, width] = grad.dims();
        let grad = kernels::picture_to_tokens(grad);
        let weight = self.weight.val();
        let grad = match &self.branch {
            None => kernels::linear_input_grad(grad, weight),
            Some(branch) => {
                let inner = branch.input_grad(grad.clone(), 0);
                kernels::linear_input_grad(grad, weight) + inner
            }
        };
        grad.reshape([batch, height, width, channels])
    }

    /// The weight of the 1×1 convolution.
    fn kernel(&self) -> Tensor<4> {
        kernels::pointwise_kernel(self.weight.val())
    }
}

/// diffusers' `BasicTransformerBlock` with its default options.
#[derive(Module, Debug)]
pub(crate) struct TransformerBlock {
    norm1: LayerNorm,
    attn1: SelfAttention,
    fuser: Option<Fuser>,
    norm2: LayerNorm,
    attn2: ContextAttention,
    norm3: LayerNorm,
    ff: FeedForward,
}

/// What a block attended to besides the feature map, for its gradient.
#[derive(Clone, Copy)]
pub(crate) struct Known<'a> {
    pub text: &'a KeyValue,
    pub pictures: &'a [PictureLayer],
    /// Whether GLIGEN's layer knew of objects.
    pub grounded: bool,
}

impl TransformerBlock {
    fn load(mut params: Params, options: TransformerOptions) -> Self {
        let channels = options.channels;
        const EPS: f64 = 1e-5;
        let attention = AttentionShape {
            channels,
            heads: options.heads,
            qkv_bias: false,
            names: DIFFUSERS_NAMES,
            upcast: options.upcast,
        };
        Self {
            norm1: LayerNorm::load(params.pp("norm1"), channels, EPS),
            attn1: SelfAttention::load(params.pp("attn1"), &attention),
            fuser: (options.objects)
                .map(|width| Fuser::load(params.pp("fuser"), &attention, width)),
            norm2: LayerNorm::load(params.pp("norm2"), channels, EPS),
            attn2: ContextAttention::load(params.pp("attn2"), &attention, options.context_dim),
            norm3: LayerNorm::load(params.pp("norm3"), channels, EPS),
            ff: FeedForward::load(params.pp("ff"), channels),
        }
    }

    pub fn fuser(&self) -> Option<&Fuser> {
        self.fuser.as_ref()
    }

    /// Tokens `[B, H, W, C]` to the same. `None` if the pass ends in this block.
    pub fn forward(&self, x: Tensor<4>, layer: usize, pass: &mut Pass) -> Option<Tensor<4>> {
        let shape = x.dims();
        let (x, gate) = self.open(x, layer, pass)?;
        let x = self.ff.close(gate, x);
        Some(x.reshape(shape))
    }

    /// Up to the gate of the feed-forward, which is all that the gradient needs: the feed-forward's
    /// residual and the gate's input. `None` if the pass ends in this block, whose attention to the
    /// text is number `layer`.
    pub fn open(
        &self,
        x: Tensor<4>,
        layer: usize,
        pass: &mut Pass,
    ) -> Option<(Tensor<3>, Tensor<3>)> {
        pass.keep(&x);
        let [_, height, width, _] = x.dims();
        let x = tokens(x);
        let merging = pass.merging(&x, [height, width]);
        pass.keep(&merging);
        let normed = self.norm1.forward(x.clone());
        let normed = match &merging {
            Some(merging) => merging.merge(normed),
            None => normed,
        };
        let [query, key, value] = self.attn1.project(normed);
        pass.keep(&query);
        pass.keep(&key);
        pass.keep(&value);
        let y = kernels::attention(query, key, value);
        pass.keep(&y);
        let mut x = match &merging {
            Some(merging) => {
                let [batch, heads, merged, width] = y.dims();
                let nothing = [batch, merged, heads * width];
                let nothing = Tensor::zeros(nothing, (&x.device(), x.dtype()));
                merging.spread(self.attn1.finish(y, nothing)) + x
            }
            None => self.attn1.finish(y, x),
        };
        if let (Some(fuser), Some(objects)) = (&self.fuser, pass.objects) {
            x = fuser.forward(x, &objects[layer], pass);
        }

        let x = match pass.taken(layer) {
            Some(taken) => {
                if pass.wanted[layer] {
                    let query = self.attn2.queries(self.norm2.forward(x.clone()));
                    pass.observe(layer, query);
                }
                x + taken
            }
            None => {
                pass.keep(&x);
                let query = self.attn2.queries(self.norm2.forward(x.clone()));
                pass.keep(&query);
                pass.cross_attention(layer, &self.attn2, query, x)?
            }
        };

        pass.keep(&x);
        let gate = self.ff.open(self.norm3.forward(x.clone()));
        pass.keep(&gate);
        Some((x, gate))
    }

    /// The gradient to the input from that of the output, if any, and that of the probabilities, if
    /// any, in the attention to the text. `None` if there is neither.
    pub fn input_grad(
        &self,
        grad: Option<Tensor<4>>,
        grad_probabilities: Option<Tensor<4>>,
        known: Known,
        mut tape: Tape,
    ) -> Option<Tensor<4>> {
        let x: Tensor<4> = tape.read();
        let shape = x.dims();
        let merging: Option<Merging> = tape.read();
        let [query, key, value, y] = [(); 4].map(|()| tape.read());
        let fuser = self.fuser.as_ref().filter(|_| known.grounded);
        let fused = fuser.map(|fuser| (fuser, Kept::read(&mut tape)));
        let (x2, query2): (_, Tensor<4>) = (tape.read(), tape.read());

        let grad = grad.map(|grad| {
            let (grad, x3) = (tokens(grad), tape.read());
            let inner = self.ff.input_grad(grad.clone(), tape.read());
            kernels::add(self.norm3.input_grad(inner, x3), grad)
        });

        if grad.is_none() && grad_probabilities.is_none() {
            return None;
        }
        let inner = grad.clone();
        let inner = inner.map(|grad| self.attn2.finish_input_grad(grad));
        let of_pictures = inner.as_ref().and_then(|inner| {
            let grads = known.pictures.iter();
            let grads = grads.map(|picture| picture.query_grad(inner.clone(), query2.clone()));
            grads.reduce(|a, b| a + b)
        });
        let (key2, value2) = (known.text.key.clone(), known.text.value.clone());
        let inner = kernels::attention_query_grad(inner, grad_probabilities, query2, key2, value2);
        let inner = match of_pictures {
            Some(of_pictures) => inner + of_pictures,
            None => inner,
        };
        let inner = self.attn2.queries_input_grad(inner);
        let inner = self.norm2.input_grad(inner, x2);
        let grad = match grad {
            Some(grad) => kernels::add(inner, grad),
            None => inner,
        };
        let grad = match fused {
            Some((fuser, kept)) => fuser.input_grad(grad, kept),
            None => grad,
        };

        let inner = match &merging {
            Some(merging) => merging.spread_input_grad(grad.clone()),
            None => grad.clone(),
        };
        let inner = self.attn1.finish_input_grad(inner);
        let (query, key, value) = kernels::attention_input_grads(inner, query, key, value, y);
        let inner = self.attn1.project_input_grad([query, key, value]);
        let inner = match &merging {
            Some(merging) => merging.merge_input_grad(inner),
            None => inner,
        };
        let grad = kernels::add(self.norm1.input_grad(inner, tokens(x)), grad);
        Some(grad.reshape(shape))
    }
}

/// `[B, H, W, C]` to `[B, H · W, C]`.
fn tokens(x: Tensor<4>) -> Tensor<3> {
    let [batch, height, width, channels] = x.dims();
    if kernels::prefers_channels_last(&x.device()) {
        // A view even where memory has gaps between the tokens, for which a change of shape would copy.
        return kernels::picture_to_tokens(x.permute([0, 3, 1, 2]));
    }
    x.reshape([batch, height * width, channels])
}
