//! Convolutions of 3 × 3 pixels with a quarter of the multiplications: F(4 × 4, 3 × 3) of Winograd's algorithm (Lavin & Gray 2016,
//! arXiv 1509.09308).
//!
//! The result is cut into tiles of 4 × 4 pixels, each of which depends on 6 × 6 pixels of the input. Transformed, these meet the
//! transformed weight number by number: 36 products of matrices whose summed axis are the channels, where the plain convolution
//! has nine times the channels for each of 16 pixels. The transforms evaluate polynomials at 0, ±5/8, ±3/2 and infinity; with the
//! usual ±1 and ±2, whose powers are further apart, the error is twice as large (`kernels/NOTES.md`).
//!
//! A task transforms the input of some groups of tiles once. Then it goes through the outputs, some at a time, and for these through the
//! channels, block by block, whose weights it transforms anew and multiplies at once: they and the sums stay in the L2 cache, and no
//! copy of all weights, four times their size, goes through memory.

mod lines;
mod transforms;
mod weight_grad;

use super::scratch::Scratch;
use super::simd::{Element, Level, Vector, level, multiversion};
use super::tile::{GROUP, Left, panels, product};
pub(crate) use lines::Planes;
use lines::Tiles;
use rayon::prelude::*;
use transforms::{finish, transform_input, transform_weight};
pub(crate) use weight_grad::WeightGrad;

/// Pixels of a tile along each side, and those of the input that it depends on.
const TILE: usize = 4;
const SEEN: usize = TILE + 2;
/// Products.
const PLACES: usize = SEEN * SEEN;
/// Channels that are summed before their sum is added to the others': results are differences of larger sums, and the shorter a sum,
/// the smaller its error. Weights are transformed for as many at a time.
const BLOCK: usize = 64;
/// Outputs and groups of tiles that a task has at most at a time. The more tiles, the fewer times are weights transformed; the weights of
/// a block of channels (332 KB) and the sums (498 KB) should stay in the L2 cache.
const OUTPUTS: usize = 36;
const GROUPS: usize = 6;
/// f32 that a thread asks for at least: enough for the 256 channels of small networks, which may have little memory.
const SMALL_ROOM: usize = 5 << 18;
/// Channels that a thread asks for with the first layer that needs more: the most that SDXL has of so many tiles. Had its buffer to grow
/// with each wider layer, its smaller predecessors' places would be left behind in the heap, and it would lie on pages that are used
/// already, which are small ones; pages that nothing is written to take no memory.
const WIDE_ROOM: usize = 1920;
/// Fewest channels and outputs, and pixels of a picture, with which it is faster.
const LEAST_CHANNELS: usize = 32;
const LEAST_PIXELS: usize = 256;

/// A convolution with a weight of 3 × 3 pixels and stride 1.
pub(crate) struct Winograd<'a, E> {
    pub from: Planes<E>,
    pub batch: usize,
    pub channels: usize,
    /// Zeros above and before.
    pub padding: [usize; 2],
    pub weight: Taps<E>,
    pub bias: Option<&'a [f32]>,
    /// Whether results below zero become zero.
    pub relu: bool,
    /// `[batch, outputs, height, width]`.
    pub to: *mut E,
    pub outputs: usize,
    pub out: [usize; 2],
}

// SAFETY: operands are only read, and no two tasks of `run`, which alone writes, write at the same place.
unsafe impl<E: Element> Sync for Winograd<'_, E> {}

/// A weight: that of output `o` and channel `c` is nine taps from `o · row + c · channel` on, the last one first if it is `turned`.
#[derive(Clone, Copy)]
pub(crate) struct Taps<E> {
    pub from: *const E,
    pub row: usize,
    pub channel: usize,
    pub turned: bool,
}

/// One number of a place for each lane.
type Numbers = [[f32; GROUP]; PLACES];
type Pixels = [[f32; GROUP]; TILE * TILE];

/// What a task computes.
#[derive(Clone, Copy)]
struct Part {
    /// Groups of tiles.
    groups: (usize, usize),
    outputs: (usize, usize),
}

impl<E: Element> Winograd<'_, E> {
    /// Whether it is worth it for so many channels, outputs, and pixels of a result. It does not depend on the number of samples:
    /// a picture is the same in every batch. Processors that multiply bf16 have enough of them without it.
    pub(crate) fn pays(channels: usize, outputs: usize, out: [usize; 2]) -> bool {
        (E::PER_WORD == 1 || level() < Level::Avx512Bf16)
            && channels.min(outputs) >= LEAST_CHANNELS
            && out[0] * out[1] >= LEAST_PIXELS
    }

    /// Computes it on Rayon's threads.
    ///
    /// # Safety
    /// The pointers must cover what the sizes say, and `to` nothing that is read.
    pub(crate) unsafe fn run(&self) {
        let groups = self.tiles().groups();
        let threads = rayon::current_num_threads();
        let parts = groups.div_ceil(GROUPS);
        // Of many groups, each thread has as many. Few go to all threads, each with some outputs, so that fewer weights are transformed
        // twice, and with some groups where there are more threads than that.
        let (parts, rows) = match parts < threads {
            true => {
                let rows = threads.div_ceil(parts);
                let rows = rows.min(self.outputs.div_ceil(OUTPUTS / 2));
                (threads.div_ceil(rows).max(parts).min(groups), rows)
            }
            false => (parts.next_multiple_of(threads).min(groups), 1),
        };
        let each = self.outputs.div_ceil(rows).next_multiple_of(8);
        let task = |index: usize| {
            let (part, row) = (index / rows, index % rows * each);
            let part = Part {
                groups: (groups * part / parts, groups * (part + 1) / parts),
                outputs: (row.min(self.outputs), (row + each).min(self.outputs)),
            };
            // SAFETY: the caller's contract; parts do not overlap.
            unsafe { convolve::<E>(self, part) };
        };
        (0..parts * rows)
            .into_par_iter()
            .with_max_len(1)
            .for_each(task);
    }

    fn tiles(&self) -> Tiles {
        Tiles {
            batch: self.batch,
            out: self.out,
        }
    }
}

/// Bytes that a thread works in for a convolution with so many channels, at most.
pub(crate) fn working_bytes(channels: usize) -> usize {
    size_of::<f32>() * Room::of(channels, GROUPS).len()
}

/// How many numbers of each place a task holds.
struct Room {
    /// By block of channels and panel of columns.
    input: usize,
    /// Of a block of channels, by output.
    weights: usize,
    sums: usize,
}

impl Room {
    fn of(channels: usize, groups: usize) -> Self {
        let columns = groups * GROUP;
        Self {
            input: place_of(channels * columns),
            weights: place_of(OUTPUTS * BLOCK),
            sums: place_of(OUTPUTS * columns),
        }
    }

    fn len(&self) -> usize {
        PLACES * (self.input + self.weights + self.sums)
    }
}

/// From one place to the next for `len` numbers: an odd number of cache lines. Were it a multiple of a page, the lines of all places
/// would lie in the same few of the nearest cache.
fn place_of(len: usize) -> usize {
    const LINE: usize = 16;
    (len.div_ceil(LINE) | 1) * LINE
}

multiversion! {
    /// A part of the result, on this thread.
    ///
    /// # Safety
    /// As for [`Winograd::run`], and nobody else may write to the part.
    unsafe fn convolve<E>(job: &Winograd<'_, E>, part: Part) = convolve_body
}

#[inline(always)]
unsafe fn convolve_body<V: Vector, E: Element>(job: &Winograd<'_, E>, part: Part) {
    if part.outputs.0 == part.outputs.1 {
        return;
    }
    let channels = job.channels;
    let groups = part.groups.1 - part.groups.0;
    let columns = groups * GROUP;
    // Whole tiles.
    let outputs = OUTPUTS - OUTPUTS % V::TILE_ROWS;
    let blocks = channels.div_ceil(BLOCK);
    let block = |i: usize| channels.min(i * BLOCK);
    let runs = part.groups.0..part.groups.1;
    let tiles = job.tiles();
    let runs: Vec<_> = runs.map(|group| tiles.runs(group)).collect();
    let room = Room::of(channels, groups);
    let Room {
        input: input_place,
        weights: weights_place,
        sums: sums_place,
    } = room;
    let mut scratch = Scratch::take(match room.len() {
        ..=SMALL_ROOM => SMALL_ROOM,
        wide => wide.max(Room::of(WIDE_ROOM, GROUPS).len()),
    });
    let input = scratch.as_mut_ptr();
    let weights = input.wrapping_add(PLACES * input_place);
    let sums = weights.wrapping_add(PLACES * weights_place);
    let mut numbers: Numbers = [[0.0; GROUP]; PLACES];
    for i in 0..blocks {
        for channel in block(i)..block(i + 1) {
            let (depth, row) = (block(i + 1) - block(i), channel - block(i));
            let mut first = 0;
            for width in panels::<f32>(groups) {
                for (beside, runs) in runs[first..first + width].iter().enumerate() {
                    let at = block(i) * columns + first * GROUP * depth;
                    let at = at + (row * width + beside) * GROUP;
                    // SAFETY: the scratch has `channels · columns` numbers for each place, of which these 16 are one
                    // channel's and one group's.
                    unsafe {
                        job.from
                            .gather::<V, SEEN>(channel, job.padding, runs, &mut numbers);
                        let to = input.wrapping_add(at);
                        transform_input::<V>(&mut numbers, to, input_place);
                    }
                }
                first += width;
            }
        }
    }
    let mut row = part.outputs.0;
    while row < part.outputs.1 {
        let rows = (part.outputs.1 - row).min(outputs);
        for i in 0..blocks {
            let of = block(i)..block(i + 1);
            for output in 0..rows {
                let to = weights.wrapping_add(output * BLOCK);
                // SAFETY: the scratch has a block of as many rows for each place.
                unsafe {
                    transform_weight::<V, E>(job, row + output, of.clone(), to, weights_place)
                };
            }
            for place in 0..PLACES {
                let left = Left::along(weights.wrapping_add(place * weights_place), BLOCK, rows);
                let packed = input.wrapping_add(place * input_place + of.start * columns);
                let to = sums.wrapping_add(place * sums_place);
                // SAFETY: the input was packed above, the weights were written for these rows and channels, and the sums have
                // room for the rows.
                unsafe { product::<V, f32>(left, packed, columns, of.len(), to, columns, i > 0) };
            }
        }
        for output in 0..rows {
            for (group, runs) in runs.iter().enumerate() {
                let from = sums.wrapping_add(output * columns + group * GROUP);
                // SAFETY: the sums of this output and group were computed above for each place.
                unsafe { finish::<V, E>(job, row + output, runs, from, sums_place) };
            }
        }
        row += rows;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::simd::forced;
    use crate::selftest::{noise, reference};

    struct Case {
        batch: usize,
        channels: usize,
        size: [usize; 2],
        outputs: usize,
        padding: usize,
        biased: bool,
        relu: bool,
    }

    impl Case {
        fn out(&self) -> [usize; 2] {
            self.size.map(|n| n + 2 * self.padding - 2)
        }

        /// What comes out, and what should, at every level; whether the weight lies as for a gradient to the input.
        fn check(&self, turned: bool) {
            let Self {
                batch,
                channels,
                size,
                outputs,
                ..
            } = *self;
            // Rows of planes with gaps between the samples.
            let sample = channels * size[0] * size[1] + 7;
            let x = noise(batch * sample, 1);
            let weight = noise(outputs * channels * 9, 2);
            let bias = self.biased.then(|| noise(outputs, 3));
            let planes: Vec<f64> = x
                .chunks(sample)
                .flat_map(|x| &x[..sample - 7])
                .map(|x| f64::from(*x))
                .collect();
            let taps = |output: usize, channel: usize| -> Vec<f64> {
                let at = match turned {
                    true => (channel * outputs + output) * 9,
                    false => (output * channels + channel) * 9,
                };
                let taps = weight[at..at + 9].iter().map(|x| f64::from(*x));
                match turned {
                    true => taps.rev().collect(),
                    false => taps.collect(),
                }
            };
            let all = (0..outputs).flat_map(|o| (0..channels).map(move |c| (o, c)));
            let problem = reference::Conv {
                x: [batch, channels, size[0], size[1]],
                out: outputs,
                kernel: [3; 2],
                stride: 1,
                padding: [self.padding; 2],
            };
            let wide: Option<Vec<f64>> = bias
                .as_ref()
                .map(|bias| bias.iter().map(|x| f64::from(*x)).collect());
            let weights: Vec<f64> = all.flat_map(|(o, c)| taps(o, c)).collect();
            let mut want = problem.run(&planes, &weights, wide.as_deref());
            if self.relu {
                want.iter_mut().for_each(|x| *x = x.max(0.0));
            }
            let largest = want.iter().fold(0.0f64, |a, b| a.max(b.abs()));
            forced::each(|level| {
                let mut got = vec![f32::NAN; want.len()];
                let job = Winograd {
                    from: Planes {
                        from: x.as_ptr(),
                        sample,
                        channel: size[0] * size[1],
                        size,
                    },
                    batch,
                    channels,
                    padding: [self.padding; 2],
                    weight: Taps {
                        from: weight.as_ptr(),
                        row: if turned { 9 } else { channels * 9 },
                        channel: if turned { outputs * 9 } else { 9 },
                        turned,
                    },
                    bias: bias.as_deref(),
                    relu: self.relu,
                    to: got.as_mut_ptr(),
                    outputs,
                    out: self.out(),
                };
                // SAFETY: all of these are as large as the sizes say.
                unsafe { job.run() };
                for (i, (got, want)) in got.iter().zip(&want).enumerate() {
                    let error = (f64::from(*got) - want).abs() / largest;
                    // NaN is no small error.
                    assert!(error < 1e-5, "{level:?}, {i}: {got} for {want}");
                }
            });
        }
    }

    #[test]
    fn it_is_a_convolution() {
        // Batch, channels, height, width, outputs, padding.
        for (i, [batch, channels, height, width, outputs, padding]) in [
            [1, 3, 6, 6, 5, 1],
            [3, 20, 5, 7, 33, 1],
            [2, 7, 4, 4, 3, 0],
            [1, 5, 1, 1, 2, 1],
            [2, 33, 9, 70, 50, 2],
            [1, 600, 12, 16, 9, 1],
            [5, 4, 3, 2, 100, 1],
            [1, 2, 130, 3, 1, 0],
        ]
        .into_iter()
        .enumerate()
        {
            let case = Case {
                batch,
                channels,
                size: [height, width],
                outputs,
                padding,
                biased: i % 2 == 0,
                relu: i % 3 == 2,
            };
            case.check(false);
            case.check(true);
        }
    }

    #[test]
    fn a_picture_is_the_same_in_every_batch() {
        let (channels, size, outputs) = (40, [10, 14], 24);
        let x = noise(3 * channels * 140, 1);
        let weight = noise(outputs * channels * 9, 2);
        let run = |x: &[f32]| {
            let batch = x.len() / (channels * 140);
            let mut to = vec![f32::NAN; batch * outputs * 140];
            let job = Winograd {
                from: Planes {
                    from: x.as_ptr(),
                    sample: channels * 140,
                    channel: 140,
                    size,
                },
                batch,
                channels,
                padding: [1; 2],
                weight: Taps {
                    from: weight.as_ptr(),
                    row: channels * 9,
                    channel: 9,
                    turned: false,
                },
                bias: None,
                relu: false,
                to: to.as_mut_ptr(),
                outputs,
                out: size,
            };
            // SAFETY: as above.
            unsafe { job.run() };
            to
        };
        let together = run(&x);
        let alone = x.chunks(channels * 140).flat_map(run);
        assert!(together.into_iter().eq(alone));
    }
}
