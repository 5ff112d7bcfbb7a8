//! Attention, to all of its inputs and to the queries alone.

use super::{TYPES, compare, plain_tolerance, recorded, wide};
use crate::cpu::simd::forced;
use crate::tests::{assert_close, random, tolerance, values};
use crate::{attention, attention_input_grads, attention_query_grad, plain};
use burn::tensor::{DType, Device, Tensor};

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
