//! References of the affine layer.

use burn::tensor::{Tensor, module};

/// Reference of [`crate::linear`].
pub fn linear(x: Tensor<3>, weight: Tensor<2>, bias: Option<Tensor<1>>) -> Tensor<3> {
    module::linear(x, weight.transpose(), bias)
}

/// Reference of [`crate::linear_input_grad`].
pub fn linear_input_grad(grad: Tensor<3>, weight: Tensor<2>) -> Tensor<3> {
    module::linear(grad, weight, None)
}
