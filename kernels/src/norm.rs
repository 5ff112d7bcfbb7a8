//! Group and layer normalisation. Statistics are taken in f32 whatever the type of the input.

use crate::cpu::norm as cpu;
use crate::cpu::norm_grad;
use crate::cpu::simd::Element;
use crate::flex::{Operand, by_type, filled, in_place};
use crate::plain::{self, GroupNorm};
use crate::profile::{self, Family};
use crate::recorded;
use burn::tensor::{DType, Tensor};

/// Group normalisation (Wu & He 2018) of `x` `[B, C, H, W]`. On the CPU it is computed in `x` if nobody else has that.
///
/// # Panics
/// If `C` is not a multiple of the number of groups.
pub fn group_norm(x: Tensor<4>, norm: &GroupNorm) -> Tensor<4> {
    if let Some(y) = recorded::group_norm(&x, norm) {
        return y;
    }
    let _span = profile::span(Family::Norm, &x, || 0);
    check(&x, norm);
    if x.shape().num_elements() == 0 {
        return x;
    }
    let (x, normalised) = match x.dtype() {
        DType::F32 => group_norm_in_place::<f32>(x, norm),
        DType::BF16 => group_norm_in_place::<half::bf16>(x, norm),
        _ => (x, false),
    };
    if normalised {
        return x;
    }
    fast!(
        by_type!([x], fast_group_norm(&x, norm)),
        crate::cube::group_norm(
            &x,
            norm.groups,
            [&norm.weight, &norm.bias],
            norm.eps,
            norm.silu
        )
    )
    .unwrap_or_else(|| plain::group_norm(x, norm))
}

pub(crate) fn check(x: &Tensor<4>, norm: &GroupNorm) {
    let (channels, groups) = (x.dims()[1], norm.groups);
    assert!(
        channels.is_multiple_of(groups),
        "{channels} channels do not divide into {groups} groups"
    );
}

/// `x`, and whether it is the result.
fn group_norm_in_place<E: Element>(x: Tensor<4>, norm: &GroupNorm) -> (Tensor<4>, bool) {
    let Some(parameters) = Parameters::new(&x, norm, "group_norm") else {
        return (x, false);
    };
    let operation = parameters.of(&x, norm);
    // SAFETY: these are the elements of a contiguous tensor of the operation's dimensions, none of which is 0 as the caller
    // has seen to.
    in_place::<E, 4>(x, |at| unsafe { operation.run(at.cast_const(), at) })
}

fn fast_group_norm<E: Element>(x: &Tensor<4>, norm: &GroupNorm) -> Option<Tensor<4>> {
    let from = Operand::<E>::new(x)?.contiguous();
    let parameters = Parameters::new(x, norm, "group_norm")?;
    // SAFETY: the operand has these dimensions, none of which is 0 as the caller has seen to, and each of its elements is
    // one of the result.
    Some(unsafe {
        filled(x.dims(), x.dtype(), |to| {
            let from = from.as_slice().as_ptr();
            parameters.of(x, norm).run(from, to);
        })
    })
}

/// Weight and bias on the CPU.
pub(crate) struct Parameters {
    weight: Operand,
    bias: Operand,
}

impl Parameters {
    pub(crate) fn new(x: &Tensor<4>, norm: &GroupNorm, what: &str) -> Option<Self> {
        let GroupNorm { weight, bias, .. } = norm;
        assert_eq!(
            [weight.dims(), bias.dims()],
            [[x.dims()[1]]; 2],
            "{what}: weight and bias"
        );
        Some(Self {
            weight: Operand::new(weight)?.contiguous(),
            bias: Operand::new(bias)?.contiguous(),
        })
    }

    /// The normalisation of `x`.
    pub(crate) fn of(&self, x: &Tensor<4>, norm: &GroupNorm) -> cpu::GroupNorm<'_> {
        let [batch, channels, height, width] = x.dims();
        cpu::GroupNorm {
            batch,
            channels,
            plane: height * width,
            groups: norm.groups,
            weight: self.weight.as_slice(),
            bias: self.bias.as_slice(),
            eps: norm.eps,
            silu: norm.silu,
        }
    }
}

/// Layer normalisation (Ba et al. 2016) of `x` `[B, N, C]` over `C`, then `weight` `[C]` and `bias`
/// `[C]`. `eps` is added to the (biased) variance.
pub fn layer_norm(x: Tensor<3>, weight: Tensor<1>, bias: Tensor<1>, eps: f64) -> Tensor<3> {
    if let Some(y) = recorded::layer_norm(&x, &weight, &bias, eps) {
        return y;
    }
    let _span = profile::span(Family::Norm, &x, || 0);
    if x.shape().num_elements() == 0 {
        return x;
    }
    fast!(
        by_type!([x], fast_layer_norm(&x, &weight, &bias, eps)),
        crate::cube::layer_norm(&x, &weight, &bias, eps)
    )
    .unwrap_or_else(|| plain::layer_norm(x, weight, bias, eps))
}

fn fast_layer_norm<E: Element>(
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
    let from = Operand::<E>::new(x)?.contiguous();
    let (weight, bias) = (
        Operand::<f32>::new(weight)?.contiguous(),
        Operand::<f32>::new(bias)?.contiguous(),
    );
    let (weight, bias) = (weight.as_slice(), bias.as_slice());
    // SAFETY: the operand has `batch · tokens` rows of `channels` elements, at least one as the caller has seen to, and so
    // have weight and bias; each row of the result is written.
    Some(unsafe {
        filled(x.dims(), x.dtype(), |to| {
            let from = from.as_slice().as_ptr();
            cpu::layer_norm(from, to, batch * tokens, weight, bias, eps as f32);
        })
    })
}

/// Gradient of [`group_norm`] with respect to its input `x`, from the gradient with respect to its
/// result, `grad` `[B, C, H, W]`.
///
/// # Panics
/// If `C` is not a multiple of the number of groups.
pub fn group_norm_input_grad(grad: Tensor<4>, x: Tensor<4>, norm: &GroupNorm) -> Tensor<4> {
    let _span = profile::span(Family::Norm, &x, || 0);
    check(&x, norm);
    assert_eq!(grad.dims(), x.dims(), "group_norm_input_grad: gradient");
    if x.shape().num_elements() == 0 {
        return grad;
    }
    fast!(
        by_type!([grad, x], fast_group_norm_input_grad(&grad, &x, norm)),
        crate::cube::group_norm_input_grad(
            &grad,
            &x,
            norm.groups,
            [&norm.weight, &norm.bias],
            norm.eps,
            norm.silu
        )
    )
    .unwrap_or_else(|| plain::group_norm_input_grad(grad, x, norm))
}

fn fast_group_norm_input_grad<E: Element>(
    grad: &Tensor<4>,
    x: &Tensor<4>,
    norm: &GroupNorm,
) -> Option<Tensor<4>> {
    let from_grad = Operand::<E>::new(grad)?.contiguous();
    let from = Operand::<E>::new(x)?.contiguous();
    let parameters = Parameters::new(x, norm, "group_norm_input_grad")?;
    // SAFETY: the operands have these dimensions, none of which is 0 as the caller has seen to, and so has the result, all
    // of which is written.
    Some(unsafe {
        filled(x.dims(), grad.dtype(), |to| {
            let (grad, from) = (from_grad.as_slice().as_ptr(), from.as_slice().as_ptr());
            parameters.of(x, norm).run_input_grad(grad, from, to, None);
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
        by_type!(
            [grad, x],
            fast_layer_norm_input_grad(&grad, &x, &weight, eps)
        ),
        crate::cube::layer_norm_input_grad(&grad, &x, &weight, eps)
    )
    .unwrap_or_else(|| plain::layer_norm_input_grad(grad, x, weight, eps))
}

fn fast_layer_norm_input_grad<E: Element>(
    grad: &Tensor<3>,
    x: &Tensor<3>,
    weight: &Tensor<1>,
    eps: f64,
) -> Option<Tensor<3>> {
    let [batch, tokens, _] = x.dims();
    let from_grad = Operand::<E>::new(grad)?.contiguous();
    let from = Operand::<E>::new(x)?.contiguous();
    let weight = Operand::<f32>::new(weight)?.contiguous();
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
