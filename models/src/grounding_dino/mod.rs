//! Grounding DINO (Liu et al. 2023): what phrases name in pictures, as transformers' `GroundingDinoForObjectDetection` on Swin
//! transformers has it. Parameters have the names of its files.
//!
//! Pictures that go together have one size and one text, so that nothing is padded: a batch gives what each picture alone does.

mod config;
mod decoder;
mod encoder;
mod text;

use core::f32::consts::TAU;

use burn::module::Param;
use burn::prelude::*;
use burn::tensor::DType;
use burn::tensor::activation::sigmoid;

pub use config::GroundingDinoConfig;

use crate::bert::Bert;
use crate::config::ConfigError;
use crate::detr::{Mlp, Order, anchors, pick, sine_of_places, sine_table, sizes, tokens};
use crate::layers::{Conv2d, GroupNorm, LayerNorm, Linear};
use crate::params::Params;
use crate::swin::Swin;
use config::GROUPS;
use decoder::{Decoder, Seen};
use encoder::{EncoderLayer, Scene};

/// Of the positions of tokens in their phrases.
const TEXT_TEMPERATURE: f32 = 10_000.0;

/// What the network says of a batch.
#[derive(Debug, Clone)]
pub struct Grounded {
    /// For each query and token of the text how much they belong together, as a logit: `[B, Q, tokens]`.
    pub logits: Tensor<3>,
    /// For each query a box as centre, width and height in shares of the picture: `[B, Q, 4]`.
    pub boxes: Tensor<3>,
}

/// What is in the network between its parts, for comparisons with other implementations.
#[derive(Debug, Clone)]
pub struct GroundingTrace {
    /// The backbone's maps `[B, C, H, W]`.
    pub maps: Vec<Tensor<4>>,
    /// The text after BERT and its projection `[1, tokens, C]`.
    pub text: Tensor<3>,
    /// The picture's tokens behind the encoder `[B, pixels, C]`.
    pub encoded: Tensor<3>,
    /// The text behind the encoder `[B, tokens, C]`.
    pub encoded_text: Tensor<3>,
    /// The boxes of the chosen pixels `[B, Q, 4]`.
    pub chosen: Tensor<3>,
    /// The queries behind the decoder `[B, Q, C]`.
    pub decoded: Tensor<3>,
    /// The result.
    pub grounded: Grounded,
}

/// A convolution and a norm in groups.
#[derive(Module, Debug)]
struct Projection {
    conv: Conv2d,
    norm: GroupNorm,
}

/// The network. Computes in f32.
#[derive(Module, Debug)]
pub struct GroundingDino {
    backbone: Swin,
    projections: Vec<Projection>,
    level_places: Param<Tensor<2>>,
    bert: Bert,
    text_projection: Linear,
    encoder: Vec<EncoderLayer>,
    choice: Linear,
    choice_norm: LayerNorm,
    choice_boxes: Mlp,
    queries: Param<Tensor<2>>,
    decoder: Decoder,
    #[module(skip)]
    config: GroundingDinoConfig,
}

impl GroundingDino {
    /// Builds the network.
    ///
    /// # Errors
    /// [`ConfigError`] if no network can be built from the configuration. Problems with parameters are
    /// the source's to report.
    pub fn load(config: &GroundingDinoConfig, params: Params) -> Result<Self, ConfigError> {
        config.check()?;
        let mut params = params.f32();
        let decoder = Decoder::load(&mut params, config);
        let mut params = params.pp("model");
        let (channels, eps) = (config.d_model, config.layer_norm_eps);
        let inputs = config.backbone_config.outputs();
        let coarsest = inputs.last().copied().unwrap_or_default();
        let projections = (0..config.num_feature_levels).map(|i| {
            let shape = match inputs.get(i) {
                Some(input) => [*input, channels, 1, 1, 0],
                None => [coarsest, channels, 3, 2, 1],
            };
            let mut params = params.pp(format!("input_proj_vision.{i}"));
            Projection {
                conv: Conv2d::load_with(params.pp("0"), shape, true),
                norm: GroupNorm::load(params.pp("1"), GROUPS, channels, 1e-5),
            }
        });
        let projections = projections.collect();
        let text_width = config.text_config.hidden_size;
        Ok(Self {
            backbone: Swin::load(
                params.pp("backbone.conv_encoder.model"),
                &config.backbone_config,
            ),
            projections,
            level_places: params.tensor("level_embed", [config.num_feature_levels, channels]),
            bert: Bert::load(params.pp("text_backbone"), &config.text_config),
            text_projection: Linear::load(params.pp("text_projection"), text_width, channels, true),
            encoder: (0..config.encoder_layers)
                .map(|i| EncoderLayer::load(params.pp(format!("encoder.layers.{i}")), config))
                .collect(),
            choice: Linear::load(params.pp("enc_output"), channels, channels, true),
            choice_norm: LayerNorm::load(params.pp("enc_output_norm"), channels, eps),
            choice_boxes: Mlp::load(
                params.pp("encoder_output_bbox_embed"),
                &[channels, channels, channels, 4],
            ),
            queries: params.tensor(
                "query_position_embeddings.weight",
                [config.num_queries, channels],
            ),
            decoder,
            config: config.clone(),
        })
    }

    /// The configuration that the network was built from.
    pub fn config(&self) -> &GroundingDinoConfig {
        &self.config
    }

    /// Looks for what the text with the tokens `ids` names in `pictures` `[B, 3, H, W]`, resized and normalised.
    ///
    /// # Panics
    /// If there is no token or more than the configuration's `max_text_len`, or one is not in the vocabulary.
    pub fn forward(&self, pictures: Tensor<4>, ids: &[u32]) -> Grounded {
        self.trace(pictures, ids).grounded
    }

    /// As [`Self::forward`], with what is between.
    ///
    /// # Panics
    /// As [`Self::forward`].
    pub fn trace(&self, pictures: Tensor<4>, ids: &[u32]) -> GroundingTrace {
        let vocabulary = self.config.text_config.vocab_size;
        assert!(
            (1..=self.config.max_text_len).contains(&ids.len())
                && ids.iter().all(|id| (*id as usize) < vocabulary),
            "Grounding DINO: a text of {} tokens out of {vocabulary}",
            ids.len()
        );
        let pictures = pictures.cast(DType::F32);
        let device = pictures.device();
        let batch = pictures.dims()[0];
        let (places, mask) = text::places_and_mask(ids, &device);
        let text = self
            .text_projection
            .forward(self.bert.forward(ids, &places, &mask));
        let maps = self.backbone.forward(pictures);
        let projected = self.project(&maps);
        let sizes = sizes(&projected);
        let places: Vec<f32> = places.iter().map(|place| *place as f32 * TAU).collect();
        let channels = self.config.d_model;
        let mut scene = Scene {
            vision: tokens(&projected),
            text: text.clone().repeat_dim(0, batch),
            vision_places: self.places(&sizes, &device),
            text_places: sine_table(&places, channels, TEXT_TEMPERATURE, &device),
            mask,
        };
        for layer in &self.encoder {
            scene = layer.forward(scene, &sizes);
        }
        let chosen = self.choose(&scene, &sizes);
        let queries = self.queries.val().narrow(0, 0, chosen.dims()[1]);
        let queries = queries.unsqueeze_dim::<3>(0).repeat_dim(0, batch);
        let seen = Seen {
            vision: scene.vision.clone(),
            text: scene.text.clone(),
            sizes: &sizes,
        };
        let (decoded, boxes) = self.decoder.forward(queries, chosen.clone(), &seen);
        let logits = decoded.clone().matmul(scene.text.clone().swap_dims(1, 2));
        GroundingTrace {
            maps,
            text,
            encoded: scene.vision,
            encoded_text: scene.text,
            chosen,
            decoded,
            grounded: Grounded { logits, boxes },
        }
    }

    /// The maps of all levels with the same channels; that beyond the backbone's is made of its coarsest.
    fn project(&self, maps: &[Tensor<4>]) -> Vec<Tensor<4>> {
        let coarsest = maps.last();
        let project = |(i, projection): (usize, &Projection)| {
            let map = maps.get(i).or(coarsest)?.clone();
            Some(projection.norm.forward(projection.conv.forward(map)))
        };
        self.projections
            .iter()
            .enumerate()
            .filter_map(project)
            .collect()
    }

    /// Where each pixel is and on which level, `[1, pixels, C]`.
    fn places(&self, sizes: &[[usize; 2]], device: &Device) -> Tensor<3> {
        let channels = self.config.d_model;
        let temperature = self.config.positional_embedding_temperature as f32;
        let place = |i: usize, length: usize| (i as f32 + 1.0) / (length as f32 + 1e-6) * TAU;
        let of_level = |(level, size): (usize, &[usize; 2])| {
            let order = Order::Interleaved;
            let sine = sine_of_places(*size, channels, temperature, order, place, device);
            let own = self.level_places.val().narrow(0, level, 1);
            sine + own.unsqueeze_dim::<3>(0)
        };
        Tensor::cat(sizes.iter().enumerate().map(of_level).collect(), 1)
    }

    /// The boxes of the pixels that belong most to a token of the text, `[B, Q, 4]`.
    fn choose(&self, scene: &Scene, sizes: &[[usize; 2]]) -> Tensor<3> {
        let device = scene.vision.device();
        let (logits, valid) = anchors(sizes, f32::INFINITY, &device);
        let features = self.choice.forward(scene.vision.clone() * valid);
        let features = self.choice_norm.forward(features);
        let scores = features.clone().matmul(scene.text.clone().swap_dims(1, 2));
        let scores = scores.max_dim(2).squeeze_dim::<2>(2);
        let boxes = self.choice_boxes.forward(features) + logits;
        let [boxes] = pick(scores, self.config.num_queries, [boxes]);
        sigmoid(boxes)
    }
}
