//! Anchors, and boxes as changes of others (Girshick et al. 2014; Ren et al. 2015).

use burn::prelude::*;
use burn::tensor::TensorData;

use super::config::RcnnConfig;

/// Most that a box may grow: `ln(1000 / 16)`.
const LARGEST: f64 = 4.135_166_556_742_356;

/// Corners of the anchors around the origin, all sizes for each aspect ratio, rounded to whole pixels.
fn cell(sizes: &[f32], ratios: &[f32]) -> Vec<[f32; 4]> {
    let corners = |ratio: f32, size: f32| {
        let height = ratio.sqrt();
        let (w, h) = (1.0 / height * size, height * size);
        [-w, -h, w, h].map(|x| (x / 2.0).round_ties_even())
    };
    ratios
        .iter()
        .flat_map(|ratio| sizes.iter().map(|size| corners(*ratio, *size)))
        .collect()
}

/// The anchors of one level of `grid` = (height, width) positions in a batch of pictures of the size
/// `padded`, `[anchors · height · width, 4]`: the first anchor at all positions, then the next.
pub(super) fn anchors(
    config: &RcnnConfig,
    level: usize,
    grid: [usize; 2],
    padded: [usize; 2],
    device: &Device,
) -> Tensor<2> {
    let cell = cell(&config.anchor_sizes[level], &config.aspect_ratios);
    let stride = [padded[0] / grid[0], padded[1] / grid[1]];
    let mut corners = Vec::with_capacity(4 * cell.len() * grid[0] * grid[1]);
    for [x0, y0, x1, y1] in &cell {
        for y in (0..grid[0]).map(|i| (i * stride[0]) as f32) {
            for x in (0..grid[1]).map(|i| (i * stride[1]) as f32) {
                corners.extend([x + x0, y + y0, x + x1, y + y1]);
            }
        }
    }
    let count = corners.len() / 4;
    Tensor::from_data(TensorData::new(corners, [count, 4]), device)
}

/// The boxes `[B, N, 4]` that the changes `[B, N, 4]` make of the boxes `from` of the same shape:
/// corners from shifts of the centre and logarithms of the sides' factors, each divided by its weight.
pub(super) fn decode(from: Tensor<3>, changes: Tensor<3>, weights: [f32; 4]) -> Tensor<3> {
    let corner = |i| from.clone().narrow(2, i, 1);
    let change = |i: usize| changes.clone().narrow(2, i, 1) / weights[i];
    let axis = |low, high| {
        let length = corner(high) - corner(low);
        let centre = corner(low) + length.clone() * 0.5;
        let centre = change(low) * length.clone() + centre;
        let half = change(high).clamp_max(LARGEST).exp() * length * 0.5;
        (centre.clone() - half.clone(), centre + half)
    };
    let ((x0, x1), (y0, y1)) = (axis(0, 2), axis(1, 3));
    Tensor::cat(vec![x0, y0, x1, y1], 2)
}

/// [`decode`] of one box on the host.
pub(super) fn decode_one(from: [f32; 4], changes: [f32; 4], weights: [f32; 4]) -> [f32; 4] {
    let axis = |low: usize, high: usize| {
        let length = from[high] - from[low];
        let centre = from[low] + 0.5 * length;
        let centre = changes[low] / weights[low] * length + centre;
        let growth = (changes[high] / weights[high]).min(LARGEST as f32);
        let half = 0.5 * (growth.exp() * length);
        (centre - half, centre + half)
    };
    let ((x0, x1), (y0, y1)) = (axis(0, 2), axis(1, 3));
    [x0, y0, x1, y1]
}

/// The box inside a picture of this height and width.
pub(super) fn clip(corners: [f32; 4], [height, width]: [usize; 2]) -> [f32; 4] {
    let [x0, y0, x1, y1] = corners;
    let (width, height) = (width as f32, height as f32);
    [
        x0.clamp(0.0, width),
        y0.clamp(0.0, height),
        x1.clamp(0.0, width),
        y1.clamp(0.0, height),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchors_are_torchvisions() {
        // AnchorGenerator(((32,),), ((0.5, 1.0, 2.0),)).cell_anchors[0]
        let expected = [
            [-23.0, -11.0, 23.0, 11.0],
            [-16.0, -16.0, 16.0, 16.0],
            [-11.0, -23.0, 11.0, 23.0],
        ];
        assert_eq!(cell(&[32.0], &[0.5, 1.0, 2.0]), expected);
    }
}
