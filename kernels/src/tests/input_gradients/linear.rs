//! Linear layers.

use super::{TYPES, compare, recorded, wide};
use crate::tests::random;
use crate::{linear_input_grad, plain};
use burn::tensor::{DType, Tensor};

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
fn of_small_products() {
    // Axes along which one operand is repeated add up in its gradient.
    for (left, right) in [
        ([2, 3, 9, 5], [2, 3, 5, 4]),
        ([2, 1, 9, 5], [2, 3, 5, 4]),
        ([1, 1, 6, 6], [2, 3, 6, 7]),
        ([2, 3, 6, 7], [1, 3, 7, 7]),
    ] {
        let (a, b) = (random(left, 1, DType::F32), random(right, 2, DType::F32));
        let grad = random(a.clone().matmul(b.clone()).dims(), 3, DType::F32);
        let of = |product: fn(Tensor<4>, Tensor<4>) -> Tensor<4>| {
            recorded(&[&a, &b], &grad, move |x| {
                product(x[0].clone(), x[1].clone())
            })
        };
        let (got, want) = (of(crate::matmul), of(Tensor::matmul));
        assert_eq!(got, want, "{left:?} by {right:?}");
        // A constant operand has no gradient, and needs none.
        let constant = wide(&b);
        let one = recorded(&[&a], &grad, |x| {
            crate::matmul(x[0].clone(), constant.clone())
        });
        assert_eq!(one[0], want[0], "{left:?} by a constant {right:?}");
    }
}
