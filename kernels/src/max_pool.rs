//! Largest values of neighbourhoods.

use crate::plain;
use crate::profile::{self, Family};
use burn::tensor::Tensor;

use crate::cpu::max_pool;
use crate::flex::{Operand, filled};

/// The largest of each 3 × 3 pixels of `x` `[B, C, H, W]` in steps of two, `padding` pixels of the first beyond the edge, 0 or 1:
/// `[B, C, H', W']` with `H' = (H + 2·padding − 3) / 2 + 1`. PyTorch's `max_pool2d` with stride 2.
pub fn max_pool3x3(x: Tensor<4>, padding: usize) -> Tensor<4> {
    let _span = profile::span(Family::Other, &x, || 0);
    fast_max_pool3x3(&x, padding).unwrap_or_else(|| plain::max_pool3x3(x, padding))
}

fn fast_max_pool3x3(x: &Tensor<4>, padding: usize) -> Option<Tensor<4>> {
    let [batch, channels, height, width] = x.dims();
    let from = Operand::<f32>::new(x)?.contiguous();
    if padding > 1 || height.min(width) + 2 * padding < 3 {
        return None;
    }
    let [rows, columns] = max_pool::size([height, width], padding);
    // SAFETY: the result has a plane of this size for each of the operand, which has one window at least, and all are written.
    Some(unsafe {
        filled([batch, channels, rows, columns], x.dtype(), |to| {
            max_pool::three(from.as_slice(), to, [height, width], padding);
        })
    })
}
