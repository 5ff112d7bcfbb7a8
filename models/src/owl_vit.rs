//! OWL-ViT (Minderer et al. 2022): CLIP whose patches each see one thing, which texts name; transformers'
//! `OwlViTForObjectDetection`.

use burn::module::Param;
use burn::prelude::*;
use burn::tensor::activation::{elu, sigmoid};
use burn::tensor::{DType, TensorData};
use prepose_kernels as kernels;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use crate::clip::{ClipTextConfig, ClipTextModel, HiddenLayer};
use crate::clip_vision::ClipVisionConfig;
use crate::config::{Check, ConfigError, limit};
use crate::layers::{LayerNorm, Linear};
use crate::params::Params;
use crate::pixels::{self, Filter, Normalisation, PixelsError, Resized, Rgb};
use crate::vit::{Activation, Block, BlockNames, BlockShape, Patches};

/// Added to lengths before something is divided by them.
const LENGTH_EPS: f64 = 1e-6;
/// Keeps logarithms of 0 away.
const BIAS_EPS: f32 = 1e-4;

/// The `config.json` of an OWL-ViT; missing keys have transformers' defaults.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default)]
pub struct OwlVitConfig {
    /// The text encoder, of at most 16 tokens.
    #[serde(deserialize_with = "text_config")]
    pub text_config: ClipTextConfig,
    /// The picture encoder, of 768 × 768 pixels.
    #[serde(deserialize_with = "vision_config")]
    pub vision_config: ClipVisionConfig,
    /// Channels of the space in which texts and patches are compared.
    pub projection_dim: usize,
}

impl Default for OwlVitConfig {
    fn default() -> Self {
        Self {
            text_config: read::<ClipTextConfig>(json!({}), "max_position_embeddings", 16)
                .unwrap_or_default(),
            vision_config: ClipVisionConfig {
                image_size: 768,
                ..ClipVisionConfig::default()
            },
            projection_dim: 512,
        }
    }
}

fn text_config<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ClipTextConfig, D::Error> {
    let value = Value::deserialize(deserializer)?;
    read(value, "max_position_embeddings", 16).map_err(serde::de::Error::custom)
}

fn vision_config<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ClipVisionConfig, D::Error> {
    let value = Value::deserialize(deserializer)?;
    read(value, "image_size", 768).map_err(serde::de::Error::custom)
}

/// A part's configuration without the nulls that old ones have, and with a default that is not CLIP's.
fn read<T: serde::de::DeserializeOwned>(
    value: Value,
    key: &str,
    default: usize,
) -> serde_json::Result<T> {
    let mut value = match value {
        Value::Null => json!({}),
        value => value,
    };
    if let Value::Object(keys) = &mut value {
        keys.retain(|_, value| !value.is_null());
        keys.entry(key).or_insert(json!(default));
    }
    serde_json::from_value(value)
}

impl OwlVitConfig {
    /// Refuses what cannot be built.
    ///
    /// # Errors
    /// [`ConfigError`] names the first key that is unsupported or makes no sense, with its value.
    pub fn check(&self) -> Result<(), ConfigError> {
        const CHECK: Check = Check { network: "OWL-ViT" };
        CHECK.within("projection_dim", [self.projection_dim], limit::CHANNELS)?;
        self.text().check()?;
        let positions = self.text_config.max_position_embeddings;
        if positions < 3 {
            let reason = "a text has a beginning, an end and something between them";
            return Err(CHECK.invalid("max_position_embeddings", positions, reason));
        }
        if self.text_config.hidden_size != self.projection_dim {
            let reason = format!(
                "patches have {} channels where they are compared with texts",
                self.text_config.hidden_size
            );
            return Err(CHECK.invalid("projection_dim", self.projection_dim, reason));
        }
        self.vision_config.check()
    }

    fn text(&self) -> ClipTextConfig {
        let mut text = self.text_config.clone();
        // The projection is there, whatever class the part says that it is of.
        text.architectures.clear();
        text.projection_dim = self.projection_dim;
        text
    }

    /// Patches along a side, each of which sees one thing.
    pub fn side(&self) -> usize {
        self.vision_config.image_size / self.vision_config.patch_size.max(1)
    }
}

/// What is seen in a batch of pictures; f32.
#[derive(Debug, Clone)]
pub struct Sighted {
    /// How well each patch's thing fits each text, `[B, patches, texts]`.
    pub logits: Tensor<3>,
    /// Where it is: middle, width and height as shares of the picture `[B, patches, 4]`.
    pub boxes: Tensor<3>,
}

/// OWL-ViT.
#[derive(Module, Debug)]
pub struct OwlVit {
    text: ClipTextModel,
    patches: Patches,
    class: Param<Tensor<1>>,
    positions: Param<Tensor<2>>,
    before: LayerNorm,
    blocks: Vec<Block>,
    after: LayerNorm,
    norm: LayerNorm,
    compared: Linear,
    shift: Linear,
    scale: Linear,
    boxes: Vec<Linear>,
    #[module(skip)]
    config: OwlVitConfig,
}

impl OwlVit {
    /// Builds the network.
    ///
    /// # Errors
    /// [`ConfigError`] if the configuration asks for something that is not implemented or makes no sense. Problems with
    /// parameters are the source's to report.
    pub fn load(config: &OwlVitConfig, mut params: Params) -> Result<Self, ConfigError> {
        config.check()?;
        let vision = &config.vision_config;
        let (channels, eps) = (vision.hidden_size, vision.layer_norm_eps);
        let mut encoder = params.pp("owlvit.vision_model");
        let mut embeddings = encoder.pp("embeddings");
        let patch = embeddings.pp("patch_embedding");
        let patches = Patches::load(patch, channels, vision.patch_size, false);
        let class = embeddings.tensor("class_embedding", [channels]);
        let table = [vision.positions(), channels];
        let positions = embeddings.tensor("position_embedding.weight", table);
        let shape = BlockShape {
            channels,
            inner: vision.intermediate_size,
            heads: vision.num_attention_heads,
            qkv_bias: true,
            activation: Activation::parse(&vision.hidden_act).unwrap_or(Activation::QuickGelu),
            eps,
        };
        let mut block = |i| {
            let params = encoder.pp(format!("encoder.layers.{i}"));
            Block::load(params, &BlockNames::CLIP, &shape)
        };
        let blocks = (0..vision.num_hidden_layers).map(&mut block).collect();
        let before = LayerNorm::load(encoder.pp("pre_layernorm"), channels, eps);
        let after = LayerNorm::load(encoder.pp("post_layernorm"), channels, eps);
        let text = ClipTextModel::load(&config.text(), params.pp("owlvit"))?;
        let mut head = params.pp("class_head");
        let compared = config.projection_dim;
        let compared = Linear::load(head.pp("dense0"), channels, compared, true);
        let shift = Linear::load(head.pp("logit_shift"), channels, 1, true);
        let scale = Linear::load(head.pp("logit_scale"), channels, 1, true);
        let mut head = params.pp("box_head");
        let outputs = [("dense0", channels), ("dense1", channels), ("dense2", 4)];
        let layer = |(name, output)| Linear::load(head.pp(name), channels, output, true);
        let boxes = outputs.map(layer).into();
        Ok(Self {
            text,
            patches,
            class,
            positions,
            before,
            blocks,
            after,
            norm: LayerNorm::load(params.pp("layer_norm"), channels, eps),
            compared,
            shift,
            scale,
            boxes,
            config: config.clone(),
        })
    }

    /// The configuration that the network was built from.
    pub fn config(&self) -> &OwlVitConfig {
        &self.config
    }

    /// Pictures of any sizes as [`Self::forward`] wants them: squashed (bicubic) to a square, normalised.
    ///
    /// # Errors
    /// [`PixelsError::Narrow`] if the network's pictures are larger than any that are resized to.
    pub fn prepare(&self, pictures: &[Rgb], device: &Device) -> Result<Tensor<4>, PixelsError> {
        let size = [self.config.vision_config.image_size; 2];
        let squash = |picture: &Rgb| {
            picture.check_target(size)?;
            Ok(pixels::resize(picture, size, Filter::Bicubic))
        };
        let squashed: Vec<Resized> = pictures.iter().map(squash).collect::<Result<_, _>>()?;
        Ok(pixels::batch(&squashed, size, &Normalisation::CLIP, device))
    }

    /// Texts `[T, N]` as they are compared with patches, `[T, C]` of length 1, f32; `ends` are the positions of their
    /// ends.
    ///
    /// # Panics
    /// As [`ClipTextModel::forward`].
    pub fn embed_texts(&self, tokens: Tensor<2, Int>, ends: &[usize]) -> Tensor<2> {
        let encoding = self.text.forward(tokens, ends, HiddenLayer::Last);
        let pooled = encoding.pooled;
        pooled.clone() / length(pooled)
    }

    /// The states `[B, 1 + patches, C]` after `layers` layers of the picture encoder.
    ///
    /// # Panics
    /// If the pictures have another size, or there are fewer layers.
    pub fn states(&self, pictures: Tensor<4>, layers: usize) -> Tensor<3> {
        let [batch, ..] = pictures.dims();
        let side = self.config.vision_config.image_size;
        assert_eq!(pictures.dims(), [batch, 3, side, side], "OWL-ViT");
        let patches = self.patches.forward(pictures);
        let channels = patches.dims()[2];
        let class = self.class.val().reshape([1, 1, channels]);
        let class = class.expand([batch, 1, channels]);
        let x = Tensor::cat(vec![class, patches], 1) + self.positions.val().unsqueeze();
        let x = self.before.forward(x);
        self.blocks[..layers]
            .iter()
            .fold(x, |x, block| block.forward(x))
    }

    /// What is seen in pictures `[B, 3, side, side]` ([`Self::prepare`]), compared with `texts` `[T, C]`
    /// ([`Self::embed_texts`]).
    ///
    /// # Panics
    /// If the pictures have another size.
    pub fn forward(&self, pictures: Tensor<4>, texts: &Tensor<2>) -> Sighted {
        let x = self.after.forward(self.states(pictures, self.blocks.len()));
        let [batch, tokens, channels] = x.dims();
        let class = x.clone().narrow(1, 0, 1);
        let class = class.expand([batch, tokens - 1, channels]);
        let things = self.norm.forward(x.narrow(1, 1, tokens - 1) * class);
        Sighted {
            logits: self.compare(things.clone(), texts),
            boxes: self.locate(things),
        }
    }

    fn compare(&self, things: Tensor<3>, texts: &Tensor<2>) -> Tensor<3> {
        let f32 = |x: Tensor<3>| x.cast(DType::F32);
        let embedded = f32(self.compared.forward(things.clone()));
        let square = embedded.clone().powi_scalar(2).sum_dim(2);
        let embedded = embedded / (square.sqrt() + LENGTH_EPS);
        let texts = texts.clone() / (length(texts.clone()) + LENGTH_EPS);
        let cosines = embedded.matmul(texts.transpose().unsqueeze());
        let shift = f32(self.shift.forward(things.clone()));
        let scale = elu(f32(self.scale.forward(things)), 1.0) + 1.0;
        (cosines + shift) * scale
    }

    /// Boxes relative to the lower right corner of each patch.
    fn locate(&self, things: Tensor<3>) -> Tensor<3> {
        let device = things.device();
        let last = self.boxes.len() - 1;
        let inner = self.boxes[..last]
            .iter()
            .fold(things, |x, layer| kernels::gelu(layer.forward(x)));
        let moved = self.boxes[last].forward(inner).cast(DType::F32);
        let side = self.config.side();
        // In f32 as there: near 1 its rounding is seen in the boxes.
        let logit = |share: f32| (share + BIAS_EPS).ln() - (-share + BIAS_EPS).ln_1p();
        let along: Vec<f32> = (1..=side).map(|i| logit(i as f32 / side as f32)).collect();
        let size = logit(1.0 / side as f32);
        let rows = (0..side).flat_map(|row| (0..side).map(move |column| (row, column)));
        let bias = rows.flat_map(|(row, column)| [along[column], along[row], size, size]);
        let bias = TensorData::new(bias.collect::<Vec<f32>>(), [1, side * side, 4]);
        sigmoid(moved + Tensor::from_data(bias, (&device, DType::F32)))
    }
}

/// The lengths `[T, 1]` of rows.
fn length(rows: Tensor<2>) -> Tensor<2> {
    rows.powi_scalar(2).sum_dim(1).sqrt()
}
