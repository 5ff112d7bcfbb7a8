//! Gradients through an autodiff device against central differences of the f64 references.

use super::{noise, reference};
use crate::*;
use burn::tensor::{Device, Tensor, TensorData};

/// Checks the gradient of `Σ weights · operation(x)` with respect to every `x`.
#[track_caller]
pub(super) fn check<const D: usize, const E: usize>(
    shape: [usize; D],
    operation: impl Fn(Tensor<D>) -> Tensor<E>,
    reference: impl Fn(&[f64]) -> Vec<f64>,
) {
    let device = Device::flex().autodiff();
    let start = noise(shape.iter().product(), 11);
    let x = Tensor::<D>::from_data(TensorData::new(start.clone(), shape), &device).require_grad();
    let y = operation(x.clone());
    let weights = noise(y.shape().num_elements(), 12);
    let weighting = Tensor::<E>::from_data(TensorData::new(weights.clone(), y.shape()), &device);
    let gradients = (y * weighting).sum().backward();
    let got = x
        .grad(&gradients)
        .expect("a gradient")
        .into_data()
        .try_to_vec::<f32>()
        .expect("f32");

    let start: Vec<f64> = start.into_iter().map(f64::from).collect();
    let loss = |x: &[f64]| -> f64 {
        reference(x)
            .iter()
            .zip(&weights)
            .map(|(y, w)| y * f64::from(*w))
            .sum()
    };
    let step = 1e-5;
    for i in 0..start.len() {
        let at = |offset: f64| {
            let mut x = start.clone();
            x[i] += offset;
            loss(&x)
        };
        let want = (at(step) - at(-step)) / (2.0 * step);
        let close = (f64::from(got[i]) - want).abs() <= 2e-4 * want.abs().max(1.0);
        assert!(close, "gradient {i} is {}, should be {want}", got[i]);
    }
}

/// A constant operand, on the plain device or on the autodiff device.
pub(super) fn constant<const D: usize>(
    shape: [usize; D],
    seed: u64,
    tracked: bool,
) -> (Tensor<D>, Vec<f64>) {
    let data = noise(shape.iter().product(), seed);
    let device = if tracked {
        Device::flex().autodiff()
    } else {
        Device::flex()
    };
    let values = data.iter().map(|&x| f64::from(x)).collect();
    (
        Tensor::from_data(TensorData::new(data, shape), &device),
        values,
    )
}

#[test]
fn conv2d_gradient() {
    for (kernel, stride, padding) in [(3, 1, 1), (3, 2, 1), (1, 1, 0)] {
        for tracked in [false, true] {
            let (weight, w) = constant([4, 3, kernel, kernel], 1, tracked);
            let (bias, b) = constant([4], 2, tracked);
            let problem = reference::Conv {
                x: [2, 3, 5, 6],
                out: 4,
                kernel: [kernel; 2],
                stride,
                padding: [padding; 2],
            };
            check(
                [2, 3, 5, 6],
                |x| conv2d(x, weight.clone(), Some(bias.clone()), stride, padding),
                |x| problem.run(x, &w, Some(&b)),
            );
        }
    }
}

#[test]
fn linear_gradient() {
    for tracked in [false, true] {
        let (weight, w) = constant([5, 7], 1, tracked);
        let (bias, b) = constant([5], 2, tracked);
        check(
            [2, 3, 7],
            |x| linear(x, weight.clone(), Some(bias.clone())),
            |x| reference::linear(x, &w, Some(&b), 7),
        );
    }
}

#[test]
fn attention_gradient() {
    let [n, m, d] = [4, 5, 6];
    let (k, k_values) = constant([2, 2, m, d], 1, false);
    let (v, v_values) = constant([2, 2, m, d], 2, false);
    let run = |q: &[f64]| reference::attention(q, &k_values, &v_values, [n, m, d], false);
    check(
        [2, 2, n, d],
        |q| attention(q, k.clone(), v.clone()),
        |q| run(q).0,
    );
    check(
        [2, 2, n, d],
        |q| attention_with_probs(q, k.clone(), v.clone()).0,
        |q| run(q).0,
    );
    check(
        [2, 2, n, d],
        |q| attention_with_probs(q, k.clone(), v.clone()).1,
        |q| run(q).1,
    );
    // All three from one input, as in self-attention.
    check(
        [1, 2, n, d],
        |x| attention(x.clone() * 2.0, x.clone(), x),
        |x| {
            let q: Vec<f64> = x.iter().map(|x| 2.0 * x).collect();
            reference::attention(&q, x, x, [n, n, d], false).0
        },
    );
    check(
        [1, 2, n, d],
        |x| causal_attention(x.clone(), x.clone(), x),
        |x| reference::attention(x, x, x, [n, n, d], true).0,
    );
}

#[test]
fn norm_gradients() {
    for tracked in [false, true] {
        let (weight, w) = constant([6], 1, tracked);
        let (bias, b) = constant([6], 2, tracked);
        for silu in [false, true] {
            let norm = GroupNorm {
                groups: 3,
                weight: weight.clone(),
                bias: bias.clone(),
                eps: 1e-5,
                silu,
            };
            check(
                [2, 6, 3, 2],
                |x| group_norm(x, &norm),
                |x| reference::group_norm(x, (6, 6, 3), &w, &b, 1e-5, silu),
            );
        }
        check(
            [2, 3, 6],
            |x| layer_norm(x, weight.clone(), bias.clone(), 1e-5),
            |x| reference::layer_norm(x, &w, &b, 1e-5),
        );
    }
}

#[test]
fn activation_gradients() {
    let each = |f: fn(f64) -> f64| move |x: &[f64]| x.iter().map(|&x| f(x)).collect::<Vec<_>>();
    check([2, 9], silu, each(reference::silu));
    check([2, 9], gelu, each(reference::gelu));
    check([2, 9], quick_gelu, each(reference::quick_gelu));
    check([2, 3, 8], geglu, |x| reference::geglu(x, 4));
    check([1, 2, 3, 2], upsample_nearest2x, |x| {
        let planes = x.chunks(6);
        planes
            .flat_map(|p| (0..24).map(|i| p[i / 8 * 2 + i % 4 / 2]))
            .collect()
    });
}
