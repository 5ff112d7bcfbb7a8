//! The hybrid encoder: attention within the coarsest map, then convolutions from coarse to fine and back.

use burn::prelude::*;
use prepose_kernels as kernels;

use super::config::{LEVELS, RtDetrConfig};
use crate::detr::{MultiHead, Order, sine_of_places};
use crate::layers::{LayerNorm, Linear};
use crate::params::Params;
use crate::rcnn::layers::{ConvNorm, Shape};

/// Names of the layers of an attention in this network's files.
pub(super) const ATTENTION: [&str; 4] = ["q_proj", "k_proj", "v_proj", "out_proj"];

fn conv(mut params: Params, shape: Shape, config: &RtDetrConfig) -> ConvNorm {
    ConvNorm::load_folded(&mut params, "conv", "norm", config.batch_norm_eps, shape)
}

/// Attention within the coarsest map.
#[derive(Module, Debug)]
struct AttentionLayer {
    attention: MultiHead,
    norm: LayerNorm,
    inner: Linear,
    outer: Linear,
    final_norm: LayerNorm,
}

impl AttentionLayer {
    fn load(mut params: Params, config: &RtDetrConfig) -> Self {
        let (channels, inner) = (config.encoder_hidden_dim, config.encoder_ffn_dim);
        let eps = config.layer_norm_eps;
        let heads = config.encoder_attention_heads;
        Self {
            attention: MultiHead::load(&mut params.pp("self_attn"), ATTENTION, channels, heads),
            norm: LayerNorm::load(params.pp("self_attn_layer_norm"), channels, eps),
            inner: Linear::load(params.pp("fc1"), channels, inner, true),
            outer: Linear::load(params.pp("fc2"), inner, channels, true),
            final_norm: LayerNorm::load(params.pp("final_layer_norm"), channels, eps),
        }
    }

    fn forward(&self, x: Tensor<3>, places: &Tensor<3>) -> Tensor<3> {
        let looks = x.clone() + places.clone();
        let mixed = (self.attention).forward(looks.clone(), looks, x.clone(), None);
        let x = self.norm.forward(x + mixed);
        let inner = kernels::gelu(self.inner.forward(x.clone()));
        self.final_norm.forward(self.outer.forward_onto(inner, x))
    }
}

/// Two maps, one on the other, become one (`CSPRepLayer`).
#[derive(Module, Debug)]
struct Mixing {
    deep: ConvNorm,
    shallow: ConvNorm,
    /// Of each block its convolutions of 3 × 3 and of single pixels.
    blocks: Vec<[ConvNorm; 2]>,
    out: Option<ConvNorm>,
}

impl Mixing {
    /// Blocks in a row.
    const BLOCKS: usize = 3;

    fn load(mut params: Params, config: &RtDetrConfig) -> Self {
        let (channels, hidden) = (config.encoder_hidden_dim, config.hidden());
        let block = |i: usize| {
            let mut params = params.pp(format!("bottlenecks.{i}"));
            let three = conv(params.pp("conv1"), Shape::new(hidden, hidden, 3), config);
            let one = conv(params.pp("conv2"), Shape::new(hidden, hidden, 1), config);
            [three, one]
        };
        let blocks = (0..Self::BLOCKS).map(block).collect();
        let narrow = Shape::new(2 * channels, hidden, 1);
        Self {
            deep: conv(params.pp("conv1"), narrow, config),
            shallow: conv(params.pp("conv2"), narrow, config),
            blocks,
            out: (hidden != channels)
                .then(|| conv(params.pp("conv3"), Shape::new(hidden, channels, 1), config)),
        }
    }

    fn forward(&self, first: Tensor<4>, second: Tensor<4>) -> Tensor<4> {
        let x = Tensor::cat(vec![first, second], 1);
        let deep = kernels::silu(self.deep.forward(x.clone()));
        let deep = self.blocks.iter().fold(deep, |x, [three, one]| {
            kernels::silu(three.forward(x.clone()) + one.forward(x))
        });
        let mixed = deep + kernels::silu(self.shallow.forward(x));
        match &self.out {
            Some(out) => kernels::silu(out.forward(mixed)),
            None => mixed,
        }
    }
}

/// The encoder with the projections before it.
#[derive(Module, Debug)]
pub(super) struct Encoder {
    projections: Vec<ConvNorm>,
    attention: Vec<AttentionLayer>,
    lateral: Vec<ConvNorm>,
    down: Vec<Mixing>,
    shrink: Vec<ConvNorm>,
    up: Vec<Mixing>,
    channels: usize,
    temperature: f64,
}

impl Encoder {
    /// From the names below `model`.
    pub fn load(params: &mut Params, config: &RtDetrConfig) -> Self {
        let channels = config.encoder_hidden_dim;
        let inputs = &config.backbone_config.hidden_sizes[1..];
        let project = |(i, input): (usize, &usize)| {
            let mut params = params.pp(format!("encoder_input_proj.{i}"));
            // The norm here has PyTorch's own eps.
            ConvNorm::load_folded(&mut params, "0", "1", 1e-5, Shape::new(*input, channels, 1))
        };
        let projections = inputs.iter().enumerate().map(project).collect();
        let mut params = params.pp("encoder");
        let attention = (0..config.encoder_layers)
            .map(|i| AttentionLayer::load(params.pp(format!("encoder.0.layers.{i}")), config))
            .collect();
        let steps = 0..LEVELS - 1;
        let mut convs = |name: &str, shape: Shape| {
            let steps = steps.clone();
            let load = |i| conv(params.pp(format!("{name}.{i}")), shape, config);
            steps.map(load).collect::<Vec<_>>()
        };
        let lateral = convs("lateral_convs", Shape::new(channels, channels, 1));
        let halving = Shape::new(channels, channels, 3).with_stride(2);
        let shrink = convs("downsample_convs", halving);
        let mut mixings = |name: &str| {
            let steps = steps.clone();
            let load = |i| Mixing::load(params.pp(format!("{name}.{i}")), config);
            steps.map(load).collect::<Vec<_>>()
        };
        Self {
            projections,
            attention,
            lateral,
            down: mixings("fpn_blocks"),
            shrink,
            up: mixings("pan_blocks"),
            channels,
            temperature: config.positional_encoding_temperature,
        }
    }

    /// The backbone's maps to as many with the same channels, finest first.
    pub fn forward(&self, maps: Vec<Tensor<4>>) -> Vec<Tensor<4>> {
        let projected = self.projections.iter().zip(maps);
        let mut maps: Vec<_> = projected.map(|(conv, map)| conv.forward(map)).collect();
        // From coarse to fine.
        let mut coarse: Vec<Tensor<4>> = Vec::new();
        let mut top = maps.pop().map(|map| self.attend(map));
        for (lateral, mixing) in self.lateral.iter().zip(&self.down) {
            let (Some(map), Some(fine)) = (top.take(), maps.pop()) else {
                break;
            };
            let map = kernels::silu(lateral.forward(map));
            coarse.push(map.clone());
            top = Some(mixing.forward(kernels::upsample_nearest2x(map), fine));
        }
        // And back.
        let mut all: Vec<Tensor<4>> = top.into_iter().collect();
        for (shrink, mixing) in self.shrink.iter().zip(&self.up) {
            let (Some(fine), Some(map)) = (all.last().cloned(), coarse.pop()) else {
                break;
            };
            all.push(mixing.forward(kernels::silu(shrink.forward(fine)), map));
        }
        all
    }

    /// Attention within a map.
    fn attend(&self, map: Tensor<4>) -> Tensor<4> {
        let [batch, channels, height, width] = map.dims();
        let place = |i: usize, _| i as f32;
        let places = sine_of_places(
            [height, width],
            self.channels,
            self.temperature as f32,
            Order::Halves,
            place,
            &map.device(),
        );
        let tokens = map
            .reshape([batch, channels, height * width])
            .swap_dims(1, 2);
        let layers = self.attention.iter();
        let tokens = layers.fold(tokens, |x, layer| layer.forward(x, &places));
        tokens
            .swap_dims(1, 2)
            .reshape([batch, channels, height, width])
    }
}
