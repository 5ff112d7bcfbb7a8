//! Layers with parameters, each a thin wrapper of a function of `prepose_kernels`.

use burn::module::Param;
use burn::prelude::*;
use prepose_kernels as kernels;

use crate::low_rank::{LowRank, LowRankConv};
use crate::params::Params;

/// `x Wᵀ + b`; the weight stays `[Out, In]` as PyTorch stores it.
#[derive(Module, Debug)]
pub(crate) struct Linear {
    weight: Param<Tensor<2>>,
    bias: Option<Param<Tensor<1>>>,
    /// What is trained beside a frozen weight.
    #[module(skip)]
    branch: Option<LowRank>,
}

impl Linear {
    pub fn load(mut params: Params, input: usize, output: usize, bias: bool) -> Self {
        Self {
            weight: params.tensor("weight", [output, input]),
            bias: bias.then(|| params.tensor("bias", [output])),
            branch: params.low_rank().map(LowRank::new),
        }
    }

    /// Several layers with the same input as one: theirs are the outputs of this one, in this order. `layers` are their
    /// names and outputs.
    pub fn load_stacked<N: std::fmt::Display>(
        params: &mut Params,
        layers: &[(N, usize)],
        input: usize,
        bias: bool,
    ) -> Self {
        let output = layers.iter().map(|(_, output)| output).sum();
        let of = |what| {
            let part = move |(name, output): &(N, usize)| (format!("{name}.{what}"), *output);
            layers.iter().map(part).collect::<Vec<_>>()
        };
        Self {
            weight: params.stacked(&of("weight"), [output, input]),
            bias: bias.then(|| params.stacked(&of("bias"), [output])),
            branch: params.stacked_low_rank(layers).map(LowRank::new),
        }
    }

    /// As [`Self::load`] with a bias; each output is multiplied by its element of `scale`, if given.
    pub fn load_scaled(
        mut params: Params,
        input: usize,
        output: usize,
        scale: Option<&[f32]>,
    ) -> Self {
        let Some(scale) = scale else {
            return Self::load(params, input, output, true);
        };
        let scaled = |mut values: Vec<f32>| {
            let width = values.len() / scale.len();
            let rows = values.chunks_exact_mut(width);
            for (row, scale) in rows.zip(scale) {
                row.iter_mut().for_each(|value| *value *= scale);
            }
            values
        };
        let shape = [output, input];
        Self {
            weight: params.changed("weight", &shape, shape, scaled),
            bias: Some(params.changed("bias", &[output], [output], scaled)),
            branch: None,
        }
    }

    /// A convolution of single pixels.
    pub fn load_pointwise(params: Params, input: usize, output: usize, bias: bool) -> Self {
        Self::load_patches(params, [input, output], 1, bias)
    }

    /// A convolution from `input` to `output` channels whose stride is the `side` of its kernel, as a layer of patches
    /// `[In · side · side]`.
    pub fn load_patches(
        mut params: Params,
        [input, output]: [usize; 2],
        side: usize,
        bias: bool,
    ) -> Self {
        let stored = [output, input, side, side];
        let shape = [output, input * side * side];
        Self {
            weight: params.tensor_stored("weight", &stored, shape),
            bias: bias.then(|| params.tensor("bias", [output])),
            branch: params.low_rank().map(LowRank::new),
        }
    }

    /// `[B, N, In]` to `[B, N, Out]`.
    pub fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let bias = self.bias.as_ref().map(Param::val);
        match &self.branch {
            None => kernels::linear(x, self.weight.val(), bias),
            Some(branch) => {
                let y = kernels::linear(x.clone(), self.weight.val(), bias);
                branch.onto(x, y)
            }
        }
    }

    /// [`Self::forward`] plus `onto` `[B, N, Out]`.
    pub fn forward_onto(&self, x: Tensor<3>, onto: Tensor<3>) -> Tensor<3> {
        let bias = self.bias.as_ref().map(Param::val);
        match &self.branch {
            None => kernels::linear_onto(x, self.weight.val(), bias, onto),
            Some(branch) => {
                let y = kernels::linear_onto(x.clone(), self.weight.val(), bias, onto);
                branch.onto(x, y)
            }
        }
    }

    /// The gradient to the input `[B, N, In]` from that of the output `[B, N, Out]`.
    pub fn input_grad(&self, grad: Tensor<3>) -> Tensor<3> {
        self.part_input_grad(grad, self.weight.val(), 0)
    }

    /// As [`Self::input_grad`], from the gradient `[B, N, count]` of the outputs `start..start + count` alone.
    pub fn rows_input_grad(&self, grad: Tensor<3>, start: usize) -> Tensor<3> {
        let count = grad.dims()[2];
        self.part_input_grad(grad, self.weight.val().narrow(0, start, count), start)
    }

    fn part_input_grad(&self, grad: Tensor<3>, weight: Tensor<2>, start: usize) -> Tensor<3> {
        match &self.branch {
            None => kernels::linear_input_grad(grad, weight),
            Some(branch) => {
                let inner = branch.input_grad(grad.clone(), start);
                kernels::linear_input_grad(grad, weight) + inner
            }
        }
    }

    /// `[B, In]` to `[B, Out]`. Rows are samples, so that each comes out as it would alone.
    pub fn forward_rows(&self, x: Tensor<2>) -> Tensor<2> {
        self.forward(x.unsqueeze_dim(1)).squeeze_dim(1)
    }

    /// `[Out, In]`, the shape of the weight.
    pub fn shape(&self) -> [usize; 2] {
        self.weight.val().dims()
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
    /// What is trained beside a frozen weight.
    #[module(skip)]
    branch: Option<LowRankConv>,
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
            branch: (params.low_rank())
                .map(|factors| LowRankConv::new(factors, [input, kernel, stride, padding])),
        }
    }

    /// `[B, In, H, W]` to `[B, Out, H', W']`.
    pub fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        self.apply(x, self.bias.as_ref().map(Param::val))
    }

    /// As [`Self::forward`] of a layer without a bias, with this one, `[Out]`.
    pub fn forward_biased(&self, x: Tensor<4>, bias: Tensor<1>) -> Tensor<4> {
        debug_assert!(self.bias.is_none(), "two biases");
        self.apply(x, Some(bias))
    }

    /// As [`Self::forward`], with results below zero set to zero.
    pub fn forward_relu(&self, x: Tensor<4>) -> Tensor<4> {
        let bias = self.bias.as_ref().map(Param::val);
        debug_assert!(self.branch.is_none(), "a branch before a rectifier");
        kernels::conv2d_relu(x, self.weight.val(), bias, self.stride, [self.padding; 2])
    }

    /// [`Self::forward`] plus `onto` `[B, Out, H, W]`, for a layer of single pixels.
    pub fn pointwise_onto(&self, x: Tensor<4>, onto: Tensor<4>) -> Tensor<4> {
        debug_assert_eq!([self.stride, self.padding], [1, 0]);
        let bias = self.bias.as_ref().map(Param::val);
        match &self.branch {
            None => kernels::pointwise_onto(x, self.weight.val(), bias, onto),
            Some(branch) => {
                let y = kernels::pointwise_onto(x.clone(), self.weight.val(), bias, onto);
                branch.onto(x, y)
            }
        }
    }

    /// The gradient to the input of the shape `input` from that of the output.
    pub fn input_grad(&self, grad: Tensor<4>, input: [usize; 4]) -> Tensor<4> {
        let (weight, stride, padding) = (self.weight.val(), self.stride, self.padding);
        match &self.branch {
            None => kernels::conv2d_input_grad(grad, weight, input, stride, padding),
            Some(branch) => {
                let inner = branch.input_grad(grad.clone(), input);
                kernels::conv2d_input_grad(grad, weight, input, stride, padding) + inner
            }
        }
    }

    fn apply(&self, x: Tensor<4>, bias: Option<Tensor<1>>) -> Tensor<4> {
        let (weight, stride, padding) = (self.weight.val(), self.stride, self.padding);
        match &self.branch {
            None => kernels::conv2d(x, weight, bias, stride, padding),
            Some(branch) => {
                let y = kernels::conv2d(x.clone(), weight, bias, stride, padding);
                branch.onto(x, y)
            }
        }
    }

    /// The type that the layer computes in.
    pub fn dtype(&self) -> burn::tensor::DType {
        self.weight.val().dtype()
    }
}

/// A transposed convolution whose stride is the side of its kernel: each pixel becomes a square of its own.
#[derive(Module, Debug)]
pub(crate) struct Deconv {
    /// `[side · side · Out, In]`.
    weight: Param<Tensor<2>>,
    bias: Param<Tensor<1>>,
    side: usize,
}

impl Deconv {
    /// From `input` to `output` channels.
    pub fn load(mut params: Params, [input, output]: [usize; 2], side: usize) -> Self {
        let pixels = side * side;
        let stored = [input, output, side, side];
        let by_pixel = |values: Vec<f32>| {
            let at = |i: usize| (i % input, i / input % output, i / input / output);
            let value = |i| {
                let (input, channel, pixel) = at(i);
                values[(input * output + channel) * pixels + pixel]
            };
            (0..values.len()).map(value).collect()
        };
        Self {
            weight: params.changed("weight", &stored, [pixels * output, input], by_pixel),
            bias: params.tensor("bias", [output]),
            side,
        }
    }

    /// Tokens `[B, H · W, In]` of a grid of this height and width to those of `[side · H, side · W]`, whose size is the
    /// second result.
    pub fn forward(&self, x: Tensor<3>, [height, width]: [usize; 2]) -> (Tensor<3>, [usize; 2]) {
        let [batch, ..] = x.dims();
        let (side, [output]) = (self.side, self.bias.val().dims());
        let bias = self.bias.val().repeat_dim(0, side * side);
        let x = kernels::linear(x, self.weight.val(), Some(bias));
        let x: Tensor<6> = x.reshape([batch, height, width, side, side, output]);
        let x = x.permute([0, 1, 3, 2, 4, 5]);
        let size = [height * side, width * side];
        (x.reshape([batch, size[0] * size[1], output]), size)
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
        kernels::group_norm(x, &self.operation(silu))
    }

    fn operation(&self, silu: bool) -> kernels::GroupNorm {
        kernels::GroupNorm {
            groups: self.groups,
            weight: self.weight.val(),
            bias: self.bias.val(),
            eps: self.eps,
            silu,
        }
    }

    /// The gradient to the input `x` from that of [`Self::forward`]'s result.
    pub fn input_grad(&self, grad: Tensor<4>, x: Tensor<4>) -> Tensor<4> {
        kernels::group_norm_input_grad(grad, x, &self.operation(false))
    }

    /// The gradient to the input `x` from that of [`Self::forward_silu`]'s result.
    pub fn silu_input_grad(&self, grad: Tensor<4>, x: Tensor<4>) -> Tensor<4> {
        kernels::group_norm_input_grad(grad, x, &self.operation(true))
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
