//! Left operands that do not lie row by row: weights read across, copied so that the rows of a tile lie
//! together.

use super::operand::Rows;
use super::scratch::Scratch;
use super::simd::Vector;
use super::tile::Left;
use core::marker::PhantomData;

/// Copies that are used again are kept up to this many elements (8 MiB).
const KEPT: usize = 1 << 21;

/// Copies of blocks of rows.
pub(super) struct Across<'a, V> {
    operand: Rows<'a>,
    copies: Scratch,
    offsets: Scratch,
    /// Summed elements of all rows, if every block has a place of its own.
    kept: Option<usize>,
    vector: PhantomData<V>,
}

impl<'a, V: Vector> Across<'a, V> {
    /// For `rows` rows of `k` summed elements in blocks of up to `kc` of them, which are used again
    /// for other columns if `reused`. Takes nothing for rows that are read where they lie.
    #[inline(always)]
    pub(super) fn new(
        operand: Rows<'a>,
        (rows, k): (usize, usize),
        kc: usize,
        reused: bool,
    ) -> Self {
        let rows = rows.next_multiple_of(V::TILE_ROWS);
        let kept = (reused && rows * k <= KEPT).then_some(k);
        let (len, kc) = match operand {
            Rows::Along { .. } => (0, 0),
            Rows::Across { .. } if kept.is_some() => (rows * k, kc),
            Rows::Across { .. } => (V::TILE_ROWS * kc, kc),
        };
        let mut offsets = Scratch::take(kc);
        if let Rows::Across { kernel, taps, .. } = operand {
            let run = taps.len();
            let at = offsets.as_mut_ptr().cast::<u32>();
            for k in 0..kc {
                let (i, tap) = (k / run, k % run);
                let tap = if run == kernel { taps[tap] } else { tap };
                // SAFETY: `offsets` has room for `kc` elements of four bytes.
                unsafe { *at.add(k) = (i * V::TILE_ROWS * run + tap) as u32 };
            }
        }
        Self {
            operand,
            copies: Scratch::take(len),
            offsets,
            kept,
            vector: PhantomData,
        }
    }

    /// `kc` elements from `k0` of `rows` rows from `row`, where the first row of all is `first_row`:
    /// whole runs, of which the tile reads the taps in their order, or just the taps. They are copied
    /// unless copies are kept and these are not `new`.
    ///
    /// # Safety
    /// The operand must have these rows and summed elements. `rows` is at most [`Vector::TILE_ROWS`], of
    /// which `row` is a multiple from `first_row` on; `kc` is at most what [`Across::new`] was given; and
    /// what is not `new` must have been copied before.
    #[inline(always)]
    pub(super) unsafe fn rows(
        &mut self,
        (first_row, row, rows): (usize, usize, usize),
        (k0, kc): (usize, usize),
        new: bool,
    ) -> Left {
        let Rows::Across {
            from,
            stride,
            kernel,
            taps,
        } = self.operand
        else {
            unreachable!("rows with unit stride are read where they lie");
        };
        let run = taps.len().max(1);
        let place = self
            .kept
            .map_or(0, |k| (row - first_row) * k + k0 * V::TILE_ROWS);
        let to = self.copies.as_mut_ptr().wrapping_add(place);
        let left = Left {
            at: to,
            stride: run,
            rows,
            offsets: self.offsets.as_mut_ptr().cast(),
        };
        if !new && self.kept.is_some() {
            return left;
        }
        let whole = rows == V::TILE_ROWS;
        for i in 0..kc / run {
            // SAFETY: the caller's rows exist, which is `rows · kernel` elements of each summed output, and `to` is in a
            // block of `TILE_ROWS · kc` elements: the copies have one, or one for each block of the caller's.
            unsafe {
                let from = from.add((k0 / run + i) * stride + row * kernel);
                let to = to.add(i * V::TILE_ROWS * run);
                // The next rows lie behind these, in pieces too short for the processor to foresee.
                for line in 0..(V::TILE_ROWS * kernel).div_ceil(16) {
                    prefetch(from.wrapping_add(V::TILE_ROWS * kernel + line * 16));
                }
                match (run < kernel, whole, V::TILE_ROWS) {
                    (true, true, 8) => pick::<8>(from, to, kernel, taps),
                    (true, true, 6) => pick::<6>(from, to, kernel, taps),
                    (true, true, _) => pick::<4>(from, to, kernel, taps),
                    (true, false, _) => {
                        for j in 0..rows {
                            pick::<1>(from.add(j * kernel), to.add(j * run), kernel, taps);
                        }
                    }
                    (false, true, 8) => copy::<8>(from, to, run),
                    (false, true, 6) => copy::<6>(from, to, run),
                    (false, true, _) => copy::<4>(from, to, run),
                    (false, false, _) => core::ptr::copy_nonoverlapping(from, to, rows * run),
                }
            }
        }
        left
    }
}

/// The taps of `ROWS` rows of `kernel` elements.
///
/// # Safety
/// `from` must have the rows, `to` room for `ROWS · taps.len()` elements; taps are below `kernel`.
#[inline(always)]
unsafe fn pick<const ROWS: usize>(from: *const f32, to: *mut f32, kernel: usize, taps: &[usize]) {
    for (t, tap) in taps.iter().enumerate() {
        for j in 0..ROWS {
            // SAFETY: row `j` and tap number `t` are among the caller's.
            unsafe { *to.add(j * taps.len() + t) = *from.add(j * kernel + tap) };
        }
    }
}

/// `count` pieces of `SIZE` elements. Their size is known because they are too short for calls of
/// memcpy.
///
/// # Safety
/// `from` must have, and `to` have room for, `count · SIZE` elements.
#[inline(always)]
unsafe fn copy<const SIZE: usize>(from: *const f32, to: *mut f32, count: usize) {
    for i in 0..count {
        // SAFETY: piece `i` of the caller's `count`.
        unsafe {
            let piece = from.add(i * SIZE).cast::<[f32; SIZE]>().read_unaligned();
            to.add(i * SIZE)
                .cast::<[f32; SIZE]>()
                .write_unaligned(piece);
        }
    }
}

/// Asks for a cache line ahead of its use; any address will do.
#[inline(always)]
fn prefetch(at: *const f32) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which reads nothing.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T1 }>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}
