//! Deformable attention: the values of a token and head lie next to each other, so that a sample is a sum of whole vectors.

use super::simd::{Vector, multiversion};
use super::tasks::{To, each};
use crate::plain::Levels;

/// One problem; all operands are contiguous.
pub(crate) struct Sampling<'a> {
    /// `[B, tokens, H, D]`.
    pub values: &'a [f32],
    /// `[B, Q, H, S, 2]`.
    pub locations: &'a [f32],
    /// `[B, Q, H, S]`.
    pub weights: &'a [f32],
    pub levels: Levels,
    pub batch: usize,
    pub queries: usize,
    pub heads: usize,
    /// `D`.
    pub width: usize,
    /// `S`: those of all levels.
    pub samples: usize,
}

/// Where the values of a pixel begin, and its weight.
type Tap = (usize, f32);

impl Sampling<'_> {
    /// Writes the result `[B, Q, H, D]`.
    ///
    /// # Safety
    /// The slices must have the sizes that are given, and `to` room for the result.
    pub(crate) unsafe fn run(&self, to: *mut f32) {
        let to = To(to);
        let row = self.heads * self.width;
        let count = self.batch * self.queries;
        each(count, count * row * self.samples, |i| {
            let picture = i / self.queries;
            let values = &self.values[picture * self.levels.tokens() * row..];
            let mut taps = Vec::with_capacity(4 * self.samples);
            for head in 0..self.heads {
                self.taps(i * self.heads + head, head * self.width, &mut taps);
                // SAFETY: taps are pixels of the picture with `width` values each; query `i` and this head have as many of
                // the result, which this task alone writes.
                unsafe {
                    sum(
                        values,
                        &taps,
                        self.width,
                        to.at(i * row + head * self.width),
                    )
                };
            }
        });
    }

    /// The pixels around the samples of row `row` of the locations, in values that begin at `first`.
    fn taps(&self, row: usize, first: usize, taps: &mut Vec<Tap>) {
        taps.clear();
        let points = self.samples / self.levels.sizes().len();
        let stride = self.heads * self.width;
        for (level, [start, height, width]) in self.levels.maps().enumerate() {
            for point in 0..points {
                let sample = row * self.samples + level * points + point;
                let weight = self.weights[sample];
                let x = self.locations[2 * sample] * width as f32 - 0.5;
                let y = self.locations[2 * sample + 1] * height as f32 - 0.5;
                // NaN is outside as well.
                let near = |at: f32, length: usize| at > -1.0 && at < length as f32;
                if !near(x, width) || !near(y, height) {
                    continue;
                }
                let [left, top] = [x.floor(), y.floor()];
                let [across, down] = [x - left, y - top];
                for (row, by_row) in [(top, 1.0 - down), (top + 1.0, down)] {
                    for (column, by_column) in [(left, 1.0 - across), (left + 1.0, across)] {
                        let inside = row >= 0.0
                            && row < height as f32
                            && column >= 0.0
                            && column < width as f32;
                        if inside {
                            let token = start + row as usize * width + column as usize;
                            taps.push((token * stride + first, weight * by_row * by_column));
                        }
                    }
                }
            }
        }
    }
}

multiversion! {
    /// The sum of the taps' values times their weights.
    ///
    /// # Safety
    /// `values` must have `width` elements from each tap on, and `to` room for as many.
    unsafe fn sum(values: &[f32], taps: &[Tap], width: usize, to: *mut f32) = sum_body
}

#[inline(always)]
unsafe fn sum_body<V: Vector>(values: &[f32], taps: &[Tap], width: usize, to: *mut f32) {
    let from = values.as_ptr();
    let mut c = 0;
    while c + 2 * V::LANES <= width {
        let mut some = [V::splat(0.0); 2];
        for (offset, weight) in taps {
            let (from, weight) = (from.wrapping_add(offset + c), V::splat(*weight));
            for (k, sum) in some.iter_mut().enumerate() {
                // SAFETY: the tap has `width` elements, of which two vectors remain.
                let x = unsafe { V::load(from.add(k * V::LANES)) };
                *sum = x.mul_add(weight, *sum);
            }
        }
        for (k, sum) in some.into_iter().enumerate() {
            // SAFETY: the result has as many.
            unsafe { sum.store(to.add(c + k * V::LANES)) };
        }
        c += 2 * V::LANES;
    }
    while c < width {
        let count = V::LANES.min(width - c);
        let mut sum = V::splat(0.0);
        for (offset, weight) in taps {
            // SAFETY: the tap has `count` elements more, at least one.
            let x = unsafe { V::load_first(from.wrapping_add(offset + c), count) };
            sum = x.mul_add(V::splat(*weight), sum);
        }
        // SAFETY: so has the result.
        unsafe { sum.store_first(to.add(c), count) };
        c += count;
    }
}
