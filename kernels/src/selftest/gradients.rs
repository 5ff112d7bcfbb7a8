//! The input gradients against central differences of the f64 loops, at some elements of each input.

use super::{Operation, Trial, reference, values};
use crate::*;
use burn::tensor::Tensor;

pub const OPERATIONS: &[Operation] = &[
    Operation {
        name: "conv2d_input_grad",
        run: conv,
    },
    Operation {
        name: "linear_input_grad",
        run: linears,
    },
    Operation {
        name: "attention_input_grads",
        run: attentions,
    },
    Operation {
        name: "attention_query_grad",
        run: query,
    },
    Operation {
        name: "group_norm_input_grad",
        run: group_norms,
    },
    Operation {
        name: "layer_norm_input_grad",
        run: layer_norms,
    },
    Operation {
        name: "geglu_input_grad",
        run: geglus,
    },
    Operation {
        name: "upsample_nearest2x_input_grad",
        run: upsample,
    },
];

/// Elements of a gradient that are compared.
const PROBES: usize = 32;

/// Compares `got`, the gradient of `Σ grad · f(x)`, with central differences at elements spread over `x`.
fn probe<const D: usize>(
    trial: &mut Trial,
    case: String,
    got: Tensor<D>,
    (x, grad): (&[f64], &[f64]),
    f: impl Fn(&[f64]) -> Vec<f64>,
) {
    // In f64 the error of a central difference is about the square of the step.
    const STEP: f64 = 1e-4;
    let got = values(got);
    let error = if got.len() == x.len() {
        0.0
    } else {
        f64::INFINITY
    };
    let count = PROBES.min(x.len());
    let mut moved = x.to_vec();
    let pairs: Vec<(f64, f64)> = (0..count)
        .map(|i| {
            // The last element and others at uneven distances, so that no row or tile is left out by its number.
            let at = x.len() - 1 - i * (x.len() - 1) / count.max(2);
            let mut loss = |x: f64| {
                let before = std::mem::replace(&mut moved[at], x);
                let loss: f64 = f(&moved).iter().zip(grad).map(|(y, g)| y * g).sum();
                moved[at] = before;
                loss
            };
            let slope = (loss(x[at] + STEP) - loss(x[at] - STEP)) / (2.0 * STEP);
            (got.get(at).copied().unwrap_or(f64::NAN), slope)
        })
        .collect();
    trial.push(case, pairs.into_iter(), error);
}

fn conv(trial: &mut Trial) {
    // Batch, channels, height, width, out, kernel, stride, padding.
    for case @ [b, c, h, w, out, kernel, stride, padding] in [
        [2, 8, 8, 8, 16, 3, 1, 1],
        [1, 8, 8, 8, 16, 3, 2, 1],
        [1, 5, 9, 11, 7, 3, 2, 1],
        [2, 16, 4, 4, 8, 1, 1, 0],
    ] {
        let problem = reference::Conv {
            x: [b, c, h, w],
            out,
            kernel: [kernel; 2],
            stride,
            padding: [padding; 2],
        };
        let [height, width] = problem.out_size();
        let (_, x) = trial.tensor([b, c, h, w]);
        let (weight, weight64) = trial.tensor([out, c, kernel, kernel]);
        let (grad, grad64) = trial.tensor([b, out, height, width]);
        let got = conv2d_input_grad(grad, weight, [b, c, h, w], stride, padding);
        probe(trial, format!("{case:?}"), got, (&x, &grad64), |x| {
            problem.run(x, &weight64, None)
        });
    }
}

fn linears(trial: &mut Trial) {
    for case @ [b, n, inputs, outputs] in [[2, 77, 32, 48], [1, 1, 33, 17]] {
        let (_, x) = trial.tensor([b, n, inputs]);
        let (weight, weight64) = trial.tensor([outputs, inputs]);
        let (grad, grad64) = trial.tensor([b, n, outputs]);
        let got = linear_input_grad(grad, weight);
        probe(trial, format!("{case:?}"), got, (&x, &grad64), |x| {
            reference::linear(x, &weight64, None, inputs)
        });
    }
}

/// Batch, heads, queries, keys, width.
const ATTENTIONS: [[usize; 5]; 5] = [
    [1, 2, 64, 64, 40],
    [2, 1, 33, 77, 64],
    [1, 1, 16, 16, 160],
    [1, 2, 70, 40, 80],
    [1, 1, 3, 2, 5],
];

fn attentions(trial: &mut Trial) {
    for case @ [b, h, n, m, d] in ATTENTIONS {
        let (q, q64) = trial.tensor([b, h, n, d]);
        let (k, k64) = trial.tensor([b, h, m, d]);
        let (v, v64) = trial.tensor([b, h, m, d]);
        let (grad, grad64) = trial.tensor([b, h, n, d]);
        let out = attention(q.clone(), k.clone(), v.clone());
        let (dq, dk, dv) = attention_input_grads(grad, q, k, v, out);
        let forward =
            |q: &[f64], k: &[f64], v: &[f64]| reference::attention(q, k, v, [n, m, d], false).0;
        probe(
            trial,
            format!("{case:?}, queries"),
            dq,
            (&q64, &grad64),
            |q| forward(q, &k64, &v64),
        );
        probe(trial, format!("{case:?}, keys"), dk, (&k64, &grad64), |k| {
            forward(&q64, k, &v64)
        });
        probe(
            trial,
            format!("{case:?}, values"),
            dv,
            (&v64, &grad64),
            |v| forward(&q64, &k64, v),
        );
    }
}

fn query(trial: &mut Trial) {
    for case @ [b, h, n, m, d] in ATTENTIONS.into_iter().take(3) {
        let (q, q64) = trial.tensor([b, h, n, d]);
        let (k, k64) = trial.tensor([b, h, m, d]);
        let (v, v64) = trial.tensor([b, h, m, d]);
        let (grad, grad64) = trial.tensor([b, h, n, d]);
        let (grad_probs, probs64) = trial.tensor([b, h, n, m]);
        let got = attention_query_grad(Some(grad), Some(grad_probs), q, k, v);
        // Result and probabilities one after the other, and their gradients likewise.
        let both = [grad64, probs64].concat();
        probe(trial, format!("{case:?}"), got, (&q64, &both), |q| {
            let (result, probs) = reference::attention(q, &k64, &v64, [n, m, d], false);
            [result, probs].concat()
        });
    }
}

fn group_norms(trial: &mut Trial) {
    for case @ [b, c, h, w, groups] in [[2, 64, 4, 4, 32], [3, 21, 5, 7, 7]] {
        for silu in [false, true] {
            let (x, x64) = trial.tensor([b, c, h, w]);
            let (weight, weight64) = trial.tensor([c]);
            let (bias, bias64) = trial.tensor([c]);
            let (grad, grad64) = trial.tensor([b, c, h, w]);
            let norm = GroupNorm {
                groups,
                weight,
                bias,
                eps: 1e-5,
                silu,
            };
            let got = group_norm_input_grad(grad, x, &norm);
            let what = format!("{case:?}{}", if silu { ", SiLU" } else { "" });
            probe(trial, what, got, (&x64, &grad64), |x| {
                reference::group_norm(x, (c, h * w, groups), &weight64, &bias64, 1e-5, silu)
            });
        }
    }
}

fn layer_norms(trial: &mut Trial) {
    for case @ [b, n, c] in [[2, 7, 64], [1, 3, 321]] {
        let (x, x64) = trial.tensor([b, n, c]);
        let (weight, weight64) = trial.tensor([c]);
        let (grad, grad64) = trial.tensor([b, n, c]);
        let got = layer_norm_input_grad(grad, x, weight, 1e-5);
        let zeros = vec![0.0; c];
        probe(trial, format!("{case:?}"), got, (&x64, &grad64), |x| {
            reference::layer_norm(x, &weight64, &zeros, 1e-5)
        });
    }
}

fn geglus(trial: &mut Trial) {
    for case @ [b, n, c] in [[2, 16, 80], [1, 3, 10]] {
        let (x, x64) = trial.tensor([b, n, c]);
        let (grad, grad64) = trial.tensor([b, n, c / 2]);
        let got = geglu_input_grad(grad, x);
        probe(trial, format!("{case:?}"), got, (&x64, &grad64), |x| {
            reference::geglu(x, c / 2)
        });
    }
}

fn upsample(trial: &mut Trial) {
    let [b, c, h, w] = [2, 3, 5, 4];
    let (grad, grad64) = trial.tensor([b, c, 2 * h, 2 * w]);
    let mut want = vec![0.0; b * c * h * w];
    for (plane, grad) in grad64.chunks(4 * h * w).enumerate() {
        for (i, grad) in grad.iter().enumerate() {
            want[plane * h * w + i / (2 * w) / 2 * w + i % (2 * w) / 2] += grad;
        }
    }
    trial.compare(
        "[2, 3, 5, 4]".into(),
        upsample_nearest2x_input_grad(grad),
        &want,
    );
}
