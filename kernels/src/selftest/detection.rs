//! The operations of detectors.

use super::{Operation, Trial, noise, reference};
use crate::*;
use burn::tensor::{Tensor, TensorData};

pub const OPERATIONS: &[Operation] = &[
    Operation {
        name: "max_pool3x3",
        run: max_pool,
    },
    Operation {
        name: "nms",
        run: suppression,
    },
    Operation {
        name: "roi_align",
        run: regions,
    },
    Operation {
        name: "deformable_attention",
        run: deformable,
    },
];

fn max_pool(trial: &mut Trial) {
    for padding in [0, 1] {
        let [b, c, h, w] = [2, 3, 9, 6];
        let (x, x64) = trial.tensor([b, c, h, w]);
        let want = reference::max_pool3x3(&x64, [h, w], padding);
        let what = format!("[2, 3, 9, 6], padding {padding}");
        trial.compare(what, max_pool3x3(x, padding), &want);
    }
}

/// `n` boxes in a square of 100 pixels, many of them overlapping; in f32 whatever the type.
fn boxes(n: usize, seed: u64) -> Vec<f32> {
    let corners = noise(4 * n, seed);
    let corners = corners.chunks(4).flat_map(|v| {
        let [x, y] = [50.0 + 40.0 * v[0], 50.0 + 40.0 * v[1]];
        [x, y, x + 20.0 + 15.0 * v[2], y + 20.0 + 15.0 * v[3]]
    });
    corners.collect()
}

fn suppression(trial: &mut Trial) {
    for (n, threshold) in [(70, 0.3), (200, 0.5)] {
        let corners = boxes(n, n as u64);
        let wide: Vec<f64> = corners.iter().copied().map(f64::from).collect();
        let (keep, _) = reference::suppressed(&wide, threshold);
        let data = TensorData::new(corners, [1, n, 4]);
        let got = nms(Tensor::from_data(data, &trial.device), threshold);
        let want: Vec<f64> = keep.iter().map(|keep| f64::from(*keep)).collect();
        trial.compare(format!("{n} boxes"), got.float(), &want);
    }
}

fn regions(trial: &mut Trial) {
    let options = RoiAlign {
        size: 7,
        sampling: 2,
        finest: 2,
        canonical_scale: 56.0,
        canonical_level: 4.0,
    };
    let shapes = [[2, 5, 24, 33], [2, 5, 12, 17]];
    let levels = shapes.map(|shape| trial.tensor(shape));
    let rois: Vec<f32> = boxes(12, 5)
        .chunks(4)
        .enumerate()
        .flat_map(|(i, corners)| [&[(i % 2) as f32], corners].concat())
        .collect();
    let wide: Vec<f64> = rois.iter().copied().map(f64::from).collect();
    let rois = Tensor::from_data(TensorData::new(rois, [12, 5]), &trial.device);
    let tensors: Vec<_> = levels.iter().map(|(level, _)| level.clone()).collect();
    let measured: Vec<_> = levels
        .into_iter()
        .map(|(level, values)| (level.dims(), values))
        .collect();
    let want = reference::pooled(&measured, &wide, &options);
    trial.compare(
        "12 regions".into(),
        roi_align(&tensors, rois, &options),
        &want,
    );
}

fn deformable(trial: &mut Trial) {
    // Batch, heads, width, queries, points; the first is Grounding DINO's.
    for case @ [b, heads, width, queries, points] in
        [[1, 8, 32, 50, 4], [2, 3, 5, 7, 1], [2, 1, 17, 9, 3]]
    {
        let maps = [[13, 17], [7, 9], [4, 5], [1, 3]];
        let levels = Levels::new(&maps[..points.min(4)]);
        let samples = points * levels.sizes().len();
        let (values, values64) = trial.tensor([b, levels.tokens(), heads, width]);
        let (weights, weights64) = trial.tensor([b, queries, heads, samples]);
        // Half types are too coarse for places, which networks keep in f32; some lie outside.
        let places = noise(b * queries * heads * samples * 2, 77);
        let places: Vec<f32> = places.iter().map(|x| 0.5 + 0.6 * x).collect();
        let places64: Vec<f64> = places.iter().copied().map(f64::from).collect();
        let shape = [b, queries, heads, samples, 2];
        let places = Tensor::<5>::from_data(TensorData::new(places, shape), &trial.device);
        let want = reference::deformable(
            [b, heads, width, queries],
            levels.sizes(),
            &values64,
            &places64,
            &weights64,
        );
        let got = deformable_attention(values, &levels, places, weights);
        trial.compare(format!("{case:?}"), got, &want);
    }
}
