//! Inception-v3 (Szegedy et al. 2016) as FID uses it: TensorFlow's network of 2015 in the layout of pytorch-fid's weights.
//!
//! It differs from torchvision's: 1008 classes, averages that do not count what lies beyond the edge, and a maximum in the
//! place of the last average.

mod plans;

use burn::module::{Param, ParamId};
use burn::prelude::*;
use burn::tensor::activation::relu;
use burn::tensor::ops::{AvgPoolOptions, MaxPoolOptions};
use burn::tensor::{DType, TensorData, module};
use prepose_kernels as kernels;
use rayon::prelude::*;
use serde::Deserialize;

use crate::config::{Check, ConfigError, limit};
use crate::params::Params;
use crate::pixels::{PixelsError, Rgb};
use plans::{Plan, plans};

/// The side of the pictures that the network looks at, in pixels.
pub const SIDE: usize = 299;
/// Of the batch norms.
const EPS: f64 = 1e-3;
/// Features of the published network.
const FEATURES: usize = 2048;

/// Sizes of an Inception-v3; missing keys are those of the published network.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct InceptionConfig {
    /// By how much all numbers of channels are divided: 1, and more in tests.
    pub thinner: usize,
    /// How many classes it tells apart.
    pub classes: usize,
}

impl Default for InceptionConfig {
    fn default() -> Self {
        Self {
            thinner: 1,
            classes: 1008,
        }
    }
}

impl InceptionConfig {
    /// Refuses what cannot be built.
    ///
    /// # Errors
    /// [`ConfigError`] names the first key that makes no sense, with its value.
    pub fn check(&self) -> Result<(), ConfigError> {
        const CHECK: Check = Check {
            network: "Inception-v3",
        };
        if !matches!(self.thinner, 1 | 2 | 4 | 8 | 16) {
            let reason = "numbers of channels divide by 1, 2, 4, 8 and 16";
            return Err(CHECK.invalid("thinner", self.thinner, reason));
        }
        CHECK.within("classes", [self.classes], limit::CHANNELS)
    }

    /// How many features a picture has: 2048.
    pub fn features(&self) -> usize {
        FEATURES / self.thinner
    }
}

/// A convolution, the batch norm after it folded into it, and what is negative set to zero.
#[derive(Module, Debug)]
struct Conv {
    weight: Param<Tensor<4>>,
    bias: Param<Tensor<1>>,
    stride: usize,
    /// Zeros around the picture, so that it keeps its size.
    padded: bool,
}

impl Conv {
    fn load(
        mut params: Params,
        [input, output]: [usize; 2],
        kernel: [usize; 2],
        stride: usize,
        padded: bool,
    ) -> Self {
        let [height, width] = kernel;
        let shape = [output, input, height, width];
        let weight = params.pp("conv").filters("weight", shape).val();
        let mut norm = params.pp("bn");
        let mut statistic = |name| norm.tensor(name, [output]).val();
        let scale = statistic("weight") / (statistic("running_var") + EPS).sqrt();
        let bias = statistic("bias") - statistic("running_mean") * scale.clone();
        let weight = weight * scale.reshape([output, 1, 1, 1]);
        Self {
            weight: Param::initialized(ParamId::new(), weight),
            bias: Param::initialized(ParamId::new(), bias),
            stride,
            padded,
        }
    }

    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let (weight, bias) = (self.weight.val(), Some(self.bias.val()));
        let [.., height, width] = weight.dims();
        let padding = [height, width].map(|side| if self.padded { side / 2 } else { 0 });
        kernels::conv2d_relu(x, weight, bias, self.stride, padding)
    }
}

/// Convolutions one after the other, and then perhaps several of the same input side by side.
#[derive(Module, Debug)]
struct Branch {
    chain: Vec<Conv>,
    fork: Vec<Conv>,
}

impl Branch {
    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let x = self.chain.iter().fold(x, |x, conv| conv.forward(x));
        match self.fork.is_empty() {
            true => x,
            false => {
                let sides = self.fork.iter().map(|conv| conv.forward(x.clone()));
                Tensor::cat(sides.collect(), 1)
            }
        }
    }
}

/// What the pooling branch of a block does before its convolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pool {
    /// The mean of 3 × 3 pixels, of those that there are.
    Mean,
    /// The largest of 3 × 3 pixels.
    Largest,
}

/// A pool and the layer of single pixels after it.
#[derive(Module, Debug)]
struct Pooled {
    #[module(skip)]
    pool: Pool,
    conv: Conv,
}

impl Pooled {
    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        match self.pool {
            // The mean of the layer's results is the layer's result for the mean, and has fewer channels.
            Pool::Mean => {
                let (weight, bias) = (self.conv.weight.val(), Some(self.conv.bias.val()));
                let x = kernels::conv2d(x, weight, bias, 1, 0);
                let options = AvgPoolOptions::new([3, 3]).with_stride([1, 1]);
                let options = options.with_padding([1, 1]).with_count_include_pad(false);
                relu(module::avg_pool2d(x, options))
            }
            Pool::Largest => {
                let options = MaxPoolOptions::new([3, 3]).with_stride([1, 1]);
                let x = module::max_pool2d(x, options.with_padding([1, 1]));
                self.conv.forward(x)
            }
        }
    }
}

/// Branches whose results are joined, that of the pool last.
#[derive(Module, Debug)]
struct Mixed {
    branches: Vec<Branch>,
    /// None where the block halves the picture: there it is the largest of 3 × 3 pixels in steps of two.
    pooled: Option<Pooled>,
}

impl Mixed {
    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let branches = self.branches.iter();
        let mut all: Vec<_> = branches.map(|branch| branch.forward(x.clone())).collect();
        all.push(match &self.pooled {
            Some(pooled) => pooled.forward(x),
            None => kernels::max_pool3x3(x, 0),
        });
        Tensor::cat(all, 1)
    }
}

impl Mixed {
    /// Builds a block for `input` channels; the second result is how many come out.
    fn load(mut params: Params, plan: &Plan, input: usize, thinner: usize) -> (Self, usize) {
        let halves = plan.pooled.is_none();
        let mut branches = Vec::new();
        let mut outputs = 0;
        for (specs, side_by_side) in &plan.branches {
            let (chained, forked) = specs.split_at(specs.len() - side_by_side);
            let mut from = input;
            let mut chain = Vec::new();
            for (i, (name, channels, kernel)) in chained.iter().enumerate() {
                let to = channels / thinner;
                let last = halves && i + 1 == chained.len();
                let stride = if last { 2 } else { 1 };
                let conv = Conv::load(params.pp(name), [from, to], *kernel, stride, !last);
                chain.push(conv);
                from = to;
            }
            let mut fork = Vec::new();
            for (name, channels, kernel) in forked {
                let to = channels / thinner;
                fork.push(Conv::load(params.pp(name), [from, to], *kernel, 1, true));
                outputs += to;
            }
            if forked.is_empty() {
                outputs += from;
            }
            branches.push(Branch { chain, fork });
        }
        let pooled = plan.pooled.map(|(pool, channels)| {
            let to = channels / thinner;
            let conv = Conv::load(params.pp("branch_pool"), [input, to], [1, 1], 1, true);
            outputs += to;
            Pooled { pool, conv }
        });
        if pooled.is_none() {
            outputs += input;
        }
        let block = Self { branches, pooled };
        (block, outputs)
    }
}

/// What the network says of a batch, f32.
#[derive(Debug, Clone)]
pub struct InceptionOutput {
    /// The mean of the last feature maps `[B, 2048]`, which FID, KID and their like compare.
    pub features: Tensor<2>,
    /// The classes `[B, 1008]` before the softmax and without their bias, as the Inception score takes them.
    pub logits: Tensor<2>,
}

/// Inception-v3.
#[derive(Module, Debug)]
pub struct Inception {
    stem: Vec<Conv>,
    blocks: Vec<Mixed>,
    classes: Param<Tensor<2>>,
    #[module(skip)]
    config: InceptionConfig,
}

impl Inception {
    /// Builds the network.
    ///
    /// # Errors
    /// [`ConfigError`] if the configuration makes no sense. Problems with parameters are the source's to report.
    pub fn load(config: &InceptionConfig, mut params: Params) -> Result<Self, ConfigError> {
        // Name, outputs, side of the kernel, stride, and whether the size stays.
        const STEM: [(&str, usize, usize, usize, bool); 5] = [
            ("Conv2d_1a_3x3", 32, 3, 2, false),
            ("Conv2d_2a_3x3", 32, 3, 1, false),
            ("Conv2d_2b_3x3", 64, 3, 1, true),
            ("Conv2d_3b_1x1", 80, 1, 1, false),
            ("Conv2d_4a_3x3", 192, 3, 1, false),
        ];
        config.check()?;
        let thinner = config.thinner;
        let mut channels = 3;
        let mut stem = Vec::new();
        for (name, outputs, side, stride, padded) in STEM {
            let to = outputs / thinner;
            let sizes = [channels, to];
            stem.push(Conv::load(
                params.pp(name),
                sizes,
                [side; 2],
                stride,
                padded,
            ));
            channels = to;
        }
        let mut blocks = Vec::new();
        for plan in plans() {
            let (block, outputs) = Mixed::load(params.pp(plan.name), &plan, channels, thinner);
            blocks.push(block);
            channels = outputs;
        }
        let classes = params.pp("fc").tensor("weight", [config.classes, channels]);
        Ok(Self {
            stem,
            blocks,
            classes,
            config: config.clone(),
        })
    }

    /// The configuration that the network was built from.
    pub fn config(&self) -> &InceptionConfig {
        &self.config
    }

    /// Pictures of any sizes as pytorch-fid prepares them: stretched to 299 × 299 by the two nearest pixels along each
    /// axis, without smoothing before, and from −1 to 1.
    ///
    /// # Errors
    /// None now: every picture has a pixel to stretch.
    pub fn prepare(pictures: &[Rgb], device: &Device) -> Result<Tensor<4>, PixelsError> {
        let mut values = vec![0f32; pictures.len() * 3 * SIDE * SIDE];
        let places = values.par_chunks_exact_mut(3 * SIDE * SIDE);
        places
            .zip(pictures)
            .for_each(|(place, picture)| stretch(picture, place));
        let data = TensorData::new(values, [pictures.len(), 3, SIDE, SIDE]);
        Ok(Tensor::from_data(data, (device, DType::F32)))
    }

    /// Looks at pictures `[B, 3, 299, 299]` from −1 to 1 ([`Self::prepare`]).
    pub fn forward(&self, pictures: Tensor<4>) -> InceptionOutput {
        let mut x = self.maps(pictures, self.blocks.len());
        let [batch, channels, ..] = x.dims();
        x = x.mean_dim(3).mean_dim(2);
        let features = x.reshape([batch, channels]).cast(DType::F32);
        let classes = self.classes.val().cast(DType::F32).transpose();
        InceptionOutput {
            logits: features.clone().matmul(classes),
            features,
        }
    }

    /// The feature maps after the stem and the first `blocks` blocks, `[B, C, H, W]`.
    ///
    /// # Panics
    /// If there are fewer blocks.
    pub fn maps(&self, pictures: Tensor<4>, blocks: usize) -> Tensor<4> {
        let dtype = self.classes.val().dtype();
        let mut x = pictures.cast(dtype);
        for (i, conv) in self.stem.iter().enumerate() {
            x = conv.forward(x);
            if i == 2 || i == 4 {
                x = kernels::max_pool3x3(x, 0);
            }
        }
        self.blocks[..blocks]
            .iter()
            .fold(x, |x, block| block.forward(x))
    }
}

/// For each of [`SIDE`] places along an axis the two pixels it lies between, and how near it is to the second.
fn taps(from: usize) -> Vec<(usize, usize, f32)> {
    let scale = from as f32 / SIDE as f32;
    let tap = |i: usize| {
        let at = ((i as f32 + 0.5) * scale - 0.5).max(0.0);
        let first = (at as usize).min(from - 1);
        (first, (first + 1).min(from - 1), at - first as f32)
    };
    (0..SIDE).map(tap).collect()
}

/// Writes a picture's three planes.
fn stretch(picture: &Rgb, to: &mut [f32]) {
    let [height, width] = picture.size();
    let (rows, columns) = (taps(height), taps(width));
    let bytes = picture.bytes();
    for (channel, plane) in to.chunks_exact_mut(SIDE * SIDE).enumerate() {
        let at = |y: usize, x: usize| f32::from(bytes[(y * width + x) * 3 + channel]) / 255.0;
        for (line, (y0, y1, down)) in plane.chunks_exact_mut(SIDE).zip(&rows) {
            for (value, (x0, x1, right)) in line.iter_mut().zip(&columns) {
                let between = |y| (1.0 - right) * at(y, *x0) + right * at(y, *x1);
                let mixed = (1.0 - down) * between(*y0) + down * between(*y1);
                *value = 2.0 * mixed - 1.0;
            }
        }
    }
}
