//! The explicit input gradients against Burn's own differentiation of the plain references.

use super::{assert_close, random, tolerance, values};
use crate::cpu::simd::forced;
use crate::*;
use burn::tensor::{DType, Device, Tensor, TensorData};

const TYPES: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

/// Computations in the half types and sums of many of their products.
fn plain_tolerance(dtype: DType) -> f64 {
    8.0 * tolerance(dtype)
}

/// The same numbers as f32 on the device that records gradients.
fn tracked<const D: usize>(x: &Tensor<D>) -> Tensor<D> {
    let data = TensorData::new(values(x).into_iter().map(|x| x as f32).collect(), x.dims());
    Tensor::<D>::from_data(data, &Device::flex().autodiff()).require_grad()
}

/// Gradients of `Σ grad · operation(inputs)` with respect to the inputs.
fn recorded<const D: usize, const E: usize>(
    inputs: &[&Tensor<D>],
    grad: &Tensor<E>,
    operation: impl Fn(&[Tensor<D>]) -> Tensor<E>,
) -> Vec<Vec<f64>> {
    let inputs: Vec<_> = inputs.iter().copied().map(tracked).collect();
    let gradients = (operation(&inputs) * tracked(grad).detach())
        .sum()
        .backward();
    let gradient = |x: &Tensor<D>| values(&x.grad(&gradients).expect("a gradient"));
    inputs.iter().map(gradient).collect()
}

/// The same numbers, f32, without recording.
fn wide<const D: usize>(x: &Tensor<D>) -> Tensor<D> {
    tracked(x).detach()
}

/// Compares `fast` at every vector width, and `plain`, with `want`.
#[track_caller]
fn compare<const D: usize>(
    (fast, plain): (impl Fn() -> Tensor<D> + Sync, impl Fn() -> Tensor<D>),
    want: &[f64],
    (shape, dtype): ([usize; D], DType),
    what: &str,
) {
    let check = |got: Tensor<D>, tolerance, name: &str| {
        let what = format!("{name} {what} {dtype:?}");
        assert_eq!((got.dims(), got.dtype()), (shape, dtype), "{what}");
        assert_close(&got, want, tolerance, &what);
    };
    check(plain(), plain_tolerance(dtype), "plain");
    forced::each(|level| check(fast(), 2.0 * tolerance(dtype), &format!("{level:?}")));
}

fn check_conv(
    x: Tensor<4>,
    grad: Tensor<4>,
    weight: Tensor<4>,
    stride: usize,
    padding: usize,
    what: &str,
) {
    let w = wide(&weight);
    let want = recorded(&[&x], &grad, |x| {
        plain::conv2d(x[0].clone(), w.clone(), None, stride, padding)
    });
    let args = || (grad.clone(), weight.clone(), x.dims());
    compare(
        (
            || {
                let (grad, weight, input) = args();
                conv2d_input_grad(grad, weight, input, stride, padding)
            },
            || {
                let (grad, weight, input) = args();
                plain::conv2d_input_grad(grad, weight, input, stride, padding)
            },
        ),
        &want[0],
        (x.dims(), x.dtype()),
        what,
    );
}

#[test]
fn of_conv2d() {
    // Batch, channels, height, width, out, kernel, stride, padding.
    let cases = [
        [1, 3, 9, 11, 7, 3, 1, 1],
        [3, 20, 16, 16, 33, 3, 1, 1],
        [2, 33, 40, 24, 20, 3, 1, 1],
        [3, 20, 5, 3, 5, 3, 2, 1],
        [2, 37, 8, 8, 48, 1, 1, 0],
        [1, 4, 64, 48, 16, 3, 2, 0],
        [1, 20, 32, 32, 19, 3, 2, 1],
        [3, 6, 33, 32, 5, 3, 2, 1],
        [2, 70, 4, 4, 19, 3, 1, 1],
        [1, 130, 20, 24, 4, 3, 1, 0],
        [5, 6, 2, 2, 3, 3, 1, 1],
        [3, 6, 2, 2, 3, 3, 2, 1],
        [1, 8, 16, 17, 9, 1, 2, 0],
        [1, 5, 12, 12, 6, 5, 1, 2],
        [1, 5, 13, 12, 6, 5, 3, 2],
        [1, 7, 1, 40, 50, 3, 1, 1],
    ];
    for case @ [b, c, h, w, out, k, stride, padding] in cases {
        for dtype in TYPES {
            let x = random([b, c, h, w], 1, dtype);
            let size = [h, w].map(|n| (n + 2 * padding - k) / stride + 1);
            let grad = random([b, out, size[0], size[1]], 2, dtype);
            let weight = random([out, c, k, k], 3, dtype);
            check_conv(x, grad, weight, stride, padding, &format!("{case:?}"));
        }
    }
}

#[test]
fn of_conv2d_views() {
    let x = random([2, 5, 7, 9], 1, DType::F32);
    let permuted = random([2, 9, 6, 7], 2, DType::F32).permute([0, 2, 3, 1]);
    let channels = random([2, 11, 7, 9], 3, DType::F32).narrow(1, 3, 6);
    let flipped = random([2, 6, 7, 9], 4, DType::F32).flip([1]);
    let expanded = random([2, 1, 7, 9], 5, DType::F32).expand([2, 6, 7, 9]);
    let tokens = random([2, 7, 9, 6], 6, DType::F32).permute([0, 3, 1, 2]);
    for (i, grad) in [permuted, channels, flipped, expanded, tokens]
        .into_iter()
        .enumerate()
    {
        for kernel in [3, 1] {
            let weight = random([5, 6, 3, 3], 7, DType::F32)
                .swap_dims(0, 1)
                .narrow(2, 0, kernel)
                .narrow(3, 3 - kernel, kernel);
            let what = format!("view {i}, kernel {kernel}");
            check_conv(x.clone(), grad.clone(), weight, 1, kernel / 2, &what);
        }
    }
}

fn check_linear(grad: Tensor<3>, weight: Tensor<2>, what: &str) {
    let [batch, tokens, _] = grad.dims();
    let x = random([batch, tokens, weight.dims()[1]], 1, grad.dtype());
    let w = wide(&weight);
    let want = recorded(&[&x], &grad, |x| {
        plain::linear(x[0].clone(), w.clone(), None)
    });
    compare(
        (
            || linear_input_grad(grad.clone(), weight.clone()),
            || plain::linear_input_grad(grad.clone(), weight.clone()),
        ),
        &want[0],
        (x.dims(), x.dtype()),
        what,
    );
}

#[test]
fn of_linear() {
    // Batch, tokens, inputs, outputs.
    let cases = [
        [1, 1, 64, 50],
        [3, 2, 17, 16],
        [2, 20, 600, 33],
        [3, 77, 40, 95],
        [1, 200, 48, 1030],
    ];
    for case @ [b, n, inputs, outputs] in cases {
        for dtype in TYPES {
            let (grad, weight) = (
                random([b, n, outputs], 2, dtype),
                random([outputs, inputs], 3, dtype),
            );
            check_linear(grad, weight, &format!("{case:?}"));
        }
    }
}

#[test]
fn of_linear_views() {
    let weight = random([24, 30], 1, DType::F32);
    let picture = random([2, 24, 6, 7], 2, DType::F32)
        .reshape([2, 24, 42])
        .swap_dims(1, 2);
    let one = random([1, 24, 9], 3, DType::F32).swap_dims(1, 2);
    let part = random([2, 13, 40], 4, DType::F32).narrow(2, 9, 24);
    let tokens = random([2, 13, 24], 5, DType::F32).narrow(1, 4, 8);
    let swapped = random([13, 2, 24], 6, DType::F32).swap_dims(0, 1);
    let expanded = random([1, 5, 24], 7, DType::F32).expand([3, 5, 24]);
    for (i, grad) in [picture, one, part, tokens, swapped, expanded]
        .into_iter()
        .enumerate()
    {
        check_linear(grad.clone(), weight.clone(), &format!("view {i}"));
        let transposed = random([30, 24], 8, DType::F32).transpose();
        check_linear(
            grad.clone(),
            transposed,
            &format!("view {i}, transposed weight"),
        );
        let part = random([40, 50], 8, DType::F32)
            .narrow(0, 3, 24)
            .narrow(1, 7, 30);
        check_linear(grad, part, &format!("view {i}, part of a weight"));
    }
}

#[test]
fn of_group_norm() {
    for ([b, c, h, w], groups) in [
        ([1, 32, 5, 7], 32),
        ([3, 24, 8, 8], 4),
        ([3, 6, 1, 2], 2),
        ([2, 64, 33, 40], 32),
    ] {
        for dtype in TYPES {
            for silu in [false, true] {
                let x = random([b, c, h, w], 1, dtype) + 3.0;
                let (weight, bias) = (random([c], 2, dtype), random([c], 3, dtype));
                let grad = random([b, c, h, w], 4, dtype);
                check_group_norm(x, grad, groups, weight, bias, silu);
            }
        }
    }
    let x = random([3, 5, 7, 12], 1, DType::F32).permute([0, 3, 1, 2]);
    let grad = random([3, 20, 5, 7], 2, DType::F32).narrow(1, 4, 12);
    let (weight, bias) = (
        random([12], 3, DType::F32),
        random([24], 4, DType::F32).narrow(0, 5, 12),
    );
    check_group_norm(x, grad, 3, weight, bias, true);
}

fn check_group_norm(
    x: Tensor<4>,
    grad: Tensor<4>,
    groups: usize,
    weight: Tensor<1>,
    bias: Tensor<1>,
    silu: bool,
) {
    let (w, b) = (wide(&weight), wide(&bias));
    let want = recorded(&[&x], &grad, |x| {
        plain::group_norm(x[0].clone(), groups, w.clone(), b.clone(), 1e-5, silu)
    });
    let args = || (grad.clone(), x.clone(), weight.clone(), bias.clone());
    compare(
        (
            || {
                let (grad, x, weight, bias) = args();
                group_norm_input_grad(grad, x, groups, weight, bias, 1e-5, silu)
            },
            || {
                let (grad, x, weight, bias) = args();
                plain::group_norm_input_grad(grad, x, groups, weight, bias, 1e-5, silu)
            },
        ),
        &want[0],
        (x.dims(), x.dtype()),
        &format!("{:?} in {groups}, silu {silu}", x.dims()),
    );
}

#[test]
fn of_layer_norm() {
    let check = |x: Tensor<3>, grad: Tensor<3>, weight: Tensor<1>| {
        let w = wide(&weight);
        let want = recorded(&[&x], &grad, |x| {
            plain::layer_norm(x[0].clone(), w.clone(), w.zeros_like(), 1e-5)
        });
        let args = || (grad.clone(), x.clone(), weight.clone());
        compare(
            (
                || {
                    let (grad, x, weight) = args();
                    layer_norm_input_grad(grad, x, weight, 1e-5)
                },
                || {
                    let (grad, x, weight) = args();
                    plain::layer_norm_input_grad(grad, x, weight, 1e-5)
                },
            ),
            &want[0],
            (x.dims(), x.dtype()),
            &format!("{:?}", x.dims()),
        );
    };
    for [b, n, c] in [[1, 1, 5], [3, 77, 40], [2, 30, 320], [1, 3, 1031]] {
        for dtype in TYPES {
            let x = random([b, n, c], 1, dtype) + 3.0;
            check(x, random([b, n, c], 2, dtype), random([c], 3, dtype));
        }
    }
    let x = random([2, 40, 9], 4, DType::F32).swap_dims(1, 2);
    let grad = random([2, 9, 50], 5, DType::F32).narrow(2, 3, 40);
    check(x, grad, random([40], 6, DType::F32));
}

#[test]
fn of_geglu() {
    let check = |x: Tensor<3>, grad: Tensor<3>| {
        let want = recorded(&[&x], &grad, |x| plain::geglu(x[0].clone()));
        compare(
            (
                || geglu_input_grad(grad.clone(), x.clone()),
                || plain::geglu_input_grad(grad.clone(), x.clone()),
            ),
            &want[0],
            (x.dims(), x.dtype()),
            &format!("{:?}", x.dims()),
        );
    };
    for [b, n, c] in [[1, 1, 1], [3, 77, 17], [1, 130, 320]] {
        for dtype in TYPES {
            let x = random([b, n, 2 * c], 1, dtype) * 5.0;
            check(x, random([b, n, c], 2, dtype));
        }
    }
    let x = random([34, 3, 2], 3, DType::F32).permute([2, 1, 0]);
    check(x, random([2, 3, 20], 4, DType::F32).narrow(2, 2, 17));
}

#[test]
fn of_upsampling() {
    let check = |grad: Tensor<4>| {
        let [b, c, h, w] = grad.dims();
        let x = random([b, c, h / 2, w / 2], 1, grad.dtype());
        let want = recorded(&[&x], &grad, |x| plain::upsample_nearest2x(x[0].clone()));
        compare(
            (
                || upsample_nearest2x_input_grad(grad.clone()),
                || plain::upsample_nearest2x_input_grad(grad.clone()),
            ),
            &want[0],
            (x.dims(), x.dtype()),
            &format!("{:?}", x.dims()),
        );
    };
    for dtype in TYPES {
        for [b, c, h, w] in [[1, 1, 1, 1], [3, 3, 5, 7], [1, 40, 32, 32]] {
            check(random([b, c, 2 * h, 2 * w], 2, dtype));
        }
    }
    check(random([5, 3, 4, 6], 3, DType::F32).permute([1, 0, 3, 2]));
}

/// Queries, keys and values of the given shape; scaled up, so that the softmax is far from uniform.
fn heads([b, h, n, m, d]: [usize; 5], dtype: DType) -> [Tensor<4>; 3] {
    [
        random([b, h, n, d], 1, dtype) * 4.0,
        random([b, h, m, d], 2, dtype),
        random([b, h, m, d], 3, dtype),
    ]
}

fn check_attention([q, k, v]: [Tensor<4>; 3], grad: Tensor<4>, what: &str) {
    let want = recorded(&[&q, &k, &v], &grad, |x| {
        plain::attention_with_probs(x[0].clone(), x[1].clone(), x[2].clone()).0
    });
    let out = attention(q.clone(), k.clone(), v.clone());
    let dtype = q.dtype();
    let check = |(dq, dk, dv): (Tensor<4>, Tensor<4>, Tensor<4>), tolerance, name: &str| {
        for ((got, of), want) in [(dq, &q), (dk, &k), (dv, &v)].into_iter().zip(&want) {
            let what = format!("{name} {what} {dtype:?} {:?}", of.dims());
            assert_eq!((got.dims(), got.dtype()), (of.dims(), dtype), "{what}");
            assert_close(&got, want, tolerance, &what);
        }
    };
    let args = || (grad.clone(), q.clone(), k.clone(), v.clone(), out.clone());
    let (g, a, b, c, o) = args();
    let plain = plain::attention_input_grads(g, a, b, c, o);
    check(plain, plain_tolerance(dtype), "plain");
    forced::each(|level| {
        let (g, a, b, c, o) = args();
        let fast = attention_input_grads(g, a, b, c, o);
        check(fast, 2.0 * tolerance(dtype), &format!("{level:?}"));
    });
}

#[test]
fn of_attention() {
    // Batch, heads, queries, keys, width.
    let cases = [
        [3, 3, 70, 77, 40],
        [1, 2, 33, 33, 64],
        [2, 1, 5, 2, 3],
        [1, 1, 9, 1700, 17],
        [1, 2, 64, 200, 80],
        [1, 1, 300, 40, 160],
        [1, 1, 130, 300, 512],
        [3, 8, 16, 16, 8],
    ];
    for case @ [b, h, n, _, d] in cases {
        for dtype in TYPES {
            let grad = random([b, h, n, d], 4, dtype);
            check_attention(heads(case, dtype), grad, &format!("{case:?}"));
        }
    }
    let [b, h, n, d] = [2, 3, 21, 40];
    let split = |x: Tensor<3>| x.reshape([b, n, h, d]).swap_dims(1, 2);
    let all = random([b, n, 3 * h * d], 1, DType::F32);
    let part = |i| split(all.clone().narrow(2, i * h * d, h * d));
    let grad = random([b, h, d, n], 2, DType::F32).swap_dims(2, 3);
    check_attention([part(0), part(1), part(2)], grad, "views");
}

#[test]
fn attention_in_chunks_of_queries() {
    // Two chunks of the plain version, and several tiles of the fast one.
    let shape = [1, 4, 2100, 2100, 8];
    check_attention(
        heads(shape, DType::F32),
        random([1, 4, 2100, 8], 4, DType::F32),
        "chunks",
    );
}

#[test]
fn of_attention_to_the_queries() {
    // Batch, heads, queries, keys, width.
    let cases = [
        [1, 8, 64, 77, 40],
        [3, 3, 70, 77, 40],
        [1, 2, 33, 154, 160],
        [2, 1, 5, 2, 3],
        [3, 4, 16, 77, 24],
    ];
    for case @ [b, h, n, m, d] in cases {
        for dtype in TYPES {
            let grads = [
                (Some(random([b, h, n, d], 4, dtype)), None),
                (None, Some(random([b, h, n, m], 5, dtype))),
                (None, Some(random([b, 1, n, m], 6, dtype))),
                (
                    Some(random([b, h, n, d], 7, dtype)),
                    Some(random([b, 1, n, m], 8, dtype)),
                ),
            ];
            for (i, (grad, grad_probs)) in grads.into_iter().enumerate() {
                check_query_grad(
                    heads(case, dtype),
                    grad,
                    grad_probs,
                    &format!("{case:?}, {i}"),
                );
            }
        }
    }
    let [q, k, v] = heads([2, 3, 21, 77, 16], DType::F32);
    let q = q.reshape([2, 21, 3, 16]).swap_dims(1, 2);
    let both = random([2, 77, 96], 3, DType::F32).reshape([2, 77, 2, 3, 16]);
    let half = |i| {
        both.clone()
            .narrow(2, i, 1)
            .squeeze_dim::<4>(2)
            .swap_dims(1, 2)
    };
    let grad = random([2, 3, 16, 21], 4, DType::F32).swap_dims(2, 3);
    let grad_probs = random([2, 1, 77, 21], 5, DType::F32).swap_dims(2, 3);
    let padded = random([2, 3, 21, 80], 6, DType::F32).narrow(3, 1, 77);
    for grad_probs in [grad_probs, padded] {
        let heads = [q.clone(), half(0), half(1)];
        check_query_grad(heads, Some(grad.clone()), Some(grad_probs), "views");
    }
    assert_eq!(
        values(&attention_query_grad(None, None, q.clone(), k, v)),
        vec![0.0; q.shape().num_elements()]
    );
}

fn check_query_grad(
    [q, k, v]: [Tensor<4>; 3],
    grad: Option<Tensor<4>>,
    grad_probs: Option<Tensor<4>>,
    what: &str,
) {
    let [wide_k, wide_v] = [wide(&k), wide(&v)];
    let [b, h, n, _] = q.dims();
    // Both gradients act on one result: the output beside the probabilities.
    let given = grad.as_ref().map_or(q.zeros_like(), Clone::clone);
    let of_probs = match &grad_probs {
        Some(grad) => grad.clone().expand([b, h, n, k.dims()[2]]),
        None => Tensor::<4>::zeros([b, h, n, k.dims()[2]], &Device::flex()).cast(q.dtype()),
    };
    let all = Tensor::cat(vec![given, of_probs], 3);
    let want = recorded(&[&q], &all, |x| {
        let (out, probs) =
            plain::attention_with_probs(x[0].clone(), wide_k.clone(), wide_v.clone());
        Tensor::cat(vec![out, probs], 3)
    });
    let args = || {
        (
            grad.clone(),
            grad_probs.clone(),
            q.clone(),
            k.clone(),
            v.clone(),
        )
    };
    compare(
        (
            || {
                let (grad, grad_probs, q, k, v) = args();
                attention_query_grad(grad, grad_probs, q, k, v)
            },
            || {
                let (grad, grad_probs, q, k, v) = args();
                plain::attention_query_grad(grad, grad_probs, q, k, v)
            },
        ),
        &want[0],
        (q.dims(), q.dtype()),
        what,
    );
}
