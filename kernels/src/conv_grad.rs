//! Gradients of the convolution to its weight and bias.

use crate::cpu::gemm::Gemm;
use crate::cpu::operand::Rows;
use crate::cpu::sums;
use crate::cpu::target::Target;
use crate::cpu::unrolled::Unrolled;
use crate::flex::{Operand, filled};
use crate::plain;
use crate::profile::{self, Family, conv_flops};
use burn::tensor::Tensor;

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
