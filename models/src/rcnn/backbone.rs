//! The residual network (He et al. 2016) and the feature pyramid on it (Lin et al. 2017).

use burn::module::Module;
use burn::prelude::*;
use burn::tensor::activation::relu;
use burn::tensor::module::max_pool2d;
use burn::tensor::ops::MaxPoolOptions;
use prepose_kernels as kernels;

use super::config::{Block, RcnnConfig};
use super::layers::{ConvNorm, Shape};
use crate::params::Params;

/// torchvision's `BasicBlock` or `Bottleneck`: its convolutions in their order.
#[derive(Module, Debug)]
struct Residual {
    convs: Vec<ConvNorm>,
    downsample: Option<ConvNorm>,
}

impl Residual {
    fn load(
        mut params: Params,
        config: &RcnnConfig,
        (input, planes): (usize, usize),
        stride: usize,
    ) -> Self {
        let backbone = &config.backbone;
        let output = planes * backbone.block.expansion();
        let width = planes * backbone.width_per_group / 64;
        let shapes = match backbone.block {
            Block::Basic => vec![
                Shape::new(input, planes, 3).with_stride(stride),
                Shape::new(planes, planes, 3),
            ],
            Block::Bottleneck => vec![
                Shape::new(input, width, 1),
                Shape::new(width, width, 3).with_stride(stride),
                Shape::new(width, output, 1),
            ],
        };
        let eps = backbone.norm_eps;
        let downsample = (stride != 1 || input != output).then(|| {
            let shape = Shape::new(input, output, 1).with_stride(stride);
            ConvNorm::load_folded(&mut params.pp("downsample"), "0", "1", eps, shape)
        });
        let mut load = |(i, shape): (usize, Shape)| {
            let (conv, norm) = (format!("conv{i}"), format!("bn{i}"));
            ConvNorm::load_folded(&mut params, &conv, &norm, eps, shape)
        };
        Self {
            convs: (1..).zip(shapes).map(&mut load).collect(),
            downsample,
        }
    }

    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let shortcut = match &self.downsample {
            Some(conv) => conv.forward(x.clone()),
            None => x.clone(),
        };
        let last = self.convs.len() - 1;
        let inner = self.convs[..last]
            .iter()
            .fold(x, |x, conv| conv.forward_relu(x));
        relu(self.convs[last].forward(inner) + shortcut)
    }
}

/// torchvision's `BackboneWithFPN` on a `ResNet`.
#[derive(Module, Debug)]
pub(super) struct Backbone {
    stem: ConvNorm,
    stages: Vec<Vec<Residual>>,
    /// How many stages the pyramid does not stand on.
    below: usize,
    inner: Vec<ConvNorm>,
    layer: Vec<ConvNorm>,
}

impl Backbone {
    pub fn load(mut params: Params, config: &RcnnConfig) -> Self {
        let backbone = &config.backbone;
        let mut body = params.pp("body");
        let shape = Shape::new(3, backbone.width, 7).with_stride(2);
        let stem = ConvNorm::load_folded(&mut body, "conv1", "bn1", backbone.norm_eps, shape);
        let mut input = backbone.width;
        let mut outputs = Vec::new();
        let mut stages = Vec::new();
        for (i, blocks) in backbone.layers.iter().enumerate() {
            let mut stage = body.pp(format!("layer{}", i + 1));
            let planes = backbone.planes(i);
            let mut loaded = Vec::new();
            for j in 0..*blocks {
                let stride = if i > 0 && j == 0 { 2 } else { 1 };
                loaded.push(Residual::load(stage.pp(j), config, (input, planes), stride));
                input = planes * backbone.block.expansion();
            }
            outputs.push(input);
            stages.push(loaded);
        }
        let below = backbone.first();
        let mut fpn = params.pp("fpn");
        let mut blocks = |kind, kernel, inputs: &[usize]| {
            let mut params = fpn.pp(kind);
            let mut load = |(i, input): (usize, &usize)| {
                let shape = Shape::new(*input, config.fpn_channels, kernel);
                ConvNorm::load_block(params.pp(i), config.fpn_norm, shape)
            };
            inputs.iter().enumerate().map(&mut load).collect::<Vec<_>>()
        };
        let outputs = &outputs[below..];
        Self {
            inner: blocks("inner_blocks", 1, outputs),
            layer: blocks("layer_blocks", 3, &vec![config.fpn_channels; outputs.len()]),
            stem,
            stages,
            below,
        }
    }

    /// Normalised pictures `[B, 3, H, W]`, with sizes that the coarsest stage's stride divides, to the
    /// levels of the pyramid `[B, fpn_channels, H / stride, W / stride]`, finest first. The last one is
    /// every second pixel of the one before.
    pub fn forward(&self, pictures: Tensor<4>) -> Vec<Tensor<4>> {
        let x = self.stem.forward_relu(pictures);
        let mut x = kernels::max_pool3x3(x, 1);
        let mut bottom_up = Vec::new();
        for (i, stage) in self.stages.iter().enumerate() {
            x = stage.iter().fold(x, |x, block| block.forward(x));
            if i >= self.below {
                bottom_up.push(x.clone());
            }
        }
        let mut above: Option<Tensor<4>> = None;
        let mut levels = Vec::new();
        for ((x, inner), layer) in bottom_up
            .into_iter()
            .zip(&self.inner)
            .zip(&self.layer)
            .rev()
        {
            let lateral = inner.forward(x);
            let merged = match above {
                Some(above) => lateral + kernels::upsample_nearest2x(above),
                None => lateral,
            };
            levels.push(layer.forward(merged.clone()));
            above = Some(merged);
        }
        levels.reverse();
        if let Some(coarsest) = levels.last() {
            let options = MaxPoolOptions::new([1, 1]).with_stride([2, 2]);
            levels.push(max_pool2d(coarsest.clone(), options));
        }
        levels
    }
}
