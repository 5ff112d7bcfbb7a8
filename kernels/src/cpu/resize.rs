//! Nearest-neighbour enlargement.

use super::simd::{Element, Vector, multiversion};
use super::tasks::{From, To, each};

/// Writes each row of `width` elements twice, each element twice.
///
/// # Safety
/// `from` must cover `rows · width` elements, `to` four times as many.
pub(crate) unsafe fn double<E: Element>(from: *const E, to: *mut E, rows: usize, width: usize) {
    let (from, to) = (From(from), To(to));
    let block = (8192 / width.max(1)).max(1);
    each(rows.div_ceil(block), 4 * rows * width, |i| {
        for row in i * block..((i + 1) * block).min(rows) {
            // SAFETY: `row` is one of the caller's; it becomes two rows of `2 · width`, which this task alone writes.
            unsafe {
                let (from, to) = (from.at(row * width), to.at(4 * row * width));
                for x in 0..width {
                    let value = *from.add(x);
                    to.add(2 * x).cast::<[E; 2]>().write_unaligned([value; 2]);
                }
                core::ptr::copy_nonoverlapping(to, to.add(2 * width), 2 * width);
            }
        }
    });
}

/// Writes the sums of 2 × 2 elements: `rows` rows of `width` elements from twice as many of twice the
/// width.
///
/// # Safety
/// `to` must cover `rows · width` elements, `from` four times as many.
pub(crate) unsafe fn halve<E: Element>(from: *const E, to: *mut E, rows: usize, width: usize) {
    let (from, to) = (From(from), To(to));
    let block = (4096 / width.max(1)).max(1);
    each(rows.div_ceil(block), 4 * rows * width, |i| {
        for row in i * block..((i + 1) * block).min(rows) {
            // SAFETY: `row` is one of the caller's, which this task alone writes.
            unsafe { halve_row(from.at(4 * row * width), to.at(row * width), width) };
        }
    });
}

multiversion! {
    /// [`halve`] for one row of the result.
    ///
    /// # Safety
    /// `from` must have `4 · width` elements, and `to` room for `width`.
    unsafe fn halve_row<E>(from: *const E, to: *mut E, width: usize) = halve_body
}

/// The compiler finds the vectors here, for which it knows the instruction set.
#[inline(always)]
unsafe fn halve_body<V: Vector, E: Element>(from: *const E, to: *mut E, width: usize) {
    // SAFETY: the caller's two rows of `2 · width` elements, and room for `width` more elsewhere.
    let (upper, lower, to) = unsafe {
        (
            core::slice::from_raw_parts(from, 2 * width),
            core::slice::from_raw_parts(from.add(2 * width), 2 * width),
            core::slice::from_raw_parts_mut(to.cast::<core::mem::MaybeUninit<E>>(), width),
        )
    };
    for ((to, a), b) in to
        .iter_mut()
        .zip(upper.chunks_exact(2))
        .zip(lower.chunks_exact(2))
    {
        let [a, b] = [a, b].map(|pair| pair[0].widen() + pair[1].widen());
        to.write(E::narrow(a + b));
    }
}
