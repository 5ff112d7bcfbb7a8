//! bf16: sums over several blocks, rows that are no whole words, views, operands of different types, special values. What
//! [`super::fast`] tries in every type is not repeated here.

use super::{assert_close, random, reference, tolerance, values};
use crate::cpu::simd::{Element, Vector, forced, multiversion};
use crate::*;
use burn::tensor::{DType, Tensor};
use half::bf16;

const BF16: DType = DType::BF16;

#[test]
fn long_sums_are_rounded_once() {
    // Batch, tokens, inputs, outputs: more than a block, an odd number of inputs, and tokens that come across.
    let cases = [
        [1, 70, 2600, 100],
        [2, 35, 1301, 50],
        [1, 20, 4000, 37],
        [1, 3, 2999, 64],
    ];
    forced::each(|level| {
        for case @ [b, n, inputs, outputs] in cases {
            let (x, weight) = (
                random([b, n, inputs], 1, BF16),
                random([outputs, inputs], 2, BF16),
            );
            let bias = random([outputs], 3, BF16);
            let want =
                reference::linear(&values(&x), &values(&weight), Some(&values(&bias)), inputs);
            let what = format!("{level:?} {case:?}");
            let got = linear(x.clone(), weight.clone(), Some(bias.clone()));
            assert_eq!(got.dtype(), BF16, "{what}");
            assert_close(&got, &want, tolerance(BF16), &what);
            let across = x.swap_dims(1, 2).clone() * 1.0;
            let got = linear(across.swap_dims(1, 2), weight, Some(bias));
            assert_close(
                &got,
                &want,
                tolerance(BF16),
                &format!("{what}, channels first"),
            );
        }
    });
}

#[test]
fn long_sums_of_convolutions() {
    // Batch, channels, height, width, out, stride.
    let cases = [
        [1, 290, 9, 20, 19, 1],
        [2, 161, 8, 8, 20, 1],
        [1, 200, 17, 33, 9, 2],
    ];
    forced::each(|level| {
        for case @ [b, c, h, w, out, stride] in cases {
            let (x, weight) = (
                random([b, c, h, w], 1, BF16),
                random([out, c, 3, 3], 2, BF16),
            );
            let bias = random([out], 3, BF16);
            let problem = reference::Conv {
                x: [b, c, h, w],
                out,
                kernel: [3; 2],
                stride,
                padding: [1; 2],
            };
            let want = problem.run(&values(&x), &values(&weight), Some(&values(&bias)));
            let want: Vec<f64> = want.into_iter().map(|x| x.max(0.0)).collect();
            let got = conv2d_relu(
                x.clone(),
                weight.clone(),
                Some(bias.clone()),
                stride,
                [1; 2],
            );
            assert_close(&got, &want, tolerance(BF16), &format!("{level:?} {case:?}"));
        }
    });
}

/// Gradients over more outputs than a block has, against those of the same numbers in f32.
#[test]
fn long_sums_of_gradients() {
    let (x, weight) = (
        random([1, 24, 16, 12], 1, BF16),
        random([301, 24, 3, 3], 2, BF16),
    );
    let (tokens, matrix) = (random([2, 77, 1501], 3, BF16), random([1501, 40], 4, BF16));
    let wide = |x: &Tensor<4>| x.clone().cast(DType::F32);
    forced::each(|level| {
        for (stride, size) in [(1, [16, 12]), (2, [8, 6])] {
            let grad = random([1, 301, size[0], size[1]], 5, BF16);
            let got = conv2d_input_grad(grad.clone(), weight.clone(), x.dims(), stride, 1);
            let want = conv2d_input_grad(wide(&grad), wide(&weight), x.dims(), stride, 1);
            let what = format!("{level:?}, stride {stride}");
            assert_eq!(got.dtype(), BF16, "{what}");
            assert_close(&got, &values(&want), tolerance(BF16), &what);
        }
        let across = (tokens.clone().swap_dims(1, 2) * 1.0).swap_dims(1, 2);
        let want = linear_input_grad(
            tokens.clone().cast(DType::F32),
            matrix.clone().cast(DType::F32),
        );
        for grad in [tokens.clone(), across] {
            let got = linear_input_grad(grad, matrix.clone());
            assert_close(
                &got,
                &values(&want),
                tolerance(BF16),
                &format!("{level:?} linear"),
            );
        }
    });
}

/// Weights and pictures that begin in the middle of a word, or whose rows do.
#[test]
fn views_that_are_no_words() {
    let all = random([1, 4, 7, 10], 1, BF16);
    let some = all.clone().narrow(1, 1, 3);
    let weight = random([11, 3, 3, 3], 2, BF16);
    let problem = reference::Conv {
        x: [1, 3, 7, 10],
        out: 11,
        kernel: [3; 2],
        stride: 1,
        padding: [1; 2],
    };
    let want = problem.run(&values(&some), &values(&weight), None);
    let q = random([1, 2, 9, 33], 3, BF16).narrow(3, 1, 32);
    let [k, v] = [4, 5].map(|seed| random([1, 33, 2, 32], seed, BF16).swap_dims(1, 2));
    let (of_attention, _) =
        reference::attention(&values(&q), &values(&k), &values(&v), [9, 33, 32], false);
    forced::each(|level| {
        let got = conv2d(some.clone(), weight.clone(), None, 1, 1);
        assert_close(&got, &want, tolerance(BF16), &format!("{level:?}"));
        let got = attention(q.clone(), k.clone(), v.clone());
        assert_close(
            &got,
            &of_attention,
            tolerance(BF16),
            &format!("{level:?} attention"),
        );
    });
}

#[test]
fn operands_of_different_types_are_computed_in_f32() {
    let (x, weight) = (random([1, 9, 40], 1, BF16), random([24, 40], 2, DType::F32));
    let want = reference::linear(&values(&x), &values(&weight), None, 40);
    let got = linear(x, weight, None);
    assert_eq!(got.dtype(), BF16);
    assert_close(&got, &want, tolerance(BF16), "bf16 · f32");
}

#[test]
fn sums_of_branches() {
    forced::each(|level| {
        for dtype in [DType::F32, DType::F16, BF16] {
            let (x, y) = (
                random([2, 5, 37], 1, dtype),
                random([2, 37, 5], 2, dtype).swap_dims(1, 2),
            );
            let want: Vec<f64> = values(&x)
                .into_iter()
                .zip(values(&y))
                .map(|(x, y)| x + y)
                .collect();
            let got = add(x, y);
            assert_eq!(got.dtype(), dtype);
            assert_close(
                &got,
                &want,
                tolerance(dtype),
                &format!("{level:?} {dtype:?}"),
            );
        }
    });
}

multiversion! {
    unsafe fn converted<E>(from: &[f32], narrow: &mut [E], back: &mut [f32]) = converted_body
}

/// Of a multiple of 16 elements, all written but the last 3.
#[inline(always)]
unsafe fn converted_body<V: Vector, E: Element>(from: &[f32], narrow: &mut [E], back: &mut [f32]) {
    let len = from.len() - 3;
    for i in (0..len).step_by(V::LANES) {
        let count = V::LANES.min(len - i);
        // SAFETY: `count` elements remain of each.
        unsafe {
            let to = narrow.as_mut_ptr().add(i);
            let x = V::load_first(from.as_ptr().add(i), count);
            if count == V::LANES {
                E::store(x, to);
                E::load::<V>(to).store(back.as_mut_ptr().add(i));
            } else {
                E::store_first(x, to, count);
                E::load_first::<V>(to, count).store_first(back.as_mut_ptr().add(i), count);
            }
        }
    }
}

#[test]
fn conversions_are_those_of_half() {
    let special = [
        0.0,
        -0.0,
        f32::NAN,
        -f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::MAX,
        -f32::MAX,
    ];
    // Every pattern of the upper half that is not below 2⁻¹²⁶, followed by what rounds up, down and to even.
    let patterns = (0x0080u32..0x7f80).flat_map(|upper| {
        [0, 1, 0x7fff, 0x8000, 0x8001, 0xffff].map(|lower| f32::from_bits(upper << 16 | lower))
    });
    let mut from: Vec<f32> = special
        .into_iter()
        .chain(patterns.flat_map(|x| [x, -x]))
        .collect();
    from.resize(from.len().next_multiple_of(16), 1.0);
    let len = from.len() - 3;
    forced::each(|level| {
        let mut narrow = vec![bf16::from_bits(0x1234); from.len()];
        let mut back = vec![7.0f32; from.len()];
        // SAFETY: all have the same length.
        unsafe { converted(&from, &mut narrow, &mut back) };
        for (i, &x) in from.iter().enumerate() {
            if i >= len {
                assert_eq!(
                    (narrow[i].to_bits(), back[i]),
                    (0x1234, 7.0),
                    "{level:?}: past the end"
                );
                continue;
            }
            let want = bf16::from_f32(x);
            if x.is_nan() {
                assert!(narrow[i].is_nan() && back[i].is_nan(), "{level:?}: {x}");
            } else {
                assert_eq!(narrow[i], want, "{level:?}: {x:e}");
                assert_eq!(back[i], want.to_f32(), "{level:?}: {x:e}");
            }
        }
    });
}

/// One number that is not finite spoils what it meets and nothing else.
#[test]
fn what_is_not_finite_stays_where_it_is() {
    forced::each(|level| {
        for special in [f32::NAN, f32::INFINITY] {
            let mut data = vec![1.0f32; 3 * 41];
            data[41 + 40] = special;
            let x = Tensor::<1>::from_data(data.as_slice(), &burn::tensor::Device::flex());
            let x = x.reshape([1, 3, 41]).cast(BF16);
            let got = values(&linear(x, random([5, 41], 1, BF16), None));
            for (i, y) in got.into_iter().enumerate() {
                assert_eq!(
                    y.is_finite(),
                    i / 5 != 1,
                    "{level:?} {special}: element {i} is {y}"
                );
            }
        }
    });
}

/// One key that is no number makes all results so, wherever it is in blocks of 256 and of 768 keys, at every width of vectors.
#[test]
fn attention_does_not_hide_a_key_that_is_no_number() {
    forced::each(|level| {
        for dtype in [DType::F32, BF16] {
            // One key, and a whole block of those that are read together.
            for keys in [0..1, 255..256, 767..768, 1999..2000, 0..768] {
                let [q, k, v] = [(4, 1), (2000, 2), (2000, 3)]
                    .map(|(rows, seed)| random([1, 1, rows, 40], seed, dtype));
                let k = k.slice_fill([0..1, 0..1, keys.clone(), 0..1], f32::NAN);
                let got = values(&attention(q, k, v));
                let what = format!("{level:?} {dtype:?}, keys {keys:?}");
                assert!(got.iter().all(|x| x.is_nan()), "{what}");
            }
        }
    });
}
