//! The crate's layers by this product, where the device has what it needs.

use super::choice::LEAST_DEEP;
use super::finish::EIGHT;
use super::*;
use burn::backend::DispatchDevice;
use burn_cubecl::CubeDevice;
use cubecl::features::MmaConfig;

/// Whether the tensor's device [has units](has_units) for its type.
fn suits<const D: usize>(x: &Tensor<D>) -> bool {
    let device = x.device();
    let DispatchDevice::Cube(device) = device.as_dispatch() else {
        return false;
    };
    let device: &CubeDevice = device;
    let client = device.client();
    match x.dtype() {
        DType::F32 => has_units(&client, DType::F16) && multiplies_tf32(&client),
        dtype => has_units(&client, dtype),
    }
}

/// Whether its units multiply f32 that is rounded to eleven digits.
pub(in crate::cube) fn multiplies_tf32(client: &Client) -> bool {
    let element = ElemType::Float(FloatKind::TF32);
    let product = MmaConfig {
        a_type: element,
        b_type: element,
        cd_type: ElemType::Float(FloatKind::F32),
        m: 16,
        n: 8,
        k: 8,
    };
    client.properties().features.matmul.mma.contains(&product)
}

/// Whether a device has what these kernels are made of, for a type: products of 16 × 8 × 16, loads of their operands, and copies that the
/// threads do not wait for.
pub(in crate::cube) fn has_units(client: &Client, dtype: DType) -> bool {
    let element = match dtype {
        DType::F16 => ElemType::Float(FloatKind::F16),
        DType::BF16 => ElemType::Float(FloatKind::BF16),
        _ => return false,
    };
    let features = &client.properties().features;
    let product = MmaConfig {
        a_type: element,
        b_type: element,
        cd_type: ElemType::Float(FloatKind::F32),
        m: 16,
        n: 8,
        k: 16,
    };
    features.copy_async
        && features.matmul.mma.contains(&product)
        && features.matmul.ldmatrix.contains(&element)
}

/// Whether all of these are of one type.
fn same_types<const D: usize, const E: usize>(
    x: &Tensor<D>,
    weight: &Tensor<E>,
    bias: Option<&Tensor<1>>,
    onto: Option<&Tensor<D>>,
) -> bool {
    let dtype = x.dtype();
    weight.dtype() == dtype
        && bias.is_none_or(|bias| bias.dtype() == dtype)
        && onto.is_none_or(|onto| onto.dtype() == dtype)
}

/// With zeros behind it along an axis, up to a multiple of `unit`.
fn filled_up<const D: usize>(x: &Tensor<D>, axis: usize, unit: usize) -> Tensor<D> {
    let mut zeros = x.dims();
    let rest = zeros[axis].next_multiple_of(unit) - zeros[axis];
    if rest == 0 {
        return x.clone();
    }
    zeros[axis] = rest;
    let zeros = Tensor::zeros(zeros, (&x.device(), x.dtype()));
    Tensor::cat(vec![x.clone(), zeros], axis)
}

/// Results come in groups of these.
const GROUP: usize = EIGHT;

/// [`crate::linear`] with or without a bias, and onto something.
pub(crate) fn affine(
    x: &Tensor<3>,
    weight: &Tensor<2>,
    bias: Option<&Tensor<1>>,
    onto: Option<&Tensor<3>>,
) -> Option<Tensor<3>> {
    let [outputs, inputs] = weight.dims();
    if !same_types(x, weight, bias, onto) || !suits(x) {
        return None;
    }
    // Before anything is filled up: what is under autodiff stays there.
    operand(x)?;
    let piece = in_piece(x.dtype());
    if !inputs.is_multiple_of(piece) || !outputs.is_multiple_of(GROUP) {
        let weight = filled_up(&filled_up(weight, 1, piece), 0, GROUP);
        let bias = bias.map(|bias| filled_up(bias, 0, GROUP));
        let onto = onto.map(|onto| filled_up(onto, 2, GROUP));
        let y = affine(
            &filled_up(x, 2, piece),
            &weight,
            bias.as_ref(),
            onto.as_ref(),
        )?;
        return Some(y.narrow(2, 0, outputs));
    }
    let (x, weight) = (operand(x)?, operand(weight)?);
    let given = [bias.is_some(), onto.is_some()];
    let bias = bias.map_or_else(|| Some(weight.clone()), operand)?;
    let onto = onto.map_or_else(|| Some(weight.clone()), operand)?;
    let y = Dispatch::affine(x, weight, bias, onto, given);
    Some(Tensor::from_dispatch(y))
}

/// [`crate::conv2d`], with padding above and before.
pub(crate) fn convolve(
    x: &Tensor<4>,
    weight: &Tensor<4>,
    bias: Option<&Tensor<1>>,
    stride: usize,
    padding: [usize; 2],
) -> Option<Tensor<4>> {
    let [outputs, inputs, down, across] = weight.dims();
    let [_, channels, height, width] = x.dims();
    let fits = height + 2 * padding[0] >= down && width + 2 * padding[1] >= across;
    if !fits || channels != inputs || !same_types(x, weight, bias, None) || !suits(x) {
        return None;
    }
    operand(x)?;
    // All of a step is under one pixel of the window.
    let depth = LEAST_DEEP.pieces * in_piece(x.dtype());
    if !inputs.is_multiple_of(depth) || !outputs.is_multiple_of(GROUP) {
        let weight = filled_up(&filled_up(weight, 1, depth), 0, GROUP);
        let bias = bias.map(|bias| filled_up(bias, 0, GROUP));
        let y = convolve(
            &filled_up(x, 1, depth),
            &weight,
            bias.as_ref(),
            stride,
            padding,
        )?;
        return Some(y.narrow(1, 0, outputs));
    }
    let (x, weight) = (operand(x)?, operand(weight)?);
    let given = [bias.is_some(), false];
    let bias = bias.map_or_else(|| Some(weight.clone()), operand)?;
    let y = Dispatch::convolve(x, weight.clone(), bias, weight, given, stride, padding);
    Some(Tensor::from_dispatch(y))
}

/// [`crate::linear_input_grad`].
pub(crate) fn affine_input_grad(grad: &Tensor<3>, weight: &Tensor<2>) -> Option<Tensor<3>> {
    affine(grad, &weight.clone().transpose(), None, None)
}

/// [`crate::conv2d_input_grad`]: a convolution of the gradient with the weight turned around, with zeros between the
/// gradient's pixels where the stride skipped some.
pub(crate) fn convolve_input_grad(
    grad: &Tensor<4>,
    weight: &Tensor<4>,
    input: [usize; 4],
    [stride, padding]: [usize; 2],
) -> Option<Tensor<4>> {
    let [_, _, side, across] = weight.dims();
    let [_, _, height, width] = input;
    if side != across || padding >= side || !suits(grad) {
        return None;
    }
    operand(grad)?;
    let around = side - 1 - padding;
    // Of the pixels that no output reaches there may be more than the zeros after the last one.
    let sizes = [2, 3].map(|axis| grad.dims()[axis] * stride + 2 * around + 1 - side);
    if sizes[0] < height || sizes[1] < width {
        return None;
    }
    let turned = weight.clone().permute([1, 2, 3, 0]).flip([1, 2]);
    let turned = turned.permute([0, 3, 1, 2]);
    let of_x = convolve(&spread(grad, stride), &turned, None, 1, [around; 2])?;
    if sizes == [height, width] {
        return Some(of_x);
    }
    Some(of_x.narrow(2, 0, height).narrow(3, 0, width))
}

/// Each pixel with `stride - 1` zeros after it, down and across.
fn spread(x: &Tensor<4>, stride: usize) -> Tensor<4> {
    if stride == 1 {
        return x.clone();
    }
    let [batch, channels, height, width] = x.dims();
    let pixels = x.clone().permute([0, 2, 3, 1]);
    let zeros = |shape: [usize; 4]| Tensor::zeros(shape, (&x.device(), x.dtype()));
    // To both sides of the middle axis: the pixel itself, and what is behind it.
    let pixels: Tensor<4> = pixels.reshape([batch * height * width, 1, 1, channels]);
    let behind = zeros([batch * height * width, 1, stride - 1, channels]);
    let lines: Tensor<4> =
        Tensor::cat(vec![pixels, behind], 2).reshape([batch * height, 1, width * stride, channels]);
    let below = zeros([batch * height, stride - 1, width * stride, channels]);
    let spread: Tensor<4> = Tensor::cat(vec![lines, below], 1).reshape([
        batch,
        height * stride,
        width * stride,
        channels,
    ]);
    spread.permute([0, 3, 1, 2])
}
