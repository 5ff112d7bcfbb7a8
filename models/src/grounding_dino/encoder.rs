//! Layers that mix text and picture.

use burn::module::Param;
use burn::prelude::*;
use burn::tensor::activation::relu;
use prepose_kernels as kernels;

use super::config::GroundingDinoConfig;
use crate::detr::{DeformableAttention, DeformableShape, MultiHead, Reference};
use crate::layers::{LayerNorm, Linear};
use crate::params::Params;

/// Tokens of the picture and of the text, with what is added to those that look.
#[derive(Clone)]
pub(super) struct Scene {
    /// `[B, pixels, C]`.
    pub vision: Tensor<3>,
    /// `[B, tokens, C]`.
    pub text: Tensor<3>,
    /// `[1, pixels, C]`.
    pub vision_places: Tensor<3>,
    /// `[1, tokens, C]`.
    pub text_places: Tensor<3>,
    /// Which tokens of the text see each other, `[1, 1, tokens, tokens]`.
    pub mask: Tensor<4>,
}

/// Attention of the picture to the text and of the text to the picture with the same scores.
#[derive(Module, Debug)]
struct Fusion {
    vision_norm: LayerNorm,
    text_norm: LayerNorm,
    vision: Linear,
    text: Linear,
    vision_values: Linear,
    text_values: Linear,
    vision_out: Linear,
    text_out: Linear,
    vision_scale: Param<Tensor<1>>,
    text_scale: Param<Tensor<1>>,
    heads: usize,
}

impl Fusion {
    fn load(mut params: Params, config: &GroundingDinoConfig) -> Self {
        let (channels, inner) = (config.d_model, config.encoder_ffn_dim / 2);
        let eps = config.layer_norm_eps;
        let vision_norm = LayerNorm::load(params.pp("layer_norm_vision"), channels, eps);
        let text_norm = LayerNorm::load(params.pp("layer_norm_text"), channels, eps);
        let vision_scale = params.tensor("vision_param", [channels]);
        let text_scale = params.tensor("text_param", [channels]);
        let mut layer =
            |name: &str, from, to| Linear::load(params.pp(format!("attn.{name}")), from, to, true);
        Self {
            vision_norm,
            text_norm,
            vision: layer("vision_proj", channels, inner),
            text: layer("text_proj", channels, inner),
            vision_values: layer("values_vision_proj", channels, inner),
            text_values: layer("values_text_proj", channels, inner),
            vision_out: layer("out_vision_proj", inner, channels),
            text_out: layer("out_text_proj", inner, channels),
            vision_scale,
            text_scale,
            heads: config.encoder_attention_heads / 2,
        }
    }

    /// The picture's and the text's tokens after each looked at the other.
    fn forward(&self, vision: Tensor<3>, text: Tensor<3>) -> (Tensor<3>, Tensor<3>) {
        let vision = self.vision_norm.forward(vision);
        let text = self.text_norm.forward(text);
        let split = |x: Tensor<3>| {
            let [batch, count, channels] = x.dims();
            x.reshape([batch, count, self.heads, channels / self.heads])
                .swap_dims(1, 2)
        };
        let merge = |x: Tensor<4>| {
            let [batch, heads, count, width] = x.dims();
            x.swap_dims(1, 2).reshape([batch, count, heads * width])
        };
        let looks = split(self.vision.forward(vision.clone()));
        let reads = split(self.text.forward(text.clone()));
        let vision_values = split(self.vision_values.forward(vision.clone()));
        let text_values = split(self.text_values.forward(text.clone()));
        let to_vision = kernels::attention(looks.clone(), reads.clone(), text_values);
        let to_text = kernels::attention(reads, looks, vision_values);
        let to_vision = self.vision_out.forward(merge(to_vision));
        let to_text = self.text_out.forward(merge(to_text));
        let scale = |scale: &Param<Tensor<1>>| scale.val().unsqueeze::<3>();
        // What is added to is normalised too.
        (
            vision + to_vision * scale(&self.vision_scale),
            text + to_text * scale(&self.text_scale),
        )
    }
}

/// A feed-forward layer with ReLU, a residual sum and a norm behind it.
#[derive(Module, Debug)]
pub(super) struct FeedForward {
    inner: Linear,
    outer: Linear,
    norm: LayerNorm,
}

impl FeedForward {
    pub fn load(params: &mut Params, norm: &str, widths: [usize; 2], eps: f64) -> Self {
        let [channels, inner] = widths;
        Self {
            inner: Linear::load(params.pp("fc1"), channels, inner, true),
            outer: Linear::load(params.pp("fc2"), inner, channels, true),
            norm: LayerNorm::load(params.pp(norm), channels, eps),
        }
    }

    pub fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let inner = relu(self.inner.forward(x.clone()));
        self.norm.forward(self.outer.forward_onto(inner, x))
    }
}

/// Names of the layers of an attention in this network.
pub(super) const ATTENTION: [&str; 4] = ["query", "key", "value", "out_proj"];

/// One layer of the encoder.
#[derive(Module, Debug)]
pub(super) struct EncoderLayer {
    fusion: Fusion,
    text_attention: MultiHead,
    text_norm: LayerNorm,
    text_feed: FeedForward,
    attention: DeformableAttention,
    norm: LayerNorm,
    feed: FeedForward,
}

impl EncoderLayer {
    pub fn load(mut params: Params, config: &GroundingDinoConfig) -> Self {
        let (channels, eps) = (config.d_model, config.layer_norm_eps);
        let fusion = Fusion::load(params.pp("fusion_layer"), config);
        let mut text = params.pp("text_enhancer_layer");
        let heads = config.encoder_attention_heads;
        let text_attention =
            MultiHead::load(&mut text.pp("self_attn"), ATTENTION, channels, heads / 2);
        let text_norm = LayerNorm::load(text.pp("layer_norm_before"), channels, eps);
        let widths = [channels, config.encoder_ffn_dim / 2];
        let text_feed = FeedForward::load(&mut text, "layer_norm_after", widths, eps);
        let mut vision = params.pp("deformable_layer");
        let shape = DeformableShape {
            channels,
            heads,
            levels: config.num_feature_levels,
            points: config.encoder_n_points,
            offset_scale: 0.5,
        };
        let widths = [channels, config.encoder_ffn_dim];
        Self {
            fusion,
            text_attention,
            text_norm,
            text_feed,
            attention: DeformableAttention::load(vision.pp("self_attn"), shape),
            norm: LayerNorm::load(vision.pp("self_attn_layer_norm"), channels, eps),
            feed: FeedForward::load(&mut vision, "final_layer_norm", widths, eps),
        }
    }

    /// The scene with both rows of tokens changed. `sizes` are those of the maps.
    pub fn forward(&self, scene: Scene, sizes: &[[usize; 2]]) -> Scene {
        let (vision, text) = self
            .fusion
            .forward(scene.vision.clone(), scene.text.clone());
        let looks = text.clone() + scene.text_places.clone();
        let mixed =
            (self.text_attention).forward(looks.clone(), looks, text.clone(), Some(&scene.mask));
        let text = self.text_feed.forward(self.text_norm.forward(text + mixed));
        let looks = vision.clone() + scene.vision_places.clone();
        let mixed = (self.attention).forward(looks, vision.clone(), sizes, Reference::Pixels);
        let vision = self.feed.forward(self.norm.forward(vision + mixed));
        Scene {
            vision,
            text,
            ..scene
        }
    }
}
