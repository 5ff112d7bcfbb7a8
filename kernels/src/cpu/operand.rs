//! How the operands of a matrix product lie in memory.

#[cfg(target_arch = "x86_64")]
use super::scratch::Scratch;
use super::simd::{Element, Words};
use super::tile::{GROUP, in_amx};
#[cfg(target_arch = "x86_64")]
use super::tile::{Parts, columns_in_parts, row_in_parts};

/// Columns for which rows are copied for AMX.
const COPIED_FOR: usize = 4 * 2 * GROUP;

/// Summed elements that begin a step of AMX's tiles: blocks of them need no tiles of other shapes.
pub(super) const STEP: usize = 32;

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

    /// Whether rows of `k` elements are words of `W` and read where they lie: they are whole words, and so is what is between them. AMX is so fast
    /// that a copy pays for itself if there are some panels of `cols` to multiply with: 16 rows at a time, each on a page of its own
    /// and across two cache lines, take long to read, and longer where few sets of the cache have them all.
    pub(super) fn in_place<W: Words>(&self, k: usize, cols: usize) -> bool {
        match self {
            Self::Along { stride, .. } => {
                let whole = stride.is_multiple_of(E::PER_WORD) && k.is_multiple_of(E::PER_WORD);
                let crowded = (stride * size_of::<E>()).is_multiple_of(1024);
                whole && W::PARTS == 1 && !(in_amx::<W>() && (crowded || cols >= COPIED_FOR))
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

/// How words are made of elements `E`.
pub(crate) trait Packs<E: Element>: Words {
    /// Writes rows `k0..k0 + kc` of the columns from `col` to `col + cols`, as [`Columns::pack`], in these words.
    ///
    /// # Safety
    /// As for that.
    unsafe fn columns(
        right: &dyn Columns<E>,
        cols: (usize, usize),
        rows: (usize, usize),
        to: *mut f32,
        stride: usize,
    );
    /// Writes the words of `kc` elements that follow each other.
    ///
    /// # Safety
    /// `from` must have them, and `to` room for their words.
    unsafe fn row(from: *const E, kc: usize, to: *mut f32);
}

impl<E: Element> Packs<E> for E {
    #[inline(always)]
    unsafe fn columns(
        right: &dyn Columns<E>,
        (col, cols): (usize, usize),
        (k0, kc): (usize, usize),
        to: *mut f32,
        stride: usize,
    ) {
        // SAFETY: the same contract.
        unsafe { right.pack(col, cols, k0, kc, to, stride) }
    }

    #[inline(always)]
    unsafe fn row(from: *const E, kc: usize, to: *mut f32) {
        // SAFETY: the caller's elements and room, which is for whole words.
        unsafe {
            let to = to.cast::<E>();
            core::ptr::copy_nonoverlapping(from, to, kc);
            for k in kc..kc.next_multiple_of(E::PER_WORD) {
                *to.add(k) = E::narrow(0.0);
            }
        }
    }
}

/// Of f32, as every `E` with one element in a word is.
#[cfg(target_arch = "x86_64")]
impl<E: Element> Packs<E> for Parts {
    #[inline(always)]
    unsafe fn columns(
        right: &dyn Columns<E>,
        (col, cols): (usize, usize),
        (k0, kc): (usize, usize),
        to: *mut f32,
        stride: usize,
    ) {
        assert_eq!(E::PER_WORD, 1, "parts of f32 alone");
        let mut whole = Scratch::take(kc.next_multiple_of(STEP) * GROUP);
        // SAFETY: there is room for whole steps of rows of a group; the rest is the caller's contract, and where there are parts,
        // there is AVX-512.
        unsafe {
            right.pack(col, cols, k0, kc, whole.as_mut_ptr(), GROUP);
            columns_in_parts(whole.as_mut_ptr(), kc, to, stride);
        }
    }

    #[inline(always)]
    unsafe fn row(from: *const E, kc: usize, to: *mut f32) {
        assert_eq!(E::PER_WORD, 1, "parts of f32 alone");
        // SAFETY: the caller's contract; where there are parts, there is AVX-512.
        unsafe { row_in_parts(from.cast(), kc, to) }
    }
}
