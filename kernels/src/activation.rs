//! Elementwise activations and the gated one of the transformer blocks.

use burn::tensor::Tensor;

/// `x · sigmoid(x)`, elementwise, any shape (Elfwing et al. 2017; "swish").
pub fn silu<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    plain::silu(x)
}

/// Exact GELU `x · Φ(x)` with the error function, elementwise, any shape (Hendrycks & Gimpel 2016).
pub fn gelu<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    plain::gelu(x)
}

/// `x · sigmoid(1.702 x)`, the GELU approximation of OpenAI's CLIP, elementwise, any shape.
pub fn quick_gelu<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    plain::quick_gelu(x)
}

/// The gated GELU of diffusers' `GEGLU` (Shazeer 2020): `[B, N, 2C]` to `[B, N, C]`, the first half
/// of the channels times the exact GELU of the second half.
///
/// # Panics
/// If the number of channels is odd.
pub fn geglu(x: Tensor<3>) -> Tensor<3> {
    assert!(
        x.dims()[2].is_multiple_of(2),
        "geglu needs an even number of channels"
    );
    plain::geglu(x)
}

pub(crate) mod plain {
    use burn::tensor::{Tensor, activation};

    /// Reference of [`crate::silu`].
    pub fn silu<const D: usize>(x: Tensor<D>) -> Tensor<D> {
        activation::silu(x)
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
}
