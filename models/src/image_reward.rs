//! ImageReward (Xu et al. 2023): how well people would like a picture for a prompt. BLIP's picture encoder (Li et al. 2022), a BERT
//! that looks at its states in every layer, and five linear layers on the state of the first token.

use burn::module::Param;
use burn::prelude::*;
use burn::tensor::DType;
use serde::Deserialize;

use crate::bert::{Bert, BertConfig};
use crate::clip_vision::middle_square;
use crate::config::{Check, ConfigError, limit};
use crate::layers::{LayerNorm, Linear};
use crate::params::Params;
use crate::pixels::{self, Normalisation, PixelsError, Resized, Rgb};
use crate::vit::{Activation, Block, BlockNames, BlockShape, Patches};

/// What is taken from the last layer's number, and what it is divided by then, so that rewards of people's data have mean 0 and
/// deviation 1.
const MEAN: f64 = 0.167_173_628_300_524_26;
const DEVIATION: f64 = 1.033_339_496_605_407_2;
/// Added to the variance in the picture encoder's norms.
const EPS: f64 = 1e-6;

/// Sizes of the network. Its authors publish no configuration of the whole; they are read off the tensors.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ImageRewardConfig {
    /// Channels of the picture encoder.
    pub hidden_size: usize,
    /// Its layers.
    pub num_hidden_layers: usize,
    /// Heads of each.
    pub num_attention_heads: usize,
    /// Channels inside its feed-forward layers.
    pub intermediate_size: usize,
    /// The side of pictures, in pixels.
    pub image_size: usize,
    /// The side of a patch, in pixels.
    pub patch_size: usize,
    /// The text encoder, whose `encoder_width` is that of the picture encoder.
    pub text_config: BertConfig,
    /// Results of the five last layers; the last is 1.
    pub head: [usize; 5],
}

const CHECK: Check = Check {
    network: "ImageReward",
};

impl ImageRewardConfig {
    /// Refuses what cannot be built.
    ///
    /// # Errors
    /// [`ConfigError`] names the first key that makes no sense, with its value.
    pub fn check(&self) -> Result<(), ConfigError> {
        for (key, size, limit) in [
            ("hidden_size", self.hidden_size, limit::CHANNELS),
            ("num_hidden_layers", self.num_hidden_layers, limit::LAYERS),
            ("intermediate_size", self.intermediate_size, limit::CHANNELS),
            ("image_size", self.image_size, limit::SIDE),
            ("patch_size", self.patch_size, self.image_size),
        ] {
            CHECK.within(key, [size], limit)?;
        }
        CHECK.within("image_size", [self.patches()], limit::LENGTH)?;
        CHECK.within("head", self.head, limit::CHANNELS)?;
        if self.head[4] != 1 {
            return Err(CHECK.unsupported("head", self.head[4], "1 as its last size"));
        }
        CHECK.divides(
            "num_attention_heads",
            &[self.hidden_size],
            self.num_attention_heads,
        )?;
        self.text_config.check()
    }

    fn patches(&self) -> usize {
        (self.image_size / self.patch_size.max(1)).pow(2)
    }
}

/// The network.
#[derive(Module, Debug)]
pub struct ImageReward {
    patches: Patches,
    class: Param<Tensor<1>>,
    positions: Param<Tensor<2>>,
    blocks: Vec<Block>,
    norm: LayerNorm,
    text: Bert,
    head: Vec<Linear>,
    #[module(skip)]
    config: ImageRewardConfig,
}

impl ImageReward {
    /// Builds the network from parameters by the authors' names, queries, keys and values apart.
    ///
    /// # Errors
    /// [`ConfigError`] if the configuration makes no sense. Problems with parameters are the source's to report.
    pub fn load(config: &ImageRewardConfig, mut params: Params) -> Result<Self, ConfigError> {
        config.check()?;
        let channels = config.hidden_size;
        let mut vision = params.pp("blip.visual_encoder");
        let shape = BlockShape {
            channels,
            inner: config.intermediate_size,
            heads: config.num_attention_heads,
            qkv_bias: true,
            activation: Activation::Gelu,
            eps: EPS,
        };
        let places = config.patches() + 1;
        let patches = Patches::load(
            vision.pp("patch_embed.proj"),
            channels,
            config.patch_size,
            true,
        );
        let class = vision.tensor_stored("cls_token", &[1, 1, channels], [channels]);
        let stored = [1, places, channels];
        let positions = vision.tensor_stored("pos_embed", &stored, [places, channels]);
        let blocks = (0..config.num_hidden_layers)
            .map(|i| Block::load(vision.pp(format!("blocks.{i}")), &BlockNames::BLIP, &shape))
            .collect();
        let norm = LayerNorm::load(vision.pp("norm"), channels, EPS);
        let mut input = config.text_config.hidden_size;
        // Between them the authors' code has only what training uses.
        let head = [0, 2, 4, 6, 7].into_iter().zip(config.head);
        let head = head
            .map(|(number, output)| {
                let layer = params.pp(format!("mlp.layers.{number}"));
                let layer = Linear::load(layer, input, output, true);
                input = output;
                layer
            })
            .collect();
        Ok(Self {
            patches,
            class,
            positions,
            blocks,
            norm,
            text: Bert::load(params.pp("blip.text_encoder"), &config.text_config),
            head,
            config: config.clone(),
        })
    }

    /// The configuration that the network was built from.
    pub fn config(&self) -> &ImageRewardConfig {
        &self.config
    }

    /// Pictures of any sizes as [`Self::rewards`] wants them: resized (bicubic, as Pillow does) so that the shorter side fits, the
    /// middle cut out as torchvision does, normalised.
    ///
    /// # Errors
    /// [`PixelsError::Narrow`] for a picture that would become a strip of more than 16,384 pixels.
    pub fn prepare(&self, pictures: &[Rgb], device: &Device) -> Result<Tensor<4>, PixelsError> {
        let side = self.config.image_size;
        // Half of an odd number goes to the even side.
        let half = |rest: usize| rest / 2 + usize::from(rest % 4 == 3);
        let cut = |picture: &Rgb| middle_square(picture, side, half);
        let cut: Vec<Resized> = pictures.iter().map(cut).collect::<Result<_, _>>()?;
        Ok(pixels::batch(&cut, [side; 2], &Normalisation::CLIP, device))
    }

    /// The reward `[B]`, f32, of each of the normalised pictures `[B, 3, image_size, image_size]` for its text, as tokens with
    /// `[CLS]` and `[SEP]`. The authors' code pads texts to one length; what is padding is seen by no token, and is left out here.
    ///
    /// # Panics
    /// If there is not one text for each picture, a text is empty or longer than the table of positions, or a token is none.
    pub fn rewards(&self, pictures: Tensor<4>, texts: &[Vec<u32>]) -> Tensor<1> {
        assert_eq!(pictures.dims()[0], texts.len(), "a text for each picture");
        let states = self.states(pictures);
        let first = texts.iter().enumerate().map(|(i, text)| {
            let picture = states.clone().narrow(0, i, 1);
            self.text.read(text, &picture).narrow(1, 0, 1)
        });
        let first = Tensor::cat(first.collect(), 0);
        let last = (self.head.iter()).fold(first, |x, layer| layer.forward(x));
        let last = last.cast(DType::F32).reshape([texts.len()]);
        (last - MEAN) / DEVIATION
    }

    /// The states `[B, 1 + patches, C]` of the picture encoder.
    pub fn states(&self, pictures: Tensor<4>) -> Tensor<3> {
        let batch = pictures.dims()[0];
        let x = self.patches.forward(pictures);
        let channels = x.dims()[2];
        let class = self.class.val().reshape([1, 1, channels]);
        let x = Tensor::cat(vec![class.expand([batch, 1, channels]), x], 1);
        let x = x + self.positions.val().unsqueeze();
        let x = self.blocks.iter().fold(x, |x, block| block.forward(x));
        self.norm.forward(x)
    }
}
