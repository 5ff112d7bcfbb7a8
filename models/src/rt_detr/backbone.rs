//! ResNet-D (He et al. 2019): a residual network with a stem of three convolutions and shortcuts that average before they shrink.

use burn::prelude::*;
use burn::tensor::activation::relu;
use prepose_kernels as kernels;

use super::config::RtDetrResNetConfig;
use crate::params::Params;
use crate::rcnn::layers::{ConvNorm, Shape};

/// Of the backbone's batch norms, which no configuration changes.
const EPS: f64 = 1e-5;

fn conv(mut params: Params, shape: Shape) -> ConvNorm {
    ConvNorm::load_folded(&mut params, "convolution", "normalization", EPS, shape)
}

/// What is added to a block's result.
#[derive(Module, Debug)]
struct Shortcut {
    conv: ConvNorm,
    /// Average each 2 × 2 pixels before.
    halves: bool,
}

impl Shortcut {
    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        self.conv.forward(if self.halves { halved(x) } else { x })
    }
}

/// The mean of each 2 × 2 pixels; sides are even.
fn halved(x: Tensor<4>) -> Tensor<4> {
    let [batch, channels, height, width] = x.dims();
    x.reshape([batch, channels, height / 2, 2, width / 2, 2])
        .mean_dim(5)
        .mean_dim(3)
        .reshape([batch, channels, height / 2, width / 2])
}

/// A residual block.
#[derive(Module, Debug)]
struct Residual {
    convs: Vec<ConvNorm>,
    shortcut: Option<Shortcut>,
}

impl Residual {
    fn load(mut params: Params, bottleneck: bool, widths: [usize; 2], first: usize) -> Self {
        let [input, output] = widths;
        let stride = if first == 2 { 2 } else { 1 };
        let shapes = if bottleneck {
            let inner = output / 4;
            vec![
                Shape::new(input, inner, 1),
                Shape::new(inner, inner, 3).with_stride(stride),
                Shape::new(inner, output, 1),
            ]
        } else {
            vec![
                Shape::new(input, output, 3).with_stride(stride),
                Shape::new(output, output, 3),
            ]
        };
        // The first block of a stage of basic blocks has a shortcut in any case.
        let (wanted, halves) = match bottleneck {
            true => (input != output || stride == 2, stride == 2),
            false => (first > 0, input != output),
        };
        let shortcut = wanted.then(|| Shortcut {
            conv: match halves {
                true => conv(params.pp("shortcut.1"), Shape::new(input, output, 1)),
                false => {
                    let shape = Shape::new(input, output, 1).with_stride(stride);
                    conv(params.pp("shortcut"), shape)
                }
            },
            halves,
        });
        let convs = shapes.into_iter().enumerate();
        let convs = convs.map(|(i, shape)| conv(params.pp(format!("layer.{i}")), shape));
        Self {
            convs: convs.collect(),
            shortcut,
        }
    }

    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let last = self.convs.len() - 1;
        let inner = self.convs[..last]
            .iter()
            .fold(x.clone(), |x, conv| conv.forward_relu(x));
        let shortcut = match &self.shortcut {
            Some(shortcut) => shortcut.forward(x),
            None => x,
        };
        relu(self.convs[last].forward(inner) + shortcut)
    }
}

/// The backbone.
#[derive(Module, Debug)]
pub(super) struct Backbone {
    stem: Vec<ConvNorm>,
    stages: Vec<Vec<Residual>>,
}

impl Backbone {
    pub fn load(mut params: Params, config: &RtDetrResNetConfig) -> Self {
        let half = config.embedding_size / 2;
        let stem = [
            Shape::new(3, half, 3).with_stride(2),
            Shape::new(half, half, 3),
            Shape::new(half, config.embedding_size, 3),
        ];
        let stem = stem.into_iter().enumerate();
        let stem = stem.map(|(i, shape)| conv(params.pp(format!("embedder.embedder.{i}")), shape));
        let stem = stem.collect();
        let bottleneck = config.layer_type == "bottleneck";
        let mut input = config.embedding_size;
        let mut stages = Vec::new();
        for (i, (output, depth)) in config.hidden_sizes.iter().zip(&config.depths).enumerate() {
            let mut stage = params.pp(format!("encoder.stages.{i}"));
            let mut blocks = Vec::new();
            for block in 0..*depth {
                // 0 within a stage, 1 where the first stage begins, 2 where a later one does and halves the map.
                let first = match (block, i) {
                    (0, 0) => 1,
                    (0, _) => 2,
                    _ => 0,
                };
                let params = stage.pp(format!("layers.{block}"));
                blocks.push(Residual::load(params, bottleneck, [input, *output], first));
                input = *output;
            }
            stages.push(blocks);
        }
        Self { stem, stages }
    }

    /// Pictures `[B, 3, H, W]`, with sides that 32 divides, to the maps of strides 8, 16 and 32.
    pub fn forward(&self, pictures: Tensor<4>) -> Vec<Tensor<4>> {
        let x = self
            .stem
            .iter()
            .fold(pictures, |x, conv| conv.forward_relu(x));
        let mut x = kernels::max_pool3x3(x, 1);
        let mut maps = Vec::new();
        for (i, stage) in self.stages.iter().enumerate() {
            x = stage.iter().fold(x, |x, block| block.forward(x));
            if i > 0 {
                maps.push(x.clone());
            }
        }
        maps
    }
}
