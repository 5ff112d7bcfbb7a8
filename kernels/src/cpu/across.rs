//! Left operands that cannot be read where they lie: weights read across, and rows that are no whole words. They are copied
//! so that the rows of a tile lie together.

use super::operand::{Packs, Rows};
use super::prefetch;
use super::scratch::Scratch;
use super::simd::{Element, Vector};
use super::tile::{Left, tile_rows};
#[cfg(target_arch = "x86_64")]
use super::tile::{in_amx, turn};
use core::marker::PhantomData;

/// Copies that are used again are kept up to this many words (8 MiB).
pub(super) const KEPT: usize = 1 << 21;

/// Copies of blocks of rows.
///
/// Of f32 read across, whole runs are copied as they lie, of which the tile reads the taps in their order, unless they are multiplied
/// in parts. Of bf16 read across, the elements of a word come from different places. Those of a single tap lie as `[words, rows]` but for
/// AMX, everything else as `[rows, words]`.
pub(super) struct Across<'a, V, W, E> {
    operand: Rows<'a, E>,
    copies: Scratch,
    offsets: Scratch,
    /// Rows of a block.
    together: usize,
    /// Words of all rows, if every block has a place of its own.
    kept: Option<usize>,
    words: PhantomData<(V, W)>,
}

impl<'a, V: Vector, W: Packs<E>, E: Element> Across<'a, V, W, E> {
    /// For `rows` rows of `k` summed elements in blocks of up to `kc` of them, to be multiplied with `cols` columns and
    /// used again for other columns if `reused`. Takes nothing for rows that are read where they lie.
    #[inline(always)]
    pub(super) fn new(
        operand: Rows<'a, E>,
        (rows, k): (usize, usize),
        kc: usize,
        (cols, reused): (usize, bool),
    ) -> Self {
        let together = tile_rows::<V, W>();
        let rows = rows.next_multiple_of(together);
        let [k_words, kc] = [k, kc].map(W::words);
        let kept = (reused && W::PARTS == 1 && rows * k_words <= KEPT).then_some(k_words);
        let (len, kc) = match operand.in_place::<W>(k, cols) {
            true => (0, 0),
            false if kept.is_some() => (rows * k_words, kc),
            false => (together * kc, kc),
        };
        let mut offsets = Scratch::take(kc);
        if let Rows::Across { kernel, taps, .. } = operand {
            let run = taps.len();
            let at = offsets.as_mut_ptr().cast::<u32>();
            for k in 0..kc {
                let (i, tap) = (k / run, k % run);
                let tap = if run == kernel { taps[tap] } else { tap };
                // SAFETY: `offsets` has room for `kc` elements of four bytes.
                unsafe { *at.add(k) = (i * together * run + tap) as u32 };
            }
        }
        Self {
            operand,
            copies: Scratch::take(len),
            offsets,
            together,
            kept,
            words: PhantomData,
        }
    }

    /// `kc` elements from `k0` of `rows` rows from `row`, where the first row of all is `first_row`. They are copied
    /// unless copies are kept and these are not `new`.
    ///
    /// # Safety
    /// The operand must have these rows and summed elements. `rows` is at most [`tile_rows`], of
    /// which `row` is a multiple from `first_row` on; `k0` is a multiple of the operand's run; `kc` is at most what
    /// [`Across::new`] was given; and what is not `new` must have been copied before.
    #[inline(always)]
    pub(super) unsafe fn rows(
        &mut self,
        (first_row, row, rows): (usize, usize, usize),
        (k0, kc): (usize, usize),
        new: bool,
    ) -> Left {
        let place = self.kept.map_or(0, |words| {
            (row - first_row) * words + W::words(k0) * self.together
        });
        let to = self.copies.as_mut_ptr().wrapping_add(place);
        let copied = !new && self.kept.is_some();
        let (words, together) = (W::words(kc), self.together);
        let by_row = Left {
            at: to,
            stride: words,
            rows,
            offsets: core::ptr::null(),
        };
        let (from, stride, kernel, taps) = match self.operand {
            Rows::Along { from, stride } => {
                if !copied {
                    for j in 0..rows {
                        // SAFETY: row `row + j` has the elements, and each row of the copy has room for whole words.
                        unsafe {
                            let from = from.add((row + j) * stride + k0);
                            prefetch::far(from.wrapping_add(together * stride), kc);
                            W::row(from, kc, to.add(j * words));
                        }
                    }
                }
                return by_row;
            }
            Rows::Across {
                from,
                stride,
                kernel,
                taps,
            } => (from, stride, kernel, taps),
        };
        let run = taps.len().max(1);
        let from = from.wrapping_add(k0 / run * stride + row * kernel);
        #[cfg(target_arch = "x86_64")]
        if W::PARTS > 1 {
            let mut whole = Scratch::take(self.together * kc);
            let whole = whole.as_mut_ptr();
            // SAFETY: the caller's rows exist; there is room for whole rows and for their words. Where there are parts, elements are f32
            // and there is AVX-512.
            unsafe {
                match kernel {
                    1 => turn((from.cast(), stride), (rows, kc), (whole, kc)),
                    _ => by_rows(from, whole.cast(), (stride, kernel, taps), rows, kc),
                }
                for j in 0..rows {
                    W::row(whole.add(j * kc).cast(), kc, to.add(j * words));
                }
            }
            return by_row;
        }
        if E::PER_WORD > 1 {
            if run > 1 {
                if !copied {
                    // SAFETY: as below; each row of the copy has room for whole words.
                    unsafe { by_rows(from, to.cast(), (stride, kernel, taps), rows, kc) };
                }
                return by_row;
            }
            let place = (stride, kernel, taps);
            #[cfg(target_arch = "x86_64")]
            if in_amx::<E>() {
                if !copied {
                    let mut scratch = Scratch::take(self.together * words);
                    let across = scratch.as_mut_ptr();
                    // SAFETY: as below; words of `together` rows have room, here and there.
                    unsafe {
                        pairs_of_outputs(from, (across, self.together), place, rows, kc);
                        turn((across, self.together), (rows, words), (to, words));
                    }
                }
                return by_row;
            }
            if !copied {
                // SAFETY: as below; words of `together` rows have room.
                unsafe { pairs_of_outputs(from, (to, self.together), place, rows, kc) };
            }
            return Left {
                stride: 1,
                offsets: self.offsets.as_mut_ptr().cast(),
                ..by_row
            };
        }
        let left = Left {
            stride: run,
            offsets: self.offsets.as_mut_ptr().cast(),
            ..by_row
        };
        if copied {
            return left;
        }
        // Words of f32 are elements.
        let (from, whole) = (from.cast::<f32>(), rows == V::TILE_ROWS);
        for i in 0..kc / run {
            // SAFETY: the caller's rows exist, which is `rows · kernel` elements of each summed output, and `to` is in a
            // block of `TILE_ROWS · kc` elements: the copies have one, or one for each block of the caller's.
            unsafe {
                let from = from.add(i * stride);
                let to = to.add(i * V::TILE_ROWS * run);
                // The next rows lie behind these, in pieces too short for the processor to foresee.
                prefetch::far(
                    from.wrapping_add(V::TILE_ROWS * kernel),
                    V::TILE_ROWS * kernel,
                );
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

/// The taps of the rows of a weight, `kc` elements row after row, each of them whole words.
///
/// # Safety
/// `from` must have `rows · kernel` elements of `kc / taps.len()` outputs, `stride` apart; `to` must have room.
#[inline(always)]
unsafe fn by_rows<E: Element>(
    from: *const E,
    to: *mut E,
    (stride, kernel, taps): (usize, usize, &[usize]),
    rows: usize,
    kc: usize,
) {
    let width = kc.next_multiple_of(E::PER_WORD);
    // A convolution with a 3 × 3 kernel turns it by half.
    let turned = kernel == 9 && taps.iter().rev().copied().eq(0..9);
    for i in 0..kc / taps.len() {
        let (from, to) = (
            from.wrapping_add(i * stride),
            to.wrapping_add(i * taps.len()),
        );
        prefetch::far(from.wrapping_add(rows * kernel), rows * kernel);
        for j in 0..rows {
            // SAFETY: row `j` of output `i` is the caller's, and so are its taps.
            unsafe {
                let (from, to) = (from.add(j * kernel), to.add(j * width));
                if turned {
                    let mut eight = from.cast::<[E; 8]>().read_unaligned();
                    eight.reverse();
                    *to = *from.add(8);
                    to.add(1).cast::<[E; 8]>().write_unaligned(eight);
                } else {
                    for (t, tap) in taps.iter().enumerate() {
                        *to.add(t) = *from.add(*tap);
                    }
                }
            }
        }
    }
    for k in kc..width {
        for j in 0..rows {
            // SAFETY: each row has room for whole words.
            unsafe { *to.add(j * width + k) = E::narrow(0.0) };
        }
    }
}

/// Words of neighbouring outputs at a single tap, for each of them all rows of a tile.
///
/// # Safety
/// As for [`by_rows`] with one tap; `to` must have room for the words of as many rows as its second part says.
#[inline(always)]
unsafe fn pairs_of_outputs<E: Element>(
    from: *const E,
    (to, together): (*mut f32, usize),
    (stride, kernel, taps): (usize, usize, &[usize]),
    rows: usize,
    kc: usize,
) {
    let from = from.wrapping_add(taps.first().copied().unwrap_or(0));
    for i in (0..kc).step_by(2) {
        let (first, second) = (
            from.wrapping_add(i * stride),
            from.wrapping_add((i + 1) * stride),
        );
        let to = to.wrapping_add(i / 2 * together);
        // SAFETY: output `i` is the caller's, and so is the next if there is one; of each there are `rows` elements.
        unsafe {
            let whole = match kernel == 1 && i + 1 < kc {
                true => rows / 8 * 8,
                false => 0,
            };
            for j in (0..whole).step_by(8) {
                let [first, second] = [first, second].map(|at| at.add(j).cast::<[E; 8]>());
                let (first, second) = (first.read_unaligned(), second.read_unaligned());
                let words: [f32; 8] = core::array::from_fn(|j| E::word(first[j], second[j]));
                to.add(j).cast::<[f32; 8]>().write_unaligned(words);
            }
            for j in whole..rows {
                let second = match i + 1 < kc {
                    true => *second.add(j * kernel),
                    false => E::narrow(0.0),
                };
                *to.add(j) = E::word(*first.add(j * kernel), second);
            }
        }
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
