//! The operations of networks that make pictures.

use super::{Operation, Trial, reference};
use crate::*;

pub const OPERATIONS: &[Operation] = &[
    Operation {
        name: "conv2d",
        run: conv,
    },
    Operation {
        name: "linear",
        run: linears,
    },
    Operation {
        name: "matmul",
        run: matmuls,
    },
    Operation {
        name: "attention",
        run: attentions,
    },
    Operation {
        name: "causal_attention",
        run: causal,
    },
    Operation {
        name: "attention_with_probs",
        run: with_probs,
    },
    Operation {
        name: "grid_attention",
        run: grids,
    },
    Operation {
        name: "group_norm",
        run: group_norms,
    },
    Operation {
        name: "layer_norm",
        run: layer_norms,
    },
    Operation {
        name: "geglu",
        run: geglus,
    },
    Operation {
        name: "silu, gelu, quick_gelu",
        run: activations,
    },
    Operation {
        name: "add",
        run: sums,
    },
    Operation {
        name: "upsample_nearest2x",
        run: upsample,
    },
];

fn conv(trial: &mut Trial) {
    // Batch, channels, height, width, out, kernel, stride, padding.
    for case @ [b, c, h, w, out, kernel, stride, padding] in [
        [2, 32, 16, 16, 64, 3, 1, 1],
        [1, 5, 9, 11, 7, 3, 2, 1],
        [2, 64, 8, 8, 32, 1, 1, 0],
    ] {
        let (x, x64) = trial.tensor([b, c, h, w]);
        let (weight, weight64) = trial.tensor([out, c, kernel, kernel]);
        let (bias, bias64) = trial.tensor([out]);
        let problem = reference::Conv {
            x: [b, c, h, w],
            out,
            kernel: [kernel; 2],
            stride,
            padding: [padding; 2],
        };
        let want = problem.run(&x64, &weight64, Some(&bias64));
        let got = conv2d(
            x.clone(),
            weight.clone(),
            Some(bias.clone()),
            stride,
            padding,
        );
        trial.compare(format!("{case:?}"), got, &want);
        let want: Vec<f64> = want.iter().map(|x| x.max(0.0)).collect();
        let got = conv2d_relu(x, weight, Some(bias), stride, [padding; 2]);
        trial.compare(format!("{case:?}, ReLU"), got, &want);
    }
    for kernel @ [down, right] in [[1, 7], [7, 1]] {
        let [b, c, h, w, out] = [2, 16, 9, 12, 24];
        let (x, x64) = trial.tensor([b, c, h, w]);
        let (weight, weight64) = trial.tensor([out, c, down, right]);
        let (bias, bias64) = trial.tensor([out]);
        let padding = kernel.map(|side| side / 2);
        let problem = reference::Conv {
            x: [b, c, h, w],
            out,
            kernel,
            stride: 1,
            padding,
        };
        let want = problem.run(&x64, &weight64, Some(&bias64));
        let want: Vec<f64> = want.iter().map(|x| x.max(0.0)).collect();
        let got = conv2d_relu(x, weight, Some(bias), 1, padding);
        trial.compare(format!("{down} × {right}, ReLU"), got, &want);
    }
}

fn linears(trial: &mut Trial) {
    for case @ [b, n, inputs, outputs] in [[2, 77, 64, 96], [1, 1, 33, 17]] {
        let (x, x64) = trial.tensor([b, n, inputs]);
        let (weight, weight64) = trial.tensor([outputs, inputs]);
        let (bias, bias64) = trial.tensor([outputs]);
        let want = reference::linear(&x64, &weight64, Some(&bias64), inputs);
        let got = linear(x.clone(), weight.clone(), Some(bias.clone()));
        trial.compare(format!("{case:?}"), got, &want);
        let (onto, onto64) = trial.tensor([b, n, outputs]);
        let want: Vec<f64> = want.iter().zip(&onto64).map(|(y, onto)| y + onto).collect();
        let got = linear_onto(x, weight, Some(bias), onto);
        trial.compare(format!("{case:?}, with a residual"), got, &want);
    }
}

fn matmuls(trial: &mut Trial) {
    // Samples of the left matrices and of the right ones, and m, k, n: maps of tokens to those of objects, smoothing from the left and
    // from the right, and a sum over all cells.
    for case @ [lefts, rights, m, k, n] in [
        [2, 2, 256, 77, 3],
        [1, 6, 16, 16, 16],
        [6, 1, 24, 16, 16],
        [2, 2, 4, 1024, 5],
    ] {
        let (left, left64) = trial.tensor([lefts, m, k]);
        let (right, right64) = trial.tensor([rights, k, n]);
        let samples = lefts.max(rights);
        let [left64, right64] =
            [(left64, lefts), (right64, rights)].map(|(x, count)| x.repeat(samples / count));
        let want = reference::matmul(&left64, &right64, [m, k, n]);
        trial.compare(format!("{case:?}"), matmul(left, right), &want);
    }
}

/// Batch, heads, queries, keys, width; the widths are those of Stable Diffusion's heads, an odd one and the autoencoder's.
const ATTENTIONS: [[usize; 5]; 9] = [
    [2, 2, 64, 64, 40],
    [1, 2, 64, 77, 64],
    [1, 2, 64, 64, 80],
    [1, 1, 64, 64, 160],
    [3, 1, 49, 77, 5],
    [1, 1, 1, 1, 40],
    [1, 1, 64, 64, 512],
    // Several blocks of queries and of keys, the last ones not full.
    [2, 3, 150, 200, 40],
    [1, 2, 70, 100, 160],
];

fn attentions(trial: &mut Trial) {
    for case @ [b, h, n, m, d] in ATTENTIONS {
        let (q, q64) = trial.tensor([b, h, n, d]);
        let (k, k64) = trial.tensor([b, h, m, d]);
        let (v, v64) = trial.tensor([b, h, m, d]);
        let (want, _) = reference::attention(&q64, &k64, &v64, [n, m, d], false);
        trial.compare(format!("{case:?}"), attention(q, k, v), &want);
    }
    // As the networks call it: queries, keys and values beside each other in the rows, each head by head.
    let [b, h, n, d] = [2, 3, 48, 40];
    let (joined, joined64) = trial.tensor([b, n, 3 * h * d]);
    let part = |i: usize| split_heads(joined.clone(), d, i * h..(i + 1) * h);
    let part64 = |i: usize| {
        let at = |b: usize, head: usize, row: usize| ((b * n + row) * 3 * h + i * h + head) * d;
        let rows = (0..b).flat_map(|b| (0..h).map(move |head| (b, head)));
        let rows = rows.flat_map(|(b, head)| (0..n).map(move |row| (b, head, row)));
        rows.flat_map(|(b, head, row)| joined64[at(b, head, row)..][..d].to_vec())
            .collect::<Vec<f64>>()
    };
    let (want, _) = reference::attention(&part64(0), &part64(1), &part64(2), [n, n, d], false);
    trial.compare("views".into(), attention(part(0), part(1), part(2)), &want);
}

fn causal(trial: &mut Trial) {
    let [b, h, n, d] = [2, 2, 77, 64];
    let (q, q64) = trial.tensor([b, h, n, d]);
    let (k, k64) = trial.tensor([b, h, n, d]);
    let (v, v64) = trial.tensor([b, h, n, d]);
    let (want, _) = reference::attention(&q64, &k64, &v64, [n, n, d], true);
    trial.compare("[2, 2, 77, 64]".into(), causal_attention(q, k, v), &want);
}

fn with_probs(trial: &mut Trial) {
    for case @ [b, h, n, m, d] in ATTENTIONS.into_iter().take(5) {
        let (q, q64) = trial.tensor([b, h, n, d]);
        let (k, k64) = trial.tensor([b, h, m, d]);
        let (v, v64) = trial.tensor([b, h, m, d]);
        let (want, want_probs) = reference::attention(&q64, &k64, &v64, [n, m, d], false);
        let (got, probs) = attention_with_probs(q, k, v);
        trial.compare(format!("{case:?}"), got, &want);
        trial.compare(format!("{case:?}, probabilities"), probs, &want_probs);
    }
}

/// Batch, heads, side, width: SAM's windows and heads, its widest heads, odd ones, and more keys than fit into a block.
const GRIDS: [[usize; 4]; 5] = [
    [2, 2, 14, 64],
    [1, 1, 8, 80],
    [3, 1, 5, 7],
    [1, 2, 1, 8],
    [1, 1, 30, 128],
];

fn grids(trial: &mut Trial) {
    for case @ [b, h, side, d] in GRIDS {
        let shape = [b, h, side * side, d];
        let (q, q64) = trial.tensor(shape);
        let (k, k64) = trial.tensor(shape);
        let (v, v64) = trial.tensor(shape);
        let (positions, positions64) = trial.tensor([2 * (2 * side - 1), d]);
        let want = reference::grid_attention([&q64, &k64, &v64, &positions64], side, d);
        let got = grid_attention(q, k, v, positions);
        trial.compare(format!("{case:?}"), got, &want);
    }
}

fn group_norms(trial: &mut Trial) {
    for case @ [b, c, h, w, groups] in [[2, 64, 8, 8, 32], [3, 21, 5, 7, 7], [1, 32, 40, 40, 32]] {
        for silu in [false, true] {
            let (x, x64) = trial.tensor([b, c, h, w]);
            let (weight, weight64) = trial.tensor([c]);
            let (bias, bias64) = trial.tensor([c]);
            let sizes = (c, h * w, groups);
            let want = reference::group_norm(&x64, sizes, &weight64, &bias64, 1e-5, silu);
            let got = group_norm(
                x,
                &GroupNorm {
                    groups,
                    weight,
                    bias,
                    eps: 1e-5,
                    silu,
                },
            );
            let what = if silu { ", SiLU" } else { "" };
            trial.compare(format!("{case:?}{what}"), got, &want);
        }
    }
}

fn layer_norms(trial: &mut Trial) {
    for case @ [b, n, c] in [[2, 77, 64], [1, 3, 1281]] {
        let (x, x64) = trial.tensor([b, n, c]);
        let (weight, weight64) = trial.tensor([c]);
        let (bias, bias64) = trial.tensor([c]);
        let want = reference::layer_norm(&x64, &weight64, &bias64, 1e-5);
        trial.compare(
            format!("{case:?}"),
            layer_norm(x, weight, bias, 1e-5),
            &want,
        );
    }
}

fn geglus(trial: &mut Trial) {
    for case @ [b, n, c] in [[2, 64, 160], [1, 3, 10]] {
        let (x, x64) = trial.tensor([b, n, c]);
        trial.compare(
            format!("{case:?}"),
            geglu(x),
            &reference::geglu(&x64, c / 2),
        );
    }
}

fn activations(trial: &mut Trial) {
    let shape = [3, 50, 7];
    let (x, x64) = trial.tensor(shape);
    // From -8 to 8, where the functions have their bends and their tails.
    let (x, x64) = (x * 8.0, x64.iter().map(|x| x * 8.0).collect::<Vec<_>>());
    let of = |f: fn(f64) -> f64| x64.iter().map(|x| f(*x)).collect::<Vec<_>>();
    trial.compare(
        format!("silu {shape:?}"),
        silu(x.clone()),
        &of(reference::silu),
    );
    trial.compare(
        format!("gelu {shape:?}"),
        gelu(x.clone()),
        &of(reference::gelu),
    );
    trial.compare(
        format!("quick_gelu {shape:?}"),
        quick_gelu(x),
        &of(reference::quick_gelu),
    );
}

fn sums(trial: &mut Trial) {
    for case @ [b, n, c] in [[2, 77, 40], [1, 3, 5]] {
        let (x, x64) = trial.tensor([b, n, c]);
        let (y, y64) = trial.tensor([b, n, c]);
        let want: Vec<f64> = x64.iter().zip(&y64).map(|(x, y)| x + y).collect();
        trial.compare(format!("{case:?}"), add(x, y), &want);
    }
}

fn upsample(trial: &mut Trial) {
    let [b, c, h, w] = [2, 3, 5, 4];
    let (x, x64) = trial.tensor([b, c, h, w]);
    let mut want = Vec::new();
    for plane in x64.chunks(h * w) {
        for y in 0..2 * h {
            want.extend((0..2 * w).map(|x| plane[y / 2 * w + x / 2]));
        }
    }
    trial.compare("[2, 3, 5, 4]".into(), upsample_nearest2x(x), &want);
}
