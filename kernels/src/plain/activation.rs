//! References of the activations.

use burn::tensor::{DType, Tensor, activation};
use core::f64::consts::{FRAC_1_SQRT_2, TAU};

/// Reference of [`crate::silu`].
pub fn silu<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    activation::silu(x)
}

/// Reference of [`crate::silu_input_grad`].
pub fn silu_input_grad<const D: usize>(grad: Tensor<D>, x: Tensor<D>) -> Tensor<D> {
    let sigmoid = activation::sigmoid(x.clone());
    grad * (sigmoid.clone() * (x * (-sigmoid + 1.0) + 1.0))
}

/// Reference of [`crate::gelu`].
pub fn gelu<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    activation::gelu(x)
}

/// Reference of [`crate::quick_gelu`].
pub fn quick_gelu<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    activation::sigmoid(x.clone() * 1.702) * x
}

/// Reference of [`crate::geglu`].
pub fn geglu(x: Tensor<3>) -> Tensor<3> {
    let half = x.dims()[2] / 2;
    let value = x.clone().narrow(2, 0, half);
    let gate = x.narrow(2, half, half);
    value * activation::gelu(gate)
}

/// Reference of [`crate::geglu_input_grad`].
pub fn geglu_input_grad(grad: Tensor<3>, x: Tensor<3>) -> Tensor<3> {
    let dtype = grad.dtype();
    let half = x.dims()[2] / 2;
    let (grad, x) = (grad.cast(DType::F32), x.cast(DType::F32));
    let value = x.clone().narrow(2, 0, half);
    let gate = x.narrow(2, half, half);
    // gelu(x) = x Φ(x), gelu'(x) = Φ(x) + x φ(x), with the normal distribution and its density.
    let distribution = ((gate.clone() * FRAC_1_SQRT_2).erf() + 1.0) * 0.5;
    let density = (gate.clone().square() * -0.5).exp() * TAU.powf(-0.5);
    let slope = distribution.clone() + gate.clone() * density;
    let of_gate = grad.clone() * value * slope;
    Tensor::cat(vec![grad * (gate * distribution), of_gate], 2).cast(dtype)
}
