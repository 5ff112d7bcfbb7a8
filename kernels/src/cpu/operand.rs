//! How the operands of a matrix product lie in memory.

use super::simd::Element;
use super::tile::{GROUP, in_amx};

/// Columns for which rows are copied for AMX.
const COPIED_FOR: usize = 4 * 2 * GROUP;

/// How the left operand lies in memory.
#[derive(Clone, Copy)]
pub(crate) enum Rows<'a, E> {
    /// Unit stride along the summed axis, `stride` elements between rows.
    Along { from: *const E, stride: usize },
    /// A weight `[Out, In, kernel]` whose rows are the inputs, summed over outputs and `taps`: element
    /// (row, k) lies at `k / taps.len() · stride + row · kernel + taps[k % taps.len()]`.
    Across {
        from: *const E,
        stride: usize,
        kernel: usize,
        taps: &'a [usize],
    },
}

impl<E: Element> Rows<'_, E> {
    /// The summed elements come in runs of this many that blocks do not divide: whole taps, and whole words.
    pub(super) fn run(&self) -> usize {
        match self {
            Self::Along { .. } => E::PER_WORD,
            Self::Across { taps, .. } => {
                let taps = taps.len().max(1);
                if taps.is_multiple_of(E::PER_WORD) {
                    taps
                } else {
                    taps * E::PER_WORD
                }
            }
        }
    }

    /// Whether rows of `k` elements are read where they lie: they are whole words, and so is what is between them. AMX is so fast
    /// that a copy pays for itself if there are some panels of `cols` to multiply with: 16 rows at a time, each on a page of its own
    /// and across two cache lines, take long to read, and longer where few sets of the cache have them all.
    pub(super) fn in_place(&self, k: usize, cols: usize) -> bool {
        match self {
            Self::Along { stride, .. } => {
                let whole = stride.is_multiple_of(E::PER_WORD) && k.is_multiple_of(E::PER_WORD);
                let crowded = (stride * size_of::<E>()).is_multiple_of(1024);
                whole && !(in_amx::<E>() && (crowded || cols >= COPIED_FOR))
            }
            Self::Across { .. } => false,
        }
    }
}

/// The right operand: a matrix of elements `E` of which blocks can be packed.
pub(crate) trait Columns<E>: Sync {
    /// Writes rows `k0..k0 + kc` of the columns from `col` to `col + cols` (at most [`GROUP`](super::tile::GROUP)) to
    /// `to`, in words, one row of words every `stride` words, padded with zeros to a whole group and whole words.
    ///
    /// # Safety
    /// `to` must have room for that; rows and columns must exist, and `k0` must be a multiple of [`Element::PER_WORD`].
    unsafe fn pack(
        &self,
        col: usize,
        cols: usize,
        k0: usize,
        kc: usize,
        to: *mut f32,
        stride: usize,
    );
}
