//! Nearest-neighbour enlargement.

use crate::cpu::resize;
use crate::cpu::simd::Element;
use crate::flex::{Operand, by_type, filled};
use crate::plain;
use crate::profile::{self, Family};
use crate::recorded;
use burn::tensor::Tensor;

/// Each pixel of `x` `[B, C, H, W]` four times: `[B, C, 2H, 2W]`.
pub fn upsample_nearest2x(x: Tensor<4>) -> Tensor<4> {
    if let Some(y) = recorded::upsample_nearest2x(&x) {
        return y;
    }
    let _span = profile::span(Family::Other, &x, || 0);
    fast!(
        by_type!([x], fast_upsample(&x)),
        crate::cube::upsample_nearest2x(&x)
    )
    .unwrap_or_else(|| plain::upsample_nearest2x(x))
}

fn fast_upsample<E: Element>(x: &Tensor<4>) -> Option<Tensor<4>> {
    let [batch, channels, height, width] = x.dims();
    let from = Operand::<E>::new(x)?.contiguous();
    let rows = batch * channels * height;
    // SAFETY: the operand has `rows` rows of `width`; all four elements of the result for each of its own are written.
    Some(unsafe {
        filled([batch, channels, height * 2, width * 2], x.dtype(), |to| {
            resize::double(from.as_slice().as_ptr(), to, rows, width);
        })
    })
}

/// Gradient of [`upsample_nearest2x`] with respect to its input: the sum of each 2 × 2 pixels of
/// `grad` `[B, C, 2H, 2W]`, giving `[B, C, H, W]`.
///
/// # Panics
/// If the height or width of `grad` is odd.
pub fn upsample_nearest2x_input_grad(grad: Tensor<4>) -> Tensor<4> {
    let _span = profile::span(Family::Other, &grad, || 0);
    let [_, _, height, width] = grad.dims();
    assert!(
        height.is_multiple_of(2) && width.is_multiple_of(2),
        "upsample_nearest2x_input_grad: a gradient of {height} × {width} pixels is of no doubled picture"
    );
    fast!(
        by_type!([grad], fast_upsample_input_grad(&grad)),
        crate::cube::upsample_nearest2x_input_grad(&grad)
    )
    .unwrap_or_else(|| plain::upsample_nearest2x_input_grad(grad))
}

fn fast_upsample_input_grad<E: Element>(grad: &Tensor<4>) -> Option<Tensor<4>> {
    let [batch, channels, height, width] = grad.dims();
    let from = Operand::<E>::new(grad)?.contiguous();
    let shape = [batch, channels, height / 2, width / 2];
    // SAFETY: height and width are even, as the caller has asserted, so that each element of the result has four of the
    // gradient; all are written.
    Some(unsafe {
        filled(shape, grad.dtype(), |to| {
            let from = from.as_slice().as_ptr();
            resize::halve(from, to, batch * channels * shape[2], shape[3]);
        })
    })
}
