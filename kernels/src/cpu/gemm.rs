//! Matrix product for the shapes of these networks.
//!
//! The left operand is read where it lies, row by row, when it is a weight or an activation with unit
//! stride along the summed axis; a weight read across is copied run by run, eight rows at a time. The
//! right operand is packed, block by block, into panels of up to
//! 48 columns by whoever knows how it lies in memory ([`Columns`]), so that a convolution unrolls
//! its input straight into the panels and nothing is copied twice. The scheme of blocks and register
//! tiles follows Goto & van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008).
//!
//! Elements are f32 or bf16. Two bf16 that follow each other along the summed axis make a word, and where blocks, panels and
//! tiles count words, those of f32 are its elements. Sums are f32; those of several blocks of bf16 are kept as f32 until the
//! last one, and rounded once. Where the processor multiplies bf16 in tiles, f32 are words of bf16 as well: each is in three parts
//! ([`Parts`](super::tile)), whose products are added up to those of f32.

use super::across::{Across, KEPT};
use super::operand::{Columns, Packs, Rows, STEP};
use super::scratch::Scratch;
use super::simd::{Element, Vector, Words, multiversion};
#[cfg(target_arch = "x86_64")]
use super::simd::{Level, level};
use super::target::{Place, Target, groups_from, write};
#[cfg(target_arch = "x86_64")]
use super::tile::Parts;
use super::tile::{
    AMX_ROWS, Bias, GROUP, Left, Panel, Partial, engaged, in_amx, panels, strip_rows, tile,
};
use rayon::prelude::*;

/// Summed elements per block, of `k` in all: the rows of the left operand that are multiplied together then stay in a 32 KiB cache.
/// Parts and up to 640 elements in AMX come from the next one, and fewer sums go there and back.
fn block_k<W: Words>(k: usize) -> usize {
    match W::PER_WORD {
        1 => 512,
        _ if !in_amx::<W>() => 1280,
        _ if W::PARTS > 1 || k <= 640 => 640,
        _ => 320,
    }
}
/// Column groups per block of `k` summed elements: at most 576 KiB of packed columns of f32, 600 KiB of bf16, 800 KiB in AMX, also
/// of parts.
pub(super) fn block_groups<W: Words>(k: usize) -> usize {
    match W::PER_WORD {
        1 => 18,
        _ if !in_amx::<W>() => 15,
        _ if W::PARTS == 1 => 40,
        _ if k > 320 => 14,
        _ => 28,
    }
}

/// `left · right + bias` with `left` `[m, k]`, `right` `[k, n]`.
pub(crate) struct Gemm<'a, E> {
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub left: Rows<'a, E>,
    pub right: &'a dyn Columns<E>,
    pub target: Target<E>,
    /// One addend for each row.
    pub row_bias: Option<&'a [f32]>,
    /// One addend for each column.
    pub col_bias: Option<&'a [f32]>,
    /// Whether results below zero become zero.
    pub relu: bool,
    /// Rows or columns of a sample: what a way is chosen by that does not round as others do, so that a picture is the same in every
    /// batch.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    pub sample: usize,
}

// SAFETY: operands are only read, and no two tasks of `run`, which alone writes, write at the same place.
unsafe impl<E: Element> Sync for Gemm<'_, E> {}

impl<E: Element> Gemm<'_, E> {
    /// Computes the product on Rayon's threads.
    ///
    /// # Safety
    /// `left`, `right` and `target` must cover `m × k`, `k × n` and `m × n` elements; no two elements of
    /// `target` may lie at one place, nor where the others are read.
    pub(crate) unsafe fn run(&self) {
        #[cfg(target_arch = "x86_64")]
        if self.in_parts() {
            // SAFETY: this function's contract.
            return unsafe { self.run_in::<Parts>() };
        }
        // SAFETY: this function's contract.
        unsafe { self.run_in::<E>() }
    }

    /// Whether elements are f32 that are multiplied in three parts.
    #[cfg(target_arch = "x86_64")]
    fn in_parts(&self) -> bool {
        // To gather some of the taps takes longer than to multiply them.
        let whole = match self.left {
            Rows::Along { .. } => true,
            Rows::Across { kernel, taps, .. } => kernel == taps.len(),
        };
        // All but the samples' number.
        let least = self.m.min(self.n).min(self.sample);
        let long = least >= IN_PARTS && self.k >= STEP;
        E::PER_WORD == 1 && level() == Level::Amx && whole && long
    }

    /// [`Gemm::run`] in words of `W`.
    ///
    /// # Safety
    /// As for that.
    unsafe fn run_in<W: Words>(&self) {
        let (row_parts, col_parts) = self.cut::<W>();
        let groups = self.n.div_ceil(GROUP);
        let together = if in_amx::<W>() { AMX_ROWS } else { 8 };
        let rows = self.m.div_ceil(row_parts).next_multiple_of(together);
        let task = |index: usize| {
            let (part, row) = (index / row_parts, index % row_parts * rows);
            let first = groups * part / col_parts * GROUP;
            let last = (groups * (part + 1) / col_parts * GROUP).min(self.n);
            let range = Range {
                rows: (row.min(self.m), (row + rows).min(self.m)),
                cols: (first, last),
            };
            // SAFETY: rows are capped at `m` and columns at `n`, and the ranges of the tasks are disjoint.
            unsafe { multiply::<E>(self, range) };
        };
        match row_parts * col_parts {
            1 => task(0),
            tasks => (0..tasks).into_par_iter().with_max_len(1).for_each(task),
        }
    }
}

/// Rows or columns of a sample from which f32 are multiplied in parts where there are tiles.
#[cfg(target_arch = "x86_64")]
const IN_PARTS: usize = 64;

/// Bytes that a thread works in for 3 × 3 convolutions of `E` with at most so many `channels`.
pub(crate) fn working_bytes<E: Element>(channels: usize) -> usize {
    let columns = block_groups::<E>(channels * 9) * GROUP;
    // A layer of fewer channels may have longer blocks.
    let longest = block_k::<E>(channels * 9).max(block_k::<E>(1));
    let packed = columns * longest / E::PER_WORD;
    let copies = match in_amx::<E>() {
        true => KEPT.min(channels * channels * 9 / E::PER_WORD),
        false => 0,
    };
    size_of::<f32>() * (packed + channels * columns + copies)
}

/// Columns of the blocks in which `all` columns are multiplied, the last of which may have fewer.
fn columns_of_block<W: Words>(k: usize, all: usize) -> usize {
    let most = block_groups::<W>(k) * GROUP;
    if !in_amx::<W>() {
        return most;
    }
    // Blocks of about one width, of whole panels.
    let blocks = all.div_ceil(most).max(1);
    all.div_ceil(blocks).next_multiple_of(2 * GROUP)
}

#[derive(Clone, Copy)]
struct Range {
    rows: (usize, usize),
    cols: (usize, usize),
}

/// Packs `cols` columns from `col` into panels that follow each other in `to`, each row of words by row.
///
/// # Safety
/// `to` must have room for the words of `kc` rows of the columns rounded up to whole groups; `right` must have rows
/// `k0..k0 + kc` of the columns, of which the first must begin a word.
pub(crate) unsafe fn pack<E: Element, W: Packs<E>>(
    right: &dyn Columns<E>,
    (col, cols): (usize, usize),
    (k0, kc): (usize, usize),
    to: *mut f32,
) {
    let words = W::words(kc);
    let mut group = 0;
    for width in panels::<W>(cols.div_ceil(GROUP)) {
        let panel = to.wrapping_add(group * GROUP * words);
        for i in 0..width {
            let done = (group + i) * GROUP;
            let to = panel.wrapping_add(i * GROUP);
            let rest = GROUP.min(cols - done);
            // SAFETY: the panels of all groups have `words` rows each, which is the caller's room, and group
            // `group + i` begins before column `cols`.
            unsafe { W::columns(right, (col + done, rest), (k0, kc), to, width * GROUP) };
        }
        group += width;
    }
}

multiversion! {
    /// The part of the product in `range`, on this thread.
    ///
    /// # Safety
    /// As for [`Gemm::run`], and nobody else may write to the range, which must lie in the matrix.
    unsafe fn multiply<E>(gemm: &Gemm<'_, E>, range: Range) = multiply_body
}

#[inline(always)]
unsafe fn multiply_body<V: Vector, E: Element>(gemm: &Gemm<'_, E>, range: Range) {
    #[cfg(target_arch = "x86_64")]
    if V::LANES == 16 && gemm.in_parts() {
        // SAFETY: this function's contract.
        return unsafe { multiply_words::<V, Parts, E>(gemm, range) };
    }
    // SAFETY: this function's contract.
    unsafe { multiply_words::<V, E, E>(gemm, range) }
}

/// [`multiply`] in words of `W`.
///
/// # Safety
/// As for that.
#[inline(always)]
unsafe fn multiply_words<V: Vector, W: Packs<E>, E: Element>(gemm: &Gemm<'_, E>, range: Range) {
    let _engaged = engaged::<W>();
    let run = match gemm.left {
        left if in_amx::<W>() && STEP.is_multiple_of(left.run()) => STEP,
        left => left.run(),
    };
    let runs = gemm.k.div_ceil(run);
    let k_blocks = gemm.k.div_ceil(block_k::<W>(gemm.k)).max(1);
    let (first_col, last_col) = range.cols;
    let columns = columns_of_block::<W>(gemm.k, last_col - first_col);
    let widest = (last_col - first_col).next_multiple_of(GROUP).min(columns);
    let kc_max = runs.div_ceil(k_blocks) * run;
    let words = W::words(kc_max);
    // A packed block, and one more row for the bias.
    let mut scratch = Scratch::take(widest * (words + 1));
    let packed = scratch.as_mut_ptr();
    let bias = packed.wrapping_add(widest * words);
    let all_cols = last_col - first_col;
    let in_place = gemm.left.in_place::<W>(gemm.k, all_cols);
    let together = strip_rows::<V, W>(in_place);
    let reused = all_cols > columns;
    let all_rows = range.rows.1 - range.rows.0;
    let mut across =
        Across::<V, W, E>::new(gemm.left, (all_rows, gemm.k), kc_max, (all_cols, reused));
    // Sums that are no elements yet.
    let keeps = W::PER_WORD > 1 && k_blocks > 1;
    // Biases come last if no element is written before, so that sums go from tiles to memory and back as they are.
    let biased = if keeps { k_blocks - 1 } else { 0 };
    let mut sums = Scratch::take(if keeps { all_rows * widest } else { 0 });
    let mut col = first_col;
    while col < last_col {
        let cols = (last_col - col).min(columns);
        if let Some(all) = gemm.col_bias {
            for i in 0..cols.next_multiple_of(GROUP) {
                let value = if i < cols { all[col + i] } else { 0.0 };
                // SAFETY: the scratch ends `widest` elements after `bias`, and `cols` in whole groups are no more.
                unsafe { bias.add(i).write(value) };
            }
        }
        for block in 0..k_blocks {
            let last = block + 1 == k_blocks;
            let k0 = runs * block / k_blocks * run;
            let kc = (runs * (block + 1) / k_blocks * run).min(gemm.k) - k0;
            let words = W::words(kc);
            // SAFETY: `kc` is at most `kc_max`, for which the scratch has room; columns and rows are the caller's, and
            // runs are whole words.
            unsafe { pack::<E, W>(gemm.right, (col, cols), (k0, kc), packed) };
            let mut row = range.rows.0;
            while row < range.rows.1 {
                let rows = (range.rows.1 - row).min(together);
                let left = match gemm.left {
                    Rows::Along { from, stride } if in_place => Left::along(
                        from.wrapping_add(row * stride + k0).cast(),
                        stride / E::PER_WORD,
                        rows,
                    ),
                    // SAFETY: rows and summed elements are the caller's, blocks begin with a run, and the first columns
                    // come first.
                    _ => unsafe {
                        across.rows((range.rows.0, row, rows), (k0, kc), col == first_col)
                    },
                };
                let row_bias = match gemm.row_bias {
                    Some(bias) if block == biased => bias[row..row + rows].as_ptr(),
                    _ => core::ptr::null(),
                };
                let mut group = 0;
                for width in panels::<W>(cols.div_ceil(GROUP)) {
                    let at = group * GROUP;
                    let col_bias = match gemm.col_bias {
                        Some(_) if block == biased => bias.wrapping_add(at),
                        _ => core::ptr::null_mut(),
                    };
                    let panel = Panel {
                        at: packed.wrapping_add(at * words),
                        groups: width,
                        kc: words,
                    };
                    let place = Place {
                        row,
                        col: col + at,
                        cols: (cols - at).min(width * GROUP),
                        plus: block > 0,
                    };
                    let bias = Bias {
                        row: row_bias,
                        col: col_bias,
                        relu: gemm.relu && last,
                    };
                    let kept = keeps.then(|| {
                        let to = (row - range.rows.0) * widest + at * rows;
                        groups_from(sums.as_mut_ptr().wrapping_add(to))
                    });
                    let ld = width * GROUP;
                    // SAFETY: the panel and the bias were written above for these columns; the place is in `range`,
                    // and the first block of summed elements, which adds to nothing, has written there, or to the
                    // kept sums, before.
                    unsafe {
                        match kept {
                            Some(to) if !last => {
                                let plus = place.plus.then(|| Partial::at(to, ld));
                                tile::<V, W, f32>(left, panel, to, ld, plus, bias);
                            }
                            Some(to) => {
                                let plus = Some(Partial::at(to, ld));
                                let place = Place {
                                    plus: false,
                                    ..place
                                };
                                write::<V, W, E>(&gemm.target, left, panel, place, plus, bias);
                            }
                            None => write::<V, W, E>(&gemm.target, left, panel, place, None, bias),
                        }
                    }
                    group += width;
                }
                row += rows;
            }
        }
        col += cols;
    }
}
