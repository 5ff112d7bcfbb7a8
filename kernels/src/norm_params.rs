//! Gradients of the normalisations to their parameters.

use crate::cpu::norm_params as cpu;
use crate::cpu::sums;
use crate::flex::{Operand, filled};
use crate::norm::{Parameters, check};
use crate::plain::{self, GroupNorm};
use crate::profile::{self, Family};
use burn::tensor::{DType, Tensor};

/// Gradients of [`group_norm`](crate::group_norm) with respect to its input `x`, weight and bias, from that with respect to
/// its result, `grad` `[B, C, H, W]`; the latter two in f32.
///
/// # Panics
/// If `C` is not a multiple of the number of groups.
pub fn group_norm_grads(
    grad: Tensor<4>,
    x: Tensor<4>,
    norm: &GroupNorm,
) -> (Tensor<4>, Tensor<1>, Tensor<1>) {
    let _span = profile::span(Family::Norm, &x, || 0);
    check(&x, norm);
    assert_eq!(grad.dims(), x.dims(), "group_norm_grads: gradient");
    fast_group_norm_grads(&grad, &x, norm).unwrap_or_else(|| {
        // On GPUs the gradient to the input is a kernel, and those to the parameters are sums.
        let (of_weight, of_bias) = plain::group_norm_param_grads(grad.clone(), x.clone(), norm);
        let of_x = crate::group_norm_input_grad(grad, x, norm);
        (of_x, of_weight, of_bias)
    })
}

fn fast_group_norm_grads(
    grad: &Tensor<4>,
    x: &Tensor<4>,
    norm: &GroupNorm,
) -> Option<(Tensor<4>, Tensor<1>, Tensor<1>)> {
    if x.shape().num_elements() == 0 {
        return None;
    }
    let [batch, channels, ..] = x.dims();
    let from_grad = Operand::<f32>::new(grad)?.contiguous();
    let from = Operand::<f32>::new(x)?.contiguous();
    let parameters = Parameters::new(x, norm, "group_norm_grads")?;
    let mut parts = vec![0.0; batch * 2 * channels];
    // SAFETY: the operands have these dimensions, none of which is 0, and so has the result, all of which is written.
    let of_x = unsafe {
        filled(x.dims(), grad.dtype(), |to| {
            let (grad, from) = (from_grad.as_slice().as_ptr(), from.as_slice().as_ptr());
            (parameters.of(x, norm)).run_input_grad(grad, from, to, Some(&mut parts));
        })
    };
    let [of_weight, of_bias] = both(&sums::of_columns(&parts, batch, 2 * channels));
    Some((of_x, of_weight, of_bias))
}

/// Gradients of [`layer_norm`](crate::layer_norm) with respect to its weight and bias, in f32, from that with respect to its result,
/// `grad` `[B, N, C]`, and its input `x`.
pub fn layer_norm_param_grads(grad: Tensor<3>, x: Tensor<3>, eps: f64) -> (Tensor<1>, Tensor<1>) {
    let _span = profile::span(Family::Norm, &x, || 0);
    assert_eq!(grad.dims(), x.dims(), "layer_norm_param_grads: gradient");
    let operands = Operand::<f32>::new(&grad).zip(Operand::<f32>::new(&x));
    let fast = operands.map(|(from_grad, from)| {
        let (from_grad, from) = (from_grad.contiguous(), from.contiguous());
        let width = x.dims()[2];
        let sums = cpu::layer_norm(from_grad.as_slice(), from.as_slice(), width, eps as f32);
        let [of_weight, of_bias] = both(&sums);
        (of_weight, of_bias)
    });
    fast.unwrap_or_else(|| plain::layer_norm_param_grads(grad, x, eps))
}

/// The two halves as tensors on the CPU.
fn both(sums: &[f32]) -> [Tensor<1>; 2] {
    let half = sums.len() / 2;
    [&sums[..half], &sums[half..]].map(|sums| {
        // SAFETY: there are as many sums as elements.
        unsafe {
            filled([half], DType::F32, |to| {
                core::ptr::copy_nonoverlapping(sums.as_ptr(), to, half);
            })
        }
    })
}
