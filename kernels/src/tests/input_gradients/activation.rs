//! GEGLU.

use super::{TYPES, compare, recorded};
use crate::tests::random;
use crate::{geglu_input_grad, plain};
use burn::tensor::{DType, Tensor};

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
