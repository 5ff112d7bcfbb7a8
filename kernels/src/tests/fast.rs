//! Fast paths and plain references against f64.

use super::{assert_close, random, reference, tolerance, values};
use crate::cpu::simd::forced;
use crate::flex::Operand;
use crate::*;
use burn::tensor::{DType, Device, Tensor};

const TYPES: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

/// How much worse than one rounding the plain references may be: they compute in the half types.
fn plain_tolerance(dtype: DType) -> f64 {
    if dtype == DType::F32 {
        5e-6
    } else {
        8.0 * tolerance(dtype)
    }
}

#[test]
fn only_plain_flex_floats_take_the_fast_path() {
    let x = random([2, 3], 1, DType::F32);
    assert!(Operand::<f32>::new(&x).is_some());
    assert!(Operand::<f32>::new(&x.clone().cast(DType::F16)).is_some());
    assert!(Operand::<f32>::new(&x.clone().cast(DType::F64)).is_none());
    let tracked = Tensor::<2>::from_data(x.clone().into_data(), &Device::flex().autodiff());
    assert!(Operand::<f32>::new(&tracked).is_none());
    assert!(Operand::<f32>::new(&tracked.require_grad()).is_none());
}

#[test]
fn conv2d_matches() {
    // Batch, channels, height, width, out, kernel, stride, padding.
    let cases = [
        [1, 3, 9, 11, 7, 3, 1, 1],
        [2, 20, 16, 16, 33, 3, 1, 1],
        [3, 20, 5, 3, 5, 3, 2, 1],
        [2, 37, 8, 8, 48, 1, 1, 0],
        [1, 4, 64, 48, 16, 3, 2, 0],
        [2, 70, 4, 4, 19, 3, 1, 1],
        [1, 130, 20, 24, 4, 3, 1, 0],
        [5, 6, 2, 2, 3, 3, 1, 1],
        [1, 8, 16, 17, 9, 1, 2, 0],
        [1, 5, 12, 12, 6, 5, 1, 2],
        [1, 20, 40, 40, 50, 3, 1, 1],
        // With fewer multiplications.
        [2, 40, 17, 19, 36, 3, 1, 1],
        [1, 34, 16, 20, 33, 3, 1, 0],
    ];
    forced::each(|level| {
        for (index, [b, c, h, w, out, k, stride, padding]) in cases.into_iter().enumerate() {
            for dtype in TYPES {
                let seed = index as u64 * 10;
                let x = random([b, c, h, w], seed + 1, dtype);
                let weight = random([out, c, k, k], seed + 2, dtype);
                let bias = (index % 3 > 0).then(|| random([out], seed + 3, dtype));
                let problem = reference::Conv {
                    x: [b, c, h, w],
                    out,
                    kernel: [k; 2],
                    stride,
                    padding: [padding; 2],
                };
                let bias_values = bias.as_ref().map(values);
                let want = problem.run(&values(&x), &values(&weight), bias_values.as_deref());
                let what = format!("{level:?} conv {:?} {dtype:?}", cases[index]);
                let got = conv2d(x.clone(), weight.clone(), bias.clone(), stride, padding);
                assert_eq!((got.dtype(), got.dims()[1]), (dtype, out), "{what}");
                assert_close(&got, &want, tolerance(dtype), &what);
                let plain = plain::conv2d(x, weight, bias, stride, padding);
                assert_close(
                    &plain,
                    &want,
                    plain_tolerance(dtype),
                    &format!("plain {what}"),
                );
            }
        }
    });
}

#[test]
fn conv2d_of_views() {
    let problem = reference::Conv {
        x: [2, 6, 7, 9],
        out: 5,
        kernel: [3; 2],
        stride: 1,
        padding: [1; 2],
    };
    let weight = random([5, 6, 3, 3], 2, DType::F32);
    let permuted = random([2, 9, 6, 7], 1, DType::F32).permute([0, 2, 3, 1]);
    let channels = random([2, 11, 7, 9], 3, DType::F32).narrow(1, 3, 6);
    let inner = random([3, 6, 9, 12], 4, DType::F32).slice([1..3, 0..6, 1..8, 2..11]);
    let batches = random([6, 2, 7, 9], 5, DType::F32).swap_dims(0, 1);
    let flipped = random([2, 6, 7, 9], 6, DType::F32).flip([1]);
    let expanded = random([2, 1, 7, 9], 7, DType::F32).expand([2, 6, 7, 9]);
    let tokens = random([2, 7, 9, 6], 8, DType::F32).permute([0, 3, 1, 2]);
    let some_tokens = random([2, 7, 9, 8], 9, DType::F32)
        .narrow(3, 1, 6)
        .permute([0, 3, 1, 2]);
    for (i, x) in [
        permuted,
        channels,
        inner,
        batches,
        flipped,
        expanded,
        tokens,
        some_tokens,
    ]
    .into_iter()
    .enumerate()
    {
        for kernel in [3, 1] {
            let weight = weight.clone().narrow(2, 0, kernel).narrow(3, 0, kernel);
            let problem = reference::Conv {
                kernel: [kernel; 2],
                padding: [kernel / 2; 2],
                ..problem
            };
            let want = problem.run(&values(&x), &values(&weight), None);
            let got = conv2d(x.clone(), weight, None, 1, kernel / 2);
            assert_close(&got, &want, 5e-6, &format!("view {i}, kernel {kernel}"));
        }
    }
}

#[test]
fn linear_matches() {
    // Batch, tokens, inputs, outputs: few, some and many tokens take different ways.
    let cases = [
        [1, 1, 64, 50],
        [2, 2, 17, 16],
        [2, 20, 600, 33],
        [3, 77, 40, 95],
        [1, 200, 1030, 48],
    ];
    forced::each(|level| {
        for (index, [b, n, inputs, outputs]) in cases.into_iter().enumerate() {
            for dtype in TYPES {
                let seed = index as u64 * 10;
                let x = random([b, n, inputs], seed + 1, dtype);
                let weight = random([outputs, inputs], seed + 2, dtype);
                let bias = (index % 2 == 0).then(|| random([outputs], seed + 3, dtype));
                let bias_values = bias.as_ref().map(values);
                let want = reference::linear(
                    &values(&x),
                    &values(&weight),
                    bias_values.as_deref(),
                    inputs,
                );
                let what = format!("{level:?} linear {:?} {dtype:?}", cases[index]);
                let got = linear(x.clone(), weight.clone(), bias.clone());
                assert_eq!(
                    (got.dtype(), got.dims()),
                    (dtype, [b, n, outputs]),
                    "{what}"
                );
                assert_close(&got, &want, tolerance(dtype), &what);
                let plain = plain::linear(x, weight, bias);
                assert_close(
                    &plain,
                    &want,
                    plain_tolerance(dtype),
                    &format!("plain {what}"),
                );
            }
        }
    });
}

#[test]
fn linear_of_views() {
    let weight = random([30, 24], 1, DType::F32);
    let bias = random([30], 2, DType::F32);
    // Channel-first activations, as between a convolution and a transformer block.
    let picture = random([2, 24, 6, 7], 3, DType::F32)
        .reshape([2, 24, 42])
        .swap_dims(1, 2);
    let one = random([1, 24, 9], 4, DType::F32).swap_dims(1, 2);
    let part = random([2, 13, 40], 5, DType::F32).narrow(2, 9, 24);
    let tokens = random([2, 13, 24], 6, DType::F32).narrow(1, 4, 8);
    let swapped = random([13, 2, 24], 7, DType::F32).swap_dims(0, 1);
    let expanded = random([1, 5, 24], 8, DType::F32).expand([3, 5, 24]);
    let single = random([2, 1, 24], 9, DType::F32).expand([2, 1, 24]);
    let views = [picture, one, part, tokens, swapped, expanded, single];
    for (i, x) in views.into_iter().enumerate() {
        let want = reference::linear(&values(&x), &values(&weight), Some(&values(&bias)), 24);
        let got = linear(x, weight.clone(), Some(bias.clone()));
        assert_close(&got, &want, 5e-6, &format!("view {i}"));
    }
    let x = random([2, 70, 24], 10, DType::F32);
    let transposed = random([24, 30], 11, DType::F32).transpose();
    let want = reference::linear(&values(&x), &values(&transposed), None, 24);
    assert_close(
        &linear(x, transposed, None),
        &want,
        5e-6,
        "transposed weight",
    );
}

#[test]
fn attention_matches() {
    // Batch, heads, queries, keys, width.
    let cases = [
        [2, 3, 70, 77, 40],
        [1, 2, 33, 33, 64],
        [2, 1, 5, 1, 3],
        [1, 1, 9, 1700, 17],
        [1, 2, 64, 200, 80],
        [1, 1, 20, 40, 160],
        [1, 1, 130, 300, 512],
        [3, 8, 16, 16, 8],
    ];
    forced::each(|level| {
        for (index, [b, h, n, m, d]) in cases.into_iter().enumerate() {
            for dtype in TYPES {
                let seed = index as u64 * 10;
                // Scaled up, so that the softmax is far from uniform.
                let q = random([b, h, n, d], seed + 1, dtype) * 4.0;
                let k = random([b, h, m, d], seed + 2, dtype);
                let v = random([b, h, m, d], seed + 3, dtype);
                let (want, want_probs) =
                    reference::attention(&values(&q), &values(&k), &values(&v), [n, m, d], false);
                let what = format!("{level:?} attention {:?} {dtype:?}", cases[index]);
                let got = attention(q.clone(), k.clone(), v.clone());
                assert_eq!((got.dtype(), got.dims()), (dtype, [b, h, n, d]), "{what}");
                assert_close(&got, &want, tolerance(dtype), &what);
                let (got, probs) = attention_with_probs(q.clone(), k.clone(), v.clone());
                assert_close(&got, &want, tolerance(dtype), &what);
                assert_close(
                    &probs,
                    &want_probs,
                    tolerance(dtype),
                    &format!("{what} probs"),
                );
                let allowed = plain_tolerance(dtype);
                let plain = plain::attention(q.clone(), k.clone(), v.clone());
                assert_close(&plain, &want, allowed, &format!("plain {what}"));
                let (plain, probs) = plain::attention_with_probs(q, k, v);
                assert_close(&plain, &want, allowed, &format!("plain {what}"));
                assert_close(&probs, &want_probs, allowed, &format!("plain {what} probs"));
            }
        }
    });
}

#[test]
fn causal_attention_matches() {
    forced::each(|level| {
        for [b, h, n, d] in [
            [2, 2, 77, 64],
            [1, 1, 1, 8],
            [1, 1, 900, 24],
            [1, 3, 16, 16],
        ] {
            let shape = [b, h, n, d];
            let [q, k, v] = [1, 2, 3].map(|seed| random(shape, seed, DType::F32));
            let (want, _) =
                reference::attention(&values(&q), &values(&k), &values(&v), [n, n, d], true);
            let got = causal_attention(q.clone(), k.clone(), v.clone());
            assert_close(&got, &want, 5e-6, &format!("{level:?} causal {shape:?}"));
            let plain = plain::causal_attention(q, k, v);
            assert_close(&plain, &want, 5e-6, &format!("plain causal {shape:?}"));
        }
    });
}

#[test]
fn attention_of_views() {
    let [b, h, n, m, d] = [2, 3, 21, 34, 40];
    // Heads split from rows, keys and values from one projection, a slice of the rows.
    let q = random([b, n, h * d], 1, DType::F32)
        .reshape([b, n, h, d])
        .swap_dims(1, 2);
    let both = random([b, m, 2 * h * d], 2, DType::F32);
    let k = both
        .clone()
        .narrow(2, 0, h * d)
        .reshape([b, m, h, d])
        .swap_dims(1, 2);
    let v = both
        .narrow(2, h * d, h * d)
        .reshape([b, m, h, d])
        .swap_dims(1, 2);
    let channels_first = random([b, h, d, m], 3, DType::F32).swap_dims(2, 3);
    for (i, k) in [k, channels_first].into_iter().enumerate() {
        let (want, want_probs) =
            reference::attention(&values(&q), &values(&k), &values(&v), [n, m, d], false);
        let got = attention(q.clone(), k.clone(), v.clone());
        assert_close(&got, &want, 5e-6, &format!("view {i}"));
        // Merging the heads must see the same elements.
        let merged = got.swap_dims(1, 2).reshape([b, n, h * d]);
        let split = merged.reshape([b, n, h, d]).swap_dims(1, 2);
        assert_close(&split, &want, 5e-6, &format!("view {i}, merged"));
        let (_, probs) = attention_with_probs(q.clone(), k, v.clone());
        assert_close(
            &probs,
            &want_probs,
            5e-6,
            &format!("view {i}, probabilities"),
        );
    }
}

#[test]
fn attention_survives_large_scores() {
    // Scores up to ±1600: every exponential but the largest is zero.
    let q = random([1, 1, 70, 64], 1, DType::F32) * 200.0;
    let k = random([1, 1, 1000, 64], 2, DType::F32);
    let v = random([1, 1, 1000, 64], 3, DType::F32);
    let (want, _) =
        reference::attention(&values(&q), &values(&k), &values(&v), [70, 1000, 64], false);
    // The scores themselves carry errors of 1e-4.
    assert_close(
        &attention(q.clone(), k.clone(), v.clone()),
        &want,
        1e-3,
        "large scores",
    );
    let poisoned = q.slice_fill([0..1, 0..1, 3..4, 0..1], f32::NAN);
    let got = values(&attention(poisoned, k, v));
    assert!(
        got[3 * 64..4 * 64].iter().all(|x| x.is_nan()),
        "NaN must not be hidden"
    );
    assert!(
        got[4 * 64..].iter().all(|x| x.is_finite()),
        "NaN must not spread to other queries"
    );
}

#[test]
fn group_norm_matches() {
    forced::each(|level| {
        for (index, ([b, c, h, w], groups)) in [
            ([1, 32, 5, 7], 32),
            ([2, 24, 8, 8], 4),
            ([3, 6, 1, 1], 2),
            ([2, 64, 33, 40], 32),
            ([1, 12, 80, 83], 1),
        ]
        .into_iter()
        .enumerate()
        {
            for dtype in TYPES {
                for silu in [false, true] {
                    let seed = index as u64 * 10;
                    // A mean far from zero, which naive sums of squares would not survive.
                    let x = random([b, c, h, w], seed + 1, dtype) + 30.0;
                    let weight = random([c], seed + 2, dtype);
                    let bias = random([c], seed + 3, dtype);
                    let sizes = (c, h * w, groups);
                    let affine = [values(&weight), values(&bias)];
                    let want = reference::group_norm(
                        &values(&x),
                        sizes,
                        &affine[0],
                        &affine[1],
                        1e-5,
                        silu,
                    );
                    let what = format!("{level:?} group norm {sizes:?} {dtype:?}, silu {silu}");
                    let norm = GroupNorm {
                        groups,
                        weight,
                        bias,
                        eps: 1e-5,
                        silu,
                    };
                    let got = group_norm(x.clone(), &norm);
                    assert_eq!((got.dtype(), got.dims()), (dtype, [b, c, h, w]), "{what}");
                    // 30 in f32 has an error of 1e-6, which the normalisation magnifies.
                    let allowed = tolerance(dtype).max(2e-5);
                    assert_close(&got, &want, allowed, &what);
                    let plain = plain::group_norm(x, &norm);
                    assert_close(&plain, &want, allowed, &format!("plain {what}"));
                }
            }
        }
    });
}

#[test]
fn layer_norm_matches() {
    forced::each(|level| {
        for [b, n, c] in [[1, 1, 5], [2, 77, 40], [2, 300, 320], [1, 3, 1031]] {
            for dtype in TYPES {
                let x = random([b, n, c], 1, dtype) + 3.0;
                let (weight, bias) = (random([c], 2, dtype), random([c], 3, dtype));
                let want =
                    reference::layer_norm(&values(&x), &values(&weight), &values(&bias), 1e-5);
                let what = format!("{level:?} layer norm {:?} {dtype:?}", [b, n, c]);
                let got = layer_norm(x.clone(), weight.clone(), bias.clone(), 1e-5);
                assert_eq!(got.dtype(), dtype, "{what}");
                assert_close(&got, &want, tolerance(dtype), &what);
                let plain = plain::layer_norm(x, weight, bias, 1e-5);
                assert_close(&plain, &want, tolerance(dtype), &format!("plain {what}"));
            }
        }
    });
    let x = random([2, 40, 9], 4, DType::F32).swap_dims(1, 2);
    let (weight, bias) = (random([40], 5, DType::F32), random([40], 6, DType::F32));
    let want = reference::layer_norm(&values(&x), &values(&weight), &values(&bias), 1e-5);
    assert_close(
        &layer_norm(x, weight, bias, 1e-5),
        &want,
        5e-6,
        "transposed",
    );
}

#[test]
fn activations_match() {
    let shapes = [[1, 1, 2], [2, 77, 34], [1, 130, 640]];
    forced::each(|level| {
        for shape in shapes {
            for dtype in TYPES {
                let x = random(shape, 1, dtype) * 5.0;
                let from = values(&x);
                let what = format!("{level:?} {shape:?} {dtype:?}");
                let each = |f: fn(f64) -> f64| from.iter().map(|&x| f(x)).collect::<Vec<_>>();
                let check = |got: Tensor<3>, plain: Tensor<3>, want: Vec<f64>, name: &str| {
                    assert_eq!(got.dtype(), dtype, "{name} {what}");
                    assert_close(&got, &want, tolerance(dtype), &format!("{name} {what}"));
                    let allowed = plain_tolerance(dtype);
                    assert_close(&plain, &want, allowed, &format!("plain {name} {what}"));
                };
                let x = || x.clone();
                check(silu(x()), plain::silu(x()), each(reference::silu), "silu");
                check(gelu(x()), plain::gelu(x()), each(reference::gelu), "gelu");
                let quick = each(reference::quick_gelu);
                check(quick_gelu(x()), plain::quick_gelu(x()), quick, "quick gelu");
                let gated = reference::geglu(&from, shape[2] / 2);
                check(geglu(x()), plain::geglu(x()), gated, "geglu");
            }
        }
    });
    let view = random([34, 3, 2], 2, DType::F32).permute([2, 1, 0]);
    let want = reference::geglu(&values(&view), 17);
    assert_close(&geglu(view), &want, 5e-6, "permuted");
}

#[test]
fn upsampling_repeats_pixels() {
    for dtype in TYPES {
        for shape in [[1, 1, 1, 1], [2, 3, 5, 7], [1, 40, 32, 32]] {
            let x = random(shape, 1, dtype);
            let [b, c, h, w] = shape;
            let from = values(&x);
            let mut want = Vec::new();
            for plane in from.chunks(h * w) {
                for y in 0..2 * h {
                    want.extend((0..2 * w).map(|x| plane[y / 2 * w + x / 2]));
                }
            }
            for got in [upsample_nearest2x(x.clone()), plain::upsample_nearest2x(x)] {
                assert_eq!((got.dims(), got.dtype()), ([b, c, 2 * h, 2 * w], dtype));
                assert_eq!(values(&got), want);
            }
        }
    }
    let x = random([5, 3, 4, 6], 2, DType::F32).permute([1, 0, 3, 2]);
    let contiguous = Tensor::<4>::from_data(x.clone().into_data(), &Device::flex());
    assert_eq!(
        values(&upsample_nearest2x(x)),
        values(&upsample_nearest2x(contiguous))
    );
}
