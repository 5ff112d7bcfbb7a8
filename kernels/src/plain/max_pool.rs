//! Reference of pooling.

use burn::tensor::ops::MaxPoolOptions;
use burn::tensor::{Tensor, module};

/// Reference of [`crate::max_pool3x3`].
pub fn max_pool3x3(x: Tensor<4>, padding: usize) -> Tensor<4> {
    let options = MaxPoolOptions::new([3, 3]);
    module::max_pool2d(x, options.with_stride([2, 2]).with_padding([padding; 2]))
}
