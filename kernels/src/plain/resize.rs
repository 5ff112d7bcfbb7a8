//! References of nearest-neighbour enlargement.

use burn::tensor::{DType, Tensor};

/// Reference of [`crate::upsample_nearest2x`].
pub fn upsample_nearest2x(x: Tensor<4>) -> Tensor<4> {
    let [batch, channels, height, width] = x.dims();
    x.reshape([batch, channels, height, 1, width, 1])
        .expand([batch, channels, height, 2, width, 2])
        .reshape([batch, channels, height * 2, width * 2])
}

/// Reference of [`crate::upsample_nearest2x_input_grad`].
pub fn upsample_nearest2x_input_grad(grad: Tensor<4>) -> Tensor<4> {
    let dtype = grad.dtype();
    let [batch, channels, height, width] = grad.dims();
    let (height, width) = (height / 2, width / 2);
    grad.cast(DType::F32)
        .reshape([batch, channels, height, 2, width, 2])
        .sum_dim(5)
        .sum_dim(3)
        .reshape([batch, channels, height, width])
        .cast(dtype)
}
