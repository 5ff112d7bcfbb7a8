//! References of the convolutions.

use burn::tensor::ops::{ConvOptions, ConvTransposeOptions};
use burn::tensor::{DType, Tensor, activation, module};

/// Channels that fill a tile of a GPU's matrix units.
const TILE: usize = 16;

/// The type to convolve these in: theirs but for few channels in 16 bits on a GPU. There tuning may choose Burn's direct convolution,
/// which adds up in the type of its input; on an H100, `prepose selftest` found errors of 2.3e-3 in f16 and 1e-2 in bf16.
fn summed_in(x: &Tensor<4>, weight: &Tensor<4>) -> DType {
    let [outputs, inputs, ..] = weight.dims();
    let half = matches!(x.dtype(), DType::F16 | DType::BF16);
    match half && outputs.min(inputs) < TILE && crate::prefers_channels_last(&x.device()) {
        true => DType::F32,
        false => x.dtype(),
    }
}

/// Reference of [`crate::conv2d`].
pub fn conv2d(
    x: Tensor<4>,
    weight: Tensor<4>,
    bias: Option<Tensor<1>>,
    stride: usize,
    padding: usize,
) -> Tensor<4> {
    convolved(x, weight, bias, stride, [padding; 2])
}

fn convolved(
    x: Tensor<4>,
    weight: Tensor<4>,
    bias: Option<Tensor<1>>,
    stride: usize,
    padding: [usize; 2],
) -> Tensor<4> {
    let options = ConvOptions::new([stride; 2], padding, [1, 1], 1);
    let (dtype, sum) = (x.dtype(), summed_in(&x, &weight));
    if sum != dtype {
        let bias = bias.map(|bias| bias.cast(sum));
        return module::conv2d(x.cast(sum), weight.cast(sum), bias, options).cast(dtype);
    }
    module::conv2d(x, weight, bias, options)
}

/// Reference of [`crate::conv2d_relu`].
pub fn conv2d_relu(
    x: Tensor<4>,
    weight: Tensor<4>,
    bias: Option<Tensor<1>>,
    stride: usize,
    padding: [usize; 2],
) -> Tensor<4> {
    activation::relu(convolved(x, weight, bias, stride, padding))
}

/// Reference of [`crate::conv2d_input_grad`].
pub fn conv2d_input_grad(
    grad: Tensor<4>,
    weight: Tensor<4>,
    input: [usize; 4],
    stride: usize,
    padding: usize,
) -> Tensor<4> {
    let [_, _, out_height, out_width] = grad.dims();
    let [_, _, kernel_height, kernel_width] = weight.dims();
    if stride == 1 && padding < kernel_height.min(kernel_width) && kernel_height == kernel_width {
        // A convolution like any other, for which backends have their fastest kernels. The weight is turned into
        // the order that those of GPUs want, which costs nothing elsewhere.
        let turned = weight.permute([1, 2, 3, 0]).flip([1, 2]);
        let turned = turned.permute([0, 3, 1, 2]);
        return conv2d(grad, turned, None, 1, kernel_height - 1 - padding);
    }
    // Pixels at the lower and right border that no output of a strided convolution reaches.
    let rest = |input, out, kernel| input + 2 * padding - ((out - 1) * stride + kernel);
    let unreached = [
        rest(input[2], out_height, kernel_height),
        rest(input[3], out_width, kernel_width),
    ];
    let options = ConvTransposeOptions::new([stride; 2], [padding; 2], unreached, [1, 1], 1);
    let (dtype, sum) = (grad.dtype(), summed_in(&grad, &weight));
    if sum != dtype {
        return module::conv_transpose2d(grad.cast(sum), weight.cast(sum), None, options)
            .cast(dtype);
    }
    module::conv_transpose2d(grad, weight, None, options)
}

/// Reference of [`crate::conv2d_weight_grad`].
pub fn conv2d_weight_grad(
    grad: Tensor<4>,
    x: Tensor<4>,
    filters: [usize; 4],
    stride: usize,
    padding: usize,
) -> Tensor<4> {
    let options = ConvOptions::new([stride; 2], [padding; 2], [1, 1], 1);
    // Of the weight only its shape counts.
    let weight = Tensor::zeros(filters, (&grad.device(), grad.dtype()));
    module::conv2d_weight_backward(x, weight, grad, options)
}

/// Reference of [`crate::conv2d_bias_grad`].
pub fn conv2d_bias_grad(grad: Tensor<4>) -> Tensor<1> {
    let outputs = grad.dims()[1];
    grad.sum_dim(3).sum_dim(2).sum_dim(0).reshape([outputs])
}
