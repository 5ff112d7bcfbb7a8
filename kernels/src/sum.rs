//! Sums of branches.

use crate::cpu::sums;
use crate::flex::{Operand, filled};
use crate::profile::{self, Family};
use burn::tensor::{DType, Tensor};
use half::bf16;

/// `x + y`, elementwise, of one shape and type: a branch and its residual.
///
/// # Panics
/// If shapes or types differ.
pub fn add<const D: usize>(x: Tensor<D>, y: Tensor<D>) -> Tensor<D> {
    let _span = profile::span(Family::Other, &x, || 0);
    assert_eq!(x.dims(), y.dims(), "add: shapes");
    // Burn adds f32 with vectors, and bf16 one by one.
    let both = [x.dtype(), y.dtype()] == [DType::BF16; 2];
    both.then(|| fast_add(&x, &y))
        .flatten()
        .unwrap_or_else(|| x + y)
}

fn fast_add<const D: usize>(x: &Tensor<D>, y: &Tensor<D>) -> Option<Tensor<D>> {
    let (a, b) = (Operand::<bf16>::new(x)?, Operand::<bf16>::new(y)?);
    let (a, b) = (a.contiguous(), b.contiguous());
    let (a, b) = (a.as_slice(), b.as_slice());
    // SAFETY: the operands are contiguous and have the shape of the result, all of which is written.
    Some(unsafe {
        filled(x.dims(), x.dtype(), |to| {
            sums::add(a.as_ptr(), b.as_ptr(), to, a.len());
        })
    })
}
