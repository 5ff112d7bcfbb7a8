//! Upsampling.

use super::{TYPES, compare, recorded};
use crate::tests::random;
use crate::{plain, upsample_nearest2x_input_grad};
use burn::tensor::{DType, Tensor};

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
