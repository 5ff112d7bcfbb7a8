//! Products of f32 that the processor may compute in parts of bf16: as accurate as others, for small numbers and large ones, and the
//! same in every batch.

use super::{random, reference, values};
use crate::cpu::simd::forced;
use crate::{attention, conv2d, linear};
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
