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
//! last one, and rounded once.

use super::across::Across;
use super::operand::{Columns, Rows};
use super::scratch::Scratch;
use super::simd::{Element, Vector, multiversion};
use super::tile::{Bias, GROUP, Left, Panel, Partial, panels, tile};
use core::mem::MaybeUninit;
use rayon::prelude::*;

/// Summed elements per block: eight rows of the left operand then stay in a 32 KiB cache.
const fn block_k<E: Element>() -> usize {
    if E::PER_WORD == 1 { 512 } else { 1280 }
}
/// Column groups per block: at most 576 KiB of packed columns of f32, 600 KiB of bf16.
const fn block_groups<E: Element>() -> usize {
    if E::PER_WORD == 1 { 18 } else { 15 }
}
/// Multiply-adds (about 30 µs of one core) below which waking a second thread costs more than it brings.
const SERIAL: usize = 1 << 21;

/// Where the product goes.
#[derive(Clone, Copy)]
pub(crate) enum Target<E> {
    /// Element (row, col) lies at `row · ld + (col / plane) · sample + col % plane`: a row-major
    /// matrix when `plane` is the number of columns, a batch of pictures otherwise.
    Planes {
        to: *mut E,
        ld: usize,
        plane: usize,
        sample: usize,
    },
    /// As `Planes` with `width` pixels in each row of a plane, of which the neighbours are written
    /// `step` pixels apart along both axes: one phase of a picture with `line` pixels in
    /// each row.
    Phase {
        to: *mut E,
        ld: usize,
        plane: usize,
        sample: usize,
        width: usize,
        step: usize,
        line: usize,
    },
    /// Element (row, col) lies at `col · ld + row`.
    Transposed { to: *mut E, ld: usize },
}

impl<E: Element> Target<E> {
    /// A row-major matrix.
    pub(crate) fn rows(to: *mut E, columns: usize) -> Self {
        Self::Planes {
            to,
            ld: columns,
            plane: columns,
            sample: 0,
        }
    }

    /// Where element (`row`, `col`) lies, and how many elements after it the one of the next row.
    #[inline(always)]
    fn column(&self, row: usize, col: usize) -> (*mut E, usize) {
        match *self {
            Self::Planes {
                to,
                ld,
                plane,
                sample,
            } => {
                let (index, pixel) = split(col, plane);
                (to.wrapping_add(index * sample + pixel + row * ld), ld)
            }
            Self::Phase {
                to,
                ld,
                plane,
                sample,
                width,
                step,
                line,
            } => {
                let (index, pixel) = split(col, plane);
                let (y, x) = (pixel / width, pixel % width);
                let at = index * sample + (y * line + x) * step + row * ld;
                (to.wrapping_add(at), ld)
            }
            Self::Transposed { to, ld } => (to.wrapping_add(col * ld + row), 1),
        }
    }
}

/// The plane that a column lies in, and where in it. Where there is one plane, no time goes into a division.
#[inline(always)]
fn split(col: usize, plane: usize) -> (usize, usize) {
    if col < plane {
        (0, col)
    } else {
        (col / plane, col % plane)
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
        let (row_parts, col_parts) = self.parts();
        let groups = self.n.div_ceil(GROUP);
        let rows = self.m.div_ceil(row_parts).next_multiple_of(8);
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

    /// Into how many row and column ranges the work is cut. Columns come first, because every row
    /// range packs all columns again.
    fn parts(&self) -> (usize, usize) {
        let work = self.m * self.n * self.k;
        let threads = rayon::current_num_threads();
        if work < SERIAL || threads == 1 {
            return (1, 1);
        }
        // Several tasks for each thread once they are large, so that uneven threads level out.
        let tasks = threads * (work >> 23).clamp(1, 4);
        let groups = self.n.div_ceil(GROUP);
        if let Rows::Across { .. } = self.left {
            // Here every column range copies all rows again, so that long row ranges come first.
            let cols = (tasks * 128 / self.m).min(groups / 6).clamp(1, tasks);
            return (tasks.div_ceil(cols).min(self.m.div_ceil(16)), cols);
        }
        let cols = (groups / 6).clamp(1, tasks);
        let rows = tasks.div_ceil(cols).min(self.m.div_ceil(16));
        (rows, cols.max(groups.div_ceil(block_groups::<E>())))
    }
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
pub(crate) unsafe fn pack<E: Element>(
    right: &dyn Columns<E>,
    (col, cols): (usize, usize),
    (k0, kc): (usize, usize),
    to: *mut f32,
) {
    let words = kc.div_ceil(E::PER_WORD);
    let mut group = 0;
    for width in panels(cols.div_ceil(GROUP)) {
        let panel = to.wrapping_add(group * GROUP * words);
        for i in 0..width {
            let done = (group + i) * GROUP;
            let to = panel.wrapping_add(i * GROUP);
            let rest = GROUP.min(cols - done);
            // SAFETY: the panels of all groups have `words` rows each, which is the caller's room, and group
            // `group + i` begins before column `cols`.
            unsafe { right.pack(col + done, rest, k0, kc, to, width * GROUP) };
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
    let run = gemm.left.run();
    let runs = gemm.k.div_ceil(run);
    let k_blocks = gemm.k.div_ceil(block_k::<E>()).max(1);
    let (first_col, last_col) = range.cols;
    let columns = block_groups::<E>() * GROUP;
    let widest = (last_col - first_col).next_multiple_of(GROUP).min(columns);
    let kc_max = runs.div_ceil(k_blocks) * run;
    let words = kc_max.div_ceil(E::PER_WORD);
    // A packed block, and one more row for the bias.
    let mut scratch = Scratch::take(widest * (words + 1));
    let packed = scratch.as_mut_ptr();
    let bias = packed.wrapping_add(widest * words);
    let reused = last_col - first_col > columns;
    let all_rows = range.rows.1 - range.rows.0;
    let mut across = Across::<V, E>::new(gemm.left, (all_rows, gemm.k), kc_max, reused);
    // Sums that are no elements yet.
    let keeps = E::PER_WORD > 1 && k_blocks > 1;
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
            let words = kc.div_ceil(E::PER_WORD);
            // SAFETY: `kc` is at most `kc_max`, for which the scratch has room; columns and rows are the caller's, and
            // runs are whole words.
            unsafe { pack(gemm.right, (col, cols), (k0, kc), packed) };
            let mut row = range.rows.0;
            while row < range.rows.1 {
                let rows = (range.rows.1 - row).min(V::TILE_ROWS);
                let left = match gemm.left {
                    Rows::Along { from, stride } if gemm.left.in_place(gemm.k) => Left::along(
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
                    Some(bias) if block == 0 => bias[row..row + rows].as_ptr(),
                    _ => core::ptr::null(),
                };
                let mut group = 0;
                for width in panels(cols.div_ceil(GROUP)) {
                    let at = group * GROUP;
                    let col_bias = match gemm.col_bias {
                        Some(_) if block == 0 => bias.wrapping_add(at),
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
                        let to = (row - range.rows.0) * widest + at;
                        sums.as_mut_ptr().wrapping_add(to)
                    });
                    // SAFETY: the panel and the bias were written above for these columns; the place is in `range`,
                    // and the first block of summed elements, which adds to nothing, has written there, or to the
                    // kept sums, before.
                    unsafe {
                        match kept {
                            Some(to) if !last => {
                                let to = groups_from(to);
                                let plus = place.plus.then(|| Partial::at(to, widest));
                                tile::<V, E, f32>(left, panel, to, widest, plus, bias);
                            }
                            Some(to) => {
                                let plus = Some(Partial::at(groups_from(to), widest));
                                let place = Place {
                                    plus: false,
                                    ..place
                                };
                                write::<V, E>(&gemm.target, left, panel, place, plus, bias);
                            }
                            None => write::<V, E>(&gemm.target, left, panel, place, None, bias),
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

/// Three groups that follow each other.
#[inline(always)]
fn groups_from(to: *mut f32) -> [*mut f32; 3] {
    [0, 1, 2].map(|i| to.wrapping_add(i * GROUP))
}

/// Where a tile goes, and whether it is added to the f32 that are there.
#[derive(Clone, Copy)]
struct Place {
    row: usize,
    col: usize,
    cols: usize,
    plus: bool,
}

/// Multiplies one tile, adds `sums` and writes it to the target.
///
/// # Safety
/// Operands, sums and biases as for [`tile`], with at most [`Vector::TILE_ROWS`] rows; the place must lie in the
/// target, for `left.rows` rows, and hold numbers, which must be f32, if it says `plus`. Not both sums and `plus`.
#[inline(always)]
unsafe fn write<V: Vector, E: Element>(
    target: &Target<E>,
    left: Left,
    panel: Panel,
    place: Place,
    sums: Option<Partial>,
    bias: Bias,
) {
    let Place {
        row,
        col,
        cols,
        plus,
    } = place;
    if let Target::Planes {
        to,
        ld,
        plane,
        sample,
    } = *target
    {
        let mut groups = [core::ptr::null_mut(); 3];
        let mut direct = cols == panel.groups * GROUP;
        for (i, group) in groups.iter_mut().enumerate().take(panel.groups) {
            let (index, pixel) = split(col + i * GROUP, plane);
            direct &= pixel + GROUP <= plane;
            *group = to.wrapping_add(index * sample + pixel + row * ld);
        }
        if direct {
            let there = plus.then(|| Partial::at(groups.map(|group| group.cast()), ld));
            // SAFETY: every group is whole and lies in one plane, so that its columns follow each other in the place.
            return unsafe { tile::<V, E, E>(left, panel, groups, ld, sums.or(there), bias) };
        }
    }
    let mut out = MaybeUninit::<[f32; 8 * 3 * GROUP]>::uninit();
    let width = 3 * GROUP;
    if plus {
        let at = out.as_mut_ptr().cast::<f32>();
        let linear = Bias {
            relu: false,
            ..bias
        };
        // SAFETY: `out` has room for three groups of eight rows, which is the most that a tile has.
        unsafe { tile::<V, E, f32>(left, panel, groups_from(at), width, sums, linear) };
        for j in 0..cols {
            let (to, ld) = target.column(row, col + j);
            for i in 0..left.rows {
                // SAFETY: the tile has written this row and column of `out`, and the target has them.
                unsafe { put(to.add(i * ld), *at.add(i * width + j), bias.relu) };
            }
        }
        return;
    }
    let at = out.as_mut_ptr().cast::<E>();
    let groups = [0, 1, 2].map(|i| at.wrapping_add(i * GROUP));
    // SAFETY: as above; elements are no larger than f32.
    unsafe { tile::<V, E, E>(left, panel, groups, width, sums, bias) };
    for j in 0..cols {
        let (to, ld) = target.column(row, col + j);
        for i in 0..left.rows {
            // SAFETY: as above.
            unsafe { *to.add(i * ld) = *at.add(i * width + j) };
        }
    }
}

/// Adds `value` to the number that is there; below zero it becomes zero if `relu`.
#[inline(always)]
unsafe fn put<E: Element>(to: *mut E, value: f32, relu: bool) {
    // SAFETY: the caller's element, which holds a number.
    unsafe {
        let value = (*to).widen() + value;
        // NaN stays NaN.
        *to = E::narrow(if relu && value < 0.0 { 0.0 } else { value });
    }
}
