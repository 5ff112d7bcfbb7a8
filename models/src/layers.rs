//! Layers with parameters, each a thin wrapper of a function of `prepose_kernels`.

use burn::module::Param;
use burn::prelude::*;
use prepose_kernels as kernels;

use crate::params::Params;

/// `x Wᵀ + b`; the weight stays `[Out, In]` as PyTorch stores it.
#[derive(Module, Debug)]
pub(crate) struct Linear {
    weight: Param<Tensor<2>>,
    bias: Option<Param<Tensor<1>>>,
}

impl Linear {
    pub fn load(mut params: Params, input: usize, output: usize, bias: bool) -> Self {
        Self {
            weight: params.tensor("weight", [output, input]),
            bias: bias.then(|| params.tensor("bias", [output])),
        }
    }

    /// `[B, N, In]` to `[B, N, Out]`.
    pub fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        kernels::linear(x, self.weight.val(), self.bias.as_ref().map(Param::val))
    }

    /// The gradient to the input `[B, N, In]` from that of the output `[B, N, Out]`.
    pub fn input_grad(&self, grad: Tensor<3>) -> Tensor<3> {
        kernels::linear_input_grad(grad, self.weight.val())
    }

    /// `[B, In]` to `[B, Out]`.
    pub fn forward_rows(&self, x: Tensor<2>) -> Tensor<2> {
        self.forward(x.unsqueeze_dim(0)).squeeze_dim(0)
    }

    /// The type that the layer computes in.
    pub fn dtype(&self) -> burn::tensor::DType {
        self.weight.val().dtype()
    }
}

/// A convolution with a square kernel.
#[derive(Module, Debug)]
pub(crate) struct Conv2d {
    weight: Param<Tensor<4>>,
    bias: Option<Param<Tensor<1>>>,
    stride: usize,
    padding: usize,
}

impl Conv2d {
    /// `kernel`×`kernel` with stride 1, keeping the size; with a bias.
    pub fn load(params: Params, input: usize, output: usize, kernel: usize) -> Self {
        Self::load_with(params, [input, output, kernel, 1, kernel / 2], true)
    }

    /// `shape` is input channels, output channels, kernel size, stride, padding.
    pub fn load_with(mut params: Params, shape: [usize; 5], bias: bool) -> Self {
        let [input, output, kernel, stride, padding] = shape;
        Self {
            weight: params.filters("weight", [output, input, kernel, kernel]),
            bias: bias.then(|| params.tensor("bias", [output])),
            stride,
            padding,
        }
    }

    /// `[B, In, H, W]` to `[B, Out, H', W']`.
    pub fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        self.apply(x, self.bias.as_ref().map(Param::val))
    }

    /// As [`Self::forward`], with `shift` `[Out]` added to the bias.
    pub fn forward_shifted(&self, x: Tensor<4>, shift: Tensor<1>) -> Tensor<4> {
        let bias = match &self.bias {
            Some(bias) => bias.val() + shift,
            None => shift,
        };
        self.apply(x, Some(bias))
    }

    /// The gradient to the input of the shape `input` from that of the output.
    pub fn input_grad(&self, grad: Tensor<4>, input: [usize; 4]) -> Tensor<4> {
        kernels::conv2d_input_grad(grad, self.weight.val(), input, self.stride, self.padding)
    }

    fn apply(&self, x: Tensor<4>, bias: Option<Tensor<1>>) -> Tensor<4> {
        kernels::conv2d(x, self.weight.val(), bias, self.stride, self.padding)
    }

    /// The type that the layer computes in.
    pub fn dtype(&self) -> burn::tensor::DType {
        self.weight.val().dtype()
    }
}

/// Group normalisation with f32 scale and shift.
#[derive(Module, Debug)]
pub(crate) struct GroupNorm {
    weight: Param<Tensor<1>>,
    bias: Param<Tensor<1>>,
    groups: usize,
    eps: f64,
}

impl GroupNorm {
    pub fn load(params: Params, groups: usize, channels: usize, eps: f64) -> Self {
        let mut params = params.f32();
        Self {
            weight: params.tensor("weight", [channels]),
            bias: params.tensor("bias", [channels]),
            groups,
            eps,
        }
    }

    /// `[B, C, H, W]` to the same.
    pub fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        self.apply(x, false)
    }

    /// The norm and SiLU in one pass.
    pub fn forward_silu(&self, x: Tensor<4>) -> Tensor<4> {
        self.apply(x, true)
    }

    fn apply(&self, x: Tensor<4>, silu: bool) -> Tensor<4> {
        let (weight, bias) = (self.weight.val(), self.bias.val());
        kernels::group_norm(x, self.groups, weight, bias, self.eps, silu)
    }

    /// The gradient to the input `x` from that of [`Self::forward`]'s result.
    pub fn input_grad(&self, grad: Tensor<4>, x: Tensor<4>) -> Tensor<4> {
        self.apply_input_grad(grad, x, false)
    }

    /// The gradient to the input `x` from that of [`Self::forward_silu`]'s result.
    pub fn silu_input_grad(&self, grad: Tensor<4>, x: Tensor<4>) -> Tensor<4> {
        self.apply_input_grad(grad, x, true)
    }

    fn apply_input_grad(&self, grad: Tensor<4>, x: Tensor<4>, silu: bool) -> Tensor<4> {
        let (weight, bias) = (self.weight.val(), self.bias.val());
        kernels::group_norm_input_grad(grad, x, self.groups, weight, bias, self.eps, silu)
    }
}

/// Layer normalisation with f32 scale and shift.
#[derive(Module, Debug)]
pub(crate) struct LayerNorm {
    weight: Param<Tensor<1>>,
    bias: Param<Tensor<1>>,
    eps: f64,
}

impl LayerNorm {
    pub fn load(params: Params, channels: usize, eps: f64) -> Self {
        let mut params = params.f32();
        Self {
            weight: params.tensor("weight", [channels]),
            bias: params.tensor("bias", [channels]),
            eps,
        }
    }

    /// `[B, N, C]` to the same.
    pub fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        kernels::layer_norm(x, self.weight.val(), self.bias.val(), self.eps)
    }

    /// The gradient to the input `x` from that of the output.
    pub fn input_grad(&self, grad: Tensor<3>, x: Tensor<3>) -> Tensor<3> {
        kernels::layer_norm_input_grad(grad, x, self.weight.val(), self.eps)
    }
}
