//! What detectors of the DETR family share: attention blocks, positions, reference boxes and the choice of queries.

mod attention;
mod boxes;
mod positions;

pub(crate) use attention::{DeformableAttention, DeformableShape, MultiHead, Reference, masked};
pub(crate) use boxes::{Mlp, anchors, inverse_sigmoid, pick};
pub(crate) use positions::{Order, sine_of_boxes, sine_of_places, sine_table};

use burn::prelude::*;

/// Feature maps `[B, C, H, W]` as one row of tokens `[B, tokens, C]`, one map after the other.
pub(crate) fn tokens(maps: &[Tensor<4>]) -> Tensor<3> {
    let rows = maps.iter().map(|map| {
        let [batch, channels, height, width] = map.dims();
        let row = map.clone().reshape([batch, channels, height * width]);
        row.swap_dims(1, 2)
    });
    Tensor::cat(rows.collect(), 1)
}

/// Height and width of each map.
pub(crate) fn sizes(maps: &[Tensor<4>]) -> Vec<[usize; 2]> {
    let size = |map: &Tensor<4>| {
        let [_, _, height, width] = map.dims();
        [height, width]
    };
    maps.iter().map(size).collect()
}
