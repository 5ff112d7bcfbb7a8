//! Convolutions of 3 × 3 pixels with a quarter of the multiplications: F(4 × 4, 3 × 3) of Winograd's algorithm (Lavin & Gray 2016,
//! arXiv 1509.09308).
//!
//! The result is cut into tiles of 4 × 4 pixels, each of which depends on 6 × 6 pixels of the input. Transformed, these meet the
//! transformed weight number by number: 36 products of matrices whose summed axis are the channels, where the plain convolution
//! has nine times the channels for each of 16 pixels. The transforms evaluate polynomials at 0, ±5/8, ±3/2 and infinity; with the
//! usual ±1 and ±2, whose powers are further apart, the error is twice as large (`kernels/NOTES.md`).
//!
//! A task transforms the input of some groups of tiles once. Then it goes through the outputs, some rows at a time, whose weights it
//! transforms anew: that costs a few hundredths of the products, and neither a copy of all weights four times their size nor
//! its way through memory.

use super::scratch::Scratch;
use super::simd::{Element, Level, Vector, level, multiversion};
use super::tile::{GROUP, Left, panels, product};
use rayon::prelude::*;

/// Pixels of a tile along each side, and those of the input that it depends on.
const TILE: usize = 4;
const SEEN: usize = TILE + 2;
/// Products.
const PLACES: usize = SEEN * SEEN;
/// The points ±A and ±B.
const A: f32 = 0.625;
const B: f32 = 1.5;

/// Channels that are summed before their sum is added to the others': results are differences of larger sums, and the shorter a sum,
/// the smaller its error.
const BLOCK: usize = 32;
/// f32 of transformed input and of transformed weights that a task has at most, in groups of tiles and in outputs that are within these
/// bounds. A thread keeps both: they are its share of the memory that a network takes.
const MOST: usize = 1 << 20;
const GROUPS: (usize, usize) = (3, 12);
const OUTPUTS: (usize, usize) = (24, 48);
/// f32 that a thread asks for at least: enough for 640 channels. A buffer that grew with each wider layer would leave its smaller
/// predecessors' places behind in the heap; pages that nothing is written to take no memory.
const ROOM: usize = 9 << 18;
/// Channels whose weights are read together.
const CHANNELS: usize = 64;

/// Fewest channels and outputs, and pixels of a picture, with which it is faster.
const LEAST_CHANNELS: usize = 32;
const LEAST_PIXELS: usize = 256;

/// A convolution with a weight of 3 × 3 pixels and stride 1.
pub(crate) struct Winograd<'a, E> {
    /// Samples of `channels` planes, each without gaps.
    pub from: *const E,
    pub sample: usize,
    pub channel: usize,
    pub batch: usize,
    pub channels: usize,
    pub size: [usize; 2],
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

/// Tiles of a group that are beside each other in one picture.
#[derive(Clone, Copy)]
struct Run {
    /// The first one's lane, and their number.
    lane: usize,
    count: usize,
    sample: usize,
    /// The first one's first pixel in the result.
    y: usize,
    x: usize,
}

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
        let groups = self.tiles().div_ceil(GROUP);
        let threads = rayon::current_num_threads();
        let most = (MOST / (PLACES * GROUP * self.channels)).clamp(GROUPS.0, GROUPS.1);
        // As many tasks for each thread, all of them equally large.
        let parts = groups.div_ceil(most).next_multiple_of(threads).min(groups);
        let rows = match parts < threads {
            true => (threads / parts)
                .min(self.outputs.div_ceil(2 * OUTPUTS.0))
                .max(1),
            false => 1,
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

    fn across(&self) -> usize {
        self.out[1].div_ceil(TILE)
    }

    fn of_sample(&self) -> usize {
        self.out[0].div_ceil(TILE) * self.across()
    }

    fn tiles(&self) -> usize {
        self.batch * self.of_sample()
    }

    /// Of a group of tiles, which are counted row by row and sample by sample.
    fn runs(&self, group: usize) -> Vec<Run> {
        let (across, of_sample) = (self.across(), self.of_sample());
        let end = self.tiles().min((group + 1) * GROUP);
        let (mut tile, mut runs) = (group * GROUP, Vec::new());
        while tile < end {
            let (sample, within) = (tile / of_sample, tile % of_sample);
            let column = within % across;
            let count = (across - column).min(end - tile);
            runs.push(Run {
                lane: tile % GROUP,
                count,
                sample,
                y: within / across * TILE,
                x: column * TILE,
            });
            tile += count;
        }
        runs
    }

    /// The input of a group's tiles in a channel, number by number, a lane for each tile. Lanes without a tile are left alone.
    ///
    /// # Safety
    /// As for [`Self::run`].
    #[inline(always)]
    unsafe fn gather(&self, channel: usize, runs: &[Run], to: &mut Numbers) {
        let [height, width] = self.size;
        let [up, left] = self.padding;
        for run in runs {
            let plane = run.sample * self.sample + channel * self.channel;
            let mut line = [0.0f32; LINE];
            let pixels = run.count * TILE + 2;
            // Of these, the ones that the picture has.
            let before = left.saturating_sub(run.x).min(pixels);
            let first = (run.x + before).saturating_sub(left);
            let there = width.saturating_sub(first).min(pixels - before);
            for (row, numbers) in to.chunks_exact_mut(SEEN).enumerate() {
                let y = (run.y + row).wrapping_sub(up);
                if y < height {
                    let at = self.from.wrapping_add(plane + y * width + first);
                    // SAFETY: these pixels are in row `y` of the plane.
                    let from = unsafe { core::slice::from_raw_parts(at, there) };
                    for (to, from) in line[before..before + there].iter_mut().zip(from) {
                        *to = from.widen();
                    }
                } else {
                    line[before..before + there].fill(0.0);
                }
                match run.count {
                    // So that the compiler knows the number.
                    GROUP => deal(&line, numbers, 0, GROUP),
                    count => deal(&line, numbers, run.lane, count),
                }
            }
        }
    }

    /// Writes a group's tiles of an output.
    ///
    /// # Safety
    /// As for [`Self::run`].
    #[inline(always)]
    unsafe fn scatter(&self, output: usize, runs: &[Run], tile: &Pixels) {
        let [height, width] = self.out;
        for run in runs {
            let plane = (run.sample * self.outputs + output) * height;
            let there = (run.count * TILE).min(width - run.x);
            for (row, pixels) in tile.chunks_exact(TILE).enumerate().take(height - run.y) {
                let mut line = [0.0f32; LINE];
                match run.count {
                    GROUP => collect(pixels, &mut line, 0, GROUP),
                    count => collect(pixels, &mut line, run.lane, count),
                }
                let at = (plane + run.y + row) * width + run.x;
                for (i, pixel) in line.iter().enumerate().take(there) {
                    // SAFETY: these pixels are in a row of the plane.
                    unsafe { *self.to.wrapping_add(at + i) = E::narrow(*pixel) };
                }
            }
        }
    }
}

/// Pixels of a line of a group, and what is seen beside it.
const LINE: usize = GROUP * TILE + 2;

/// The numbers of a line of input for `count` tiles from `lane` on.
#[inline(always)]
fn deal(line: &[f32; LINE], to: &mut [[f32; GROUP]], lane: usize, count: usize) {
    for (column, to) in to.iter_mut().enumerate() {
        for (i, number) in to[lane..lane + count].iter_mut().enumerate() {
            *number = line[i * TILE + column];
        }
    }
}

/// The pixels of `count` tiles from `lane` on as a line.
#[inline(always)]
fn collect(from: &[[f32; GROUP]], line: &mut [f32; LINE], lane: usize, count: usize) {
    for (column, from) in from.iter().enumerate() {
        for (i, pixel) in from[lane..lane + count].iter().enumerate() {
            line[i * TILE + column] = *pixel;
        }
    }
}

/// One number of a place for each lane.
type Numbers = [[f32; GROUP]; PLACES];
type Pixels = [[f32; GROUP]; TILE * TILE];

/// Reads a vector from each of six places.
macro_rules! six {
    ($V:ident, |$i:ident| $at:expr) => {
        [0usize, 1, 2, 3, 4, 5].map(|$i| <$V as Vector>::load($at))
    };
}

/// Of six pixels in a line.
#[inline(always)]
fn of_input<V: Vector>(x: [V; SEEN]) -> [V; SEEN] {
    let [a2, b2] = [V::splat(-A * A), V::splat(-B * B)];
    let (low, sum) = (V::splat(A * A * B * B), V::splat(-(A * A + B * B)));
    let even_a = x[2].mul_add(b2, x[4]);
    let odd_a = x[1].mul_add(b2, x[3]).mul(V::splat(A));
    let even_b = x[2].mul_add(a2, x[4]);
    let odd_b = x[1].mul_add(a2, x[3]).mul(V::splat(B));
    [
        x[0].mul_add(low, x[2].mul_add(sum, x[4])),
        even_a.add(odd_a),
        even_a.sub(odd_a),
        even_b.add(odd_b),
        even_b.sub(odd_b),
        x[1].mul_add(low, x[3].mul_add(sum, x[5])),
    ]
}

/// Of three taps in a line.
#[inline(always)]
fn of_weight<V: Vector>(taps: [V; 3]) -> [V; SEEN] {
    let at = |point: f32, other: f32| {
        let scale = 1.0 / (2.0 * point * point * (point * point - other * other));
        let even = taps[2].mul_add(
            V::splat(point * point * scale),
            taps[0].mul(V::splat(scale)),
        );
        let odd = taps[1].mul(V::splat(point * scale));
        [even.add(odd), even.sub(odd)]
    };
    let ([a, minus_a], [b, minus_b]) = (at(A, B), at(B, A));
    let zero = taps[0].mul(V::splat(1.0 / (A * A * B * B)));
    [zero, a, minus_a, b, minus_b, taps[2]]
}

/// Back to four pixels in a line.
#[inline(always)]
fn of_output<V: Vector>(m: [V; SEEN]) -> [V; TILE] {
    let (even_a, odd_a) = (m[1].add(m[2]), m[1].sub(m[2]));
    let (even_b, odd_b) = (m[3].add(m[4]), m[3].sub(m[4]));
    let odd = |power: i32| {
        let of_b = odd_b.mul(V::splat(B.powi(power)));
        odd_a.mul_add(V::splat(A.powi(power)), of_b)
    };
    [
        m[0].add(even_a.add(even_b)),
        odd(1),
        even_a.mul_add(V::splat(A * A), even_b.mul(V::splat(B * B))),
        odd(3).add(m[5]),
    ]
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
    let channels = job.channels;
    let groups = part.groups.1 - part.groups.0;
    let columns = groups * GROUP;
    let blocks = channels.div_ceil(BLOCK);
    let block = |i: usize| channels * i / blocks;
    let runs = part.groups.0..part.groups.1;
    let runs: Vec<_> = runs.map(|group| job.runs(group)).collect();
    // By place, block of channels and panel of columns.
    let together = (MOST / (PLACES * channels)).clamp(OUTPUTS.0, OUTPUTS.1);
    let input_place = place_of(channels * columns);
    let weights_place = place_of(together * channels);
    let sums_place = place_of(together * columns);
    let room = PLACES * (input_place + weights_place + sums_place);
    let mut scratch = Scratch::take(room.max(ROOM));
    let input = scratch.as_mut_ptr();
    let weights = input.wrapping_add(PLACES * input_place);
    let sums = weights.wrapping_add(PLACES * weights_place);
    let mut numbers: Numbers = [[0.0; GROUP]; PLACES];
    for i in 0..blocks {
        for channel in block(i)..block(i + 1) {
            let (depth, row) = (block(i + 1) - block(i), channel - block(i));
            let mut first = 0;
            for width in panels(groups) {
                for group in first..first + width {
                    let at = block(i) * columns + first * GROUP * depth;
                    let at = at + (row * width + group - first) * GROUP;
                    // SAFETY: the scratch has `channels · columns` numbers for each place, of which these 16 are one
                    // channel's and one group's.
                    unsafe {
                        job.gather(channel, &runs[group], &mut numbers);
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
        let rows = (part.outputs.1 - row).min(together);
        for output in 0..rows {
            let to = weights.wrapping_add(output * channels);
            // SAFETY: the scratch has `together · channels` numbers for each place.
            unsafe { transform_weight::<V, E>(job, row + output, to, weights_place) };
        }
        for place in 0..PLACES {
            for i in 0..blocks {
                let (first, depth) = (block(i), block(i + 1) - block(i));
                let weight = weights.wrapping_add(place * weights_place + first);
                let packed = input.wrapping_add(place * input_place + first * columns);
                let to = sums.wrapping_add(place * sums_place);
                let left = Left::along(weight, channels, rows);
                // SAFETY: the input was packed above, the weights were written for these rows and channels, and the sums have
                // room for the rows.
                unsafe { product::<V, f32>(left, packed, columns, depth, to, columns, i > 0) };
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

/// Writes the transformed numbers of sixteen tiles, those of two places `apart`.
///
/// # Safety
/// `to` must have room for them.
#[inline(always)]
unsafe fn transform_input<V: Vector>(numbers: &mut Numbers, to: *mut f32, apart: usize) {
    for lane in (0..GROUP).step_by(V::LANES) {
        let at = numbers.as_mut_ptr().cast::<f32>().wrapping_add(lane);
        let place = |row: usize, column: usize| at.wrapping_add((row * SEEN + column) * GROUP);
        // SAFETY: a vector of each place is among the numbers, and `to` has room for as many.
        unsafe {
            for column in 0..SEEN {
                let line = of_input(six!(V, |row| place(row, column)));
                for (row, line) in line.into_iter().enumerate() {
                    line.store(place(row, column));
                }
            }
            for row in 0..SEEN {
                let line = of_input(six!(V, |column| place(row, column)));
                for (column, line) in line.into_iter().enumerate() {
                    line.store(to.wrapping_add((row * SEEN + column) * apart + lane));
                }
            }
        }
    }
}

/// Writes the transformed weights of an output, those of two places `apart`.
///
/// # Safety
/// As for [`Winograd::run`]; `to` must have room for the channels of each place.
#[inline(always)]
unsafe fn transform_weight<V: Vector, E: Element>(
    job: &Winograd<'_, E>,
    output: usize,
    to: *mut f32,
    apart: usize,
) {
    let mut first = 0;
    while first < job.channels {
        let count = (job.channels - first).min(CHANNELS);
        let mut taps = [[0.0f32; CHANNELS]; 9];
        for i in 0..count {
            let at = output * job.weight.row + (first + i) * job.weight.channel;
            let at = job.weight.from.wrapping_add(at);
            for (tap, taps) in taps.iter_mut().enumerate() {
                let tap = if job.weight.turned { 8 - tap } else { tap };
                // SAFETY: nine taps of an output and channel of the weight.
                taps[i] = unsafe { *at.add(tap) }.widen();
            }
        }
        for i in (0..count).step_by(V::LANES) {
            let mut lines = [[V::splat(0.0); 3]; SEEN];
            for column in 0..3 {
                let tap = |row: usize| taps[row * 3 + column].as_ptr().wrapping_add(i);
                // SAFETY: the rows of taps have room for whole vectors.
                let line = of_weight([0, 1, 2].map(|row| unsafe { V::load(tap(row)) }));
                for (lines, line) in lines.iter_mut().zip(line) {
                    lines[column] = line;
                }
            }
            for (row, line) in lines.into_iter().enumerate() {
                for (column, line) in of_weight(line).into_iter().enumerate() {
                    let to = to.wrapping_add((row * SEEN + column) * apart + first + i);
                    // SAFETY: the channels from `first + i` on are the caller's room.
                    unsafe {
                        match count - i >= V::LANES {
                            true => line.store(to),
                            false => line.store_first(to, count - i),
                        }
                    }
                }
            }
        }
        first += count;
    }
}

/// Transforms sixteen tiles of an output back and writes them; sums of two places are `apart`.
///
/// # Safety
/// As for [`Winograd::run`]; `from` must have the sums.
#[inline(always)]
unsafe fn finish<V: Vector, E: Element>(
    job: &Winograd<'_, E>,
    output: usize,
    runs: &[Run],
    from: *const f32,
    apart: usize,
) {
    let bias = V::splat(job.bias.map_or(0.0, |bias| bias[output]));
    let mut tile: Pixels = [[0.0; GROUP]; TILE * TILE];
    for lane in (0..GROUP).step_by(V::LANES) {
        let mut lines = [[V::splat(0.0); SEEN]; TILE];
        for column in 0..SEEN {
            let at = |row: usize| from.wrapping_add((row * SEEN + column) * apart + lane);
            // SAFETY: the caller's sums.
            let line = of_output(unsafe { six!(V, |row| at(row)) });
            for (lines, line) in lines.iter_mut().zip(line) {
                lines[column] = line;
            }
        }
        for (row, line) in lines.into_iter().enumerate() {
            for (column, mut pixel) in of_output(line).into_iter().enumerate() {
                pixel = pixel.add(bias);
                if job.relu {
                    pixel = V::splat(0.0).max(pixel);
                }
                let to = tile[row * TILE + column].as_mut_ptr().wrapping_add(lane);
                // SAFETY: sixteen lanes are whole vectors.
                unsafe { pixel.store(to) };
            }
        }
    }
    // SAFETY: the caller's contract.
    unsafe { job.scatter(output, runs, &tile) };
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
                    from: x.as_ptr(),
                    sample,
                    channel: size[0] * size[1],
                    batch,
                    channels,
                    size,
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
                from: x.as_ptr(),
                sample: channels * 140,
                channel: 140,
                batch,
                channels,
                size,
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
