//! What is done with the sums of a tile: written with bias and residual branch, or, of a part of the depth, put down to be summed.

use super::super::*;
use super::kernel::{Config, PLANE, Sizes};
use super::units::Sums;

/// Columns that a thread writes side by side.
pub(super) const EIGHT: usize = 8;

/// Writes the sums, with bias and what they go onto.
#[cube]
#[allow(clippy::too_many_arguments)]
pub(super) fn write<F: Float, G: Float, N: Size>(
    sums: &Sums,
    bias: &[Vector<F, N>],
    onto: &[Vector<F, N>],
    out: &mut [Vector<G, N>],
    row: usize,
    column: usize,
    sizes: &Sizes,
    #[comptime] config: Config,
) {
    let tile = comptime!(config.tile);
    let units = comptime!(tile.units());
    let together = comptime!(config.together);
    let lane = UNIT_POS as usize % PLANE;
    let plane = UNIT_POS as usize / PLANE;
    let above = row + plane / tile.planes[1] * comptime!(units[0] * 16) + lane / 4;
    let before = column + plane % tile.planes[1] * comptime!(units[1] * 8) + lane % 4 * EIGHT;
    let part = CUBE_POS_Z as usize * sizes.rows;
    #[unroll]
    for j in 0..comptime!(units[1] / 4) {
        let column = before + j * comptime!(4 * EIGHT);
        #[unroll]
        for i in 0..comptime!(units[0]) {
            #[unroll]
            for half in 0..2usize {
                let eight = neighbours(sums, comptime!(i * units[1] + j * 4), half);
                let row = above + comptime!(i * 16 + half * 8);
                if row < sizes.rows && column < sizes.columns {
                    #[unroll]
                    for some in 0..comptime!(EIGHT / together) {
                        let mut sum = Vector::<f32, N>::new(0.0f32);
                        #[unroll]
                        for k in 0..together {
                            sum.insert(k, eight[comptime!(some * together + k)]);
                        }
                        let at = column / together + some;
                        if comptime!(config.bias) {
                            sum += Vector::cast_from(bias[at]);
                        }
                        if comptime!(config.onto) {
                            sum += Vector::cast_from(onto[row * sizes.onto_pitch + at]);
                        }
                        let first = (part + row) * sizes.columns / together;
                        out[first + at] = Vector::cast_from(sum);
                    }
                }
            }
        }
    }
}

/// Of four neighbouring tiles' 8 columns, a thread has two columns of each, and so have the three threads beside it: after they have
/// exchanged them, each has the eight of one tile, which lie side by side in memory. Of the upper or the lower half of the rows.
#[cube]
fn neighbours(sums: &Sums, #[comptime] first: usize, #[comptime] half: usize) -> Array<f32> {
    let odd = UNIT_POS as usize % 2 == 1;
    let high = UNIT_POS as usize / 2 % 2 == 1;
    let mut eight = Array::<f32>::new(EIGHT);
    #[unroll]
    for e in 0..2usize {
        let of = comptime!(half * 2 + e);
        let p0 = sums.index(first)[0].extract(of);
        let p1 = sums.index(comptime!(first + 1))[0].extract(of);
        let p2 = sums.index(comptime!(first + 2))[0].extract(of);
        let p3 = sums.index(comptime!(first + 3))[0].extract(of);
        let r0 = plane_shuffle_xor(select(odd, p0, p1), 1u32);
        let r1 = plane_shuffle_xor(select(odd, p2, p3), 1u32);
        let q0 = select(odd, r0, p0);
        let q1 = select(odd, p1, r0);
        let q2 = select(odd, r1, p2);
        let q3 = select(odd, p3, r1);
        let s0 = plane_shuffle_xor(select(high, q0, q2), 2u32);
        let s1 = plane_shuffle_xor(select(high, q1, q3), 2u32);
        eight[e] = select(high, s0, q0);
        eight[comptime!(2 + e)] = select(high, s1, q1);
        eight[comptime!(4 + e)] = select(high, q2, s0);
        eight[comptime!(6 + e)] = select(high, q3, s1);
    }
    eight
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
