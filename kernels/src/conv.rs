//! Two-dimensional convolution.

use burn::tensor::Tensor;

/// Cross-correlation of `x` `[B, Cin, H, W]` with `weight` `[Cout, Cin, k, k]` (PyTorch's layout)
/// plus `bias` `[Cout]`, with `padding` zeros on every side, giving `[B, Cout, H', W']` where
/// `H' = (H + 2·padding − k) / stride + 1`.
pub fn conv2d(
    x: Tensor<4>,
    weight: Tensor<4>,
    bias: Option<Tensor<1>>,
    stride: usize,
    padding: usize,
) -> Tensor<4> {
    plain::conv2d(x, weight, bias, stride, padding)
}

pub(crate) mod plain {
    use burn::tensor::ops::ConvOptions;
    use burn::tensor::{Tensor, module};

    /// Reference of [`crate::conv2d`].
    pub fn conv2d(
        x: Tensor<4>,
        weight: Tensor<4>,
        bias: Option<Tensor<1>>,
        stride: usize,
        padding: usize,
    ) -> Tensor<4> {
        let options = ConvOptions::new([stride; 2], [padding; 2], [1, 1], 1);
        module::conv2d(x, weight, bias, options)
    }
}
