//! Two-dimensional convolution.

use crate::cpu::columns::{MAX_TAPS, Patches, Transposed};
use crate::cpu::gemm::{self, Gemm};
use crate::cpu::operand::{Columns, Rows};
use crate::cpu::simd::{Element, Level, level};
use crate::cpu::target::Target;
use crate::cpu::winograd::{self, Planes, Taps, Winograd};
use crate::flex::{Operand, by_type, filled};
use crate::plain;
use crate::profile::{self, Family, linear_flops};
use crate::recorded;
#[cfg(feature = "gpu")]
use burn::tensor::activation;
use burn::tensor::{DType, Tensor};
use half::bf16;

/// Cross-correlation of `x` `[B, Cin, H, W]` with `weight` `[Cout, Cin, k, k]` (PyTorch's layout)
/// plus `bias` `[Cout]`, with `padding` zeros on every side, giving `[B, Cout, H', W']` where
/// `H' = (H + 2·padding − k) / stride + 1`. Neither `x` nor `weight` is copied if it lies in memory as the device's
/// convolutions want it ([`crate::prefers_channels_last`]).
pub fn conv2d(
    x: Tensor<4>,
    weight: Tensor<4>,
    bias: Option<Tensor<1>>,
    stride: usize,
    padding: usize,
) -> Tensor<4> {
    if let Some(y) = recorded::conv2d(&x, &weight, bias.as_ref(), stride, padding) {
        return y;
    }
    let _span = profile::span(Family::Convolution, &x, || {
        flops(&x, &weight, stride, [padding; 2])
    });
    fast!(
        by_type!(
            [x, weight],
            fast_conv2d(&x, &weight, bias.as_ref(), stride, [padding; 2], false)
        ),
        crate::cube::pointwise(&x, &weight, bias.as_ref(), [stride, padding], None)
            .or_else(|| crate::cube::convolve(&x, &weight, bias.as_ref(), stride, [padding; 2]))
    )
    .unwrap_or_else(|| plain::conv2d(x, weight, bias, stride, padding))
}

/// [`conv2d`] with `weight` `[Out, In, 1, 1]`, stride 1 and no padding, plus `onto` `[B, Out, H, W]`: a convolution that ends a
/// residual branch. On GPUs with fusion this is one kernel.
pub fn pointwise_onto(
    x: Tensor<4>,
    weight: Tensor<4>,
    bias: Option<Tensor<1>>,
    onto: Tensor<4>,
) -> Tensor<4> {
    if let Some(y) = recorded::conv2d(&x, &weight, bias.as_ref(), 1, 0) {
        return crate::add(y, onto);
    }
    #[cfg(feature = "gpu")]
    if crate::prefers_channels_last(&x.device()) {
        let _span = profile::span(Family::Convolution, &x, || flops(&x, &weight, 1, [0; 2]));
        if let Some(y) = crate::cube::pointwise(&x, &weight, bias.as_ref(), [1, 0], Some(&onto)) {
            return y;
        }
        // Under autodiff.
        return plain::conv2d(x, weight, bias, 1, 0) + onto;
    }
    crate::add(conv2d(x, weight, bias, 1, 0), onto)
}

/// [`conv2d`] with `weight` `[Cout, Cin, kh, kw]`, `padding` zeros above and below and to both sides, and results below
/// zero set to zero.
pub fn conv2d_relu(
    x: Tensor<4>,
    weight: Tensor<4>,
    bias: Option<Tensor<1>>,
    stride: usize,
    padding: [usize; 2],
) -> Tensor<4> {
    let _span = profile::span(Family::Convolution, &x, || {
        flops(&x, &weight, stride, padding)
    });
    fast!(
        by_type!(
            [x, weight],
            fast_conv2d(&x, &weight, bias.as_ref(), stride, padding, true)
        ),
        crate::cube::convolve(&x, &weight, bias.as_ref(), stride, padding).map(activation::relu)
    )
    .unwrap_or_else(|| plain::conv2d_relu(x, weight, bias, stride, padding))
}

/// Bytes that the CPU's threads together work in for convolutions of tensors of `dtype` with at most so many `channels`, beside what
/// goes in and what comes out.
pub fn convolution_working_bytes(dtype: DType, channels: usize) -> u64 {
    let bytes = match dtype == DType::BF16 && level() >= Level::Avx512Bf16 {
        true => gemm::working_bytes::<bf16>(channels),
        false => winograd::working_bytes(channels.max(1)),
    };
    (rayon::current_num_threads() * bytes) as u64
}

fn flops(x: &Tensor<4>, weight: &Tensor<4>, stride: usize, padding: [usize; 2]) -> u64 {
    let [batch, _, height, width] = x.dims();
    let [outputs, inputs, kernel_height, kernel_width] = weight.dims();
    let size = |n: usize, padding: usize, kernel: usize| {
        (n + 2 * padding).saturating_sub(kernel) / stride + 1
    };
    let height = size(height, padding[0], kernel_height);
    let width = size(width, padding[1], kernel_width);
    let depth = inputs * kernel_height * kernel_width;
    linear_flops(batch * height * width, depth, outputs)
}

fn fast_conv2d<E: Element>(
    x: &Tensor<4>,
    weight: &Tensor<4>,
    bias: Option<&Tensor<1>>,
    stride: usize,
    padding: [usize; 2],
    relu: bool,
) -> Option<Tensor<4>> {
    let [batch, channels, height, width] = x.dims();
    let [out_channels, in_channels, kernel_height, kernel_width] = weight.dims();
    let taps = kernel_height * kernel_width;
    let padded = [height + 2 * padding[0], width + 2 * padding[1]];
    let too_small = padded[0] < kernel_height || padded[1] < kernel_width;
    if taps > MAX_TAPS || x.shape().num_elements() == 0 || too_small {
        return None;
    }
    assert_eq!(
        channels, in_channels,
        "conv2d: channels of the input and of the weight"
    );
    let pointwise = taps == 1 && stride == 1 && padding == [0; 2];
    let from = Pictures::<E>::new(x, pointwise)?;
    let weight = Operand::<E>::new(weight)?.contiguous();
    let bias = match bias {
        Some(bias) => Some(Operand::<f32>::new(bias)?.contiguous()),
        None => None,
    };
    let out_height = (padded[0] - kernel_height) / stride + 1;
    let out_width = (padded[1] - kernel_width) / stride + 1;
    let plane = out_height * out_width;
    if !from.offsets_fit(plane) {
        return None;
    }
    let columns = from.columns(
        [out_height, out_width],
        [kernel_height, kernel_width],
        stride,
        padding.map(|padding| padding as isize),
    );
    let depth = channels * taps;
    let winograd = [kernel_height, kernel_width, stride] == [3, 3, 1]
        && from.has_planes()
        && Winograd::<E>::pays(channels, out_channels, [out_height, out_width]);
    if winograd {
        let shape = [batch, out_channels, out_height, out_width];
        let weight = Taps {
            from: weight.as_ptr(),
            row: depth,
            channel: taps,
            turned: false,
        };
        let bias = bias.as_ref().map(Operand::as_slice);
        // SAFETY: the weight is contiguous, and pictures have planes of `channels`.
        return Some(unsafe { from.by_winograd(shape, channels, weight, padding, (bias, relu)) });
    }
    // SAFETY: the weight is `[out_channels, depth]`, row after row, and the patches `[depth, batch · plane]`; a bias with
    // fewer elements than rows panics; the product writes all planes of the result.
    Some(unsafe {
        filled(
            [batch, out_channels, out_height, out_width],
            x.dtype(),
            |to| {
                Gemm {
                    m: out_channels,
                    n: batch * plane,
                    k: depth,
                    left: Rows::Along {
                        from: weight.as_ptr(),
                        stride: depth,
                    },
                    right: &*columns,
                    target: Target::Planes {
                        to,
                        ld: plane,
                        plane,
                        sample: out_channels * plane,
                    },
                    row_bias: bias.as_ref().map(Operand::as_slice),
                    col_bias: None,
                    relu,
                    sample: plane,
                }
                .run();
            },
        )
    })
}

/// Pictures `[B, C, H, W]` from which patches can be taken without a copy.
pub(crate) struct Pictures<E> {
    operand: Operand<E>,
    /// Of the tensor, and so of a result.
    dtype: DType,
    size: [usize; 2],
    /// For kernels of one pixel, which see a plane as one run.
    pointwise: bool,
    /// Tokens seen as pictures, as between a transformer block and a convolution.
    channels_last: bool,
    /// Elements from one sample, channel and pixel to the next.
    strides: [usize; 3],
}

impl<E: Element> Pictures<E> {
    pub(crate) fn new(x: &Tensor<4>, pointwise: bool) -> Option<Self> {
        let [batch, _, height, width] = x.dims();
        let mut operand = Operand::<E>::new(x)?;
        let whole_planes = |[b, c, h, w]: [isize; 4]| {
            b >= 0 && c >= 0 && (h == width as isize || height == 1) && (w == 1 || width == 1)
        };
        let tokens = |[b, c, h, w]: [isize; 4]| {
            let (row, plane) = (w * width as isize, w * (height * width) as isize);
            pointwise && c == 1 && w > 0 && (h == row || height == 1) && (b == plane || batch == 1)
        };
        let channels_last = tokens(operand.strides());
        if !channels_last && !whole_planes(operand.strides()) {
            operand = operand.contiguous();
        }
        let [sample, channel, _, pixel] = operand.strides::<4>().map(|s| s as usize);
        Some(Self {
            operand,
            dtype: x.dtype(),
            size: [height, width],
            pointwise,
            channels_last,
            strides: [sample, channel, pixel],
        })
    }

    /// Whether the pixels of a plane follow each other.
    pub(crate) fn has_planes(&self) -> bool {
        !self.channels_last && self.strides[2] == 1
    }

    /// The planes of pictures that [have them](Self::has_planes).
    pub(crate) fn planes(&self) -> Planes<E> {
        Planes {
            from: self.operand.as_ptr(),
            sample: self.strides[0],
            channel: self.strides[1],
            size: self.size,
        }
    }

    /// The convolution of `channels` planes with the taps, to `shape`; a bias, and whether results below zero become zero.
    ///
    /// # Safety
    /// The pictures must be such that [`Self::has_planes`], and the taps those of all outputs and channels.
    pub(crate) unsafe fn by_winograd(
        &self,
        shape: [usize; 4],
        channels: usize,
        weight: Taps<E>,
        padding: [usize; 2],
        (bias, relu): (Option<&[f32]>, bool),
    ) -> Tensor<4> {
        let [batch, outputs, height, width] = shape;
        // SAFETY: this function's contract; all of the result is written.
        unsafe {
            filled(shape, self.dtype, |to| {
                Winograd {
                    from: self.planes(),
                    batch,
                    channels,
                    padding,
                    weight,
                    bias,
                    relu,
                    to,
                    outputs,
                    out: [height, width],
                }
                .run();
            })
        }
    }

    /// Whether patches with `plane` columns for each sample can be taken.
    pub(crate) fn offsets_fit(&self, plane: usize) -> bool {
        let [height, width] = self.size;
        Patches::<E>::offsets_fit(plane, self.strides[0], height * width)
    }

    /// A column for each pixel of pictures of size `out`, of the neighbourhoods `kernel` that start
    /// `padding` before `stride` times its position.
    pub(crate) fn columns(
        &self,
        out: [usize; 2],
        kernel: [usize; 2],
        stride: usize,
        padding: [isize; 2],
    ) -> Box<dyn Columns<E>> {
        let from = self.operand.as_ptr();
        let [sample_stride, channel_stride, pixel] = self.strides;
        if self.channels_last {
            return Box::new(Transposed {
                from,
                stride: pixel,
            });
        }
        let plane = out[0] * out[1];
        let [height, width] = if self.pointwise {
            [1, plane]
        } else {
            self.size
        };
        Box::new(Patches {
            from,
            height,
            width,
            channel_stride,
            sample_stride,
            out_width: if self.pointwise { plane } else { out[1] },
            plane,
            kernel,
            stride,
            padding,
        })
    }
}
