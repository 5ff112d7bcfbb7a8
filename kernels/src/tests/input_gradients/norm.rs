//! Group and layer normalisation.

use super::{TYPES, compare, recorded, wide};
use crate::tests::random;
use crate::{GroupNorm, group_norm_input_grad, layer_norm_input_grad, plain};
use burn::tensor::{DType, Tensor};

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
                let norm = GroupNorm {
                    groups,
                    weight,
                    bias,
                    eps: 1e-5,
                    silu,
                };
                check_group_norm(x, grad, &norm);
            }
        }
    }
    let x = random([3, 5, 7, 12], 1, DType::F32).permute([0, 3, 1, 2]);
    let grad = random([3, 20, 5, 7], 2, DType::F32).narrow(1, 4, 12);
    let (weight, bias) = (
        random([12], 3, DType::F32),
        random([24], 4, DType::F32).narrow(0, 5, 12),
    );
    let norm = GroupNorm {
        groups: 3,
        weight,
        bias,
        eps: 1e-5,
        silu: true,
    };
    check_group_norm(x, grad, &norm);
}

fn check_group_norm(x: Tensor<4>, grad: Tensor<4>, norm: &GroupNorm) {
    let wide = GroupNorm {
        weight: wide(&norm.weight),
        bias: wide(&norm.bias),
        ..*norm
    };
    let want = recorded(&[&x], &grad, |x| plain::group_norm(x[0].clone(), &wide));
    compare(
        (
            || group_norm_input_grad(grad.clone(), x.clone(), norm),
            || plain::group_norm_input_grad(grad.clone(), x.clone(), norm),
        ),
        &want[0],
        (x.dims(), x.dtype()),
        &format!("{:?} in {}, silu {}", x.dims(), norm.groups, norm.silu),
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
