//! Pooling of regions, from planes whose channels lie next to each other: a pixel of the result is then
//! a sum of whole vectors.

use rayon::prelude::*;

use super::scratch::Scratch;
use super::simd::{Vector, multiversion};
use super::tasks::To;

/// A level of a feature pyramid, `[B, height, width, channels]`.
pub(crate) struct Level {
    pub data: Vec<f32>,
    pub height: usize,
    pub width: usize,
    /// Pixels of the level for each of the picture.
    pub scale: f32,
}

impl Level {
    /// From `[B, channels, height, width]`.
    pub(crate) fn new(from: &[f32], [channels, height, width]: [usize; 3], scale: f32) -> Self {
        let plane = height * width;
        let mut data = vec![0.0; from.len()];
        let rows = data.par_chunks_mut((width * channels).max(1));
        rows.enumerate().for_each(|(i, to)| {
            let (sample, row) = (i / height, i % height);
            let from = &from[sample * channels * plane + row * width..];
            transpose(from, plane, to, channels);
        });
        Self {
            data,
            height,
            width,
            scale,
        }
    }
}

/// Writes `to[x][c] = from[c][x]`, where rows of `from` are `stride` apart and those of `to` hold
/// `channels`, in blocks that fit in a few cache lines.
fn transpose(from: &[f32], stride: usize, to: &mut [f32], channels: usize) {
    const BLOCK: usize = 16;
    let width = to.len() / channels;
    for left in (0..width).step_by(BLOCK) {
        let columns = left..(left + BLOCK).min(width);
        for first in (0..channels).step_by(BLOCK) {
            for channel in first..(first + BLOCK).min(channels) {
                let from = &from[channel * stride..][..width];
                for x in columns.clone() {
                    to[x * channels + channel] = from[x];
                }
            }
        }
    }
}

/// Sizes of the result.
#[derive(Clone, Copy)]
pub(crate) struct Pool {
    pub channels: usize,
    pub size: usize,
    pub sampling: usize,
}

/// A pixel and its weight.
type Tap = (usize, f32);

/// For each pixel of the result the pixels along one axis that it is made of: a sample is
/// interpolated along one axis and then along the other, so that weights are products.
struct Taps {
    taps: Vec<Tap>,
    /// Where each result pixel's begin, and where the last one's end.
    starts: Vec<usize>,
}

impl Taps {
    /// Between `from` and `to` in pixels of a level of `length` pixels.
    fn new(from: f32, to: f32, length: usize, pool: Pool) -> Self {
        let Pool { size, sampling, .. } = pool;
        let bin = (to - from).max(1.0) / size as f32;
        let share = 1.0 / sampling as f32;
        let mut taps = Vec::with_capacity(2 * size * sampling);
        let mut starts = Vec::with_capacity(size + 1);
        for i in 0..size {
            starts.push(taps.len());
            for sample in 0..sampling {
                let at = from + i as f32 * bin + (sample as f32 + 0.5) * bin / sampling as f32;
                // NaN is outside as well.
                let inside = at >= -1.0 && at <= length as f32;
                if !inside {
                    continue;
                }
                let at = at.max(0.0);
                let low = at as usize;
                if low + 1 >= length {
                    taps.push((length - 1, share));
                } else {
                    let part = at - low as f32;
                    taps.push((low, (1.0 - part) * share));
                    taps.push((low + 1, part * share));
                }
            }
        }
        starts.push(taps.len());
        Self { taps, starts }
    }

    fn of(&self, i: usize) -> &[Tap] {
        &self.taps[self.starts[i]..self.starts[i + 1]]
    }
}

impl Pool {
    /// Pools `rois` (picture, corners), each from the level that `level` says for its area.
    ///
    /// # Safety
    /// `to` must have room for `rois · channels · size · size` elements, and levels must have a pixel.
    pub(crate) unsafe fn run(
        self,
        levels: &[Level],
        rois: &[[f32; 5]],
        to: *mut f32,
        level: impl Fn(f32) -> usize + Sync,
    ) {
        let to = To(to);
        let len = self.channels * self.size * self.size;
        rois.par_iter().enumerate().for_each(|(i, roi)| {
            let [picture, x0, y0, x1, y1] = *roi;
            let level = &levels[level((x1 - x0) * (y1 - y0))];
            let scale = level.scale;
            let rows = Taps::new(y0 * scale, y1 * scale, level.height, self);
            let columns = Taps::new(x0 * scale, x1 * scale, level.width, self);
            let sample = level.height * level.width * self.channels;
            let from = &level.data[picture as usize * sample..][..sample];
            let axes = [&rows, &columns];
            // SAFETY: `from` is a picture of this level, for whose sides the taps were made; `to` is the region's part
            // of the result, which this task alone writes.
            unsafe { pool(from, level.width, axes, self, to.at(i * len)) };
        });
    }
}

multiversion! {
    /// One region, from rows of `width` pixels, with the taps for rows and columns.
    ///
    /// # Safety
    /// `from` must have all pixels of the taps, with `channels` elements each, and `to` room for the result.
    unsafe fn pool(from: &[f32], width: usize, axes: [&Taps; 2], pool: Pool, to: *mut f32) = pool_body
}

#[inline(always)]
unsafe fn pool_body<V: Vector>(
    from: &[f32],
    width: usize,
    [rows, columns]: [&Taps; 2],
    pool: Pool,
    to: *mut f32,
) {
    let Pool { channels, size, .. } = pool;
    let plane = size * size;
    let mut offsets = Vec::new();
    // The sums of some pixels, from where they go to their channels run by run.
    let mut sums = Scratch::take(size * channels);
    let sums = sums.as_mut_ptr();
    for i in 0..size {
        for j in 0..size {
            offsets.clear();
            for (row, down) in rows.of(i) {
                for (column, across) in columns.of(j) {
                    offsets.push(((row * width + column) * channels, down * across));
                }
            }
            let sums = sums.wrapping_add(j * channels);
            let from = from.as_ptr();
            let mut c = 0;
            // Several sums at a time, so that none waits for the one before.
            while c + 4 * V::LANES <= channels {
                let mut some = [V::splat(0.0); 4];
                for (offset, weight) in &offsets {
                    let (from, weight) = (from.wrapping_add(offset + c), V::splat(*weight));
                    for (k, sum) in some.iter_mut().enumerate() {
                        // SAFETY: the tap's pixel has `channels` elements, of which four vectors remain.
                        let x = unsafe { V::load(from.add(k * V::LANES)) };
                        *sum = x.mul_add(weight, *sum);
                    }
                }
                for (k, sum) in some.into_iter().enumerate() {
                    // SAFETY: pixel `j` of the scratch has as many.
                    unsafe { sum.store(sums.add(c + k * V::LANES)) };
                }
                c += 4 * V::LANES;
            }
            for c in c..channels {
                // SAFETY: the pixels of the taps, and pixel `j` of the scratch, have `channels` elements.
                unsafe {
                    let terms = offsets.iter();
                    *sums.add(c) = terms
                        .map(|(offset, weight)| *from.add(offset + c) * weight)
                        .sum();
                }
            }
        }
        for c in 0..channels {
            for j in 0..size {
                // SAFETY: the result has `channels` planes of `size` rows, and all sums of row `i` were written above.
                unsafe { *to.add(c * plane + i * size + j) = *sums.add(j * channels + c) };
            }
        }
    }
}
