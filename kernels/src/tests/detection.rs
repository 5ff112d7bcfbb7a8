//! The operations of detectors: fast paths and plain references against f64 loops.

use super::{assert_close, noise, random, reference, tolerance, values};
use crate::cpu::simd::forced;
use crate::*;
use burn::tensor::{DType, Device, Tensor, TensorData};

/// Random boxes in a square of 100 pixels, as `[B, N, 4]`; every seventh has no area and every fifth
/// is the one before once more.
pub(super) fn boxes(batch: usize, n: usize, seed: u64) -> Tensor<3> {
    let values = noise(batch * n * 4, seed);
    let mut all: Vec<[f32; 4]> = Vec::new();
    for (i, v) in values.chunks(4).enumerate() {
        let [x, y] = [50.0 + 40.0 * v[0], 50.0 + 40.0 * v[1]];
        let [w, h] = [20.0 + 15.0 * v[2], 20.0 + 15.0 * v[3]];
        let last = all.last().copied();
        all.push(match last {
            _ if i % 7 == 6 => [x, y, x, y + h],
            Some(last) if i % 5 == 4 => last,
            _ => [x, y, x + w, y + h],
        });
    }
    let data = TensorData::new(all.concat(), [batch, n, 4]);
    Tensor::from_data(data, &Device::flex())
}

#[test]
fn nms_matches() {
    for (batch, n, threshold) in [(1, 1, 0.5), (3, 64, 0.3), (2, 257, 0.5), (1, 500, 0.7)] {
        let boxes = boxes(batch, n, n as u64);
        let all = values(&boxes);
        let mut want = Vec::new();
        for boxes in all.chunks(4 * n) {
            let (keep, room) = reference::suppressed(boxes, threshold);
            assert!(
                room > 1e-6,
                "{n} boxes: an overlap too near to the threshold to tell"
            );
            want.extend(keep);
        }
        let got = nms(boxes.clone(), threshold).into_data();
        assert_eq!(got.iter::<bool>().collect::<Vec<_>>(), want, "{n} boxes");
        let plain = plain::nms(boxes, threshold).into_data();
        assert_eq!(
            plain.iter::<bool>().collect::<Vec<_>>(),
            want,
            "plain, {n} boxes"
        );
        assert!(n == 1 || want.contains(&false));
    }
}

#[test]
fn nms_at_the_threshold_and_of_nothing() {
    // Overlaps of exactly one half stay, also where the threshold is no f32.
    let half = [
        [0.0, 0.0, 2.0, 1.0],
        [0.0, 0.0, 1.0, 1.0],
        [0.0, 0.0, 1.0, 1.0],
    ];
    assert_eq!(suppress(&half, 0.5), [true, true, false]);
    assert_eq!(suppress(&half, 0.5 - 1e-12), [true, false, false]);
    assert_eq!(suppress(&half, 0.5 + 1e-12), [true, true, false]);
    // What is removed does not remove.
    let chain = [
        [0.0, 0.0, 10.0, 1.0],
        [3.0, 0.0, 13.0, 1.0],
        [6.0, 0.0, 16.0, 1.0],
    ];
    assert_eq!(suppress(&chain, 0.5), [true, false, true]);
    let empty = Tensor::<3>::zeros([2, 0, 4], &Device::flex());
    assert_eq!(nms(empty, 0.5).dims(), [2, 0]);
    let points = Tensor::<3>::zeros([1, 3, 4], &Device::flex());
    let keep = nms(points.clone(), 0.5).into_data();
    assert_eq!(keep.iter::<bool>().collect::<Vec<_>>(), [true; 3]);
    let keep = plain::nms(points, 0.5).into_data();
    assert_eq!(keep.iter::<bool>().collect::<Vec<_>>(), [true; 3]);
}

#[test]
fn top_k_is_a_stable_sort_cut_off() {
    for (rows, columns, k) in [
        (1, 1, 1),
        (2, 1000, 7),
        (3, 50, 50),
        (2, 9, 100),
        (1, 70_000, 1000),
    ] {
        // Few different values, so that many are equal.
        let x = (random([rows, columns], k as u64, DType::F32) * 20.0).round();
        let (best, places) = top_k(x.clone(), k, f32::NEG_INFINITY);
        let (best, places) = (values(&best), places.into_data());
        let places: Vec<i64> = places.iter().collect();
        let want = values(&x);
        let want = want.chunks(columns).flat_map(|row| {
            let mut all: Vec<(f64, i64)> = row.iter().copied().zip(0..).collect();
            all.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            all.truncate(k);
            all
        });
        let got: Vec<(f64, i64)> = best.into_iter().zip(places).collect();
        // Zeros of both signs are equal, and the sort above takes them apart.
        let want: Vec<_> = want.map(|(x, i)| (x + 0.0, i)).collect();
        if !want.iter().any(|(x, _)| *x == 0.0) {
            assert_eq!(got, want, "{k} of {columns}");
        }
        let scores = |pairs: &[(f64, i64)]| pairs.iter().map(|(x, _)| *x).collect::<Vec<_>>();
        assert_eq!(scores(&got), scores(&want), "{k} of {columns}");
    }
    let zeros = Tensor::<2>::from_data([[0.0, -0.0, 1.0, 0.0]], &Device::flex());
    let (_, places) = top_k(zeros, 4, f32::NEG_INFINITY);
    assert_eq!(
        places.into_data().iter::<i64>().collect::<Vec<_>>(),
        [2, 0, 1, 3]
    );
}

#[test]
fn top_k_leaves_out_columns_below_the_floor() {
    let x = Tensor::<2>::from_data([[-1.0, 3.0, 2.0], [-1.0, -1.0, 5.0]], &Device::flex());
    let (best, places) = top_k(x.clone(), 3, -1.0);
    assert_eq!(values(&best), [3.0, 2.0, 5.0, -1.0]);
    assert_eq!(
        places.into_data().iter::<i64>().collect::<Vec<_>>(),
        [1, 2, 2, 0]
    );
    // At least one column stays, whatever is in it.
    assert_eq!(top_k(x, 2, 9.0).0.dims(), [2, 1]);
}

/// The levels as the reference takes them: shape and elements.
pub(super) fn measured(levels: &[Tensor<4>]) -> Vec<([usize; 4], Vec<f64>)> {
    levels
        .iter()
        .map(|level| (level.dims(), values(level)))
        .collect()
}

/// `n` regions in pictures of 96 × 130 pixels and beyond their borders, among them tiny and huge ones.
pub(super) fn regions(n: usize, pictures: usize, seed: u64) -> Tensor<2> {
    let values = noise(5 * n, seed);
    let regions = values.chunks(5).enumerate().flat_map(|(i, v)| {
        let [x, y] = [65.0 + 70.0 * v[0], 48.0 + 55.0 * v[1]];
        let side = [0.3, 10.0, 40.0, 90.0, 300.0][i % 5];
        let [w, h] = [side * (1.1 + v[2]), side * (1.1 + v[3])];
        [(i % pictures) as f32, x, y, x + w, y + h]
    });
    let data = TensorData::new(regions.collect::<Vec<_>>(), [n, 5]);
    Tensor::from_data(data, &Device::flex())
}

#[test]
fn roi_align_matches() {
    // Levels, channels, size, samples, the finest level's stride as a power of two.
    let cases = [
        (1, 3, 7, 2, 2),
        (3, 5, 7, 2, 2),
        (2, 17, 4, 3, 3),
        (4, 2, 1, 1, 2),
        (4, 1, 14, 2, 1),
    ];
    forced::each(|level| {
        for (i, (count, channels, size, sampling, finest)) in cases.into_iter().enumerate() {
            for dtype in [DType::F32, DType::F16] {
                let levels: Vec<_> = (0..count)
                    .map(|l| {
                        let size = |n: usize| n.div_ceil(1 << (finest + l));
                        random([2, channels, size(96), size(130)], l as u64 + 3, dtype)
                    })
                    .collect();
                let options = RoiAlign {
                    size,
                    sampling,
                    finest: finest as u32,
                    canonical_scale: 56.0,
                    canonical_level: 4.0,
                };
                let rois = regions(23, 2, i as u64);
                let want = reference::pooled(&measured(&levels), &values(&rois), &options);
                let what = format!("{level:?} roi_align {:?} {dtype:?}", cases[i]);
                let got = roi_align(&levels, rois.clone(), &options);
                assert_eq!(
                    (got.dims(), got.dtype()),
                    ([23, channels, size, size], dtype)
                );
                assert_close(&got, &want, 4.0 * tolerance(dtype), &what);
                let plain = plain::roi_align(&levels, rois, &options);
                assert_eq!(plain.dtype(), dtype);
                assert_close(
                    &plain,
                    &want,
                    4.0 * tolerance(dtype),
                    &format!("plain {what}"),
                );
            }
        }
    });
}

#[test]
fn roi_align_of_views_and_of_nothing() {
    let options = RoiAlign {
        size: 3,
        sampling: 2,
        finest: 2,
        canonical_scale: 224.0,
        canonical_level: 4.0,
    };
    let level = random([24, 2, 33, 4], 1, DType::F32).permute([1, 3, 0, 2]);
    let rois = regions(9, 2, 5);
    let want = reference::pooled(
        &measured(std::slice::from_ref(&level)),
        &values(&rois),
        &options,
    );
    let got = roi_align(std::slice::from_ref(&level), rois.clone(), &options);
    assert_close(&got, &want, 2e-5, "a permuted level");
    let none = roi_align(&[level], Tensor::zeros([0, 5], &Device::flex()), &options);
    assert_eq!(none.dims(), [0, 4, 3, 3]);
}

#[test]
fn conv2d_relu_is_conv2d_without_what_is_below_zero() {
    // Channels, height, width, out, kernel, stride, padding; sums of more than one block, planes that
    // groups of columns do not divide.
    let cases = [
        [70, 7, 7, 33, 3, 1, 1],
        [3, 18, 21, 9, 7, 2, 3],
        [600, 4, 5, 16, 1, 1, 0],
        [8, 32, 32, 40, 3, 2, 1],
    ];
    forced::each(|level| {
        for [channels, height, width, out, kernel, stride, padding] in cases {
            let x = random([3, channels, height, width], 1, DType::F32);
            let weight = random([out, channels, kernel, kernel], 2, DType::F32);
            let bias = Some(random([out], 3, DType::F32));
            let want = conv2d(x.clone(), weight.clone(), bias.clone(), stride, padding);
            let want: Vec<f64> = values(&want).iter().map(|x| x.max(0.0)).collect();
            let got = conv2d_relu(
                x.clone(),
                weight.clone(),
                bias.clone(),
                stride,
                [padding; 2],
            );
            assert_eq!(values(&got), want, "{level:?} {channels} channels");
            let plain = plain::conv2d_relu(x, weight, bias, stride, [padding; 2]);
            assert_close(&plain, &want, 5e-6, "plain");
        }
    });
}

/// Windows that are not square, as Inception-v3 has them.
#[test]
fn conv2d_relu_along_one_axis() {
    // Height and width of the window, and of the pictures.
    let cases = [
        [1, 7, 17, 17],
        [7, 1, 17, 17],
        [1, 3, 8, 8],
        [3, 1, 5, 33],
        [3, 7, 2, 4],
    ];
    let [batch, channels, out] = [2, 37, 18];
    forced::each(|level| {
        for [down, right, height, width] in cases {
            let x = random([batch, channels, height, width], 1, DType::F32);
            let weight = random([out, channels, down, right], 2, DType::F32);
            let bias = random([out], 3, DType::F32);
            let padding = [down / 2, right / 2];
            let problem = reference::Conv {
                x: [batch, channels, height, width],
                out,
                kernel: [down, right],
                stride: 1,
                padding,
            };
            let want = problem.run(&values(&x), &values(&weight), Some(&values(&bias)));
            let want: Vec<f64> = want.iter().map(|x| x.max(0.0)).collect();
            let got = conv2d_relu(x.clone(), weight.clone(), Some(bias.clone()), 1, padding);
            assert_close(&got, &want, 5e-6, &format!("{level:?} {down} × {right}"));
            let plain = plain::conv2d_relu(x, weight, Some(bias), 1, padding);
            assert_close(&plain, &want, 5e-6, "plain");
        }
    });
}

#[test]
fn max_pool3x3_matches() {
    let cases = [
        [1, 1, 1, 1],
        [3, 2, 5, 1],
        [40, 9, 16, 1],
        [2, 64, 33, 1],
        [1, 3, 3, 0],
        [40, 10, 15, 0],
        [2, 35, 64, 0],
    ];
    for [channels, height, width, padding] in cases {
        let x = random([2, channels, height, width], 4, DType::F32);
        let want = reference::max_pool3x3(&values(&x), [height, width], padding);
        let what = format!("{height} × {width}, padding {padding}");
        assert_eq!(values(&max_pool3x3(x.clone(), padding)), want, "{what}");
        assert_eq!(
            values(&plain::max_pool3x3(x, padding)),
            want,
            "plain, {what}"
        );
    }
    let nan = Tensor::<4>::from_data([[[[1.0, f32::NAN, 2.0, 3.0, 0.0]]]], &Device::flex());
    let got = values(&max_pool3x3(nan, 1));
    assert!(
        got[0].is_nan() && got[1].is_nan() && got[2] == 3.0,
        "{got:?}"
    );
}

#[test]
fn deformable_attention_matches_at_every_vector_width() {
    let maps = [[9, 14], [5, 7], [1, 4]];
    for (batch, heads, width, queries, points) in [
        (1, 2, 32, 11, 4),
        (2, 3, 5, 4, 2),
        (1, 1, 1, 3, 1),
        (1, 4, 19, 6, 2),
    ] {
        let levels = Levels::new(&maps);
        let samples = points * maps.len();
        let seed = (width * queries) as u64;
        for dtype in [DType::F32, DType::F16] {
            let values = random([batch, levels.tokens(), heads, width], seed, dtype);
            let weights = random([batch, queries, heads, samples], seed + 1, dtype);
            let places = random([batch, queries, heads, samples, 2], seed + 2, DType::F32);
            let mut places = places * 0.7 + 0.5;
            // Far outside, and nowhere.
            places = places.slice_fill([0..1, 0..1, 0..1, 0..1], 1e30);
            places = places.slice_fill([0..1, 1..2, 0..1, 0..1], f32::NAN);
            let host = |x: Vec<f64>| x.into_iter().map(|x| if x.is_nan() { -9.0 } else { x });
            let want = reference::deformable(
                [batch, heads, width, queries],
                &maps,
                &super::values(&values),
                &host(super::values(&places)).collect::<Vec<_>>(),
                &super::values(&weights),
            );
            let run =
                || deformable_attention(values.clone(), &levels, places.clone(), weights.clone());
            forced::each(|level| {
                let got = run();
                assert_eq!(got.dtype(), dtype);
                assert_close(
                    &got,
                    &want,
                    tolerance(dtype),
                    &format!("{width} wide, {level:?}"),
                );
            });
            let real = places.clone().mask_fill(places.clone().is_nan(), -9.0);
            let plain = plain::deformable_attention(values.clone(), &levels, real, weights.clone());
            assert_close(
                &plain,
                &want,
                tolerance(dtype),
                &format!("plain, {width} wide"),
            );
        }
    }
}
