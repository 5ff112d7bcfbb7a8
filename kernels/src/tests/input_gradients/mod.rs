//! The explicit input gradients against Burn's own differentiation of the plain references.

mod activation;
mod attention;
mod conv;
mod linear;
mod norm;
mod resize;

use super::{assert_close, tolerance, values};
use crate::cpu::simd::forced;
use burn::tensor::{DType, Device, Tensor, TensorData};

const TYPES: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

/// Computations in the half types and sums of many of their products.
fn plain_tolerance(dtype: DType) -> f64 {
    8.0 * tolerance(dtype)
}

/// The same numbers as f32 on the device that records gradients.
fn tracked<const D: usize>(x: &Tensor<D>) -> Tensor<D> {
    let data = TensorData::new(values(x).into_iter().map(|x| x as f32).collect(), x.dims());
    Tensor::<D>::from_data(data, &Device::flex().autodiff()).require_grad()
}

/// Gradients of `Σ grad · operation(inputs)` with respect to the inputs.
fn recorded<const D: usize, const E: usize>(
    inputs: &[&Tensor<D>],
    grad: &Tensor<E>,
    operation: impl Fn(&[Tensor<D>]) -> Tensor<E>,
) -> Vec<Vec<f64>> {
    let inputs: Vec<_> = inputs.iter().copied().map(tracked).collect();
    let gradients = (operation(&inputs) * tracked(grad).detach())
        .sum()
        .backward();
    let gradient = |x: &Tensor<D>| values(&x.grad(&gradients).expect("a gradient"));
    inputs.iter().map(gradient).collect()
}

/// The same numbers, f32, without recording.
fn wide<const D: usize>(x: &Tensor<D>) -> Tensor<D> {
    tracked(x).detach()
}

/// Compares `fast` at every vector width, and `plain`, with `want`.
#[track_caller]
fn compare<const D: usize>(
    (fast, plain): (impl Fn() -> Tensor<D> + Sync, impl Fn() -> Tensor<D>),
    want: &[f64],
    (shape, dtype): ([usize; D], DType),
    what: &str,
) {
    let check = |got: Tensor<D>, tolerance, name: &str| {
        let what = format!("{name} {what} {dtype:?}");
        assert_eq!((got.dims(), got.dtype()), (shape, dtype), "{what}");
        assert_close(&got, want, tolerance, &what);
    };
    check(plain(), plain_tolerance(dtype), "plain");
    forced::each(|level| check(fast(), 2.0 * tolerance(dtype), &format!("{level:?}")));
}
