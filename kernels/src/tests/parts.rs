//! Products of f32 that the processor may compute in parts of bf16: as accurate as others, for small numbers and large ones, and the
//! same in every batch.

use super::{random, reference, values};
use crate::cpu::simd::forced;
use crate::{attention, conv2d, conv2d_input_grad, linear, linear_input_grad, linear_weight_grad};
use burn::tensor::{DType, Tensor};

/// Root of the mean square of the errors, as a share of that of `want`.
fn error(got: &[f64], want: &[f64]) -> f64 {
    let mean = |squares: f64| (squares / want.len() as f64).sqrt();
    let errors = got.iter().zip(want).map(|(got, want)| (got - want).powi(2));
    mean(errors.sum()) / mean(want.iter().map(|x| x * x).sum())
}

/// Numbers with all their digits.
fn scaled<const D: usize>(shape: [usize; D], seed: u64, size: f32) -> Tensor<D> {
    random(shape, seed, DType::F32).mul_scalar(0.731_058_6 * size)
}

#[test]
fn sums_are_those_of_f32() {
    for (inputs, outputs, [of_x, of_weight]) in [
        (33, 17, [1.0, 1.0]),
        (320, 49, [1e-12, 1e-9]),
        (1281, 40, [3e18, 1e18]),
        (5120, 33, [1.0, 0.02]),
    ] {
        let (x, weight) = (
            scaled([1, 70, inputs], 1, of_x),
            scaled([outputs, inputs], 2, of_weight),
        );
        let want = reference::linear(&values(&x), &values(&weight), None, inputs);
        forced::each(|level| {
            let got = linear(x.clone(), weight.clone(), None);
            let error = error(&values(&got), &want);
            assert!(error < 5e-7, "{level:?}, {inputs} summed: {error:e}");
        });
    }
}

/// Left operands whose summed elements lie apart.
#[test]
fn sums_across_are_those_of_f32() {
    for (tokens, outputs, inputs) in [(70, 64, 77), (300, 129, 65), (33, 200, 640)] {
        let grad = scaled([2, tokens, outputs], 1, 1.0);
        let x = scaled([2, tokens, inputs], 2, 1e-6);
        let weight = scaled([outputs, inputs], 3, 1.0);
        let check = |got: &[f64], want: &[f64], what: &str| {
            let error = error(got, want);
            assert!(
                error < 5e-7,
                "{what}, {tokens} × {outputs} × {inputs}: {error:e}"
            );
        };
        let by_output = values(&grad.clone().reshape([2 * tokens, outputs]).transpose());
        let by_input = values(&x.clone().reshape([2 * tokens, inputs]).transpose());
        let of_weight = reference::linear(&by_output, &by_input, None, 2 * tokens);
        let across = values(&weight.clone().transpose());
        let of_x = reference::linear(&values(&grad), &across, None, outputs);
        let channels_first = grad.clone().swap_dims(1, 2) + 0.0;
        let pictures = channels_first.clone().unsqueeze_dim::<4>(3);
        let kernel = weight.clone().reshape([outputs, inputs, 1, 1]);
        forced::each(|level| {
            let got = linear_weight_grad(grad.clone(), x.clone());
            check(&values(&got), &of_weight, &format!("{level:?}, weight"));
            let grad = channels_first.clone().swap_dims(1, 2);
            let got = linear_input_grad(grad, weight.clone());
            check(&values(&got), &of_x, &format!("{level:?}, input"));
            let shape = [2, inputs, tokens, 1];
            let got = conv2d_input_grad(pictures.clone(), kernel.clone(), shape, 1, 0);
            let got = got.squeeze_dim::<3>(3).swap_dims(1, 2);
            check(&values(&got), &of_x, &format!("{level:?}, 1 × 1"));
        });
    }
}

/// All nine taps of a small convolution, in reverse.
#[test]
fn turned_taps_are_those_of_f32() {
    let [outputs, channels] = [67, 70];
    let weight = scaled([outputs, channels, 3, 3], 1, 1.0);
    let turned = weight.clone().swap_dims(0, 1).flip([2, 3]);
    for size in [[8, 9], [11, 6]] {
        let grad = scaled([2, outputs, size[0], size[1]], 2, 1.0);
        let conv = reference::Conv {
            x: [2, outputs, size[0], size[1]],
            out: channels,
            kernel: [3, 3],
            stride: 1,
            padding: [1, 1],
        };
        let want = conv.run(&values(&grad), &values(&turned), None);
        forced::each(|level| {
            let shape = [2, channels, size[0], size[1]];
            let got = conv2d_input_grad(grad.clone(), weight.clone(), shape, 1, 1);
            let error = error(&values(&got), &want);
            assert!(error < 5e-7, "{level:?}, {size:?}: {error:e}");
        });
    }
}

/// One number that is not finite spoils its row and nothing else.
#[test]
fn what_is_not_finite_stays_in_its_row() {
    forced::each(|level| {
        for special in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let x = scaled([1, 64, 41], 1, 1.0).slice_fill([0..1, 9..10, 40..41], special);
            let got = values(&linear(x, random([5, 41], 1, DType::F32), None));
            for (i, y) in got.into_iter().enumerate() {
                let what = format!("{level:?} {special}: element {i} is {y}");
                assert_eq!(y.is_finite(), i / 5 != 9, "{what}");
            }
        }
    });
}

#[test]
fn a_sample_is_the_same_in_every_batch() {
    let of = |tensor: Tensor<3>, i: usize| values(&tensor.narrow(0, i, 1));
    forced::each(|level| {
        for tokens in [16, 64, 300] {
            let x = scaled([3, tokens, 96], 1, 1.0);
            let weight = scaled([40, 96], 2, 1.0);
            // As they lie, and channels first.
            let channels_first = scaled([3, 96, tokens], 1, 1.0).swap_dims(1, 2);
            for x in [x, channels_first] {
                let all = linear(x.clone(), weight.clone(), None);
                for i in 0..3 {
                    let alone = linear(x.clone().narrow(0, i, 1), weight.clone(), None);
                    let what = format!("{level:?}, linear, {tokens} tokens");
                    assert!(of(all.clone(), i) == values(&alone), "{what}");
                }
            }
            let rows = [(tokens, 3), (77, 4), (77, 5)];
            let [q, k, v] = rows.map(|(rows, seed)| scaled([3, 2, rows, 64], seed, 1.0));
            let all = attention(q.clone(), k.clone(), v.clone());
            for i in 0..3 {
                let [q, k, v] = [&q, &k, &v].map(|x| x.clone().narrow(0, i, 1));
                let together = values(&all.clone().narrow(0, i, 1));
                let what = format!("{level:?}, attention, {tokens} tokens");
                assert!(together == values(&attention(q, k, v)), "{what}");
            }
        }
        for side in [4, 8, 17] {
            let (x, weight) = (
                scaled([2, 40, side, side], 6, 1.0),
                scaled([33, 40, 1, 1], 7, 1.0),
            );
            let all = conv2d(x.clone(), weight.clone(), None, 1, 0);
            for i in 0..2 {
                let alone = conv2d(x.clone().narrow(0, i, 1), weight.clone(), None, 1, 0);
                let together = values(&all.clone().narrow(0, i, 1));
                assert!(together == values(&alone), "{level:?}, convolution, {side}");
            }
        }
    });
}

#[test]
fn wide_heads_are_those_of_f32() {
    for (width, queries, keys) in [
        (64, 70, 77),
        (80, 300, 515),
        (160, 33, 1000),
        (512, 65, 300),
    ] {
        let shape = [(queries, 1), (keys, 2), (keys, 3)];
        let [q, k, v] = shape.map(|(rows, seed)| random([1, 2, rows, width], seed, DType::F32));
        let sizes = [queries, keys, width];
        let (want, _) = reference::attention(&values(&q), &values(&k), &values(&v), sizes, false);
        forced::each(|level| {
            let got = values(&attention(q.clone(), k.clone(), v.clone()));
            let error = error(&got, &want);
            assert!(error < 1e-6, "{level:?}, {width} wide: {error:e}");
        });
    }
}
