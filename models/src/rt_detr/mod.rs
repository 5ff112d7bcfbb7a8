//! RT-DETRv2 (Lv et al. 2024): a fast detector with closed classes, as transformers' `RTDetrV2ForObjectDetection` has it.
//! Parameters have the names of its files. Pictures are squashed to one size, so that a batch gives what each picture alone does.

mod backbone;
mod config;
mod decoder;
mod encoder;

use burn::prelude::*;
use burn::tensor::DType;
use burn::tensor::activation::sigmoid;

pub use config::{RtDetrConfig, RtDetrResNetConfig};

use crate::config::ConfigError;
use crate::detr::{Mlp, anchors, pick, sizes, tokens};
use crate::layers::{LayerNorm, Linear};
use crate::params::Params;
use crate::rcnn::layers::{ConvNorm, Shape};
use backbone::Backbone;
use config::LEVELS;
use decoder::Decoder;
use encoder::Encoder;

/// What the network says of a batch.
#[derive(Debug, Clone)]
pub struct Detected {
    /// For each query and class a logit: `[B, Q, classes]`.
    pub logits: Tensor<3>,
    /// For each query a box as centre, width and height in shares of the picture: `[B, Q, 4]`.
    pub boxes: Tensor<3>,
}

/// What is in the network between its parts, for comparisons with other implementations.
#[derive(Debug, Clone)]
pub struct RtDetrTrace {
    /// The backbone's maps.
    pub maps: Vec<Tensor<4>>,
    /// The encoder's maps.
    pub encoded: Vec<Tensor<4>>,
    /// The boxes of the chosen pixels `[B, Q, 4]`.
    pub chosen: Tensor<3>,
    /// The result.
    pub detected: Detected,
}

/// The network. Computes in f32. Batch norms use their running statistics and are part of the convolutions.
#[derive(Module, Debug)]
pub struct RtDetr {
    backbone: Backbone,
    encoder: Encoder,
    projections: Vec<ConvNorm>,
    choice: Linear,
    choice_norm: LayerNorm,
    choice_scores: Linear,
    choice_boxes: Mlp,
    decoder: Decoder,
    #[module(skip)]
    config: RtDetrConfig,
}

impl RtDetr {
    /// Builds the network.
    ///
    /// # Errors
    /// [`ConfigError`] if no network can be built from the configuration. Problems with parameters are
    /// the source's to report.
    pub fn load(config: &RtDetrConfig, params: Params) -> Result<Self, ConfigError> {
        config.check()?;
        let mut params = params.f32();
        let mut params = params.pp("model");
        let (channels, input) = (config.d_model, config.encoder_hidden_dim);
        let project = |i| {
            let mut params = params.pp(format!("decoder_input_proj.{i}"));
            let shape = Shape::new(input, channels, 1);
            ConvNorm::load_folded(&mut params, "0", "1", config.batch_norm_eps, shape)
        };
        let projections = (0..LEVELS).map(project).collect();
        Ok(Self {
            backbone: Backbone::load(params.pp("backbone.model"), &config.backbone_config),
            encoder: Encoder::load(&mut params, config),
            projections,
            choice: Linear::load(params.pp("enc_output.0"), channels, channels, true),
            choice_norm: LayerNorm::load(
                params.pp("enc_output.1"),
                channels,
                config.layer_norm_eps,
            ),
            choice_scores: Linear::load(
                params.pp("enc_score_head"),
                channels,
                config.classes().len(),
                true,
            ),
            choice_boxes: Mlp::load(
                params.pp("enc_bbox_head"),
                &[channels, channels, channels, 4],
            ),
            decoder: Decoder::load(params.pp("decoder"), config),
            config: config.clone(),
        })
    }

    /// The configuration that the network was built from.
    pub fn config(&self) -> &RtDetrConfig {
        &self.config
    }

    /// Looks for objects in `pictures` `[B, 3, H, W]`, RGB in 0..=1, with sides that 32 divides.
    ///
    /// # Panics
    /// If 32 does not divide the sides.
    pub fn forward(&self, pictures: Tensor<4>) -> Detected {
        self.trace(pictures).detected
    }

    /// As [`Self::forward`], with what is between.
    ///
    /// # Panics
    /// As [`Self::forward`].
    pub fn trace(&self, pictures: Tensor<4>) -> RtDetrTrace {
        let [_, _, height, width] = pictures.dims();
        assert!(
            height * width > 0 && height.is_multiple_of(32) && width.is_multiple_of(32),
            "RT-DETR: pictures of {height} × {width} pixels"
        );
        let maps = self.backbone.forward(pictures.cast(DType::F32));
        let encoded = self.encoder.forward(maps.clone());
        let projected = self.projections.iter().zip(&encoded);
        let projected: Vec<_> = projected
            .map(|(conv, map)| conv.forward(map.clone()))
            .collect();
        let (sizes, tokens) = (sizes(&projected), tokens(&projected));
        let (logits, valid) = anchors(&sizes, f32::MAX, &tokens.device());
        let features = self.choice.forward(tokens.clone() * valid);
        let features = self.choice_norm.forward(features);
        let scores = self.choice_scores.forward(features.clone());
        let scores = scores.max_dim(2).squeeze_dim::<2>(2);
        let boxes = self.choice_boxes.forward(features.clone()) + logits;
        let [boxes, queries] = pick(scores, self.config.num_queries, [boxes, features]);
        let chosen = sigmoid(boxes);
        let (logits, boxes) = (self.decoder).forward(queries, chosen.clone(), &tokens, &sizes);
        RtDetrTrace {
            maps,
            encoded,
            chosen,
            detected: Detected { logits, boxes },
        }
    }
}
