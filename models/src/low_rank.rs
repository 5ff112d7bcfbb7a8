//! Low-rank branches beside frozen layers (Hu et al. 2021, "LoRA"): `y + s · B A x`, without ever forming `W + s · B A`.

use burn::prelude::*;
use prepose_kernels as kernels;

use crate::params::Factors;

/// The branch of a linear layer.
#[derive(Debug, Clone)]
pub(crate) struct LowRank {
    /// `[r, In]`.
    down: Tensor<2>,
    /// `[Out, r]`, times the branch's scale.
    up: Tensor<2>,
}

impl LowRank {
    pub fn new(Factors { down, up }: Factors) -> Self {
        Self { down, up }
    }

    /// What the branch makes of `x` `[B, N, In]`, added to `y` `[B, N, Out]`.
    pub fn onto(&self, x: Tensor<3>, y: Tensor<3>) -> Tensor<3> {
        let inner = kernels::linear(x, self.down.clone(), None);
        kernels::linear_onto(inner, self.up.clone(), None, y)
    }

    /// The branch's part of the gradient to `x`, from that `[B, N, count]` of the outputs `start..start + count`.
    pub fn input_grad(&self, grad: Tensor<3>, start: usize) -> Tensor<3> {
        let count = grad.dims()[2];
        let up = self.up.clone().narrow(0, start, count);
        let inner = kernels::linear_input_grad(grad, up);
        kernels::linear_input_grad(inner, self.down.clone())
    }

    /// What the branch makes of pictures `x` `[B, In, H, W]` at each pixel, added to `y` `[B, Out, H, W]`.
    pub fn pixels_onto(&self, x: Tensor<4>, y: Tensor<4>) -> Tensor<4> {
        let [down, up] = [&self.down, &self.up].map(|x| kernels::pointwise_kernel(x.clone()));
        kernels::pointwise_onto(kernels::conv2d(x, down, None, 1, 0), up, None, y)
    }

    /// The branch's part of the gradient to the input of [`Self::pixels_onto`].
    pub fn pixels_input_grad(&self, grad: Tensor<4>) -> Tensor<4> {
        let [batch, _, height, width] = grad.dims();
        let [rank, inputs] = self.down.dims();
        let [down, up] = [&self.down, &self.up].map(|x| kernels::pointwise_kernel(x.clone()));
        let size = |channels| [batch, channels, height, width];
        let inner = kernels::conv2d_input_grad(grad, up, size(rank), 1, 0);
        kernels::conv2d_input_grad(inner, down, size(inputs), 1, 0)
    }
}

/// The branch of a convolution: one to `r` channels with the kernel, stride and padding of the layer, then one of single
/// pixels.
#[derive(Debug, Clone)]
pub(crate) struct LowRankConv {
    /// `[r, In, k, k]`.
    down: Tensor<4>,
    /// `[Out, r, 1, 1]`, times the branch's scale.
    up: Tensor<4>,
    stride: usize,
    padding: usize,
}

impl LowRankConv {
    /// `shape` is the layer's input channels, kernel size, stride and padding.
    pub fn new(Factors { down, up }: Factors, shape: [usize; 4]) -> Self {
        let [input, kernel, stride, padding] = shape;
        let rank = down.dims()[0];
        Self {
            down: down.reshape([rank, input, kernel, kernel]),
            up: kernels::pointwise_kernel(up),
            stride,
            padding,
        }
    }

    /// What the branch makes of `x` `[B, In, H, W]`, added to `y` `[B, Out, H', W']`.
    pub fn onto(&self, x: Tensor<4>, y: Tensor<4>) -> Tensor<4> {
        let inner = kernels::conv2d(x, self.down.clone(), None, self.stride, self.padding);
        kernels::pointwise_onto(inner, self.up.clone(), None, y)
    }

    /// The branch's part of the gradient to an input of the shape `input`.
    pub fn input_grad(&self, grad: Tensor<4>, input: [usize; 4]) -> Tensor<4> {
        let [batch, _, height, width] = grad.dims();
        let rank = self.down.dims()[0];
        let inner = [batch, rank, height, width];
        let inner = kernels::conv2d_input_grad(grad, self.up.clone(), inner, 1, 0);
        kernels::conv2d_input_grad(inner, self.down.clone(), input, self.stride, self.padding)
    }
}
