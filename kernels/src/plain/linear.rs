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

/// Reference of [`crate::linear_weight_grad`].
pub fn linear_weight_grad(grad: Tensor<3>, x: Tensor<3>) -> Tensor<2> {
    let [batch, tokens, outputs] = grad.dims();
    let inputs = x.dims()[2];
    let grad: Tensor<2> = grad.reshape([batch * tokens, outputs]);
    grad.transpose().matmul(x.reshape([batch * tokens, inputs]))
}

/// Reference of [`crate::linear_bias_grad`].
pub fn linear_bias_grad(grad: Tensor<3>) -> Tensor<1> {
    let outputs = grad.dims()[2];
    grad.sum_dim(1).sum_dim(0).reshape([outputs])
}
