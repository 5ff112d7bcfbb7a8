//! Boxes as centre, width and height in shares of the picture, and their logits.

use burn::prelude::*;
use burn::tensor::activation::relu;
use prepose_kernels as kernels;

use crate::layers::Linear;
use crate::params::Params;

/// Linear layers with ReLU between them, as DETR's heads have.
#[derive(Module, Debug)]
pub(crate) struct Mlp {
    layers: Vec<Linear>,
}

impl Mlp {
    /// `widths` are the channels before, between and behind the layers.
    pub fn load(mut params: Params, widths: &[usize]) -> Self {
        let layer = |(i, pair): (usize, &[usize])| {
            Linear::load(params.pp(format!("layers.{i}")), pair[0], pair[1], true)
        };
        Self {
            layers: widths.windows(2).enumerate().map(layer).collect(),
        }
    }

    /// `[B, N, In]` to `[B, N, Out]`.
    pub fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let last = self.layers.len() - 1;
        let layers = self.layers.iter().enumerate();
        layers.fold(x, |x, (i, layer)| match i == last {
            true => layer.forward(x),
            false => relu(layer.forward(x)),
        })
    }
}

/// `ln(x / (1 − x))` with both kept at least `eps`.
pub(crate) fn inverse_sigmoid(x: Tensor<3>, eps: f64) -> Tensor<3> {
    let rest = x.clone().neg() + 1.0;
    (x.clamp_min(eps) / rest.clamp_min(eps)).log()
}

/// A box around each pixel of the maps, `0.05 · 2^level` wide and high: its logits `[1, tokens, 4]`, and 1 where all four
/// numbers are between 0.01 and 0.99, else 0, `[1, tokens, 1]`. The logits are `outside` where they are not.
pub(crate) fn anchors(
    sizes: &[[usize; 2]],
    outside: f32,
    device: &Device,
) -> (Tensor<3>, Tensor<3>) {
    let (mut logits, mut valid) = (Vec::new(), Vec::new());
    for (level, &[height, width]) in sizes.iter().enumerate() {
        let side = 0.05f32 * 2f32.powi(level as i32);
        for row in 0..height {
            for column in 0..width {
                let x = (column as f32 + 0.5) / width as f32;
                let y = (row as f32 + 0.5) / height as f32;
                let anchor = [x, y, side, side];
                let inside = anchor.iter().all(|at| *at > 0.01 && *at < 0.99);
                valid.push(f32::from(inside));
                logits.extend(anchor.map(|at| match inside {
                    true => (at / (1.0 - at)).ln(),
                    false => outside,
                }));
            }
        }
    }
    let count = valid.len();
    (
        Tensor::<1>::from_data(logits.as_slice(), device).reshape([1, count, 4]),
        Tensor::<1>::from_data(valid.as_slice(), device).reshape([1, count, 1]),
    )
}

/// The rows of each of `tables` `[B, tokens, …]` whose scores `[B, tokens]` are the `count` highest, best first.
pub(crate) fn pick<const N: usize>(
    scores: Tensor<2>,
    count: usize,
    tables: [Tensor<3>; N],
) -> [Tensor<3>; N] {
    let (_, places) = kernels::top_k(scores, count, f32::NEG_INFINITY);
    let [batch, count] = places.dims();
    tables.map(|table| {
        let [_, _, width] = table.dims();
        let places = places.clone().reshape([batch, count, 1]);
        table.gather(1, places.expand([batch, count, width]))
    })
}
