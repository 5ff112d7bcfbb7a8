use super::*;
use crate::tests::detection::{boxes, measured, regions};
use crate::{Levels, RoiAlign, cube};

#[test]
#[ignore = "needs PREPOSE_TEST_DEVICE: wgpu, vulkan, metal or cuda"]
fn nms_matches() {
    let device = device();
    for (batch, n, threshold) in [(1, 1, 0.5), (3, 64, 0.3), (2, 257, 0.5), (1, 500, 0.7)] {
        let here = boxes(batch, n, n as u64);
        let got = cube::nms(&upload(&here, &device), threshold).expect("there");
        assert_eq!(got.dims(), [batch, n]);
        let got: Vec<bool> = got.into_data().iter::<bool>().collect();
        let mut want = Vec::new();
        for boxes in values(&here).chunks(4 * n) {
            let (keep, room) = reference::suppressed(boxes, threshold);
            assert!(room > 1e-6, "an overlap too near to the threshold to tell");
            want.extend(keep);
        }
        assert_eq!(got, want, "{batch} × {n} boxes, threshold {threshold}");
    }
}

#[test]
#[ignore = "needs PREPOSE_TEST_DEVICE: wgpu, vulkan, metal or cuda"]
fn roi_align_matches() {
    let device = device();
    for dtype in types(&device) {
        for (case, (count, channels, size, sampling, finest)) in [
            (1usize, 3, 7, 2, 2usize),
            (3, 5, 7, 2, 2),
            (4, 2, 1, 1, 2),
            (2, 17, 4, 3, 3),
        ]
        .into_iter()
        .enumerate()
        {
            let last = case % 2 == 1;
            let here: Vec<Tensor<4>> = (0..count)
                .map(|l| {
                    let size = |n: usize| n.div_ceil(1 << (finest + l));
                    random([2, channels, size(96), size(130)], l as u64 + 3, dtype)
                })
                .collect();
            let there: Vec<Tensor<4>> = here
                .iter()
                .map(|level| {
                    if last {
                        let level = level.clone().permute([0, 2, 3, 1]);
                        upload(&level, &device).permute([0, 3, 1, 2])
                    } else {
                        upload(level, &device)
                    }
                })
                .collect();
            let options = RoiAlign {
                size,
                sampling,
                finest: finest as u32,
                canonical_scale: 56.0,
                canonical_level: 4.0,
            };
            let rois = regions(23, 2, case as u64);
            let want = reference::pooled(&measured(&here), &values(&rois), &options);
            poison(&device, want.len() * dtype.size());
            let got = cube::roi_align(&there, &upload(&rois, &device), &options).expect("there");
            let what = format!("pooled regions, case {case}, {dtype:?}");
            assert_close_there(&got, &want, 4.0 * tolerance(dtype), &what);
        }
    }
}

#[test]
#[ignore = "needs PREPOSE_TEST_DEVICE: wgpu, vulkan, metal or cuda"]
fn deformable_attention_matches() {
    let device = device();
    let maps = [[9, 14], [5, 7], [1, 4]];
    let levels = Levels::new(&maps);
    for dtype in types(&device) {
        for (batch, heads, width, queries, points) in [(1, 8, 32, 40, 4), (2, 3, 5, 4, 2)] {
            let samples = points * maps.len();
            let here = random([batch, levels.tokens(), heads, width], 3, dtype);
            let weights = random([batch, queries, heads, samples], 4, dtype);
            let places = random([batch, queries, heads, samples, 2], 5, DType::F32) * 0.7 + 0.5;
            let want = reference::deformable(
                [batch, heads, width, queries],
                &maps,
                &values(&here),
                &values(&places),
                &values(&weights),
            );
            let there = [upload(&here, &device), upload(&weights, &device)];
            poison(&device, want.len() * dtype.size());
            let places = upload(&places, &device);
            let got = cube::deformable_attention(&there[0], &levels, &places, &there[1]);
            let what = format!("deformable attention, {width} wide, {dtype:?}");
            assert_close_there(&got.expect("there"), &want, 4.0 * tolerance(dtype), &what);
        }
    }
}
