//! Gradients of the convolution.

use crate::conv::Pictures;
use crate::cpu::columns::MAX_TAPS;
use crate::cpu::gemm::Gemm;
use crate::cpu::operand::Rows;
use crate::cpu::simd::Element;
use crate::cpu::sums;
use crate::cpu::target::Target;
use crate::cpu::unrolled::Unrolled;
use crate::cpu::winograd::{Taps, WeightGrad, Winograd};
use crate::flex::{Operand, by_type, filled};
use crate::plain;
use crate::profile::{self, Family, conv_flops};
use burn::tensor::Tensor;

/// Gradient of [`conv2d`](crate::conv2d) with respect to its input of shape `input` `[B, Cin, H, W]`, from the
/// gradient with respect to its result, `grad` `[B, Cout, H', W']`: the convolution's transpose.
pub fn conv2d_input_grad(
    grad: Tensor<4>,
    weight: Tensor<4>,
    input: [usize; 4],
    stride: usize,
    padding: usize,
) -> Tensor<4> {
    let _span = profile::span(Family::Convolution, &grad, || {
        conv_flops(grad.dims(), input[1], weight.dims()[2])
    });
    fast!(
        by_type!(
            [grad, weight],
            fast_conv2d_input_grad(&grad, &weight, input, stride, padding)
        ),
        crate::cube::pointwise_input_grad(&grad, &weight, [stride, padding])
            .or_else(|| crate::cube::convolve_input_grad(&grad, &weight, input, [stride, padding]))
    )
    .unwrap_or_else(|| plain::conv2d_input_grad(grad, weight, input, stride, padding))
}

/// The input's pixels at one place of the stride's grid, along one axis, and the taps they meet.
#[derive(Clone, Copy)]
struct Phase {
    first: usize,
    pixels: usize,
    /// The last of the taps, which come in steps of the stride, and their number.
    tap: usize,
    taps: usize,
    /// What the first pixel meets the last tap for: this output, perhaps beyond the border.
    output: isize,
}

impl Phase {
    fn new(first: usize, input: usize, kernel: usize, stride: usize, padding: usize) -> Self {
        // Pixel y of the input and tap t belong to output (y + padding − t) / stride.
        let rest = (first + padding) % stride;
        let taps = (kernel + stride - 1 - rest) / stride;
        let tap = (rest + taps * stride).wrapping_sub(stride);
        Self {
            first,
            pixels: input.saturating_sub(first).div_ceil(stride),
            tap,
            taps,
            output: (first + padding).wrapping_sub(tap) as isize / stride as isize,
        }
    }
}

/// A convolution of the gradient, with the weight read across and its taps in reverse. With a stride,
/// the pixels of the input fall into phases that meet different taps: one product for each.
fn fast_conv2d_input_grad<E: Element>(
    grad: &Tensor<4>,
    weight: &Tensor<4>,
    input: [usize; 4],
    stride: usize,
    padding: usize,
) -> Option<Tensor<4>> {
    let [batch, out_channels, out_height, out_width] = grad.dims();
    let [rows, channels, kernel, kernel_width] = weight.dims();
    let [_, _, height, width] = input;
    if kernel != kernel_width
        || kernel * kernel > MAX_TAPS
        || grad.shape().num_elements() == 0
        || height.min(width) + 2 * padding < kernel
    {
        return None;
    }
    let size = |n| (n + 2 * padding - kernel) / stride + 1;
    assert_eq!(
        [batch, rows, out_height, out_width, channels],
        [input[0], out_channels, size(height), size(width), input[1]],
        "conv2d_input_grad: gradient and weight for an input of shape {input:?}"
    );
    let from = Pictures::<E>::new(grad, kernel == 1 && stride == 1 && padding == 0)?;
    let weight = Operand::<E>::new(weight)?.contiguous();
    if !from.offsets_fit((height / stride) * (width / stride)) {
        return None;
    }
    let winograd = [kernel, stride] == [3, 1]
        && padding <= 2
        && from.has_planes()
        && Winograd::<E>::pays(out_channels, channels, [height, width]);
    if winograd {
        let taps = kernel * kernel;
        let weight = Taps {
            from: weight.as_ptr(),
            row: taps,
            channel: channels * taps,
            turned: true,
        };
        let padding = [kernel - 1 - padding; 2];
        // SAFETY: the weight is contiguous, and the gradient has planes of `out_channels`.
        return Some(unsafe {
            from.by_winograd(input, out_channels, weight, padding, (None, false))
        });
    }
    let phases = |n: usize| {
        (0..stride.min(n)).map(move |first| Phase::new(first, n, kernel, stride, padding))
    };
    // SAFETY: sizes and channels agree, as was asserted. Every pixel of the result is in one phase, and each product
    // writes all pixels of its phase.
    Some(unsafe {
        filled(input, grad.dtype(), |to: *mut E| {
            for (down, right) in phases(height).flat_map(|y| phases(width).map(move |x| (y, x))) {
                let taps: Vec<usize> = (0..down.taps)
                    .flat_map(|i| (0..right.taps).map(move |j| (i, j)))
                    .map(|(i, j)| (down.tap - i * stride) * kernel + right.tap - j * stride)
                    .collect();
                let plane = down.pixels * right.pixels;
                let (ld, sample) = (height * width, channels * height * width);
                let target = match stride {
                    1 => Target::Planes {
                        to,
                        ld,
                        plane,
                        sample,
                    },
                    step => Target::Phase {
                        to: to.add(down.first * width + right.first),
                        ld,
                        plane,
                        sample,
                        width: right.pixels,
                        step,
                        line: width,
                    },
                };
                Gemm {
                    m: channels,
                    n: batch * plane,
                    k: out_channels * taps.len(),
                    left: Rows::Across {
                        from: weight.as_ptr(),
                        stride: channels * kernel * kernel,
                        kernel: kernel * kernel,
                        taps: &taps,
                    },
                    right: &*from.columns(
                        [down.pixels, right.pixels],
                        [down.taps, right.taps],
                        1,
                        [-down.output, -right.output],
                    ),
                    target,
                    row_bias: None,
                    col_bias: None,
                    relu: false,
                    sample: plane,
                }
                .run();
            }
        })
    })
}

/// Gradient of [`conv2d`](crate::conv2d) with respect to its weight of shape `filters` `[Cout, Cin, k, k]`, from that with
/// respect to its result, `grad` `[B, Cout, H', W']`, and its input `x` `[B, Cin, H, W]`.
pub fn conv2d_weight_grad(
    grad: Tensor<4>,
    x: Tensor<4>,
    filters: [usize; 4],
    stride: usize,
    padding: usize,
) -> Tensor<4> {
    let _span = profile::span(Family::Convolution, &grad, || {
        conv_flops(grad.dims(), filters[1], filters[2])
    });
    fast_weight_grad(&grad, &x, filters, stride, padding)
        .unwrap_or_else(|| plain::conv2d_weight_grad(grad, x, filters, stride, padding))
}

/// A product summed over all pixels of all pictures.
fn fast_weight_grad(
    grad: &Tensor<4>,
    x: &Tensor<4>,
    filters: [usize; 4],
    stride: usize,
    padding: usize,
) -> Option<Tensor<4>> {
    let [batch, outputs, out_height, out_width] = grad.dims();
    let [rows, channels, kernel, kernel_width] = filters;
    let [_, _, height, width] = x.dims();
    if kernel != kernel_width
        || grad.shape().num_elements() * x.shape().num_elements() == 0
        || height.min(width) + 2 * padding < kernel
    {
        return None;
    }
    let size = |n| (n + 2 * padding - kernel) / stride + 1;
    assert_eq!(
        (x.dims()[..2].to_vec(), [rows, size(height), size(width)]),
        (vec![batch, channels], [outputs, out_height, out_width]),
        "conv2d_weight_grad: gradient and input of a weight of shape {filters:?}"
    );
    if [kernel, stride] == [3, 1] && WeightGrad::pays(batch, [out_height, out_width]) {
        return weight_grad_by_winograd(grad, x, filters, padding);
    }
    let plane = out_height * out_width;
    // All pixels of an output follow each other.
    let by_output = match batch {
        1 => grad.clone(),
        _ => grad.clone().swap_dims(0, 1),
    };
    let by_output = Operand::<f32>::new(&by_output)?.contiguous();
    let from = Operand::<f32>::new(x)?.contiguous();
    let pointwise = kernel == 1 && stride == 1 && padding == 0;
    let unrolled = Unrolled {
        from: from.as_ptr(),
        size: if pointwise {
            [1, plane]
        } else {
            [height, width]
        },
        channels,
        out_width: if pointwise { plane } else { out_width },
        plane,
        kernel,
        stride,
        padding,
    };
    let depth = channels * kernel * kernel;
    // SAFETY: the operands are `[outputs, batch · plane]` and, unrolled, `[batch · plane, depth]`, as was asserted; the
    // product writes all of `[outputs, depth]`.
    Some(unsafe {
        filled(filters, grad.dtype(), |to| {
            Gemm {
                m: outputs,
                n: depth,
                k: batch * plane,
                left: Rows::Along {
                    from: by_output.as_ptr(),
                    stride: batch * plane,
                },
                right: &unrolled,
                target: Target::rows(to, depth),
                row_bias: None,
                col_bias: None,
                relu: false,
                sample: outputs.min(depth),
            }
            .run();
        })
    })
}

fn weight_grad_by_winograd(
    grad: &Tensor<4>,
    x: &Tensor<4>,
    filters: [usize; 4],
    padding: usize,
) -> Option<Tensor<4>> {
    let from = Pictures::<f32>::new(x, false)?;
    let by = Pictures::<f32>::new(grad, false)?;
    if !from.has_planes() || !by.has_planes() {
        return None;
    }
    let [outputs, channels, _, _] = filters;
    // SAFETY: sizes and channels agree, as the caller has asserted; all of the result is written.
    Some(unsafe {
        filled(filters, grad.dtype(), |to| {
            WeightGrad {
                grad: by.planes(),
                x: from.planes(),
                batch: grad.dims()[0],
                outputs,
                channels,
                padding: [padding; 2],
                to,
            }
            .run();
        })
    })
}

/// Gradient of [`conv2d`](crate::conv2d) with respect to its bias: the sums of `grad` `[B, Cout, H', W']` over all pixels,
/// `[Cout]`.
pub fn conv2d_bias_grad(grad: Tensor<4>) -> Tensor<1> {
    let _span = profile::span(Family::Other, &grad, || 0);
    let [batch, outputs, height, width] = grad.dims();
    let fast = Operand::<f32>::new(&grad).map(|from| {
        let from = from.contiguous();
        let sums = sums::of_planes(from.as_slice(), [batch, outputs, height * width]);
        // SAFETY: there is a sum for each output.
        unsafe {
            filled([outputs], grad.dtype(), |to| {
                core::ptr::copy_nonoverlapping(sums.as_ptr(), to, outputs);
            })
        }
    });
    fast.unwrap_or_else(|| plain::conv2d_bias_grad(grad))
}
