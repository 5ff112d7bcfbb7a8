//! What is done with the sums of a tile: written with bias and residual branch, or, of a part of the depth, put down to be summed.

use super::super::*;
use super::kernel::{Config, PLANE, Sizes};

/// Writes the sums, with bias and what they go onto.
#[cube]
#[allow(clippy::too_many_arguments)]
pub(super) fn write<F: Float, G: Float>(
    sums: &Sequence<Array<Vector<f32, Const<2>>>>,
    bias: &[Vector<F, Const<2>>],
    onto: &[Vector<F, Const<2>>],
    out: &mut [Vector<G, Const<2>>],
    row: usize,
    column: usize,
    sizes: &Sizes,
    #[comptime] config: Config,
) {
    let tile = comptime!(config.tile);
    let units = comptime!(tile.units());
    let lane = UNIT_POS as usize % PLANE;
    let plane = UNIT_POS as usize / PLANE;
    let above = row + plane / tile.planes[1] * comptime!(units[0] * 16) + lane / 4;
    let before = column + plane % tile.planes[1] * comptime!(units[1] * 8) + lane % 4 * 2;
    let part = CUBE_POS_Z as usize * sizes.rows;
    #[unroll]
    for j in 0..comptime!(units[1]) {
        let column = before + j * 8;
        if column < sizes.columns {
            let mut shift = Vector::<f32, Const<2>>::new(0.0f32);
            if comptime!(config.bias) {
                shift = Vector::cast_from(bias[column / 2]);
            }
            #[unroll]
            for i in 0..comptime!(units[0]) {
                #[unroll]
                for half in 0..2usize {
                    let row = above + comptime!(i * 16 + half * 8);
                    if row < sizes.rows {
                        let mut sum = sums.index(comptime!(i * units[1] + j))[half] + shift;
                        if comptime!(config.onto) {
                            sum += Vector::cast_from(onto[row * sizes.onto_pitch + column / 2]);
                        }
                        out[((part + row) * sizes.columns + column) / 2] = Vector::cast_from(sum);
                    }
                }
            }
        }
    }
}

/// The sum of `parts` results of `count` groups of four elements each, with bias and what they go onto.
#[cube(launch_unchecked, address_type = "dynamic")]
#[allow(clippy::too_many_arguments)]
pub(super) fn sum_kernel<F: Float>(
    parts: &[Vector<f32, Const<4>>],
    bias: &[Vector<F, Const<4>>],
    onto: &[Vector<F, Const<4>>],
    out: &mut [Vector<F, Const<4>>],
    shares: usize,
    count: usize,
    columns: usize,
    onto_pitch: usize,
    #[comptime] given: [bool; 2],
    #[define(F)] _type: ElemType,
) {
    let i = ABSOLUTE_POS;
    if i < count {
        let mut sum = parts[i];
        for share in 1..shares {
            sum += parts[share * count + i];
        }
        if comptime!(given[0]) {
            sum += Vector::cast_from(bias[i % columns]);
        }
        if comptime!(given[1]) {
            sum += Vector::cast_from(onto[i / columns * onto_pitch + i % columns]);
        }
        out[i] = Vector::cast_from(sum);
    }
}
