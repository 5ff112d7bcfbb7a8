//! How regions are pooled, and its reference.

use burn::tensor::{DType, Int, Tensor};
use core::f64::consts::LN_2;

/// How [`crate::roi_align`] pools.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RoiAlign {
    /// Pixels along each side of a pooled region.
    pub size: usize,
    /// Samples along each side of such a pixel.
    pub sampling: usize,
    /// The stride of the finest level, as a power of two; each further level has twice the one before.
    pub finest: u32,
    /// Side of a region that is pooled from the level `canonical_level`.
    pub canonical_scale: f32,
    /// A level, as the power of two of its stride.
    pub canonical_level: f32,
}

impl RoiAlign {
    /// The level, counted from the finest, that a region of this area is pooled from: equation 1 of
    /// the paper on feature pyramids, in torchvision's order of f32 operations.
    pub(crate) fn level(&self, area: f32, levels: usize) -> usize {
        let level = self.canonical_level + (area.sqrt() / self.canonical_scale).log2() + 1e-6;
        let finest = self.finest as f32;
        let level = level.floor().clamp(finest, finest + (levels - 1) as f32);
        (level - finest) as usize
    }
}

/// Where a row of samples lies along one axis: the pixels on both sides, `[R, size]`, and their
/// weights.
struct Axis {
    pixels: [Tensor<2, Int>; 2],
    weights: [Tensor<2>; 2],
}

impl Axis {
    /// Samples number `sample` of each pixel of the result, for regions from `start` with `bin`
    /// pixels of the level for each of the result, in levels of size `length`; `[R, 1]` each.
    fn new(
        start: &Tensor<2>,
        bin: &Tensor<2>,
        length: &Tensor<2>,
        sample: usize,
        options: &RoiAlign,
    ) -> Self {
        let regions = start.dims()[0];
        let shape = [regions, options.size];
        let offset = (sample as f64 + 0.5) / options.sampling as f64;
        let steps = Tensor::<1, Int>::arange(0..options.size as i64, &start.device());
        let steps = steps.float().reshape([1, options.size]) + offset;
        let at = start.clone() + steps.expand(shape) * bin.clone().expand(shape);
        let length = length.clone().expand(shape);
        let inside = at.clone().greater_equal_elem(-1.0).float()
            * at.clone().lower_equal(length.clone()).float();
        let last = length - 1.0;
        let at = at.clamp_min(0.0).min_pair(last.clone());
        let low = at.clone().floor();
        let high = (low.clone() + 1.0).min_pair(last);
        let part = at - low.clone();
        Self {
            pixels: [low.int(), high.int()],
            weights: [(part.clone().neg() + 1.0) * inside.clone(), part * inside],
        }
    }
}

/// Reference of [`crate::roi_align`].
pub fn roi_align(levels: &[Tensor<4>], rois: Tensor<2>, options: &RoiAlign) -> Tensor<4> {
    let [batch, channels, ..] = levels[0].dims();
    let [regions, _] = rois.dims();
    let (device, dtype) = (rois.device(), levels[0].dtype());
    let (size, sampling) = (options.size, options.sampling);
    // All pixels of all levels as rows of channels.
    let mut tables = Vec::new();
    let mut sizes = Vec::new();
    let mut first = 0;
    for level in levels {
        let [_, _, height, width] = level.dims();
        let pixels = batch * height * width;
        sizes.push([first, height, width]);
        first += pixels;
        let table = level.clone().permute([0, 2, 3, 1]);
        tables.push(table.reshape([pixels, channels]).cast(DType::F32));
    }
    let table = Tensor::cat(tables, 0);

    let column = |i| rois.clone().narrow(1, i, 1);
    let area = (column(3) - column(1)) * (column(4) - column(2));
    let finest = f64::from(options.finest);
    let coarsest = finest + (levels.len() - 1) as f64;
    let level = (area.sqrt() / options.canonical_scale).log() / LN_2;
    let level = (level + options.canonical_level + 1e-6).floor();
    let level = (level.clamp(finest, coarsest) - finest)
        .int()
        .squeeze_dim::<1>(1);
    let of_level = |i: usize| {
        let values: Vec<i32> = sizes.iter().map(|size| size[i] as i32).collect();
        let values = Tensor::<1, Int>::from_data(values.as_slice(), &device);
        values.select(0, level.clone()).reshape([regions, 1])
    };
    let [start, height, width] = [of_level(0), of_level(1), of_level(2)];
    let scales: Vec<f32> = (0..levels.len() as i32)
        .map(|i| 0.5f32.powi(i + options.finest as i32))
        .collect();
    let scale = Tensor::<1>::from_data(scales.as_slice(), &device);
    let scale = scale.select(0, level.clone()).reshape([regions, 1]);
    let picture = column(0).int() * height.clone() * width.clone() + start;

    let place = |low, high| {
        let from = column(low) * scale.clone();
        let extent = (column(high) * scale.clone() - from.clone()).clamp_min(1.0);
        (from, extent / size as f64)
    };
    let axes = |(from, bin): (Tensor<2>, Tensor<2>), length: &Tensor<2, Int>| {
        let length = length.clone().float();
        let axis = |sample| Axis::new(&from, &bin, &length, sample, options);
        (0..sampling).map(axis).collect::<Vec<_>>()
    };
    let (down, across) = (axes(place(2, 4), &height), axes(place(1, 3), &width));
    let [rows, columns] = [[regions, size, 1], [regions, 1, size]];
    let (picture, width) = (
        picture.reshape([regions, 1, 1]),
        width.reshape([regions, 1, 1]),
    );
    let mut sum = Tensor::<2>::zeros([regions * size * size, channels], &device);
    for (y, x) in down.iter().flat_map(|y| across.iter().map(move |x| (y, x))) {
        for (i, j) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let row = y.pixels[i].clone().reshape(rows) * width.clone() + picture.clone();
            let pixel = row + x.pixels[j].clone().reshape(columns);
            let weight = y.weights[i].clone().reshape(rows) * x.weights[j].clone().reshape(columns);
            let values = table
                .clone()
                .select(0, pixel.reshape([regions * size * size]));
            sum = sum + values * weight.reshape([regions * size * size, 1]);
        }
    }
    (sum / (sampling * sampling) as f64)
        .reshape([regions, size, size, channels])
        .permute([0, 3, 1, 2])
        .cast(dtype)
}
