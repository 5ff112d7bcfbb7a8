//! Layers that move boxes to what the text names.

use burn::prelude::*;
use burn::tensor::activation::sigmoid;

use super::config::GroundingDinoConfig;
use super::encoder::{ATTENTION, FeedForward};
use crate::detr::{
    DeformableAttention, DeformableShape, Mlp, MultiHead, Reference, inverse_sigmoid, sine_of_boxes,
};
use crate::layers::LayerNorm;
use crate::params::Params;

/// How near to 0 and 1 coordinates may come before their logits are taken, in transformers (1e-3 in the authors' code).
const EPS: f64 = 1e-5;
/// Of the positions of boxes.
const TEMPERATURE: f32 = 10_000.0;

/// One layer of the decoder.
#[derive(Module, Debug)]
struct DecoderLayer {
    own: MultiHead,
    own_norm: LayerNorm,
    text: MultiHead,
    text_norm: LayerNorm,
    vision: DeformableAttention,
    vision_norm: LayerNorm,
    feed: FeedForward,
}

impl DecoderLayer {
    fn load(mut params: Params, config: &GroundingDinoConfig) -> Self {
        let (channels, heads) = (config.d_model, config.decoder_attention_heads);
        let eps = config.layer_norm_eps;
        let shape = DeformableShape {
            channels,
            heads,
            levels: config.num_feature_levels,
            points: config.decoder_n_points,
            offset_scale: 0.5,
        };
        let mut attention =
            |name: &str| MultiHead::load(&mut params.pp(name), ATTENTION, channels, heads);
        let (own, text) = (attention("self_attn"), attention("encoder_attn_text"));
        let vision = DeformableAttention::load(params.pp("encoder_attn"), shape);
        let mut norm = |name: &str| LayerNorm::load(params.pp(name), channels, eps);
        Self {
            own,
            own_norm: norm("self_attn_layer_norm"),
            text,
            text_norm: norm("encoder_attn_text_layer_norm"),
            vision,
            vision_norm: norm("encoder_attn_layer_norm"),
            feed: FeedForward::load(
                &mut params,
                "final_layer_norm",
                [channels, config.decoder_ffn_dim],
                eps,
            ),
        }
    }

    fn forward(&self, x: Tensor<3>, places: Tensor<3>, boxes: Tensor<3>, seen: &Seen) -> Tensor<3> {
        let looks = x.clone() + places.clone();
        let mixed = self.own.forward(looks.clone(), looks, x.clone(), None);
        let x = self.own_norm.forward(x + mixed);
        let looks = x.clone() + places.clone();
        let text = seen.text.clone();
        let mixed = self.text.forward(looks, text.clone(), text, None);
        let x = self.text_norm.forward(x + mixed);
        let looks = x.clone() + places;
        let reference = Reference::Boxes(&boxes);
        let mixed = (self.vision).forward(looks, seen.vision.clone(), seen.sizes, reference);
        self.feed.forward(self.vision_norm.forward(x + mixed))
    }
}

/// What the encoder made of text and picture.
pub(super) struct Seen<'a> {
    pub vision: Tensor<3>,
    pub text: Tensor<3>,
    pub sizes: &'a [[usize; 2]],
}

/// The decoder with its head for boxes.
#[derive(Module, Debug)]
pub(super) struct Decoder {
    layers: Vec<DecoderLayer>,
    norm: LayerNorm,
    places: Mlp,
    /// The same behind every layer.
    boxes: Mlp,
    half: usize,
}

impl Decoder {
    /// From the root of the names.
    pub fn load(params: &mut Params, config: &GroundingDinoConfig) -> Self {
        let channels = config.d_model;
        let boxes = Mlp::load(
            params.pp("bbox_embed.0"),
            &[channels, channels, channels, 4],
        );
        let mut params = params.pp("model.decoder");
        let widths = [2 * channels, channels, channels];
        Self {
            layers: (0..config.decoder_layers)
                .map(|i| DecoderLayer::load(params.pp(format!("layers.{i}")), config))
                .collect(),
            norm: LayerNorm::load(params.pp("layer_norm"), channels, config.layer_norm_eps),
            places: Mlp::load(params.pp("reference_points_head"), &widths),
            boxes,
            half: channels / 2,
        }
    }

    /// From queries `[B, Q, C]` at `boxes` `[B, Q, 4]` to their states behind the last layer and its boxes.
    pub fn forward(
        &self,
        queries: Tensor<3>,
        boxes: Tensor<3>,
        seen: &Seen,
    ) -> (Tensor<3>, Tensor<3>) {
        let (mut x, mut boxes) = (queries, boxes);
        let last = self.layers.len() - 1;
        for (i, layer) in self.layers.iter().enumerate() {
            let places = self
                .places
                .forward(sine_of_boxes(boxes.clone(), self.half, TEMPERATURE));
            x = layer.forward(x, places, boxes.clone(), seen);
            // What goes on is not normalised, what comes out is.
            let state = match i == last {
                true => self.norm.forward(x.clone()),
                false => x.clone(),
            };
            boxes = sigmoid(self.boxes.forward(state) + inverse_sigmoid(boxes, EPS));
        }
        (self.norm.forward(x), boxes)
    }
}
