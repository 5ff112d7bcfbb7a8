//! Convolutions with what follows them.

use burn::module::{Param, ParamId};
use burn::prelude::*;
use prepose_kernels as kernels;

use crate::params::Params;

/// A convolution with a square kernel and a bias, into which the batch norm after it, if there is
/// one, was folded when it was loaded.
#[derive(Module, Debug)]
pub(crate) struct ConvNorm {
    weight: Param<Tensor<4>>,
    bias: Param<Tensor<1>>,
    stride: usize,
    padding: usize,
}

/// Sizes of a convolution that keeps the number of pixels, or divides it by the stride.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub input: usize,
    pub output: usize,
    pub kernel: usize,
    pub stride: usize,
}

impl Shape {
    pub fn new(input: usize, output: usize, kernel: usize) -> Self {
        Self {
            input,
            output,
            kernel,
            stride: 1,
        }
    }

    pub fn with_stride(self, stride: usize) -> Self {
        Self { stride, ..self }
    }
}

impl ConvNorm {
    /// A convolution `weight` and `bias`.
    pub fn load(mut params: Params, shape: Shape) -> Self {
        let Shape {
            input,
            output,
            kernel,
            stride,
        } = shape;
        Self {
            weight: params.filters("weight", [output, input, kernel, kernel]),
            bias: params.tensor("bias", [output]),
            stride,
            padding: kernel / 2,
        }
    }

    /// The convolution `conv`, without a bias, and the batch norm `norm` on its running statistics:
    /// `(x − mean) / √(var + eps) · weight + bias`, which is another convolution.
    pub fn load_folded(
        params: &mut Params,
        conv: &str,
        norm: &str,
        eps: f64,
        shape: Shape,
    ) -> Self {
        let Shape {
            input,
            output,
            kernel,
            stride,
        } = shape;
        let weight = params
            .pp(conv)
            .filters("weight", [output, input, kernel, kernel])
            .val();
        let mut norm = params.pp(norm);
        let mut statistic = |name| norm.tensor(name, [output]).val();
        let scale = statistic("weight") / (statistic("running_var") + eps).sqrt();
        let bias = statistic("bias") - statistic("running_mean") * scale.clone();
        let weight = weight * scale.reshape([output, 1, 1, 1]);
        Self {
            weight: Param::initialized(ParamId::new(), weight),
            bias: Param::initialized(ParamId::new(), bias),
            stride,
            padding: kernel / 2,
        }
    }

    /// torchvision's `Conv2dNormActivation`: the convolution is `0`, and the norm, with
    /// `BatchNorm2d`'s default `eps`, `1`.
    pub fn load_block(mut params: Params, norm: bool, shape: Shape) -> Self {
        match norm {
            true => Self::load_folded(&mut params, "0", "1", 1e-5, shape),
            false => Self::load(params.pp("0"), shape),
        }
    }

    /// `[B, In, H, W]` to `[B, Out, ⌈H/stride⌉, ⌈W/stride⌉]`.
    pub fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let (weight, bias) = (self.weight.val(), self.bias.val());
        kernels::conv2d(x, weight, Some(bias), self.stride, self.padding)
    }

    /// The same with negative results set to zero.
    pub fn forward_relu(&self, x: Tensor<4>) -> Tensor<4> {
        let (weight, bias) = (self.weight.val(), self.bias.val());
        kernels::conv2d_relu(x, weight, Some(bias), self.stride, [self.padding; 2])
    }
}
