//! Pooling of regions. A sample is interpolated along one axis and then along the other, so a pixel of
//! the result is a sum over rows of sums over columns, with weights that all channels share.

use rayon::prelude::*;

use super::simd::{Vector, multiversion};

/// A level of a feature pyramid `[B, C, height, width]`.
pub(crate) struct Level<'a> {
    pub data: &'a [f32],
    pub height: usize,
    pub width: usize,
    /// Pixels of the level for each of the picture.
    pub scale: f32,
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

/// For each pixel of the result the pixels along one axis that it is made of.
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
                // Written so that NaN counts as outside.
                if !(at >= -1.0 && at <= length as f32) {
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

    /// The first pixel and the number of pixels up to the last.
    fn range(&self) -> (usize, usize) {
        let pixels = || self.taps.iter().map(|(pixel, _)| *pixel);
        let first = pixels().min().unwrap_or(0);
        (first, pixels().max().map_or(0, |last| last + 1 - first))
    }
}

#[derive(Clone, Copy)]
struct To(*mut f32);

// SAFETY: every region writes to its own part.
unsafe impl Send for To {}
// SAFETY: as above.
unsafe impl Sync for To {}

impl Pool {
    /// Pools `rois` (picture, corners), each from the level that `level` says for its area.
    ///
    /// # Safety
    /// `to` must have room for `rois · channels · size · size` elements; pictures must exist.
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
            let to: To = to;
            let sample = self.channels * level.height * level.width;
            let from = &level.data[picture as usize * sample..][..sample];
            // SAFETY: the region's part of the result.
            unsafe {
                let to = core::slice::from_raw_parts_mut(
                    to.0.add(i * len).cast::<core::mem::MaybeUninit<f32>>(),
                    len,
                );
                for x in to.iter_mut() {
                    x.write(0.0);
                }
                let to = core::slice::from_raw_parts_mut(to.as_mut_ptr().cast::<f32>(), len);
                pool(from, level.width, &rows, &columns, self.size, to);
            }
        });
    }
}

multiversion! {
    /// All channels of one region, from planes of `width` pixels in each row, to zeros.
    unsafe fn pool(
        from: &[f32],
        width: usize,
        rows: &Taps,
        columns: &Taps,
        size: usize,
        to: &mut [f32],
    ) = pool_body
}

/// The compiler finds the vectors here, for which it knows the instruction set.
#[inline(always)]
unsafe fn pool_body<V: Vector>(
    from: &[f32],
    width: usize,
    rows: &Taps,
    columns: &Taps,
    size: usize,
    to: &mut [f32],
) {
    let (first, count) = columns.range();
    let mut line = vec![0.0f32; count];
    let channels = to.len() / (size * size);
    let plane = from.len() / channels.max(1);
    for (from, to) in from
        .chunks_exact(plane.max(1))
        .zip(to.chunks_exact_mut(size * size))
    {
        for (i, to) in to.chunks_exact_mut(size).enumerate() {
            let taps = rows.of(i);
            if taps.is_empty() {
                continue;
            }
            line.fill(0.0);
            for (row, weight) in taps {
                let from = &from[row * width + first..][..count];
                for (sum, x) in line.iter_mut().zip(from) {
                    *sum += weight * x;
                }
            }
            for (j, to) in to.iter_mut().enumerate() {
                let taps = columns.of(j).iter();
                *to = taps
                    .map(|(column, weight)| weight * line[column - first])
                    .sum();
            }
        }
    }
}
