//! Sums of branches.

use crate::cpu::simd::Element;
use crate::cpu::sums;
use crate::flex::{Operand, filled, in_place};
use crate::profile::{self, Family};
use burn::tensor::{DType, Tensor};
use half::bf16;

/// `x + y`, elementwise, of one shape and type: a branch and its residual. On the CPU it is computed in one of them if nobody
/// else has that.
///
/// # Panics
/// If shapes or types differ.
pub fn add<const D: usize>(x: Tensor<D>, y: Tensor<D>) -> Tensor<D> {
    let _span = profile::span(Family::Other, &x, || 0);
    assert_eq!(x.dims(), y.dims(), "add: shapes");
    // Burn adds on one thread, and bf16 one by one.
    match [x.dtype(), y.dtype()] {
        [DType::F32, DType::F32] => add_as::<f32, D>(x, y),
        [DType::BF16, DType::BF16] => add_as::<bf16, D>(x, y),
        _ => x + y,
    }
}

fn add_as<E: Element, const D: usize>(x: Tensor<D>, y: Tensor<D>) -> Tensor<D> {
    let (x, added) = add_to::<E, D>(x, &y);
    if added {
        return x;
    }
    let (y, added) = add_to::<E, D>(y, &x);
    if added {
        return y;
    }
    fast_add::<E, D>(&x, &y).unwrap_or_else(|| x + y)
}

/// `x + y` in the place of `x`, if that may be changed; whether it was.
fn add_to<E: Element, const D: usize>(x: Tensor<D>, y: &Tensor<D>) -> (Tensor<D>, bool) {
    let Some(y) = Operand::<E>::new(y) else {
        return (x, false);
    };
    let y = y.contiguous();
    let y = y.as_slice();
    // SAFETY: these are as many elements, since the shapes are the same, and each vector of a sum is written when its terms
    // have been read.
    in_place(x, |at: *mut E| unsafe {
        sums::add(at.cast_const(), y.as_ptr(), at, y.len());
    })
}

fn fast_add<E: Element, const D: usize>(x: &Tensor<D>, y: &Tensor<D>) -> Option<Tensor<D>> {
    let (a, b) = (Operand::<E>::new(x)?, Operand::<E>::new(y)?);
    let (a, b) = (a.contiguous(), b.contiguous());
    let (a, b) = (a.as_slice(), b.as_slice());
    // SAFETY: the operands are contiguous and have the shape of the result, all of which is written.
    Some(unsafe {
        filled(x.dims(), x.dtype(), |to| {
            sums::add(a.as_ptr(), b.as_ptr(), to, a.len());
        })
    })
}
