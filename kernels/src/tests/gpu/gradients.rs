//! Gradients as loops over f64, next to those of the forward passes.

use crate::selftest::reference::{attention, gelu};

/// Gradient of [`crate::geglu`] to its input.
pub fn geglu_input_grad(grad: &[f64], x: &[f64], width: usize) -> Vec<f64> {
    let rows = grad.chunks(width).zip(x.chunks(2 * width));
    rows.flat_map(|(grad, row)| {
        let (value, gate) = row.split_at(width);
        let distribution = |x: f64| 0.5 * libm::erfc(-x * core::f64::consts::FRAC_1_SQRT_2);
        let density = |x: f64| (-0.5 * x * x).exp() / core::f64::consts::TAU.sqrt();
        let of_value = (0..width).map(move |i| grad[i] * gelu(gate[i]));
        let slope = move |x: f64| distribution(x) + x * density(x);
        of_value.chain((0..width).map(move |i| grad[i] * value[i] * slope(gate[i])))
    })
    .collect()
}

/// Gradient of [`crate::group_norm`] to its input.
pub fn group_norm_input_grad(
    grad: &[f64],
    x: &[f64],
    (channels, plane, groups): (usize, usize, usize),
    weight: &[f64],
    bias: &[f64],
    eps: f64,
    activate: bool,
) -> Vec<f64> {
    let length = channels / groups * plane;
    let mut result = Vec::new();
    for (number, (x, grad)) in x.chunks(length).zip(grad.chunks(length)).enumerate() {
        let mean = x.iter().sum::<f64>() / length as f64;
        let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / length as f64;
        let deviation = (variance + eps).sqrt();
        let inner: Vec<(f64, f64)> = (0..length)
            .map(|i| {
                let c = (number * length + i) / plane % channels;
                let normalised = (x[i] - mean) / deviation;
                let y = normalised * weight[c] + bias[c];
                let sigmoid = 1.0 / (1.0 + (-y).exp());
                let slope = if activate {
                    sigmoid * (1.0 + y * (1.0 - sigmoid))
                } else {
                    1.0
                };
                (normalised, grad[i] * slope * weight[c])
            })
            .collect();
        let shift = inner.iter().map(|(_, g)| g).sum::<f64>() / length as f64;
        let stretch = inner.iter().map(|(x, g)| x * g).sum::<f64>() / length as f64;
        let of_x = inner
            .iter()
            .map(|(x, g)| (g - shift - x * stretch) / deviation);
        result.extend(of_x);
    }
    result
}

/// Gradients of [`attention`] to queries, keys and values, from those to its result and its
/// probabilities.
pub fn attention_grads(
    [q, k, v]: [&[f64]; 3],
    grad: &[f64],
    grad_probs: &[f64],
    [n, m, d]: [usize; 3],
) -> [Vec<f64>; 3] {
    let (_, probs) = attention(q, k, v, [n, m, d], false);
    let mut of = [vec![0.0; q.len()], vec![0.0; k.len()], vec![0.0; v.len()]];
    for row in 0..q.len() / d {
        let head = row / n * m * d;
        let probs = &probs[row * m..][..m];
        let grad = &grad[row * d..][..d];
        let to_probs: Vec<f64> = (0..m)
            .map(|j| {
                let value = &v[head + j * d..][..d];
                let product: f64 = grad.iter().zip(value).map(|(a, b)| a * b).sum();
                product + grad_probs[row * m + j]
            })
            .collect();
        let along: f64 = probs.iter().zip(&to_probs).map(|(a, b)| a * b).sum();
        for j in 0..m {
            let to_score = probs[j] * (to_probs[j] - along) / (d as f64).sqrt();
            for e in 0..d {
                let key = head + j * d + e;
                of[0][row * d + e] += to_score * k[key];
                of[1][key] += to_score * q[row * d + e];
                of[2][key] += probs[j] * grad[e];
            }
        }
    }
    of
}
