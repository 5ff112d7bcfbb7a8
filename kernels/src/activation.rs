//! Elementwise activations and the gated one of the transformer blocks.

use crate::cpu::activation::{self as cpu, Activation};
use crate::cpu::simd::Element;
use crate::flex::{Operand, by_type, filled};
use crate::plain;
use crate::profile::{self, Family};
use crate::recorded;
use burn::tensor::{DType, Tensor};
use half::bf16;

/// `x · sigmoid(x)`, elementwise, any shape (Elfwing et al. 2017; "swish").
pub fn silu<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    if let Some(y) = recorded::silu(&x) {
        return y;
    }
    let _span = profile::span(Family::Activation, &x, || 0);
    activate(&x, Activation::Silu).unwrap_or_else(|| plain::silu(x))
}

/// Gradient of [`silu`] with respect to its input `x`, from that with respect to its result.
pub fn silu_input_grad<const D: usize>(grad: Tensor<D>, x: Tensor<D>) -> Tensor<D> {
    let _span = profile::span(Family::Activation, &x, || 0);
    assert_eq!(grad.dims(), x.dims(), "silu_input_grad: gradient");
    let operands = Operand::<f32>::new(&grad).zip(Operand::<f32>::new(&x));
    let fast = operands.map(|(grad, from)| {
        let (grad, from) = (grad.contiguous(), from.contiguous());
        let (grad, from) = (grad.as_slice(), from.as_slice());
        // SAFETY: both are contiguous and of the shape of the result, all of which is written.
        unsafe {
            filled(x.dims(), x.dtype(), |to: *mut f32| {
                for (i, (grad, x)) in grad.iter().zip(from).enumerate() {
                    let sigmoid = 1.0 / (1.0 + (-x).exp());
                    to.add(i)
                        .write(grad * sigmoid * (1.0 + x * (1.0 - sigmoid)));
                }
            })
        }
    });
    fast.unwrap_or_else(|| plain::silu_input_grad(grad, x))
}

/// Exact GELU `x · Φ(x)` with the error function, elementwise, any shape (Hendrycks & Gimpel 2016).
pub fn gelu<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    let _span = profile::span(Family::Activation, &x, || 0);
    activate(&x, Activation::Gelu).unwrap_or_else(|| plain::gelu(x))
}

/// `x · sigmoid(1.702 x)`, the GELU approximation of OpenAI's CLIP, elementwise, any shape.
pub fn quick_gelu<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    let _span = profile::span(Family::Activation, &x, || 0);
    activate(&x, Activation::QuickGelu).unwrap_or_else(|| plain::quick_gelu(x))
}

/// The fast path of the elementwise functions.
fn activate<const D: usize>(x: &Tensor<D>, activation: Activation) -> Option<Tensor<D>> {
    match x.dtype() {
        DType::BF16 => activate_as::<bf16, D>(x, activation),
        _ => activate_as::<f32, D>(x, activation),
    }
}

fn activate_as<E: Element, const D: usize>(
    x: &Tensor<D>,
    activation: Activation,
) -> Option<Tensor<D>> {
    let from = Operand::<E>::new(x)?.contiguous();
    let from = from.as_slice();
    // SAFETY: the operand is contiguous, and each of its elements is one of the result, all of which are written.
    Some(unsafe {
        filled(x.dims(), x.dtype(), |to| {
            cpu::activate(activation, from.as_ptr(), to, from.len());
        })
    })
}

/// The gated GELU of diffusers' `GEGLU` (Shazeer 2020): `[B, N, 2C]` to `[B, N, C]`, the first half
/// of the channels times the exact GELU of the second half.
///
/// # Panics
/// If the number of channels is odd.
pub fn geglu(x: Tensor<3>) -> Tensor<3> {
    if let Some(y) = recorded::geglu(&x) {
        return y;
    }
    let _span = profile::span(Family::Activation, &x, || 0);
    assert!(
        x.dims()[2].is_multiple_of(2),
        "geglu needs an even number of channels"
    );
    fast!(by_type!([x], fast_geglu(&x)), crate::cube::geglu(&x)).unwrap_or_else(|| plain::geglu(x))
}

fn fast_geglu<E: Element>(x: &Tensor<3>) -> Option<Tensor<3>> {
    let [batch, tokens, channels] = x.dims();
    let from = Operand::<E>::new(x)?.contiguous();
    let (rows, width) = (batch * tokens, channels / 2);
    // SAFETY: the operand is contiguous, `rows` rows of `2 · width`; the `rows · width` elements of the result are written.
    Some(unsafe {
        filled([batch, tokens, width], x.dtype(), |to| {
            cpu::geglu(from.as_slice().as_ptr(), to, rows, width);
        })
    })
}

/// Gradient of [`geglu`] with respect to its input `x` `[B, N, 2C]`, from the gradient with respect to
/// its result, `grad` `[B, N, C]`.
pub fn geglu_input_grad(grad: Tensor<3>, x: Tensor<3>) -> Tensor<3> {
    let _span = profile::span(Family::Activation, &x, || 0);
    let [batch, tokens, width] = grad.dims();
    assert_eq!(
        x.dims(),
        [batch, tokens, 2 * width],
        "geglu_input_grad: input"
    );
    fast!(
        by_type!([grad, x], fast_geglu_input_grad(&grad, &x)),
        crate::cube::geglu_input_grad(&grad, &x)
    )
    .unwrap_or_else(|| plain::geglu_input_grad(grad, x))
}

fn fast_geglu_input_grad<E: Element>(grad: &Tensor<3>, x: &Tensor<3>) -> Option<Tensor<3>> {
    let [batch, tokens, width] = grad.dims();
    let (from_grad, from) = (
        Operand::<E>::new(grad)?.contiguous(),
        Operand::<E>::new(x)?.contiguous(),
    );
    // SAFETY: operands are contiguous; `x` and the result have twice the width of the gradient, as the caller has asserted,
    // and both halves of the result are written.
    Some(unsafe {
        filled(x.dims(), grad.dtype(), |to| {
            let (grad, from) = (from_grad.as_slice().as_ptr(), from.as_slice().as_ptr());
            cpu::geglu_input_grad(grad, from, to, batch * tokens, width);
        })
    })
}
