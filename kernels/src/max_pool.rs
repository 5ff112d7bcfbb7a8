//! Largest values of neighbourhoods.

use crate::plain;
use crate::profile::{self, Family};
use burn::tensor::Tensor;

use crate::cpu::max_pool;
use crate::flex::{Operand, filled};

/// The largest of each 3 × 3 pixels around every second one of `x` `[B, C, H, W]`:
/// `[B, C, ⌈H/2⌉, ⌈W/2⌉]`. PyTorch's `max_pool2d` with stride 2 and padding 1.
pub fn max_pool3x3(x: Tensor<4>) -> Tensor<4> {
    let _span = profile::span(Family::Other, &x, || 0);
    fast_max_pool3x3(&x).unwrap_or_else(|| plain::max_pool3x3(x))
}

fn fast_max_pool3x3(x: &Tensor<4>) -> Option<Tensor<4>> {
    let [batch, channels, height, width] = x.dims();
    let from = Operand::<f32>::new(x)?.contiguous();
    let shape = [batch, channels, height.div_ceil(2), width.div_ceil(2)];
    // SAFETY: the result has a plane of half the size, rounded up, for each of the operand, and all are written.
    Some(unsafe {
        filled(shape, x.dtype(), |to| {
            max_pool::three(from.as_slice(), to, [height, width]);
        })
    })
}
