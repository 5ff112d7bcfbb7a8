//! Depth Anything V2 (Yang et al. 2024): DINOv2 with the head of a dense prediction transformer (Ranftl et al. 2021), as
//! transformers' `DepthAnythingForDepthEstimation`.

use burn::prelude::*;
use burn::tensor::activation::{relu, sigmoid};
use burn::tensor::ops::{InterpolateMode, InterpolateOptions};
use burn::tensor::{DType, module};
use prepose_kernels as kernels;
use serde::Deserialize;

use crate::config::{Check, ConfigError, limit};
use crate::dinov2::{Dinov2, Dinov2Config};
use crate::layers::{Conv2d, Deconv, Linear};
use crate::params::Params;
use crate::pixels::{self, Filter, Normalisation, PixelsError, Resized, Rgb};

/// The `config.json` of a Depth Anything; missing keys have transformers' defaults.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default)]
pub struct DepthAnythingConfig {
    /// The transformer, with the four layers whose features are read in `out_indices`.
    pub backbone_config: Dinov2Config,
    /// The transformer's channels.
    pub reassemble_hidden_size: usize,
    /// By how much the features of each layer are enlarged: 4, 2, 1 and 0.5.
    pub reassemble_factors: Vec<f64>,
    /// Channels of the four levels.
    pub neck_hidden_sizes: Vec<usize>,
    /// Channels of the fused levels.
    pub fusion_hidden_size: usize,
    /// Channels before the last layer.
    pub head_hidden_size: usize,
    /// Which of the fused levels the head reads: −1, the finest.
    pub head_in_index: i64,
    /// `relative` or `metric`.
    pub depth_estimation_type: String,
    /// What depths are multiplied by: 1 for relative ones, in metres for metric ones.
    pub max_depth: Option<f64>,
    /// The side of a patch, in pixels.
    pub patch_size: usize,
}

impl Default for DepthAnythingConfig {
    fn default() -> Self {
        Self {
            backbone_config: Dinov2Config {
                hidden_size: 384,
                num_attention_heads: 6,
                image_size: 518,
                out_indices: Some(vec![9, 10, 11, 12]),
                ..Default::default()
            },
            reassemble_hidden_size: 384,
            reassemble_factors: vec![4.0, 2.0, 1.0, 0.5],
            neck_hidden_sizes: vec![48, 96, 192, 384],
            fusion_hidden_size: 64,
            head_hidden_size: 32,
            head_in_index: -1,
            depth_estimation_type: "relative".to_string(),
            max_depth: None,
            patch_size: 14,
        }
    }
}

const CHECK: Check = Check {
    network: "depth network",
};
/// Levels of the pyramid.
const LEVELS: usize = 4;
/// The side that pictures are resized to, about, in pixels.
const SIDE: f64 = 518.0;

impl DepthAnythingConfig {
    /// Refuses what cannot be built.
    ///
    /// # Errors
    /// [`ConfigError`] names the first key that is unsupported or makes no sense, with its value.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.backbone_config.check()?;
        let kinds = [self.depth_estimation_type.clone()];
        CHECK.block_types("depth_estimation_type", &kinds, &["relative", "metric"])?;
        if self.reassemble_factors != [4.0, 2.0, 1.0, 0.5] {
            let factors = self.reassemble_factors.clone();
            return Err(CHECK.unsupported("reassemble_factors", factors, "[4, 2, 1, 0.5]"));
        }
        if ![-1, LEVELS as i64 - 1].contains(&self.head_in_index) {
            return Err(CHECK.unsupported("head_in_index", self.head_in_index, "-1"));
        }
        for (key, levels) in [
            ("neck_hidden_sizes", self.neck_hidden_sizes.len()),
            ("out_indices", self.taps().len()),
        ] {
            if levels != LEVELS {
                return Err(CHECK.invalid(key, levels, "there must be four levels"));
            }
        }
        for (key, value, other) in [
            (
                "reassemble_hidden_size",
                self.reassemble_hidden_size,
                self.backbone_config.hidden_size,
            ),
            (
                "patch_size",
                self.patch_size,
                self.backbone_config.patch_size,
            ),
        ] {
            if value != other {
                return Err(CHECK.invalid(key, value, format!("its backbone has {other}")));
            }
        }
        let sizes = self.neck_hidden_sizes.iter().copied();
        CHECK.within("neck_hidden_sizes", sizes, limit::CHANNELS)?;
        CHECK.within("head_hidden_size", [self.head_hidden_size], limit::CHANNELS)?;
        CHECK.within(
            "fusion_hidden_size",
            [self.fusion_hidden_size],
            limit::CHANNELS,
        )?;
        CHECK.divides("fusion_hidden_size", &[self.fusion_hidden_size], 2)?;
        CHECK.number("max_depth", self.max_depth, 1e-3..=1e6)
    }

    /// After which layers features are read.
    fn taps(&self) -> &[usize] {
        self.backbone_config
            .out_indices
            .as_deref()
            .unwrap_or_default()
    }

    /// Whether larger values are farther: depths in metres. Relative ones are larger where it is nearer.
    pub fn is_metric(&self) -> bool {
        self.depth_estimation_type == "metric"
    }

    /// Height and width of what the network looks at, for a picture of this height and width: about 518 pixels along the
    /// side that is nearer to that, multiples of a patch.
    pub fn target(&self, [height, width]: [usize; 2]) -> [usize; 2] {
        let scales = [height, width].map(|side| SIDE / side as f64);
        // It is resized as little as possible.
        let by_width = (1.0 - scales[1]).abs() < (1.0 - scales[0]).abs();
        let scale = scales[usize::from(by_width)];
        let patch = self.patch_size as f64;
        [height, width].map(|side| {
            let patches = (scale * side as f64 / patch).round_ties_even();
            (patches * patch) as usize
        })
    }
}

/// Two convolutions, each after an activation, around which the input is led.
#[derive(Module, Debug)]
struct Residual {
    first: Conv2d,
    second: Conv2d,
}

impl Residual {
    fn load(mut params: Params, channels: usize) -> Self {
        Self {
            first: Conv2d::load(params.pp("convolution1"), channels, channels, 3),
            second: Conv2d::load(params.pp("convolution2"), channels, channels, 3),
        }
    }

    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let h = self.first.forward_relu(relu(x.clone()));
        self.second.forward(h) + x
    }
}

/// Joins a level with the fused coarser ones.
#[derive(Module, Debug)]
struct Fusion {
    /// Of this level; the coarsest has no other to be joined with.
    level: Option<Residual>,
    fused: Residual,
    projection: Conv2d,
}

impl Fusion {
    fn load(mut params: Params, channels: usize, coarsest: bool) -> Self {
        let level = (!coarsest).then(|| Residual::load(params.pp("residual_layer1"), channels));
        Self {
            level,
            fused: Residual::load(params.pp("residual_layer2"), channels),
            projection: Conv2d::load(params.pp("projection"), channels, channels, 1),
        }
    }

    /// The result has the height and width `size`.
    fn forward(&self, level: Tensor<4>, coarser: Option<Tensor<4>>, size: [usize; 2]) -> Tensor<4> {
        let x = match (&self.level, coarser) {
            (Some(residual), Some(coarser)) => coarser + residual.forward(level),
            _ => level,
        };
        // The projection of single pixels and the interpolation between them can change places, as the weights of the
        // latter sum to one; before it there are fewer pixels.
        let x = self.projection.forward(self.fused.forward(x));
        enlarge(x, size)
    }
}

/// Bilinear interpolation in which corners stay corners.
fn enlarge(x: Tensor<4>, size: [usize; 2]) -> Tensor<4> {
    let options = InterpolateOptions::new(InterpolateMode::Bilinear)
        .with_output_size(size)
        .with_align_corners(true);
    module::interpolate(x, options)
}

/// From the tokens of a layer to a level of the pyramid.
#[derive(Module, Debug)]
struct Level {
    projection: Linear,
    larger: Option<Deconv>,
    smaller: Option<Conv2d>,
    conv: Conv2d,
}

impl Level {
    fn load(neck: &mut Params, i: usize, config: &DepthAnythingConfig) -> Self {
        let channels = config.neck_hidden_sizes[i];
        let mut params = neck.pp(format!("reassemble_stage.layers.{i}"));
        let backbone = config.reassemble_hidden_size;
        let projection = Linear::load_pointwise(params.pp("projection"), backbone, channels, true);
        let resize = params.pp("resize");
        let (larger, smaller) = match i {
            0 => (Some(Deconv::load(resize, [channels; 2], 4)), None),
            1 => (Some(Deconv::load(resize, [channels; 2], 2)), None),
            2 => (None, None),
            _ => {
                let shape = [channels, channels, 3, 2, 1];
                (None, Some(Conv2d::load_with(resize, shape, true)))
            }
        };
        let shape = [channels, config.fusion_hidden_size, 3, 1, 1];
        Self {
            projection,
            larger,
            smaller,
            conv: Conv2d::load_with(neck.pp(format!("convs.{i}")), shape, false),
        }
    }

    /// Tokens `[B, H · W, C]` of the patches.
    fn forward(&self, tokens: Tensor<3>, grid: [usize; 2]) -> Tensor<4> {
        let x = self.projection.forward(tokens);
        let (x, grid) = match &self.larger {
            Some(larger) => larger.forward(x, grid),
            None => (x, grid),
        };
        let x = kernels::tokens_to_picture(x, grid);
        let x = match &self.smaller {
            Some(smaller) => smaller.forward(x),
            None => x,
        };
        self.conv.forward(x)
    }
}

/// A Depth Anything.
#[derive(Module, Debug)]
pub struct DepthAnything {
    backbone: Dinov2,
    levels: Vec<Level>,
    /// The coarsest first.
    fusions: Vec<Fusion>,
    conv1: Conv2d,
    conv2: Conv2d,
    conv3: Conv2d,
    #[module(skip)]
    config: DepthAnythingConfig,
}

impl DepthAnything {
    /// Builds the network.
    ///
    /// # Errors
    /// [`ConfigError`] if the configuration asks for something that is not implemented or makes no sense. Problems with
    /// parameters are the source's to report.
    pub fn load(config: &DepthAnythingConfig, params: Params) -> Result<Self, ConfigError> {
        config.check()?;
        let mut params = params;
        let backbone = Dinov2::load(&config.backbone_config, params.pp("backbone"))?;
        let mut neck = params.pp("neck");
        let fused = config.fusion_hidden_size;
        let level = |i| Level::load(&mut neck, i, config);
        let levels = (0..LEVELS).map(level).collect();
        let fusion = |i| {
            let params = neck.pp(format!("fusion_stage.layers.{i}"));
            Fusion::load(params, fused, i == 0)
        };
        let fusions = (0..LEVELS).map(fusion).collect();
        let mut head = params.pp("head");
        let inner = config.head_hidden_size;
        Ok(Self {
            backbone,
            levels,
            fusions,
            conv1: Conv2d::load(head.pp("conv1"), fused, fused / 2, 3),
            conv2: Conv2d::load(head.pp("conv2"), fused / 2, inner, 3),
            conv3: Conv2d::load(head.pp("conv3"), inner, 1, 1),
            config: config.clone(),
        })
    }

    /// The configuration that the network was built from.
    pub fn config(&self) -> &DepthAnythingConfig {
        &self.config
    }

    /// A picture as [`Self::forward`] wants it, `[1, 3, H, W]`: resized (bicubic) to about 518 pixels, sides multiples of a
    /// patch, normalised.
    ///
    /// # Errors
    /// [`PixelsError::Narrow`] for a picture that would become a strip without a patch or of more than 16,384 pixels.
    pub fn prepare(&self, picture: &Rgb, device: &Device) -> Result<Tensor<4>, PixelsError> {
        let size = self.config.target(picture.size());
        picture.check_target(size)?;
        let resized: Resized = pixels::resize(picture, size, Filter::Bicubic);
        Ok(pixels::batch(
            &[resized],
            size,
            &Normalisation::IMAGENET,
            device,
        ))
    }

    /// Depths `[B, H, W]` of normalised pictures `[B, 3, H, W]`, f32; H and W are multiples of a patch. Larger is nearer,
    /// unless depths are metric.
    ///
    /// # Panics
    /// If the pictures are smaller than a patch.
    pub fn forward(&self, pictures: Tensor<4>) -> Tensor<3> {
        let [_, _, height, width] = pictures.dims();
        let taps = self.backbone.taps(pictures, self.config.taps());
        self.head(taps, [height, width])
    }

    /// The depths of pictures of this height and width, from the states `[B, 1 + patches, C]` of the four layers.
    pub fn head(&self, taps: Vec<Tensor<3>>, [height, width]: [usize; 2]) -> Tensor<3> {
        let grid = [height, width].map(|side| side / self.config.patch_size);
        let patches = grid[0] * grid[1];
        let levels = self.levels.iter().zip(taps);
        let levels = levels.map(|(level, x)| level.forward(x.narrow(1, 1, patches), grid));
        let mut levels: Vec<Tensor<4>> = levels.collect();
        let mut fused = None;
        for fusion in &self.fusions {
            let Some(level) = levels.pop() else {
                break;
            };
            let [_, _, h, w] = level.dims();
            let size = match levels.last() {
                Some(next) => [next.dims()[2], next.dims()[3]],
                None => [2 * h, 2 * w],
            };
            fused = Some(fusion.forward(level, fused, size));
        }
        let fused = fused.expect("a configuration with four levels was checked");
        let x = enlarge(
            self.conv1.forward(fused),
            grid.map(|side| side * self.config.patch_size),
        );
        let x = self.conv3.forward(self.conv2.forward_relu(x));
        let x: Tensor<3> = x.squeeze_dim::<3>(1).cast(DType::F32);
        let most = self.config.max_depth.unwrap_or(1.0);
        match self.config.is_metric() {
            true => sigmoid(x) * most,
            false => relu(x) * most,
        }
    }

    /// Depths `[B, h, w]` at another height and width, as transformers' post-processing: bicubic, not smoothed.
    pub fn restore(depths: Tensor<3>, size: [usize; 2]) -> Tensor<3> {
        let options = InterpolateOptions::new(InterpolateMode::Bicubic)
            .with_output_size(size)
            .with_align_corners(false);
        module::interpolate(depths.unsqueeze_dim::<4>(1), options).squeeze_dim(1)
    }
}
