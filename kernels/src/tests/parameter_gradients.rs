//! Gradients to weights and biases: through an autodiff device against central differences of the f64 references, and the
//! kernels against Burn's operations in shapes that fill no tile.

use super::gradients::{check, constant};
use super::{assert_close, random, reference, values};
use crate::*;
use burn::tensor::{DType, Tensor};

#[test]
fn of_convolutions() {
    for (kernel, stride, padding) in [(3, 1, 1), (3, 2, 1), (3, 1, 0), (1, 1, 0), (1, 2, 0)] {
        let problem = reference::Conv {
            x: [2, 3, 5, 6],
            out: 4,
            kernel: [kernel; 2],
            stride,
            padding: [padding; 2],
        };
        let (x, x_values) = constant([2, 3, 5, 6], 1, false);
        let (weight, w) = constant([4, 3, kernel, kernel], 2, false);
        let (bias, b) = constant([4], 3, false);
        check(
            [4, 3, kernel, kernel],
            |weight| conv2d(x.clone(), weight, Some(bias.clone()), stride, padding),
            |w| problem.run(&x_values, w, Some(&b)),
        );
        check(
            [4],
            |bias| conv2d(x.clone(), weight.clone(), Some(bias), stride, padding),
            |b| problem.run(&x_values, &w, Some(b)),
        );
    }
}

#[test]
fn of_linear_layers() {
    let (x, x_values) = constant([2, 3, 7], 1, false);
    let (weight, w) = constant([5, 7], 2, false);
    let (bias, b) = constant([5], 3, false);
    check(
        [5, 7],
        |weight| linear(x.clone(), weight, Some(bias.clone())),
        |w| reference::linear(&x_values, w, Some(&b), 7),
    );
    check(
        [5],
        |bias| linear(x.clone(), weight.clone(), Some(bias)),
        |b| reference::linear(&x_values, &w, Some(b), 7),
    );
}

#[test]
fn of_norms() {
    let (weight, w) = constant([6], 1, false);
    let (bias, b) = constant([6], 2, false);
    let (picture, pixels) = constant([2, 6, 3, 2], 3, false);
    let (rows, elements) = constant([2, 3, 6], 4, false);
    for silu in [false, true] {
        let norm = |weight: Tensor<1>, bias: Tensor<1>| GroupNorm {
            groups: 3,
            weight,
            bias,
            eps: 1e-5,
            silu,
        };
        check(
            [6],
            |weight| group_norm(picture.clone(), &norm(weight, bias.clone())),
            |w| reference::group_norm(&pixels, (6, 6, 3), w, &b, 1e-5, silu),
        );
        check(
            [6],
            |bias| group_norm(picture.clone(), &norm(weight.clone(), bias)),
            |b| reference::group_norm(&pixels, (6, 6, 3), &w, b, 1e-5, silu),
        );
    }
    check(
        [6],
        |weight| layer_norm(rows.clone(), weight, bias.clone(), 1e-5),
        |w| reference::layer_norm(&elements, w, &b, 1e-5),
    );
    check(
        [6],
        |bias| layer_norm(rows.clone(), weight.clone(), bias, 1e-5),
        |b| reference::layer_norm(&elements, &w, b, 1e-5),
    );
}

#[test]
fn of_keys_and_values_alone() {
    let [n, m, d] = [4, 5, 6];
    let (q, q_values) = constant([2, 2, n, d], 1, false);
    let (k, k_values) = constant([2, 2, m, d], 2, false);
    let (v, v_values) = constant([2, 2, m, d], 3, false);
    check(
        [2, 2, m, d],
        |k| attention(q.clone(), k, v.clone()),
        |k| reference::attention(&q_values, k, &v_values, [n, m, d], false).0,
    );
    check(
        [2, 2, m, d],
        |v| attention(q.clone(), k.clone(), v),
        |v| reference::attention(&q_values, &k_values, v, [n, m, d], false).0,
    );
}

/// As far as sums of some hundred products in another order may be apart.
const TOLERANCE: f64 = 5e-6;

#[test]
fn convolution_kernels_in_odd_shapes() {
    let shapes = [
        ([3, 5, 9, 7], 11, 3, 1, 1),
        ([2, 17, 8, 33], 19, 3, 2, 1),
        ([1, 33, 20, 21], 40, 1, 1, 0),
        ([2, 3, 13, 6], 7, 5, 3, 2),
        ([2, 4, 5, 5], 3, 3, 2, 0),
        // With fewer multiplications.
        ([2, 24, 16, 12], 20, 3, 1, 1),
        ([3, 18, 15, 18], 33, 3, 1, 0),
    ];
    for (shape @ [batch, inputs, height, width], outputs, kernel, stride, padding) in shapes {
        let size = |n: usize| (n + 2 * padding - kernel) / stride + 1;
        let grad = random([batch, outputs, size(height), size(width)], 1, DType::F32);
        let x = random(shape, 2, DType::F32);
        let filters = [outputs, inputs, kernel, kernel];
        let want = plain::conv2d_weight_grad(grad.clone(), x.clone(), filters, stride, padding);
        let got = conv2d_weight_grad(grad.clone(), x, filters, stride, padding);
        assert_close(&got, &values(&want), TOLERANCE, "weight");
        let want = plain::conv2d_bias_grad(grad.clone());
        assert_close(&conv2d_bias_grad(grad), &values(&want), TOLERANCE, "bias");
    }
}

#[test]
fn linear_kernels_in_odd_shapes() {
    for (batch, tokens, inputs, outputs) in [(1, 1, 3, 2), (2, 77, 40, 33), (3, 400, 17, 65)] {
        let grad = random([batch, tokens, outputs], 1, DType::F32);
        // Tokens that are pixels, channel after channel in memory.
        let x = random([batch, inputs, tokens], 2, DType::F32).swap_dims(1, 2);
        let want = plain::linear_weight_grad(grad.clone(), x.clone());
        let got = linear_weight_grad(grad.clone(), x);
        assert_close(&got, &values(&want), TOLERANCE, "weight");
        let want = plain::linear_bias_grad(grad.clone());
        assert_close(&linear_bias_grad(grad), &values(&want), TOLERANCE, "bias");
    }
}

#[test]
fn norm_kernels_in_odd_shapes() {
    for silu in [false, true] {
        let norm = GroupNorm {
            groups: 3,
            weight: random([9], 1, DType::F32),
            bias: random([9], 2, DType::F32),
            eps: 1e-5,
            silu,
        };
        let (grad, x) = (
            random([3, 9, 37, 41], 3, DType::F32),
            random([3, 9, 37, 41], 4, DType::F32),
        );
        let (of_x, of_weight, of_bias) = group_norm_grads(grad.clone(), x.clone(), &norm);
        let want = plain::group_norm_input_grad(grad.clone(), x.clone(), &norm);
        assert_close(&of_x, &values(&want), 2e-5, "input");
        let want = plain::group_norm_param_grads(grad, x, &norm);
        assert_close(&of_weight, &values(&want.0), 2e-5, "weight");
        assert_close(&of_bias, &values(&want.1), 2e-5, "bias");
    }
    let (grad, x) = (
        random([2, 150, 43], 5, DType::F32),
        random([2, 150, 43], 6, DType::F32),
    );
    let got = layer_norm_param_grads(grad.clone(), x.clone(), 1e-5);
    let want = plain::layer_norm_param_grads(grad, x, 1e-5);
    assert_close(&got.0, &values(&want.0), 2e-5, "weight");
    assert_close(&got.1, &values(&want.1), 2e-5, "bias");
}

/// A frozen weight has no gradient, and what is computed from untracked tensors is tracked no more than they.
#[test]
fn only_tracked_operands_count() {
    let on = |seed| random([2, 3, 4], seed, DType::F32).autodiff();
    let frozen = random([5, 4], 1, DType::F32);
    let x = on(2).require_grad();
    let y = linear(x.clone(), frozen.clone(), None);
    assert!(y.is_tracked());
    let gradients = y.sum().backward();
    assert!(x.grad(&gradients).is_some());
    let y = linear(on(3), frozen, None);
    assert!(y.is_autodiff() && !y.is_tracked());
}
