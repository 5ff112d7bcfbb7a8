//! Products of batches of small matrices.

use crate::profile::{self, Family, linear_flops};
use crate::recorded;
use burn::tensor::Tensor;

/// `left` `[…, M, K]` by `right` `[…, K, N]`, giving `[…, M, N]`; axes before these may be 1 in one of the two. It is
/// [`Tensor::matmul`], but on GPUs small products go to a kernel that needs no tuning: a loss on attention maps has a
/// dozen sizes of them, and Burn takes seconds for each before it computes one.
///
/// # Panics
/// If the shapes do not fit.
pub fn matmul<const D: usize>(left: Tensor<D>, right: Tensor<D>) -> Tensor<D> {
    if let Some(y) = recorded::matmul(&left, &right) {
        return y;
    }
    assert_fits(left.dims(), right.dims());
    let _span = profile::span(Family::Matmul, &left, || flops(left.dims(), right.dims()));
    #[cfg(feature = "gpu")]
    if let Some(y) = crate::cube::matmul(&left, &right) {
        return y;
    }
    left.matmul(right)
}

fn assert_fits<const D: usize>(left: [usize; D], right: [usize; D]) {
    let batch = (0..D - 2).all(|axis| {
        let (a, b) = (left[axis], right[axis]);
        a == b || a == 1 || b == 1
    });
    assert!(
        batch && left[D - 1] == right[D - 2],
        "matmul: {left:?} by {right:?}"
    );
}

fn flops<const D: usize>(left: [usize; D], right: [usize; D]) -> u64 {
    let batch: usize = (0..D - 2).map(|axis| left[axis].max(right[axis])).product();
    linear_flops(batch * left[D - 2], left[D - 1], right[D - 1])
}
