//! Convolutions.

use super::{TYPES, compare, recorded, wide};
use crate::tests::random;
use crate::{conv2d_input_grad, plain};
use burn::tensor::{DType, Tensor};

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
        // With fewer multiplications.
        [2, 40, 17, 19, 36, 3, 1, 1],
        [1, 34, 18, 20, 33, 3, 1, 0],
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
