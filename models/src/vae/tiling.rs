//! Tiles for pictures that are too large to go through the network at once, cut and joined as
//! diffusers does: overlapping by a quarter, blended linearly, first with the tile above and then
//! with the tile to the left.

use burn::prelude::*;
use burn::tensor::{DType, TensorData};

use super::config::VaeConfig;

/// The share of a tile that overlaps with its neighbour.
const OVERLAP: f64 = 0.25;

/// Sizes along one side, in pixels of the input and of the output.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tiles {
    /// Size of a tile that goes in.
    pub input: usize,
    /// Size of a tile that comes out.
    pub output: usize,
}

impl Tiles {
    /// Of the decoder: the size that the network was trained on, or a little less, so that tiles and what they share
    /// begin at whole latents.
    pub fn of_decoder(config: &VaeConfig) -> Self {
        let size = config.sample_size.first().unwrap_or(512);
        let quarter = (size / config.downscale() / 4).max(1);
        Self {
            input: 4 * quarter,
            output: 4 * quarter * config.downscale(),
        }
    }

    /// Whether `x` `[B, C, H, W]` is larger than one tile.
    pub fn needed(&self, x: &Tensor<4>) -> bool {
        let [_, _, height, width] = x.dims();
        height > self.input || width > self.input
    }

    /// Applies `network` to every tile of `x` `[B, C, H, W]` and joins the results.
    pub fn map(&self, x: Tensor<4>, network: impl Fn(Tensor<4>) -> Tensor<4>) -> Tensor<4> {
        let [_, _, height, width] = x.dims();
        let stride = ((self.input as f64 * (1.0 - OVERLAP)) as usize).max(1);
        let blend = (self.output as f64 * OVERLAP) as usize;
        let keep = self.output - blend;
        let mut joined = Vec::new();
        // Tiles of the row above, already blended with what is above and left of them, which is what
        // diffusers blends with: it blends in place.
        let mut above: Vec<Tensor<4>> = Vec::new();
        for top in (0..height).step_by(stride) {
            let rows = top..(top + self.input).min(height);
            let mut row: Vec<Tensor<4>> = Vec::new();
            let mut kept = Vec::new();
            for (j, left) in (0..width).step_by(stride).enumerate() {
                let columns = left..(left + self.input).min(width);
                let tile = x.clone().slice_dim(2, rows.clone()).slice_dim(3, columns);
                let mut tile = network(tile);
                if let Some(above) = above.get(j) {
                    tile = blend_into(above, tile, 2, blend);
                }
                if let Some(before) = row.last() {
                    tile = blend_into(before, tile, 3, blend);
                }
                let [_, _, h, w] = tile.dims();
                let part = tile.clone().slice_dim(2, 0..keep.min(h));
                kept.push(part.slice_dim(3, 0..keep.min(w)));
                row.push(tile);
            }
            joined.push(Tensor::cat(kept, 3));
            above = row;
        }
        Tensor::cat(joined, 2)
    }
}

/// `tile` with its first `extent` rows (`dim` 2) or columns (`dim` 3) faded in from the last ones of
/// `before`.
fn blend_into(before: &Tensor<4>, tile: Tensor<4>, dim: usize, extent: usize) -> Tensor<4> {
    let (end, size) = (before.dims()[dim], tile.dims()[dim]);
    let extent = extent.min(end).min(size);
    if extent == 0 {
        return tile;
    }
    let ramp: Vec<f32> = (0..extent).map(|i| i as f32 / extent as f32).collect();
    let mut shape = [1; 4];
    shape[dim] = extent;
    let ramp = TensorData::new(ramp, shape);
    let ramp = Tensor::<4>::from_data(ramp, (&tile.device(), DType::F32)).cast(tile.dtype());
    let old = before.clone().slice_dim(dim, end - extent..end);
    let new = tile.clone().slice_dim(dim, 0..extent);
    let blended = old * (1.0 - ramp.clone()) + new * ramp;
    if extent == size {
        return blended;
    }
    Tensor::cat(vec![blended, tile.slice_dim(dim, extent..size)], dim)
}
