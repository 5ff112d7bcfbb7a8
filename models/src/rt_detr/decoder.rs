//! Layers that move boxes to objects.

use burn::prelude::*;
use burn::tensor::activation::{relu, sigmoid};

use super::config::{LEVELS, RtDetrConfig};
use super::encoder::ATTENTION;
use crate::detr::{
    DeformableAttention, DeformableShape, Mlp, MultiHead, Reference, inverse_sigmoid,
};
use crate::layers::{LayerNorm, Linear};
use crate::params::Params;

/// How near to 0 and 1 coordinates may come before their logits are taken.
const EPS: f64 = 1e-5;

/// One layer of the decoder, with its head for boxes.
#[derive(Module, Debug)]
struct DecoderLayer {
    own: MultiHead,
    own_norm: LayerNorm,
    vision: DeformableAttention,
    vision_norm: LayerNorm,
    inner: Linear,
    outer: Linear,
    norm: LayerNorm,
    boxes: Mlp,
}

impl DecoderLayer {
    fn load(params: &mut Params, config: &RtDetrConfig, i: usize) -> Self {
        let (channels, inner) = (config.d_model, config.decoder_ffn_dim);
        let (eps, heads) = (config.layer_norm_eps, config.decoder_attention_heads);
        let shape = DeformableShape {
            channels,
            heads,
            levels: LEVELS,
            points: config.decoder_n_points,
            offset_scale: config.decoder_offset_scale,
        };
        let widths = [channels, channels, channels, 4];
        let boxes = Mlp::load(params.pp(format!("bbox_embed.{i}")), &widths);
        let mut params = params.pp(format!("layers.{i}"));
        Self {
            own: MultiHead::load(&mut params.pp("self_attn"), ATTENTION, channels, heads),
            own_norm: LayerNorm::load(params.pp("self_attn_layer_norm"), channels, eps),
            vision: DeformableAttention::load(params.pp("encoder_attn"), shape),
            vision_norm: LayerNorm::load(params.pp("encoder_attn_layer_norm"), channels, eps),
            inner: Linear::load(params.pp("fc1"), channels, inner, true),
            outer: Linear::load(params.pp("fc2"), inner, channels, true),
            norm: LayerNorm::load(params.pp("final_layer_norm"), channels, eps),
            boxes,
        }
    }

    fn forward(
        &self,
        x: Tensor<3>,
        places: Tensor<3>,
        boxes: Tensor<3>,
        seen: (Tensor<3>, &[[usize; 2]]),
    ) -> Tensor<3> {
        let looks = x.clone() + places.clone();
        let mixed = self.own.forward(looks.clone(), looks, x.clone(), None);
        let x = self.own_norm.forward(x + mixed);
        let looks = x.clone() + places;
        let (tokens, sizes) = seen;
        let mixed = (self.vision).forward(looks, tokens, sizes, Reference::Boxes(&boxes));
        let x = self.vision_norm.forward(x + mixed);
        let inner = relu(self.inner.forward(x.clone()));
        self.norm.forward(self.outer.forward_onto(inner, x))
    }
}

/// The decoder with its heads.
#[derive(Module, Debug)]
pub(super) struct Decoder {
    layers: Vec<DecoderLayer>,
    places: Mlp,
    /// Behind the last layer.
    classes: Linear,
}

impl Decoder {
    pub fn load(mut params: Params, config: &RtDetrConfig) -> Self {
        let (channels, last) = (config.d_model, config.decoder_layers - 1);
        let layers = (0..config.decoder_layers)
            .map(|i| DecoderLayer::load(&mut params, config, i))
            .collect();
        Self {
            layers,
            places: Mlp::load(params.pp("query_pos_head"), &[4, 2 * channels, channels]),
            classes: Linear::load(
                params.pp(format!("class_embed.{last}")),
                channels,
                config.classes().len(),
                true,
            ),
        }
    }

    /// From queries `[B, Q, C]` at `boxes` `[B, Q, 4]` to logits of classes `[B, Q, classes]` and boxes, both of the last
    /// layer.
    pub fn forward(
        &self,
        queries: Tensor<3>,
        boxes: Tensor<3>,
        tokens: &Tensor<3>,
        sizes: &[[usize; 2]],
    ) -> (Tensor<3>, Tensor<3>) {
        let (mut x, mut boxes) = (queries, boxes);
        for layer in &self.layers {
            let places = self.places.forward(boxes.clone());
            x = layer.forward(x, places, boxes.clone(), (tokens.clone(), sizes));
            boxes = sigmoid(layer.boxes.forward(x.clone()) + inverse_sigmoid(boxes, EPS));
        }
        (self.classes.forward(x), boxes)
    }
}
