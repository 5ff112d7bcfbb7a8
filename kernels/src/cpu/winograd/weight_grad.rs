//! The gradient of a convolution to its weight by the same algorithm, transposed.
//!
//! A result is the sum over channels of transformed weights times transformed input, number by number, so the gradient to a
//! transformed weight is the sum over tiles of the gradient to the result, taken through the transpose of its transform, times the
//! transformed input: 36 products of matrices whose summed axis are the tiles. The transpose of the weight's transform makes nine taps
//! of their 36 numbers.
//!
//! A task has some outputs and some channels, and goes through all tiles, some at a time.

use super::super::scratch::Scratch;
use super::super::simd::{Vector, multiversion};
use super::super::tile::{GROUP, Left, panels, product};
use super::lines::{Planes, Tiles};
use super::transforms::{transform_gradient, transform_input, transform_taps};
use super::{Numbers, PLACES, Pixels, TILE, place_of};
use rayon::prelude::*;

/// Groups of tiles that are transformed together.
const TOGETHER: usize = 4;
/// Most outputs and channels of a task.
const OUTPUTS: usize = 128;
const CHANNELS: usize = 256;
/// Fewest outputs and channels of a task, with which it makes more tasks than threads.
const LEAST: usize = 16;
/// Fewest tiles with which it is faster, and how many of their pixels, in four, must be pixels of a result.
const LEAST_TILES: usize = 24;
const LEAST_FILLED: usize = 3;

/// The gradient to the weight of a convolution of 3 × 3 pixels and stride 1.
pub(crate) struct WeightGrad {
    /// With respect to the result: `batch` samples of `outputs` planes.
    pub grad: Planes<f32>,
    /// The convolution's input: as many samples of `channels` planes.
    pub x: Planes<f32>,
    pub batch: usize,
    pub outputs: usize,
    pub channels: usize,
    /// Zeros above and before.
    pub padding: [usize; 2],
    /// `[outputs, channels, 3, 3]`.
    pub to: *mut f32,
}

// SAFETY: operands are only read, and no two tasks of `run`, which alone writes, write at the same place.
unsafe impl Sync for WeightGrad {}

/// What a task computes.
#[derive(Clone, Copy)]
struct Part {
    outputs: (usize, usize),
    channels: (usize, usize),
}

impl WeightGrad {
    /// Whether it is worth it for so many samples of results of the size `out`.
    pub(crate) fn pays(batch: usize, out: [usize; 2]) -> bool {
        let tiles = Tiles { batch, out }.count();
        let pixels = batch * out[0] * out[1];
        tiles >= LEAST_TILES && 4 * pixels >= LEAST_FILLED * tiles * TILE * TILE
    }

    /// Computes it on Rayon's threads. Sums are the same whatever their number.
    ///
    /// # Safety
    /// The pointers must cover what the sizes say, and `to` nothing that is read.
    pub(crate) unsafe fn run(&self) {
        let threads = rayon::current_num_threads();
        // Each part of the channels transforms the gradient again, and each part of the outputs the input.
        let across = self.channels.div_ceil(CHANNELS);
        let down = (self.outputs.div_ceil(OUTPUTS))
            .max(threads.div_ceil(across).min(self.outputs.div_ceil(LEAST)));
        let across = across.max(threads.div_ceil(down).min(self.channels.div_ceil(LEAST)));
        let range = |part: usize, parts: usize, all: usize| {
            let each = all.div_ceil(parts).next_multiple_of(LEAST);
            ((part * each).min(all), ((part + 1) * each).min(all))
        };
        let task = |index: usize| {
            let part = Part {
                outputs: range(index / across, down, self.outputs),
                channels: range(index % across, across, self.channels),
            };
            // SAFETY: the caller's contract; parts do not overlap.
            unsafe { sum(self, part) };
        };
        (0..down * across)
            .into_par_iter()
            .with_max_len(1)
            .for_each(task);
    }
}

multiversion! {
    /// A part of the result, on this thread.
    ///
    /// # Safety
    /// As for [`WeightGrad::run`], and nobody else may write to the part.
    unsafe fn sum(job: &WeightGrad, part: Part) = sum_body
}

#[inline(always)]
unsafe fn sum_body<V: Vector>(job: &WeightGrad, part: Part) {
    let outputs = part.outputs.1 - part.outputs.0;
    let channels = part.channels.1 - part.channels.0;
    if outputs == 0 || channels == 0 {
        return;
    }
    let tiles = Tiles {
        batch: job.batch,
        out: job.grad.size,
    };
    let depth = TOGETHER * GROUP;
    let columns = channels.next_multiple_of(GROUP);
    let rows_place = place_of(outputs * depth);
    let packed_place = place_of(columns * depth);
    let sums_place = place_of(outputs * columns);
    let mut scratch = Scratch::take(PLACES * (rows_place + packed_place + sums_place));
    let rows = scratch.as_mut_ptr();
    let packed = rows.wrapping_add(PLACES * rows_place);
    let sums = packed.wrapping_add(PLACES * packed_place);
    let mut group = 0;
    while group < tiles.groups() {
        let groups = (tiles.groups() - group).min(TOGETHER);
        let runs: Vec<_> = (group..group + groups).map(|i| tiles.runs(i)).collect();
        for output in 0..outputs {
            for (i, runs) in runs.iter().enumerate() {
                let mut tile: Pixels = [[0.0; GROUP]; TILE * TILE];
                let to = rows.wrapping_add(output * depth + i * GROUP);
                // SAFETY: the caller's gradient; the scratch has room for `outputs` rows of each place.
                unsafe {
                    let plane = part.outputs.0 + output;
                    job.grad.gather::<V, TILE>(plane, [0; 2], runs, &mut tile);
                    transform_gradient::<V>(&tile, to, rows_place);
                }
            }
        }
        let mut first = 0;
        for width in panels::<f32>(columns / GROUP) {
            let panel = packed.wrapping_add(first * GROUP * groups * GROUP);
            for beside in 0..width {
                let column = (first + beside) * GROUP;
                let of =
                    part.channels.0 + column..part.channels.1.min(part.channels.0 + column + GROUP);
                for row in 0..groups * GROUP {
                    let to = panel.wrapping_add((row * width + beside) * GROUP);
                    let mut numbers: Numbers = [[0.0; GROUP]; PLACES];
                    // SAFETY: the caller's input; the scratch has room for `groups` groups of rows of all columns of each place.
                    unsafe {
                        if let Some(tile) = tiles.tile(group * GROUP + row) {
                            job.x.see(of.clone(), job.padding, tile, &mut numbers);
                        }
                        transform_input::<V>(&mut numbers, to, packed_place);
                    }
                }
            }
            first += width;
        }
        for place in 0..PLACES {
            let left = Left::along(rows.wrapping_add(place * rows_place), depth, outputs);
            let packed = packed.wrapping_add(place * packed_place);
            let to = sums.wrapping_add(place * sums_place);
            // SAFETY: rows and columns were written above for these groups, and the sums have room for all of them.
            unsafe {
                product::<V, f32>(
                    left,
                    packed,
                    columns,
                    groups * GROUP,
                    to,
                    columns,
                    group > 0,
                );
            }
        }
        group += groups;
    }
    for output in 0..outputs {
        for first in (0..channels).step_by(GROUP) {
            let mut taps = [[0.0f32; GROUP]; 9];
            let from = sums.wrapping_add(output * columns + first);
            // SAFETY: sixteen of the sums of each place.
            unsafe { transform_taps::<V>(from, sums_place, &mut taps) };
            for lane in 0..GROUP.min(channels - first) {
                let channel = part.channels.0 + first + lane;
                let at = ((part.outputs.0 + output) * job.channels + channel) * taps.len();
                for (i, taps) in taps.iter().enumerate() {
                    // SAFETY: a tap of an output and channel of this part.
                    unsafe { *job.to.wrapping_add(at + i) = taps[lane] };
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::simd::forced;
    use crate::selftest::noise;

    /// By loops in f64.
    fn reference(job: &WeightGrad, x: &[f32], grad: &[f32]) -> Vec<f64> {
        let [height, width] = job.grad.size;
        let mut want = vec![0.0; job.outputs * job.channels * 9];
        for (at, want) in want.iter_mut().enumerate() {
            let (output, channel, tap) = (at / 9 / job.channels, at / 9 % job.channels, at % 9);
            for sample in 0..job.batch {
                for (y, pixel) in (0..height).flat_map(|y| (0..width).map(move |x| (y, x))) {
                    let row = (y + tap / 3).wrapping_sub(job.padding[0]);
                    let column = (pixel + tap % 3).wrapping_sub(job.padding[1]);
                    if row < job.x.size[0] && column < job.x.size[1] {
                        let from = sample * job.x.sample + channel * job.x.channel;
                        let by = sample * job.grad.sample + output * job.grad.channel;
                        *want += f64::from(x[from + row * job.x.size[1] + column])
                            * f64::from(grad[by + y * width + pixel]);
                    }
                }
            }
        }
        want
    }

    #[test]
    fn it_is_the_gradient_to_the_weight() {
        // Batch, channels, height, width, outputs, padding.
        for [batch, channels, height, width, outputs, padding] in [
            [1, 3, 6, 6, 5, 1],
            [3, 20, 5, 7, 33, 1],
            [2, 7, 4, 4, 3, 0],
            [1, 1, 1, 1, 2, 1],
            [2, 33, 9, 40, 17, 2],
            [9, 4, 3, 2, 100, 1],
            [1, 2, 130, 3, 1, 0],
            [2, 300, 4, 9, 140, 1],
        ] {
            let out = [height, width].map(|n| n + 2 * padding - 2);
            // Rows of planes with gaps between the samples.
            let planes = |of: usize, size: [usize; 2], seed| {
                let sample = of * size[0] * size[1] + 7;
                (noise(batch * sample, seed), sample, size[0] * size[1])
            };
            let (x, x_sample, x_channel) = planes(channels, [height, width], 1);
            let (grad, sample, channel) = planes(outputs, out, 2);
            forced::each(|level| {
                let mut got = vec![f32::NAN; outputs * channels * 9];
                let job = WeightGrad {
                    grad: Planes {
                        from: grad.as_ptr(),
                        sample,
                        channel,
                        size: out,
                    },
                    x: Planes {
                        from: x.as_ptr(),
                        sample: x_sample,
                        channel: x_channel,
                        size: [height, width],
                    },
                    batch,
                    outputs,
                    channels,
                    padding: [padding; 2],
                    to: got.as_mut_ptr(),
                };
                // SAFETY: all of these are as large as the sizes say.
                unsafe { job.run() };
                let want = reference(&job, &x, &grad);
                let largest = want.iter().fold(0.0f64, |a, b| a.max(b.abs()));
                for (i, (got, want)) in got.iter().zip(&want).enumerate() {
                    let error = (f64::from(*got) - want).abs() / largest;
                    // NaN is no small error.
                    assert!(error < 1e-5, "{level:?}, {i}: {got} for {want}");
                }
            });
        }
    }
}
