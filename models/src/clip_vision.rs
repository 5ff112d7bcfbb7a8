//! CLIP's picture encoders (Radford et al. 2021): transformers' `CLIPVisionModel` and
//! `CLIPVisionModelWithProjection`, which also run OpenCLIP's.

use burn::module::Param;
use burn::prelude::*;
use burn::tensor::DType;
use prepose_kernels::keep_awake;
use serde::Deserialize;

use crate::config::{Check, ConfigError, limit};
use crate::layers::{LayerNorm, Linear};
use crate::params::Params;
use crate::pixels::{self, Filter, Normalisation, PixelsError, Resized, Rgb};
use crate::vit::{Activation, Block, BlockNames, BlockShape, Patches};

/// The `config.json` of a picture encoder, or its `vision_config`; missing keys have transformers' defaults.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default)]
pub struct ClipVisionConfig {
    /// Channels of each token.
    pub hidden_size: usize,
    /// Channels inside the feed-forward layers.
    pub intermediate_size: usize,
    /// Channels of the projected embedding.
    pub projection_dim: usize,
    /// Transformer layers.
    pub num_hidden_layers: usize,
    /// Heads in each layer.
    pub num_attention_heads: usize,
    /// Channels of pictures: 3.
    pub num_channels: usize,
    /// The side of the pictures that it looks at, in pixels.
    pub image_size: usize,
    /// The side of a patch, in pixels.
    pub patch_size: usize,
    /// The activation of the feed-forward layers: `quick_gelu` or `gelu`.
    pub hidden_act: String,
    /// Added to the variance in layer norms.
    pub layer_norm_eps: f64,
}

impl Default for ClipVisionConfig {
    fn default() -> Self {
        Self {
            hidden_size: 768,
            intermediate_size: 3072,
            projection_dim: 512,
            num_hidden_layers: 12,
            num_attention_heads: 12,
            num_channels: 3,
            image_size: 224,
            patch_size: 32,
            hidden_act: "quick_gelu".to_string(),
            layer_norm_eps: 1e-5,
        }
    }
}

impl ClipVisionConfig {
    /// Refuses what cannot be built.
    ///
    /// # Errors
    /// [`ConfigError`] names the first key that is unsupported or makes no sense, with its value.
    pub fn check(&self) -> Result<(), ConfigError> {
        const CHECK: Check = Check {
            network: "picture encoder",
        };
        if !matches!(self.hidden_act.as_str(), "quick_gelu" | "gelu") {
            let supported = "\"quick_gelu\" or \"gelu\"";
            return Err(CHECK.unsupported("hidden_act", self.hidden_act.as_str(), supported));
        }
        if self.num_channels != 3 {
            return Err(CHECK.unsupported("num_channels", self.num_channels, "3"));
        }
        for (key, size, limit) in [
            ("hidden_size", self.hidden_size, limit::CHANNELS),
            ("intermediate_size", self.intermediate_size, limit::CHANNELS),
            ("projection_dim", self.projection_dim, limit::CHANNELS),
            ("num_hidden_layers", self.num_hidden_layers, limit::LAYERS),
            ("image_size", self.image_size, limit::SIDE),
            ("patch_size", self.patch_size, self.image_size),
        ] {
            CHECK.within(key, [size], limit)?;
        }
        CHECK.within("image_size", [self.positions()], limit::LENGTH)?;
        CHECK.number("layer_norm_eps", [self.layer_norm_eps], limit::EPS)?;
        CHECK.divides(
            "num_attention_heads",
            &[self.hidden_size],
            self.num_attention_heads,
        )
    }

    /// Tokens of a picture, the class's included.
    pub fn positions(&self) -> usize {
        let side = self.image_size / self.patch_size.max(1);
        side.saturating_mul(side).saturating_add(1)
    }
}

/// What a picture encoder makes of a batch.
#[derive(Debug, Clone)]
pub struct PictureEncoding {
    /// Hidden states `[B, 1 + patches, C]` without a final norm, of the layer that was asked for; f32.
    pub hidden: Tensor<3>,
    /// The normed last state of the class token `[B, C]`, f32.
    pub pooled: Tensor<2>,
    /// The pooled state projected to the space of the texts, `[B, projection_dim]`, if the encoder has a projection; f32,
    /// not normalised.
    pub embedding: Option<Tensor<2>>,
}

/// A CLIP picture encoder.
#[derive(Module, Debug)]
pub struct ClipVisionModel {
    patches: Patches,
    class: Param<Tensor<1>>,
    positions: Param<Tensor<2>>,
    before: LayerNorm,
    blocks: Vec<Block>,
    after: LayerNorm,
    projection: Option<Linear>,
    #[module(skip)]
    config: ClipVisionConfig,
}

impl ClipVisionModel {
    /// Builds the encoder. Its keys start with `vision_model.`; it has a projection if `visual_projection` is there.
    ///
    /// # Errors
    /// [`ConfigError`] if the configuration asks for something that is not implemented or makes no sense. Problems with
    /// parameters are the source's to report.
    pub fn load(config: &ClipVisionConfig, mut params: Params) -> Result<Self, ConfigError> {
        config.check()?;
        let (channels, eps) = (config.hidden_size, config.layer_norm_eps);
        let projection = params.contains("visual_projection.weight").then(|| {
            let params = params.pp("visual_projection");
            Linear::load(params, channels, config.projection_dim, false)
        });
        let mut params = params.pp("vision_model");
        let mut embeddings = params.pp("embeddings");
        let patch = config.patch_size;
        let patches = Patches::load(embeddings.pp("patch_embedding"), channels, patch, false);
        let class = embeddings.tensor("class_embedding", [channels]);
        let table = [config.positions(), channels];
        let positions = embeddings.tensor("position_embedding.weight", table);
        let shape = BlockShape {
            channels,
            inner: config.intermediate_size,
            heads: config.num_attention_heads,
            qkv_bias: true,
            activation: Activation::parse(&config.hidden_act).unwrap_or(Activation::QuickGelu),
            eps,
        };
        let mut block = |i| {
            Block::load(
                params.pp(format!("encoder.layers.{i}")),
                &BlockNames::CLIP,
                &shape,
            )
        };
        let blocks = (0..config.num_hidden_layers).map(&mut block).collect();
        Ok(Self {
            patches,
            class,
            positions,
            // The published files have this misspelling.
            before: LayerNorm::load(params.pp("pre_layrnorm"), channels, eps),
            blocks,
            after: LayerNorm::load(params.pp("post_layernorm"), channels, eps),
            projection,
            config: config.clone(),
        })
    }

    /// The configuration that the encoder was built from.
    pub fn config(&self) -> &ClipVisionConfig {
        &self.config
    }

    /// Pictures of any sizes as [`Self::forward`] wants them, by CLIP's rule: resized (bicubic) so that the shorter side
    /// fits, the middle cut out, normalised.
    ///
    /// # Errors
    /// [`PixelsError::Narrow`] for a picture that would become a strip of more than 16,384 pixels.
    pub fn prepare(&self, pictures: &[Rgb], device: &Device) -> Result<Tensor<4>, PixelsError> {
        let side = self.config.image_size;
        let cut = |picture: &Rgb| middle_square(picture, side, |rest| rest / 2);
        let cut: Vec<Resized> = pictures.iter().map(cut).collect::<Result<_, _>>()?;
        Ok(pixels::batch(&cut, [side; 2], &Normalisation::CLIP, device))
    }

    /// Encodes normalised pictures `[B, 3, image_size, image_size]`. `hidden` of the result is the state that `skip` layers
    /// before the last one leave: IP-Adapter's "plus" variants take 1.
    ///
    /// # Panics
    /// If the pictures have another size, or `skip` leaves out more layers than there are.
    pub fn forward(&self, pictures: Tensor<4>, skip: usize) -> PictureEncoding {
        keep_awake(&pictures.device(), || self.forward_awake(pictures, skip))
    }

    fn forward_awake(&self, pictures: Tensor<4>, skip: usize) -> PictureEncoding {
        let [batch, ..] = pictures.dims();
        let side = self.config.image_size;
        assert_eq!(pictures.dims(), [batch, 3, side, side], "picture encoder");
        let depth = self.blocks.len();
        assert!(skip <= depth, "cannot skip {skip} of {depth} layers");
        let patches = self.patches.forward(pictures);
        let channels = patches.dims()[2];
        let class = self.class.val().reshape([1, 1, channels]);
        let class = class.expand([batch, 1, channels]);
        let x = Tensor::cat(vec![class, patches], 1) + self.positions.val().unsqueeze();
        let mut x = self.before.forward(x);
        let mut hidden = (skip == depth).then(|| x.clone());
        for (i, block) in self.blocks.iter().enumerate() {
            x = block.forward(x);
            if i + 1 + skip == depth {
                hidden = Some(x.clone());
            }
        }
        let pooled = self.after.forward(x.clone().narrow(1, 0, 1));
        let project = |projection: &Linear| projection.forward(pooled.clone());
        let embedding = self.projection.as_ref().map(project);
        let f32 = |x: Tensor<3>| x.squeeze_dim::<2>(1).cast(DType::F32);
        PictureEncoding {
            hidden: hidden.unwrap_or(x).cast(DType::F32),
            embedding: embedding.map(f32),
            pooled: f32(pooled),
        }
    }
}

/// The middle square of a picture whose shorter side was resized (bicubic) to `side`; `half` says how much of what is left over is
/// cut off before it: transformers' `CLIPImageProcessor` rounds down.
pub(crate) fn middle_square(
    picture: &Rgb,
    side: usize,
    half: impl Fn(usize) -> usize,
) -> Result<Resized, PixelsError> {
    let [height, width] = picture.size();
    let long = |long: usize, short: usize| (side as f64 * long as f64 / short as f64) as usize;
    let size = match height <= width {
        true => [side, long(width, height)],
        false => [long(height, width), side],
    };
    picture.check_target(size)?;
    let resized = pixels::resize(picture, size, Filter::Bicubic);
    let from = size.map(|length| half(length - side));
    Ok(resized.crop(from, [side; 2]))
}
