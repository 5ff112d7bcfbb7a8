//! What is made of a region: a class, a box and a mask.

use burn::module::{Module, Param, ParamId};
use burn::prelude::*;
use burn::tensor::activation::{relu, sigmoid};
use prepose_kernels as kernels;

use super::config::{BoxHead, MaskHead, RcnnConfig};
use super::layers::{ConvNorm, Shape};
use crate::layers::Linear;
use crate::params::Params;

/// torchvision's `TwoMLPHead` or `FastRCNNConvFCHead`, and `FastRCNNPredictor`.
#[derive(Module, Debug)]
pub(super) struct BoxNetwork {
    convs: Vec<ConvNorm>,
    layers: Vec<Linear>,
    classes: Linear,
    changes: Linear,
}

impl BoxNetwork {
    pub fn load(mut params: Params, config: &RcnnConfig) -> Self {
        let area = config.box_roi_size * config.box_roi_size;
        let mut channels = config.fpn_channels;
        let mut convs = Vec::new();
        let mut head = params.pp("box_head");
        let (names, widths): (Vec<String>, Vec<usize>) = match &config.box_head {
            BoxHead::Mlp { width } => (vec!["fc6".into(), "fc7".into()], vec![*width; 2]),
            BoxHead::ConvFc { conv, fc, norm } => {
                for (i, output) in conv.iter().enumerate() {
                    let shape = Shape::new(channels, *output, 3);
                    convs.push(ConvNorm::load_block(head.pp(i), *norm, shape));
                    channels = *output;
                }
                // The modules between are one that flattens, and an activation after each layer.
                let name = |i: usize| (conv.len() + 1 + 2 * i).to_string();
                ((0..fc.len()).map(name).collect(), fc.clone())
            }
        };
        let mut input = channels * area;
        let mut layers = Vec::new();
        for (name, width) in names.iter().zip(widths) {
            layers.push(Linear::load(head.pp(name), input, width, true));
            input = width;
        }
        let mut predictor = params.pp("box_predictor");
        let classes = config.classes.len();
        Self {
            convs,
            layers,
            classes: Linear::load(predictor.pp("cls_score"), input, classes, true),
            changes: Linear::load(predictor.pp("bbox_pred"), input, 4 * classes, true),
        }
    }

    /// Pooled regions `[R, C, S, S]` to logits of the classes `[R, classes]` and changes of the box for
    /// each class `[R, 4 · classes]`.
    pub fn forward(&self, regions: Tensor<4>) -> (Tensor<2>, Tensor<2>) {
        let x = self
            .convs
            .iter()
            .fold(regions, |x, conv| conv.forward_relu(x));
        let x = self
            .layers
            .iter()
            .fold(x.flatten::<2>(1, 3), |x, layer| relu(layer.forward_rows(x)));
        (
            self.classes.forward_rows(x.clone()),
            self.changes.forward_rows(x),
        )
    }
}

/// torchvision's `MaskRCNNHeads` and `MaskRCNNPredictor`.
#[derive(Module, Debug)]
pub(super) struct MaskNetwork {
    convs: Vec<ConvNorm>,
    /// The transposed convolution, 2 × 2 with stride 2, as a 1 × 1 convolution with the four pixels
    /// that each becomes after each other.
    enlarge_weight: Param<Tensor<4>>,
    enlarge_bias: Param<Tensor<1>>,
    /// The 1 × 1 convolution to one mask for each class, `[classes, channels]`.
    weight: Param<Tensor<2>>,
    bias: Param<Tensor<1>>,
}

impl MaskNetwork {
    pub fn load(mut params: Params, head: &MaskHead, config: &RcnnConfig) -> Self {
        let mut channels = config.fpn_channels;
        let mut convs = Vec::new();
        let mut own = params.pp("mask_head");
        for (i, output) in head.conv.iter().enumerate() {
            let shape = Shape::new(channels, *output, 3);
            convs.push(ConvNorm::load_block(own.pp(i), head.norm, shape));
            channels = *output;
        }
        let (inner, classes) = (head.predictor, config.classes.len());
        let mut predictor = params.pp("mask_predictor");
        let mut enlarge = predictor.pp("conv5_mask");
        let weight = enlarge.tensor("weight", [channels, inner, 2, 2]).val();
        let weight = weight.permute([2, 3, 1, 0]);
        let weight = kernels::pointwise_kernel(weight.reshape([4 * inner, channels]));
        let bias = enlarge.tensor("bias", [inner]).val().repeat(&[4]);
        let mut logits = predictor.pp("mask_fcn_logits");
        Self {
            convs,
            enlarge_weight: Param::initialized(ParamId::new(), weight),
            enlarge_bias: Param::initialized(ParamId::new(), bias),
            weight: logits.tensor_stored("weight", &[classes, inner, 1, 1], [classes, inner]),
            bias: logits.tensor("bias", [classes]),
        }
    }

    /// Pooled regions `[R, C, S, S]` of objects of the classes `labels` `[R]` to the probabilities that
    /// a pixel is the object's, `[R, 2S, 2S]`. Only the masks of these classes are computed.
    pub fn forward(&self, regions: Tensor<4>, labels: Tensor<1, Int>) -> Tensor<3> {
        let x = self
            .convs
            .iter()
            .fold(regions, |x, conv| conv.forward_relu(x));
        let (weight, bias) = (self.enlarge_weight.val(), self.enlarge_bias.val());
        let x = kernels::conv2d_relu(x, weight, Some(bias), 1, [0; 2]);
        let [count, channels, height, width] = x.dims();
        let x = x.reshape([count, 4, channels / 4, height * width]);
        let weight = self.weight.val().select(0, labels.clone());
        let weight = weight.reshape([count, 1, 1, channels / 4]);
        let weight = weight.expand([count, 4, 1, channels / 4]);
        let bias = self.bias.val().select(0, labels).reshape([count, 1, 1]);
        let logits = weight.matmul(x).reshape([count, 2, 2, height, width]);
        let logits = logits.permute([0, 3, 1, 4, 2]);
        sigmoid(logits.reshape([count, 2 * height, 2 * width]) + bias)
    }
}
