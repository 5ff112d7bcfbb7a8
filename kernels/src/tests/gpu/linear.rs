//! Affine layers with what is added to them, those of a few rows, and products of small matrices.

use super::*;

#[test]
#[ignore = "needs PREPOSE_TEST_DEVICE: wgpu, vulkan, metal or cuda"]
fn a_layer_takes_its_bias_and_the_residual_along() {
    let device = device();
    for dtype in types(&device) {
        let (batch, n, inputs, outputs) = (2, 9, 24, 40);
        let x = random([batch, n, inputs], 1, dtype);
        let (weight, weight_there) = pair([outputs, inputs], 2, dtype, &device);
        let (bias, bias_there) = pair([outputs], 3, dtype, &device);
        let onto = random([batch, n, outputs], 4, dtype);
        let plain = crate::linear(x.clone(), weight.clone(), None);
        let biased = crate::linear(x.clone(), weight, Some(bias));
        for (gap, onto_gap) in [(0, 0), (8, 0), (0, 24)] {
            let x = rows(&x, inputs + gap, &device);
            let onto_there = rows(&onto, outputs + onto_gap, &device);
            let what = format!("{dtype:?}, gaps of {gap} and {onto_gap}");
            let bias = || Some(bias_there.clone());
            let got = crate::linear(x.clone(), weight_there.clone(), bias());
            let close = 4.0 * tolerance(dtype);
            assert_close_there(&got, &values(&biased), close, &what);
            let got =
                crate::linear_onto(x.clone(), weight_there.clone(), bias(), onto_there.clone());
            let want = values(&(biased.clone().cast(DType::F32) + onto.clone().cast(DType::F32)));
            assert_close_there(&got, &want, close, &format!("{what}, onto"));
            let got = crate::linear_onto(x, weight_there.clone(), None, onto_there);
            let want = values(&(plain.clone().cast(DType::F32) + onto.clone().cast(DType::F32)));
            assert_close_there(&got, &want, close, &format!("{what}, onto, no bias"));
        }
    }
}

#[test]
#[ignore = "needs PREPOSE_TEST_DEVICE: wgpu, vulkan, metal or cuda"]
fn a_layer_of_few_rows_is_not_tuned() {
    let device = device();
    for dtype in types(&device) {
        for (n, inputs, outputs) in [(1, 320, 129), (3, 7, 5), (8, 66, 64)] {
            let x = random([1, n, inputs], 1, dtype);
            let (weight, weight_there) = pair([outputs, inputs], 2, dtype, &device);
            let (bias, bias_there) = pair([outputs], 3, dtype, &device);
            for gap in [0, 8] {
                let x_there = rows(&x, inputs + gap, &device);
                let what = format!("{dtype:?}, {n}×{inputs}→{outputs}, a gap of {gap}");
                let want = crate::linear(x.clone(), weight.clone(), Some(bias.clone()));
                let bias_there = Some(bias_there.clone());
                let got = crate::linear(x_there.clone(), weight_there.clone(), bias_there);
                assert_close_there(&got, &values(&want), 2.0 * tolerance(dtype), &what);
                let want = crate::linear(x.clone(), weight.clone(), None);
                let got = crate::linear(x_there, weight_there.clone(), None);
                assert_close_there(&got, &values(&want), 2.0 * tolerance(dtype), &what);
            }
        }
    }
}

#[test]
#[ignore = "needs PREPOSE_TEST_DEVICE: wgpu, vulkan, metal or cuda"]
fn a_convolution_of_one_pixel_ends_a_branch() {
    let device = device();
    let dtype = DType::F32;
    let (weight, there) = pair([40, 24], 1, dtype, &device);
    let (bias, bias_there) = pair([40], 2, dtype, &device);
    let x = random([2, 24, 3, 3], 3, dtype);
    let onto = random([2, 40, 3, 3], 4, dtype);
    let plain = crate::pointwise_kernel(weight);
    let want = crate::conv2d(x.clone(), plain, Some(bias), 1, 0) + onto.clone();
    let kernel = crate::pointwise_kernel(there);
    for (pitch, onto_pitch) in [(24, 40), (32, 64)] {
        let x = picture(&x, pitch, &device);
        let onto = picture(&onto, onto_pitch, &device);
        let got = crate::pointwise_onto(x, kernel.clone(), Some(bias_there.clone()), onto);
        let what = format!("pixels {pitch} and {onto_pitch} apart");
        assert_close_there(&got, &values(&want), 1e-5, &what);
    }
}

#[test]
#[ignore = "needs PREPOSE_TEST_DEVICE: wgpu, vulkan, metal or cuda"]
fn small_matrices_are_multiplied_as_they_lie() {
    let device = device();
    for dtype in types(&device) {
        // Samples along two axes on the left and on the right, and m, k, n; the last are long sums.
        for (lefts, rights, [m, k, n]) in [
            ([2, 1], [2, 1], [37, 77, 3]),
            ([1, 1], [2, 3], [16, 16, 24]),
            ([2, 3], [1, 1], [16, 24, 24]),
            ([2, 1], [1, 3], [2, 5, 7]),
            ([1, 2], [1, 2], [5, 300, 5]),
        ] {
            let what = format!("{dtype:?}, {lefts:?} {rights:?} [{m}, {k}, {n}]");
            let (left, left_there) = pair([lefts[0], lefts[1], m, k], 1, dtype, &device);
            let (right, right_there) = pair([rights[0], rights[1], n, k], 2, dtype, &device);
            let want = left.matmul(right.transpose());
            let got = crate::matmul(left_there, right_there.transpose());
            assert_close_there(&got, &values(&want), 2.0 * tolerance(dtype), &what);
        }
        let (left, left_there) = pair([3, 4], 3, dtype, &device);
        let (right, right_there) = pair([3, 5], 4, dtype, &device);
        let want = left.transpose().matmul(right);
        let got = crate::matmul(left_there.transpose(), right_there);
        assert_close_there(&got, &values(&want), 2.0 * tolerance(dtype), "two axes");
    }
}

#[test]
#[ignore = "needs PREPOSE_TEST_DEVICE: wgpu, vulkan, metal or cuda"]
fn gradients_of_small_products_are_small_products() {
    let device = device().autodiff();
    let (left, right) = (
        random([2, 3, 9, 5], 1, DType::F32),
        random([2, 3, 5, 4], 2, DType::F32),
    );
    let grad = random([2, 3, 9, 4], 3, DType::F32);
    let [left_there, right_there] =
        [&left, &right].map(|x| Tensor::from_data(x.clone().into_data(), &device).require_grad());
    let y = crate::matmul(left_there.clone(), right_there.clone());
    let start = crate::Cotangent::new(y, upload(&grad, &device.without_autodiff()));
    let gradients = crate::backward(start.into_iter().collect()).expect("a tracked result");
    let of_left = left_there.grad(&gradients).expect("a gradient");
    let of_right = right_there.grad(&gradients).expect("a gradient");
    let want = grad.clone().matmul(right.transpose());
    assert_close_there(&of_left, &values(&want), 1e-5, "to the left");
    let want = left.transpose().matmul(grad);
    assert_close_there(&of_right, &values(&want), 1e-5, "to the right");
}
