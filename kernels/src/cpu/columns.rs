//! The two ways in which right operands lie in memory.

use super::operand::Columns;
use super::prefetch;
use super::simd::{Element, Level, Vector, level, multiversion};
use super::taps::{self, Tap, TapRows};
use super::tile::GROUP;

/// The transpose of a row-major matrix: column `j` lies at `j · stride` with unit stride along the
/// summed axis. A weight `[Out, In]`, or the keys of attention. All columns that are packed must exist.
pub(crate) struct Transposed<E> {
    pub from: *const E,
    pub stride: usize,
}

// SAFETY: only read.
unsafe impl<E: Element> Sync for Transposed<E> {}

impl<E: Element> Columns<E> for Transposed<E> {
    unsafe fn pack(
        &self,
        col: usize,
        cols: usize,
        k0: usize,
        kc: usize,
        to: *mut f32,
        stride: usize,
    ) {
        let from = self.from.wrapping_add(col * self.stride + k0);
        // The next word of each column.
        let mut word = 0;
        if cols == GROUP {
            let bytes = self.stride * size_of::<E>();
            while (word + GROUP) * E::PER_WORD <= kc {
                let from = from.wrapping_add(word * E::PER_WORD);
                if level() >= Level::Avx512 {
                    // Of the next group, which lies behind this one in pieces too short for the processor to foresee.
                    for j in GROUP..2 * GROUP {
                        prefetch::far(from.wrapping_add(j * self.stride), 1);
                    }
                }
                // SAFETY: sixteen of the caller's columns and sixteen words of each remain, and `to` has room for them.
                unsafe { transpose(from.cast(), bytes, to.add(word * stride), stride) };
                word += GROUP;
            }
        }
        for j in 0..GROUP {
            for word in word..kc.div_ceil(E::PER_WORD) {
                let k = word * E::PER_WORD;
                let element = |k: usize| match j < cols && k < kc {
                    // SAFETY: column `j` and row `k` are among the caller's.
                    true => unsafe { *from.add(j * self.stride + k) },
                    false => E::narrow(0.0),
                };
                // SAFETY: `to` has room for a group of each row.
                unsafe { *to.add(word * stride + j) = E::word(element(k), element(k + 1)) };
            }
        }
    }
}

multiversion! {
    /// Transposes a block of 16 × 16 words in registers.
    ///
    /// # Safety
    /// `from` must have 16 rows of 16 words, `from_bytes` apart, and `to` room for as many, `to_stride` words apart. Words need no
    /// alignment.
    pub(super) unsafe fn transpose(from: *const u8, from_bytes: usize, to: *mut f32, to_stride: usize) = transpose_body
}

#[inline(always)]
unsafe fn transpose_body<V: Vector>(
    from: *const u8,
    from_bytes: usize,
    to: *mut f32,
    to_stride: usize,
) {
    for first in (0..GROUP).step_by(V::LANES) {
        let mut rows = [core::ptr::null::<f32>(); GROUP];
        for (i, row) in rows.iter_mut().enumerate().take(V::LANES) {
            *row = from.wrapping_add((first + i) * from_bytes).cast();
        }
        // SAFETY: rows `first..first + LANES` of the caller's sixteen, which are written to lanes of as many columns.
        unsafe {
            let columns = V::columns::<f32, GROUP>(&rows[..V::LANES]);
            for (j, column) in columns.into_iter().enumerate() {
                column.store(to.add(j * to_stride + first));
            }
        }
    }
}

/// The unrolled neighbourhoods of a batch of pictures ("im2col"): column `j` is the output pixel
/// `j % plane` of the sample `j / plane`, row `k` the input channel `k / taps` at the kernel
/// position `k % taps`. Kernel size 1 makes it a plain batch of row-major matrices, for values of
/// attention and channel-first activations in a linear layer.
#[derive(Clone, Copy)]
pub(crate) struct Patches<E> {
    pub from: *const E,
    pub height: usize,
    pub width: usize,
    /// Elements from one channel to the next, and from one sample to the next.
    pub channel_stride: usize,
    pub sample_stride: usize,
    pub out_width: usize,
    /// Output pixels of a sample.
    pub plane: usize,
    /// Rows and columns of the neighbourhood.
    pub kernel: [usize; 2],
    pub stride: usize,
    /// How far the neighbourhood starts above and to the left of its pixel.
    pub padding: [isize; 2],
}

// SAFETY: only read.
unsafe impl<E: Element> Sync for Patches<E> {}

/// Largest kernel, in taps.
pub(crate) const MAX_TAPS: usize = 49;

impl<E: Element> Patches<E> {
    /// The rows of a row-major matrix with `cols` columns and `stride` elements between rows.
    pub(crate) fn rows(from: *const E, stride: usize, cols: usize) -> Self {
        Self {
            from,
            height: 1,
            width: cols,
            channel_stride: stride,
            sample_stride: 0,
            out_width: cols,
            plane: cols,
            kernel: [1, 1],
            stride: 1,
            padding: [0, 0],
        }
    }

    /// Offsets inside a channel of `size` elements, and to the samples that one group of columns meets, are
    /// kept in 32 bits: whether that is enough with `plane` columns for each sample.
    pub(crate) fn offsets_fit(plane: usize, sample_stride: usize, size: usize) -> bool {
        let samples = GROUP / plane.max(1) + 1;
        let furthest = samples.checked_mul(sample_stride);
        furthest
            .and_then(|at| at.checked_add(size))
            .is_some_and(|at| at <= i32::MAX as usize)
    }

    fn taps(&self, col: usize, cols: usize, taps: &mut [Tap]) {
        let (pixel, [above, before]) = (col % self.plane, self.padding);
        let (height, width) = (self.height as isize, self.width as isize);
        let (row, column) = (pixel / self.out_width, pixel % self.out_width);
        let [rows, columns] = self.kernel.map(|n| n as isize);
        let positions = (0..rows).flat_map(|down| (0..columns).map(move |right| (down, right)));
        if self.stride <= 2 && column + cols <= self.out_width {
            // All in one output row: a run of neighbours, cut off at the borders.
            let step = self.stride as isize;
            let (y, x) = (row as isize * step - above, column as isize * step - before);
            let run = |from: isize, to: isize| {
                // The first lane that is not before `n`.
                let lane = |n: isize| (n + step - 1).div_euclid(step).clamp(0, cols as isize);
                let bits = |n: isize| ((1u32 << lane(n)) - 1) as u16;
                bits(to) & !bits(from)
            };
            for (tap, (down, right)) in taps.iter_mut().zip(positions) {
                let (y, x) = (y + down, x + right);
                let inside = (0..height).contains(&y);
                tap.mask = if inside { run(-x, width - x) } else { 0 };
                tap.step = self.stride as u8;
                tap.offsets[0] = (y * width + x) as i32;
            }
            return;
        }
        // Top left corner of the neighbourhood, and start of the sample, for every lane.
        let mut places = [(0isize, 0isize, 0isize); GROUP];
        let (mut row, mut column, mut sample) = (row, column, 0);
        for place in places.iter_mut().take(cols) {
            *place = (
                (row * self.stride) as isize - above,
                (column * self.stride) as isize - before,
                sample,
            );
            column += 1;
            if column == self.out_width {
                (row, column) = (row + 1, 0);
            }
            if row * self.out_width == self.plane {
                (row, sample) = (0, sample + self.sample_stride as isize);
            }
        }
        for (tap, (down, right)) in taps.iter_mut().zip(positions) {
            let (mut mask, mut contiguous) = (0, true);
            for (i, (y, x, sample)) in places.iter().enumerate().take(cols) {
                let (y, x) = (y + down, x + right);
                if (0..height).contains(&y) && (0..width).contains(&x) {
                    mask |= 1 << i;
                }
                tap.offsets[i] = (sample + y * width + x) as i32;
                contiguous &= tap.offsets[i] == tap.offsets[0] + i as i32;
            }
            (tap.mask, tap.step) = (mask, u8::from(contiguous));
        }
    }
}

impl<E: Element> Columns<E> for Patches<E> {
    unsafe fn pack(
        &self,
        col: usize,
        cols: usize,
        k0: usize,
        kc: usize,
        to: *mut f32,
        stride: usize,
    ) {
        let count = self.kernel[0] * self.kernel[1];
        if count == 0 {
            return;
        }
        let mut taps = [Tap {
            mask: 0,
            step: 1,
            offsets: [0; GROUP],
        }; MAX_TAPS];
        let taps = &mut taps[..count];
        self.taps(col, cols, taps);
        let from = self
            .from
            .wrapping_add(col / self.plane * self.sample_stride);
        let rows = TapRows {
            from,
            channel_stride: self.channel_stride,
            taps,
            channel: k0 / count,
            index: k0 % count,
        };
        // SAFETY: the taps were made for these columns; the rest is the caller's contract.
        unsafe { taps::pack(rows, kc, to, stride) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::simd::forced;

    /// Words are pairs of bf16, too, so that no bit of them may change.
    #[test]
    fn a_block_of_words_is_transposed_bit_by_bit() {
        const APART: usize = 19;
        let word = |i: usize, j: usize| f32::from_bits(0x7f80_0000 - 3 + (i * GROUP + j) as u32);
        let mut from = [0.0f32; GROUP * APART];
        for i in 0..GROUP {
            for j in 0..GROUP {
                from[i * APART + j] = word(i, j);
            }
        }
        forced::each(|level| {
            let mut to = [0.0f32; GROUP * APART];
            // SAFETY: both have sixteen rows of nineteen words.
            unsafe { transpose(from.as_ptr().cast(), APART * 4, to.as_mut_ptr(), APART) };
            for (at, got) in to.into_iter().enumerate() {
                let (j, i) = (at / APART, at % APART);
                let want = if i < GROUP { word(i, j) } else { 0.0 };
                assert_eq!(
                    got.to_bits(),
                    want.to_bits(),
                    "{level:?}, row {j}, column {i}"
                );
            }
        });
    }
}
