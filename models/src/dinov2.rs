//! DINOv2 (Oquab et al. 2023): transformers' `Dinov2Model`, as an extractor of features and as the backbone of others.

use burn::module::Param;
use burn::prelude::*;
use burn::tensor::DType;
use serde::Deserialize;

use crate::config::{Check, ConfigError, limit};
use crate::layers::LayerNorm;
use crate::params::Params;
use crate::pixels::{self, Filter, Normalisation, PixelsError, Resized, Rgb};
use crate::vit::{Activation, Block, BlockNames, BlockShape, Patches, resample};

/// The `config.json` of a DINOv2, or a `backbone_config`; missing keys have transformers' defaults.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default)]
pub struct Dinov2Config {
    /// Channels of each token.
    pub hidden_size: usize,
    /// Transformer layers.
    pub num_hidden_layers: usize,
    /// Heads in each layer.
    pub num_attention_heads: usize,
    /// Channels inside the feed-forward layers, as a multiple of `hidden_size`.
    pub mlp_ratio: f64,
    /// The activation of the feed-forward layers: `gelu`.
    pub hidden_act: String,
    /// Added to the variance in layer norms.
    pub layer_norm_eps: f64,
    /// The side of the pictures that the table of positions is for, in pixels.
    pub image_size: usize,
    /// The side of a patch, in pixels.
    pub patch_size: usize,
    /// Channels of pictures: 3.
    pub num_channels: usize,
    /// Whether queries, keys and values have a bias.
    pub qkv_bias: bool,
    /// Gated feed-forward layers, which only the largest has: false.
    pub use_swiglu_ffn: bool,
    /// Further tokens without a place, which variants "with registers" have: 0.
    pub num_register_tokens: usize,
    /// As a backbone, after which layers features are taken, counted from 1.
    pub out_indices: Option<Vec<usize>>,
    /// As a backbone, whether features are normed like the last layer's.
    pub apply_layernorm: bool,
    /// What is added to a new size before the table of positions is interpolated: 0 in transformers, 0.1 in the authors'
    /// code.
    pub interpolate_offset: f64,
}

impl Default for Dinov2Config {
    fn default() -> Self {
        Self {
            hidden_size: 768,
            num_hidden_layers: 12,
            num_attention_heads: 12,
            mlp_ratio: 4.0,
            hidden_act: "gelu".to_string(),
            layer_norm_eps: 1e-6,
            image_size: 224,
            patch_size: 14,
            num_channels: 3,
            qkv_bias: true,
            use_swiglu_ffn: false,
            num_register_tokens: 0,
            out_indices: None,
            apply_layernorm: true,
            interpolate_offset: 0.0,
        }
    }
}

const CHECK: Check = Check { network: "DINOv2" };

impl Dinov2Config {
    /// Refuses what cannot be built.
    ///
    /// # Errors
    /// [`ConfigError`] names the first key that is unsupported or makes no sense, with its value.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.hidden_act != "gelu" {
            return Err(CHECK.unsupported("hidden_act", self.hidden_act.as_str(), "\"gelu\""));
        }
        if self.num_channels != 3 {
            return Err(CHECK.unsupported("num_channels", self.num_channels, "3"));
        }
        if self.use_swiglu_ffn {
            return Err(CHECK.unsupported("use_swiglu_ffn", true, "false"));
        }
        if self.num_register_tokens != 0 {
            let registers = self.num_register_tokens;
            return Err(CHECK.unsupported("num_register_tokens", registers, "0"));
        }
        for (key, size, limit) in [
            ("hidden_size", self.hidden_size, limit::CHANNELS),
            ("num_hidden_layers", self.num_hidden_layers, limit::LAYERS),
            ("image_size", self.image_size, limit::SIDE),
            ("patch_size", self.patch_size, self.image_size),
        ] {
            CHECK.within(key, [size], limit)?;
        }
        CHECK.number("mlp_ratio", [self.mlp_ratio], 1e-3..=64.0)?;
        CHECK.within("mlp_ratio", [self.inner()], limit::CHANNELS)?;
        CHECK.within("image_size", [self.side() * self.side()], limit::LENGTH)?;
        CHECK.number("layer_norm_eps", [self.layer_norm_eps], limit::EPS)?;
        CHECK.number("interpolate_offset", [self.interpolate_offset], 0.0..=0.5)?;
        let indices = self.out_indices.iter().flatten().copied();
        CHECK.within("out_indices", indices, self.num_hidden_layers)?;
        CHECK.divides(
            "num_attention_heads",
            &[self.hidden_size],
            self.num_attention_heads,
        )
    }

    /// Patches along a side of the pictures that the table of positions is for.
    fn side(&self) -> usize {
        self.image_size / self.patch_size.max(1)
    }

    /// Channels inside the feed-forward layers.
    fn inner(&self) -> usize {
        (self.hidden_size as f64 * self.mlp_ratio) as usize
    }
}

/// A DINOv2.
#[derive(Module, Debug)]
pub struct Dinov2 {
    patches: Patches,
    class: Param<Tensor<1>>,
    positions: Param<Tensor<2>>,
    blocks: Vec<Block>,
    norm: LayerNorm,
    #[module(skip)]
    config: Dinov2Config,
}

impl Dinov2 {
    /// Builds the network.
    ///
    /// # Errors
    /// [`ConfigError`] if the configuration asks for something that is not implemented or makes no sense. Problems with
    /// parameters are the source's to report.
    pub fn load(config: &Dinov2Config, mut params: Params) -> Result<Self, ConfigError> {
        config.check()?;
        let channels = config.hidden_size;
        let mut embeddings = params.pp("embeddings");
        let patch = config.patch_size;
        let projection = embeddings.pp("patch_embeddings.projection");
        let patches = Patches::load(projection, channels, patch, true);
        let class = embeddings.tensor_stored("cls_token", &[1, 1, channels], [channels]);
        let table = [config.side() * config.side() + 1, channels];
        let stored = [1, table[0], channels];
        let positions = embeddings.tensor_stored("position_embeddings", &stored, table);
        let shape = BlockShape {
            channels,
            inner: config.inner(),
            heads: config.num_attention_heads,
            qkv_bias: config.qkv_bias,
            activation: Activation::Gelu,
            eps: config.layer_norm_eps,
        };
        let mut block = |i| {
            Block::load(
                params.pp(format!("encoder.layer.{i}")),
                &BlockNames::DINOV2,
                &shape,
            )
        };
        let blocks = (0..config.num_hidden_layers).map(&mut block).collect();
        Ok(Self {
            patches,
            class,
            positions,
            blocks,
            norm: LayerNorm::load(params.pp("layernorm"), channels, config.layer_norm_eps),
            config: config.clone(),
        })
    }

    /// The configuration that the network was built from.
    pub fn config(&self) -> &Dinov2Config {
        &self.config
    }

    /// Pictures of any sizes as metrics on DINOv2's features want them: squashed (bicubic) to `side` × `side` pixels,
    /// normalised.
    ///
    /// # Errors
    /// [`PixelsError::Narrow`] for a side of 0 or more than 16,384 pixels.
    pub fn prepare(
        pictures: &[Rgb],
        side: usize,
        device: &Device,
    ) -> Result<Tensor<4>, PixelsError> {
        let squash = |picture: &Rgb| {
            picture.check_target([side; 2])?;
            Ok(pixels::resize(picture, [side; 2], Filter::Bicubic))
        };
        let squashed: Vec<Resized> = pictures.iter().map(squash).collect::<Result<_, _>>()?;
        let normalisation = Normalisation::IMAGENET;
        Ok(pixels::batch(&squashed, [side; 2], &normalisation, device))
    }

    /// The normed states of the class token `[B, C]`, f32, of normalised pictures `[B, 3, H, W]`.
    ///
    /// # Panics
    /// If the pictures are smaller than a patch.
    pub fn features(&self, pictures: Tensor<4>) -> Tensor<2> {
        let states = self.run(pictures, &[self.blocks.len()]);
        let class = states.into_iter().map(|x| x.narrow(1, 0, 1));
        let class = self.norm.forward(Tensor::cat(class.collect(), 0));
        class.squeeze_dim::<2>(1).cast(DType::F32)
    }

    /// The states `[B, 1 + patches, C]` after each of these layers, counted from 1, in their order; as a backbone gives
    /// them, normed if the configuration says so.
    ///
    /// # Panics
    /// If the pictures are smaller than a patch.
    pub fn taps(&self, pictures: Tensor<4>, layers: &[usize]) -> Vec<Tensor<3>> {
        let norm = |x: Tensor<3>| match self.config.apply_layernorm {
            true => self.norm.forward(x),
            false => x,
        };
        self.run(pictures, layers).into_iter().map(norm).collect()
    }

    /// The states after each of these layers. What comes after the last of them is not computed.
    fn run(&self, pictures: Tensor<4>, layers: &[usize]) -> Vec<Tensor<3>> {
        let [batch, _, height, width] = pictures.dims();
        let grid = [height, width].map(|side| side / self.config.patch_size);
        let x = self.patches.forward(pictures);
        let channels = x.dims()[2];
        let class = self.class.val().reshape([1, 1, channels]);
        let x = Tensor::cat(vec![class.expand([batch, 1, channels]), x], 1);
        let mut x = x.clone() + self.table(grid).cast(x.dtype()).unsqueeze();
        let mut states: Vec<Option<Tensor<3>>> = vec![None; layers.len()];
        let last = layers.iter().copied().max().unwrap_or(0);
        for (i, block) in self.blocks.iter().take(last).enumerate() {
            x = block.forward(x);
            for (state, layer) in states.iter_mut().zip(layers) {
                if *layer == i + 1 {
                    *state = Some(x.clone());
                }
            }
        }
        states.into_iter().flatten().collect()
    }

    /// The positions of the class and of a grid of patches.
    fn table(&self, grid: [usize; 2]) -> Tensor<2> {
        let table = self.positions.val();
        let side = self.config.side();
        if grid == [side; 2] {
            return table;
        }
        let patches = table.clone().narrow(0, 1, side * side);
        let patches = resample(patches, side, grid, self.config.interpolate_offset);
        let class = table.narrow(0, 0, 1).cast(patches.dtype());
        Tensor::cat(vec![class, patches], 0)
    }
}
