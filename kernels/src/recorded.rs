//! The operations under autodiff. Each gives `None` if no operand is under it, or one is on a backend without kernels: then
//! the caller goes on, in the end to the plain reference.

use crate::plain::GroupNorm;
use crate::tape::{Any, Gradient, record};
use burn::tensor::Tensor;

/// A bias that may be missing, as an operand: a constant in its place is never tracked.
fn bias_or<const D: usize>(bias: Option<&Tensor<1>>, weight: &Tensor<D>) -> Any {
    match bias {
        Some(bias) => Any::new(bias.clone()),
        None => Any::new(weight.clone().without_autodiff()),
    }
}

fn any<const N: usize>(operands: [bool; N]) -> bool {
    operands.contains(&true)
}

pub(crate) fn linear(
    x: &Tensor<3>,
    weight: &Tensor<2>,
    bias: Option<&Tensor<1>>,
) -> Option<Tensor<3>> {
    let biased = bias.is_some();
    if !any([
        x.is_autodiff(),
        weight.is_autodiff(),
        bias.is_some_and(Tensor::is_autodiff),
    ]) {
        return None;
    }
    let operands = [
        Any::new(x.clone()),
        Any::new(weight.clone()),
        bias_or(bias, weight),
    ];
    record(operands, |[x, weight, bias], [of_x, of_weight, of_bias]| {
        let (x, weight): (Tensor<3>, Tensor<2>) = (x.get(), weight.get());
        let y = crate::linear(x.clone(), weight.clone(), biased.then(|| bias.get()));
        let (x, weight) = (of_weight.then_some(x), of_x.then_some(weight));
        let gradient: Gradient<3, 3> = Box::new(move |grad| {
            let of_weight = x.map(|x| crate::linear_weight_grad(grad.clone(), x));
            let of_bias = of_bias.then(|| crate::linear_bias_grad(grad.clone()));
            let of_x = weight.map(|weight| crate::linear_input_grad(grad, weight));
            [
                of_x.map(Any::new),
                of_weight.map(Any::new),
                of_bias.map(Any::new),
            ]
        });
        (y, gradient)
    })
}

pub(crate) fn matmul<const D: usize>(left: &Tensor<D>, right: &Tensor<D>) -> Option<Tensor<D>> {
    if !any([left, right].map(Tensor::is_autodiff)) {
        return None;
    }
    let operands = [left, right].map(|x| Any::new(x.clone()));
    record(operands, |operands, [of_left, of_right]| {
        let [left, right]: [Tensor<D>; 2] = operands.map(|x| x.get());
        let y = crate::matmul(left.clone(), right.clone());
        let shapes = [left.dims(), right.dims()];
        let (left, right) = (of_right.then_some(left), of_left.then_some(right));
        let gradient: Gradient<D, 2> = Box::new(move |grad| {
            let of_right = left.map(|left| crate::matmul(left.transpose(), grad.clone()));
            let of_left = right.map(|right| crate::matmul(grad, right.transpose()));
            [
                of_left.map(|grad| Any::new(summed_to(grad, shapes[0]))),
                of_right.map(|grad| Any::new(summed_to(grad, shapes[1]))),
            ]
        });
        (y, gradient)
    })
}

/// `grad` summed along the axes along which an operand of this shape was repeated.
fn summed_to<const D: usize>(grad: Tensor<D>, shape: [usize; D]) -> Tensor<D> {
    let repeated = (0..D).filter(|axis| shape[*axis] < grad.dims()[*axis]);
    let repeated: Vec<usize> = repeated.collect();
    repeated.into_iter().fold(grad, Tensor::sum_dim)
}

pub(crate) fn conv2d(
    x: &Tensor<4>,
    weight: &Tensor<4>,
    bias: Option<&Tensor<1>>,
    stride: usize,
    padding: usize,
) -> Option<Tensor<4>> {
    let biased = bias.is_some();
    if !any([
        x.is_autodiff(),
        weight.is_autodiff(),
        bias.is_some_and(Tensor::is_autodiff),
    ]) {
        return None;
    }
    let operands = [
        Any::new(x.clone()),
        Any::new(weight.clone()),
        bias_or(bias, weight),
    ];
    record(operands, |[x, weight, bias], [of_x, of_weight, of_bias]| {
        let (x, weight): (Tensor<4>, Tensor<4>) = (x.get(), weight.get());
        let bias = biased.then(|| bias.get());
        let y = crate::conv2d(x.clone(), weight.clone(), bias, stride, padding);
        let (input, filters) = (x.dims(), weight.dims());
        let (x, weight) = (of_weight.then_some(x), of_x.then_some(weight));
        let gradient: Gradient<4, 3> = Box::new(move |grad| {
            let of_weight =
                x.map(|x| crate::conv2d_weight_grad(grad.clone(), x, filters, stride, padding));
            let of_bias = of_bias.then(|| crate::conv2d_bias_grad(grad.clone()));
            let of_x =
                weight.map(|weight| crate::conv2d_input_grad(grad, weight, input, stride, padding));
            [
                of_x.map(Any::new),
                of_weight.map(Any::new),
                of_bias.map(Any::new),
            ]
        });
        (y, gradient)
    })
}

pub(crate) fn group_norm(x: &Tensor<4>, norm: &GroupNorm) -> Option<Tensor<4>> {
    let GroupNorm {
        groups, eps, silu, ..
    } = *norm;
    if !any([
        x.is_autodiff(),
        norm.weight.is_autodiff(),
        norm.bias.is_autodiff(),
    ]) {
        return None;
    }
    let operands = [
        Any::new(x.clone()),
        Any::new(norm.weight.clone()),
        Any::new(norm.bias.clone()),
    ];
    record(operands, |[x, weight, bias], [of_x, of_weight, of_bias]| {
        let x: Tensor<4> = x.get();
        let norm = GroupNorm {
            groups,
            weight: weight.get(),
            bias: bias.get(),
            eps,
            silu,
        };
        let y = crate::group_norm(x.clone(), &norm);
        let gradient: Gradient<4, 3> = Box::new(move |grad| {
            if !(of_weight || of_bias) {
                let of_x = crate::group_norm_input_grad(grad, x, &norm);
                return [Some(Any::new(of_x)), None, None];
            }
            let grads = crate::group_norm_grads(grad, x, &norm);
            [
                of_x.then(|| Any::new(grads.0)),
                of_weight.then(|| Any::new(grads.1.cast(norm.weight.dtype()))),
                of_bias.then(|| Any::new(grads.2.cast(norm.bias.dtype()))),
            ]
        });
        (y, gradient)
    })
}

pub(crate) fn layer_norm(
    x: &Tensor<3>,
    weight: &Tensor<1>,
    bias: &Tensor<1>,
    eps: f64,
) -> Option<Tensor<3>> {
    if !any([x.is_autodiff(), weight.is_autodiff(), bias.is_autodiff()]) {
        return None;
    }
    let operands = [
        Any::new(x.clone()),
        Any::new(weight.clone()),
        Any::new(bias.clone()),
    ];
    record(operands, |[x, weight, bias], [of_x, of_weight, of_bias]| {
        let (x, weight): (Tensor<3>, Tensor<1>) = (x.get(), weight.get());
        let y = crate::layer_norm(x.clone(), weight.clone(), bias.get(), eps);
        let gradient: Gradient<3, 3> = Box::new(move |grad| {
            let parameters = (of_weight || of_bias)
                .then(|| crate::layer_norm_param_grads(grad.clone(), x.clone(), eps));
            let (for_weight, for_bias) = parameters.unzip();
            let dtype = weight.dtype();
            let of_x = of_x.then(|| crate::layer_norm_input_grad(grad, x, weight, eps));
            let parameter = |of: Option<Tensor<1>>| of.map(|of| Any::new(of.cast(dtype)));
            [
                of_x.map(Any::new),
                parameter(for_weight.filter(|_| of_weight)),
                parameter(for_bias.filter(|_| of_bias)),
            ]
        });
        (y, gradient)
    })
}

pub(crate) fn attention(q: &Tensor<4>, k: &Tensor<4>, v: &Tensor<4>) -> Option<Tensor<4>> {
    if !any([q, k, v].map(Tensor::is_autodiff)) {
        return None;
    }
    let operands = [q, k, v].map(|x| Any::new(x.clone()));
    record(operands, |operands, [of_q, of_k, of_v]| {
        let [q, k, v]: [Tensor<4>; 3] = operands.map(|x| x.get());
        let y = crate::attention(q.clone(), k.clone(), v.clone());
        let kept = y.clone();
        let gradient: Gradient<4, 3> = Box::new(move |grad| {
            if !(of_k || of_v) {
                let of_q = crate::attention_query_grad(Some(grad), None, q, k, v);
                return [Some(Any::new(of_q)), None, None];
            }
            let grads = crate::attention_input_grads(grad, q, k, v, kept);
            [
                of_q.then(|| Any::new(grads.0)),
                of_k.then(|| Any::new(grads.1)),
                of_v.then(|| Any::new(grads.2)),
            ]
        });
        (y, gradient)
    })
}

/// An operation with one operand, of which `grad` is the gradient from that to the result and the operand.
fn unary<const D: usize, const E: usize>(
    x: &Tensor<D>,
    run: impl FnOnce(Tensor<D>) -> Tensor<E>,
    grad: impl FnOnce(Tensor<E>, Tensor<D>) -> Tensor<D> + Send + 'static,
) -> Option<Tensor<E>> {
    if !x.is_autodiff() {
        return None;
    }
    record([Any::new(x.clone())], |[x], _| {
        let x: Tensor<D> = x.get();
        let y = run(x.clone());
        let gradient: Gradient<E, 1> =
            Box::new(move |of_result| [Some(Any::new(grad(of_result, x)))]);
        (y, gradient)
    })
}

pub(crate) fn silu<const D: usize>(x: &Tensor<D>) -> Option<Tensor<D>> {
    unary(x, crate::silu, crate::silu_input_grad)
}

pub(crate) fn geglu(x: &Tensor<3>) -> Option<Tensor<3>> {
    unary(x, crate::geglu, crate::geglu_input_grad)
}

pub(crate) fn upsample_nearest2x(x: &Tensor<4>) -> Option<Tensor<4>> {
    if !x.is_autodiff() {
        return None;
    }
    record([Any::new(x.clone())], |[x], _| {
        let y = crate::upsample_nearest2x(x.get());
        let gradient: Gradient<4, 1> =
            Box::new(|grad| [Some(Any::new(crate::upsample_nearest2x_input_grad(grad)))]);
        (y, gradient)
    })
}

pub(crate) fn alias<const D: usize>(x: &Tensor<D>) -> Option<Tensor<D>> {
    if !x.is_autodiff() {
        return None;
    }
    record([Any::new(x.clone())], |[x], _| {
        let gradient: Gradient<D, 1> = Box::new(|grad| [Some(Any::new(grad))]);
        (x.get(), gradient)
    })
}
