//! References of the normalisations. Statistics are taken in f32 whatever the type of the input.

use burn::tensor::{DType, Tensor, activation, module};

/// What [`crate::group_norm`] does to a picture `[B, C, H, W]`.
#[derive(Clone, Debug)]
pub struct GroupNorm {
    /// How many groups of neighbouring channels are normalised together; divides `C`.
    pub groups: usize,
    /// What each channel is multiplied by after it is normalised, `[C]`.
    pub weight: Tensor<1>,
    /// What is then added to each channel, `[C]`.
    pub bias: Tensor<1>,
    /// What is added to the (biased) variance.
    pub eps: f64,
    /// Whether SiLU is applied to the result.
    pub silu: bool,
}

impl GroupNorm {
    /// Weight and bias in f32, as `[1, C, 1, 1]`.
    fn wide(&self) -> [Tensor<4>; 2] {
        [&self.weight, &self.bias].map(|x| {
            let channels = x.dims()[0];
            x.clone().cast(DType::F32).reshape([1, channels, 1, 1])
        })
    }
}

/// Reference of [`crate::group_norm`].
pub fn group_norm(x: Tensor<4>, norm: &GroupNorm) -> Tensor<4> {
    let GroupNorm {
        groups, eps, silu, ..
    } = *norm;
    let dtype = x.dtype();
    let [batch, channels, height, width] = x.dims();
    let x = x
        .cast(DType::F32)
        .reshape([batch, groups, channels / groups * height * width]);
    let centred = x.clone() - x.mean_dim(2);
    let variance = centred.clone().square().mean_dim(2);
    let normalised = (centred / (variance + eps).sqrt()).reshape([batch, channels, height, width]);
    let [weight, bias] = norm.wide();
    let y = normalised * weight + bias;
    let y = if silu { activation::silu(y) } else { y };
    y.cast(dtype)
}

/// Reference of [`crate::layer_norm`].
pub fn layer_norm(x: Tensor<3>, weight: Tensor<1>, bias: Tensor<1>, eps: f64) -> Tensor<3> {
    let dtype = x.dtype();
    module::layer_norm(
        x.cast(DType::F32),
        weight.cast(DType::F32),
        Some(bias.cast(DType::F32)),
        eps,
    )
    .cast(dtype)
}

/// Reference of [`crate::group_norm_input_grad`].
pub fn group_norm_input_grad(grad: Tensor<4>, x: Tensor<4>, norm: &GroupNorm) -> Tensor<4> {
    let GroupNorm {
        groups, eps, silu, ..
    } = *norm;
    let dtype = grad.dtype();
    let shape @ [batch, channels, height, width] = x.dims();
    let grouped = [batch, groups, channels / groups * height * width];
    let (normalised, deviation) = normalise(x.cast(DType::F32).reshape(grouped), eps);
    let [weight, bias] = norm.wide();
    let mut grad = grad.cast(DType::F32);
    if silu {
        let y = normalised.clone().reshape(shape) * weight.clone() + bias;
        let sigmoid = activation::sigmoid(y.clone());
        // silu'(y) = σ(y) (1 + y (1 − σ(y)))
        grad = grad * (sigmoid.clone() * (y * (-sigmoid + 1.0) + 1.0));
    }
    let grad = (grad * weight).reshape(grouped);
    normalise_grad(grad, normalised, deviation)
        .reshape(shape)
        .cast(dtype)
}

/// Reference of [`crate::layer_norm_input_grad`].
pub fn layer_norm_input_grad(
    grad: Tensor<3>,
    x: Tensor<3>,
    weight: Tensor<1>,
    eps: f64,
) -> Tensor<3> {
    let dtype = grad.dtype();
    let (normalised, deviation) = normalise(x.cast(DType::F32), eps);
    let grad = grad.cast(DType::F32) * weight.cast(DType::F32).unsqueeze();
    normalise_grad(grad, normalised, deviation).cast(dtype)
}

/// Reference of the gradients to weight and bias in [`crate::group_norm_grads`].
pub fn group_norm_param_grads(
    grad: Tensor<4>,
    x: Tensor<4>,
    norm: &GroupNorm,
) -> (Tensor<1>, Tensor<1>) {
    let GroupNorm {
        groups, eps, silu, ..
    } = *norm;
    let shape @ [batch, channels, height, width] = x.dims();
    let grouped = [batch, groups, channels / groups * height * width];
    let (normalised, _) = normalise(x.cast(DType::F32).reshape(grouped), eps);
    let normalised = normalised.reshape(shape);
    let mut grad = grad.cast(DType::F32);
    if silu {
        let [weight, bias] = norm.wide();
        grad = super::silu_input_grad(grad, normalised.clone() * weight + bias);
    }
    let sums = |x: Tensor<4>| x.sum_dim(3).sum_dim(2).sum_dim(0).reshape([channels]);
    let of_weight = sums(grad.clone() * normalised);
    (of_weight, sums(grad))
}

/// Reference of [`crate::layer_norm_param_grads`].
pub fn layer_norm_param_grads(grad: Tensor<3>, x: Tensor<3>, eps: f64) -> (Tensor<1>, Tensor<1>) {
    let channels = x.dims()[2];
    let (normalised, _) = normalise(x.cast(DType::F32), eps);
    let grad = grad.cast(DType::F32);
    let sums = |x: Tensor<3>| x.sum_dim(1).sum_dim(0).reshape([channels]);
    (sums(grad.clone() * normalised), sums(grad))
}

/// `x` with mean 0 and variance 1 along the last axis, and the deviation it was divided by.
fn normalise(x: Tensor<3>, eps: f64) -> (Tensor<3>, Tensor<3>) {
    let centred = x.clone() - x.mean_dim(2);
    let deviation = (centred.clone().square().mean_dim(2) + eps).sqrt();
    (centred / deviation.clone(), deviation)
}

/// Gradient through [`normalise`]: the part of `grad` that changes neither mean nor variance.
fn normalise_grad(grad: Tensor<3>, normalised: Tensor<3>, deviation: Tensor<3>) -> Tensor<3> {
    let along = (grad.clone() * normalised.clone()).mean_dim(2);
    (grad.clone() - grad.mean_dim(2) - normalised * along) / deviation
}
