//! Residual blocks and changes of resolution, shared by the UNet and the autoencoder.

use burn::prelude::*;
use prepose_kernels as kernels;

use crate::layers::{Conv2d, GroupNorm};
use crate::params::Params;

/// What the timestep adds to a residual block's feature maps, and the bias of the convolution before.
#[derive(Clone)]
pub(crate) enum TimeShift {
    /// All samples are at the same timestep, so that it is a bias: `[C]`.
    Same(Tensor<1>),
    /// Every sample has its own: `[B, C]`.
    Each(Tensor<2>),
}

/// diffusers' `ResnetBlock2D` with its default options, but for the projection of the time embedding: those of all blocks
/// are one product (`TimeProjections`).
#[derive(Module, Debug)]
pub(crate) struct ResnetBlock {
    norm1: GroupNorm,
    /// Without a bias if there is a time embedding: it is in the [`TimeShift`].
    conv1: Conv2d,
    norm2: GroupNorm,
    conv2: Conv2d,
    conv_shortcut: Option<Conv2d>,
}

/// What the residual blocks of one network have in common.
#[derive(Clone, Copy)]
pub(crate) struct ResnetOptions {
    pub groups: usize,
    pub eps: f64,
    /// Whether there is a time embedding.
    pub timed: bool,
}

impl ResnetBlock {
    pub fn load(mut params: Params, input: usize, output: usize, options: ResnetOptions) -> Self {
        let ResnetOptions { groups, eps, timed } = options;
        Self {
            norm1: GroupNorm::load(params.pp("norm1"), groups, input, eps),
            conv1: Conv2d::load_with(params.pp("conv1"), [input, output, 3, 1, 1], !timed),
            norm2: GroupNorm::load(params.pp("norm2"), groups, output, eps),
            conv2: Conv2d::load(params.pp("conv2"), output, output, 3),
            conv_shortcut: (input != output)
                .then(|| Conv2d::load(params.pp("conv_shortcut"), input, output, 1)),
        }
    }

    /// `x` `[B, Cin, H, W]` to `[B, Cout, H, W]`. `shift` is given exactly if the block has a time embedding.
    pub fn forward(&self, x: Tensor<4>, shift: Option<&TimeShift>) -> Tensor<4> {
        match &self.conv_shortcut {
            // First, so that the norm is computed in `x`. On GPUs it takes the sum with it instead.
            Some(shortcut) if !kernels::prefers_channels_last(&x.device()) => {
                let residual = shortcut.forward(x.clone());
                let h = self.first_half(x, shift);
                kernels::add(residual, self.conv2.forward(self.norm2.forward_silu(h)))
            }
            _ => {
                let h = self.first_half(x.clone(), shift);
                self.second_half(x, h)
            }
        }
    }

    /// Up to the input of the second norm, `[B, Cout, H, W]`.
    pub fn first_half(&self, x: Tensor<4>, shift: Option<&TimeShift>) -> Tensor<4> {
        let h = self.norm1.forward_silu(x);
        match shift {
            None => self.conv1.forward(h),
            Some(TimeShift::Same(bias)) => self.conv1.forward_biased(h, bias.clone()),
            Some(TimeShift::Each(shift)) => {
                let [batch, channels] = shift.dims();
                self.conv1.forward(h) + shift.clone().reshape([batch, channels, 1, 1])
            }
        }
    }

    /// The result for the input `x`, from what [`Self::first_half`] made of it.
    pub fn second_half(&self, x: Tensor<4>, h: Tensor<4>) -> Tensor<4> {
        let h = self.conv2.forward(self.norm2.forward_silu(h));
        match &self.conv_shortcut {
            Some(shortcut) => shortcut.pointwise_onto(x, h),
            None => kernels::add(x, h),
        }
    }

    /// The gradient to the input `x`, of which the first half made `h`, from that of the output.
    pub fn input_grad(&self, grad: Tensor<4>, x: Tensor<4>, h: Tensor<4>) -> Tensor<4> {
        let input = x.dims();
        let inner = self.conv2.input_grad(grad.clone(), h.dims());
        let inner = self.norm2.silu_input_grad(inner, h);
        let inner = self.conv1.input_grad(inner, input);
        let inner = self.norm1.silu_input_grad(inner, x);
        let shortcut = match &self.conv_shortcut {
            Some(shortcut) => shortcut.input_grad(grad, input),
            None => grad,
        };
        kernels::add(inner, shortcut)
    }
}

/// Halves the resolution with a strided convolution.
#[derive(Module, Debug)]
pub(crate) struct Downsample {
    conv: Conv2d,
    /// Pad below and to the right only, as the autoencoder does.
    one_sided: bool,
}

impl Downsample {
    pub fn load(mut params: Params, channels: usize, one_sided: bool) -> Self {
        let padding = if one_sided { 0 } else { 1 };
        let shape = [channels, channels, 3, 2, padding];
        Self {
            conv: Conv2d::load_with(params.pp("conv"), shape, true),
            one_sided,
        }
    }

    /// `[B, C, H, W]` to `[B, C, ⌈H/2⌉, ⌈W/2⌉]` (one-sided: rounded down).
    pub fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let x = if self.one_sided {
            x.pad((0, 1, 0, 1), 0.0)
        } else {
            x
        };
        self.conv.forward(x)
    }

    /// The gradient to the input of the shape `input` from that of the output; two-sided only.
    pub fn input_grad(&self, grad: Tensor<4>, input: [usize; 4]) -> Tensor<4> {
        debug_assert!(!self.one_sided);
        self.conv.input_grad(grad, input)
    }
}

/// Doubles the resolution (nearest neighbour) and convolves.
#[derive(Module, Debug)]
pub(crate) struct Upsample {
    conv: Conv2d,
}

impl Upsample {
    pub fn load(mut params: Params, channels: usize) -> Self {
        Self {
            conv: Conv2d::load(params.pp("conv"), channels, channels, 3),
        }
    }

    /// `[B, C, H, W]` to `[B, C, 2H, 2W]`.
    pub fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        self.conv.forward(kernels::upsample_nearest2x(x))
    }

    /// As [`Self::forward`], to a size that may be one less than double: the size of the feature
    /// map on the way down, if that was odd. Nearest-neighbour interpolation to `2n − 1` gives the
    /// first `2n − 1` of `2n` pixels, so this is what diffusers' `upsample_size` does.
    pub fn forward_to(&self, x: Tensor<4>, height: usize, width: usize) -> Tensor<4> {
        let x = kernels::upsample_nearest2x(x);
        let x = match x.dims() {
            [_, _, h, w] if h == height && w == width => x,
            [batch, channels, ..] => x.slice([0..batch, 0..channels, 0..height, 0..width]),
        };
        self.conv.forward(x)
    }
    /// The gradient to the input of [`Self::forward_to`] from that of its result.
    pub fn input_grad(&self, grad: Tensor<4>) -> Tensor<4> {
        let [batch, channels, height, width] = grad.dims();
        let grad = self.conv.input_grad(grad, [batch, channels, height, width]);
        // What was cut off there counts for nothing here.
        let grad = match (height % 2, width % 2) {
            (0, 0) => grad,
            (below, right) => grad.pad((0, right, 0, below), 0.0),
        };
        kernels::upsample_nearest2x_input_grad(grad)
    }
}
