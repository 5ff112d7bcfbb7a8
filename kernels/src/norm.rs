//! Group and layer normalisation. Statistics are taken in f32 whatever the type of the input.

use crate::cpu::{norm, norm_grad};
use crate::flex::{Operand, filled};
use crate::plain;
use crate::profile::{self, Family};
use burn::tensor::Tensor;

/// Group normalisation (Wu & He 2018) of `x` `[B, C, H, W]` over `groups` groups of neighbouring
/// channels, then `weight` `[C]` and `bias` `[C]`, then SiLU if `silu`. `eps` is added to the
/// (biased) variance.
///
/// # Panics
/// If `C` is not a multiple of `groups`.
pub fn group_norm(
    x: Tensor<4>,
    groups: usize,
    weight: Tensor<1>,
    bias: Tensor<1>,
    eps: f64,
    silu: bool,
) -> Tensor<4> {
    let _span = profile::span(Family::Norm, &x, || 0);
    let channels = x.dims()[1];
    assert!(
        channels.is_multiple_of(groups),
        "{channels} channels do not divide into {groups} groups"
    );
    if x.shape().num_elements() == 0 {
        return x;
    }
    fast!(
        fast_group_norm(&x, groups, &weight, &bias, eps, silu),
        crate::cube::group_norm(&x, groups, [&weight, &bias], eps, silu)
    )
    .unwrap_or_else(|| plain::group_norm(x, groups, weight, bias, eps, silu))
}

fn fast_group_norm(
    x: &Tensor<4>,
    groups: usize,
    weight: &Tensor<1>,
    bias: &Tensor<1>,
    eps: f64,
    silu: bool,
) -> Option<Tensor<4>> {
    let [batch, channels, height, width] = x.dims();
    assert_eq!(
        [weight.dims(), bias.dims()],
        [[channels]; 2],
        "group_norm: weight and bias"
    );
    let from = Operand::new(x)?.contiguous();
    let (weight, bias) = (
        Operand::new(weight)?.contiguous(),
        Operand::new(bias)?.contiguous(),
    );
    let problem = norm::GroupNorm {
        batch,
        channels,
        plane: height * width,
        groups,
        weight: weight.as_slice(),
        bias: bias.as_slice(),
        eps,
        silu,
    };
    // SAFETY: the operand has these dimensions, none of which is 0 as the caller has seen to, and each of its elements is
    // one of the result.
    Some(unsafe {
        filled(x.dims(), x.dtype(), |to| {
            problem.run(from.as_slice().as_ptr(), to)
        })
    })
}

/// Layer normalisation (Ba et al. 2016) of `x` `[B, N, C]` over `C`, then `weight` `[C]` and `bias`
/// `[C]`. `eps` is added to the (biased) variance.
pub fn layer_norm(x: Tensor<3>, weight: Tensor<1>, bias: Tensor<1>, eps: f64) -> Tensor<3> {
    let _span = profile::span(Family::Norm, &x, || 0);
    if x.shape().num_elements() == 0 {
        return x;
    }
    fast!(
        fast_layer_norm(&x, &weight, &bias, eps),
        crate::cube::layer_norm(&x, &weight, &bias, eps)
    )
    .unwrap_or_else(|| plain::layer_norm(x, weight, bias, eps))
}

fn fast_layer_norm(
    x: &Tensor<3>,
    weight: &Tensor<1>,
    bias: &Tensor<1>,
    eps: f64,
) -> Option<Tensor<3>> {
    let [batch, tokens, channels] = x.dims();
    assert_eq!(
        [weight.dims(), bias.dims()],
        [[channels]; 2],
        "layer_norm: weight and bias"
    );
    let from = Operand::new(x)?.contiguous();
    let (weight, bias) = (
        Operand::new(weight)?.contiguous(),
        Operand::new(bias)?.contiguous(),
    );
    let (weight, bias) = (weight.as_slice(), bias.as_slice());
    // SAFETY: the operand has `batch · tokens` rows of `channels` elements, at least one as the caller has seen to, and so
    // have weight and bias; each row of the result is written.
    Some(unsafe {
        filled(x.dims(), x.dtype(), |to| {
            let from = from.as_slice().as_ptr();
            norm::layer_norm(from, to, batch * tokens, weight, bias, eps as f32);
        })
    })
}

/// Gradient of [`group_norm`] with respect to its input `x`, from the gradient with respect to its
/// result, `grad` `[B, C, H, W]`. The other arguments are those of the forward pass.
///
/// # Panics
/// If `C` is not a multiple of `groups`.
pub fn group_norm_input_grad(
    grad: Tensor<4>,
    x: Tensor<4>,
    groups: usize,
    weight: Tensor<1>,
    bias: Tensor<1>,
    eps: f64,
    silu: bool,
) -> Tensor<4> {
    let _span = profile::span(Family::Norm, &x, || 0);
    let channels = x.dims()[1];
    assert!(
        channels.is_multiple_of(groups),
        "{channels} channels do not divide into {groups} groups"
    );
    assert_eq!(grad.dims(), x.dims(), "group_norm_input_grad: gradient");
    if x.shape().num_elements() == 0 {
        return grad;
    }
    fast!(
        fast_group_norm_input_grad(&grad, &x, groups, [&weight, &bias], eps, silu),
        crate::cube::group_norm_input_grad(&grad, &x, groups, [&weight, &bias], eps, silu)
    )
    .unwrap_or_else(|| plain::group_norm_input_grad(grad, x, groups, weight, bias, eps, silu))
}

fn fast_group_norm_input_grad(
    grad: &Tensor<4>,
    x: &Tensor<4>,
    groups: usize,
    [weight, bias]: [&Tensor<1>; 2],
    eps: f64,
    silu: bool,
) -> Option<Tensor<4>> {
    let [batch, channels, height, width] = x.dims();
    assert_eq!(
        [weight.dims(), bias.dims()],
        [[channels]; 2],
        "group_norm_input_grad: weight and bias"
    );
    let from_grad = Operand::new(grad)?.contiguous();
    let from = Operand::new(x)?.contiguous();
    let weight = Operand::new(weight)?.contiguous();
    let bias = Operand::new(bias)?.contiguous();
    let problem = norm::GroupNorm {
        batch,
        channels,
        plane: height * width,
        groups,
        weight: weight.as_slice(),
        bias: bias.as_slice(),
        eps,
        silu,
    };
    // SAFETY: the operands have these dimensions, none of which is 0 as the caller has seen to, and so has the result, all
    // of which is written.
    Some(unsafe {
        filled(x.dims(), grad.dtype(), |to| {
            let (grad, from) = (from_grad.as_slice().as_ptr(), from.as_slice().as_ptr());
            problem.run_input_grad(grad, from, to);
        })
    })
}

/// Gradient of [`layer_norm`] with respect to its input `x`, from the gradient with respect to its
/// result, `grad` `[B, N, C]`. It does not depend on the bias.
pub fn layer_norm_input_grad(
    grad: Tensor<3>,
    x: Tensor<3>,
    weight: Tensor<1>,
    eps: f64,
) -> Tensor<3> {
    let _span = profile::span(Family::Norm, &x, || 0);
    assert_eq!(
        (grad.dims(), weight.dims()),
        (x.dims(), [x.dims()[2]]),
        "layer_norm_input_grad: gradient and weight"
    );
    if x.shape().num_elements() == 0 {
        return grad;
    }
    fast!(
        fast_layer_norm_input_grad(&grad, &x, &weight, eps),
        crate::cube::layer_norm_input_grad(&grad, &x, &weight, eps)
    )
    .unwrap_or_else(|| plain::layer_norm_input_grad(grad, x, weight, eps))
}

fn fast_layer_norm_input_grad(
    grad: &Tensor<3>,
    x: &Tensor<3>,
    weight: &Tensor<1>,
    eps: f64,
) -> Option<Tensor<3>> {
    let [batch, tokens, _] = x.dims();
    let from_grad = Operand::new(grad)?.contiguous();
    let from = Operand::new(x)?.contiguous();
    let weight = Operand::new(weight)?.contiguous();
    // SAFETY: the operands have `batch · tokens` rows as long as the weight, with at least one element as the caller has
    // seen to; each row of the result is written.
    Some(unsafe {
        filled(x.dims(), grad.dtype(), |to| {
            let (grad, from) = (from_grad.as_slice().as_ptr(), from.as_slice().as_ptr());
            let (rows, eps) = (batch * tokens, eps as f32);
            norm_grad::layer_norm_input_grad(grad, from, to, rows, weight.as_slice(), eps);
        })
    })
}
