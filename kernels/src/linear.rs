//! The affine layer.

use burn::tensor::Tensor;

/// `x Wᵀ + b` for `x` `[B, N, In]`, `weight` `[Out, In]` as PyTorch stores it, and `bias` `[Out]`,
/// giving `[B, N, Out]`.
pub fn linear(x: Tensor<3>, weight: Tensor<2>, bias: Option<Tensor<1>>) -> Tensor<3> {
    plain::linear(x, weight, bias)
}

pub(crate) mod plain {
    use burn::tensor::{Tensor, module};

    /// Reference of [`crate::linear`].
    pub fn linear(x: Tensor<3>, weight: Tensor<2>, bias: Option<Tensor<1>>) -> Tensor<3> {
        module::linear(x, weight.transpose(), bias)
    }
}
