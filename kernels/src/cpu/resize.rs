//! Nearest-neighbour enlargement.

use super::norm::{From, To, each};

/// Writes each row of `width` elements twice, each element twice.
///
/// # Safety
/// `from` must cover `rows · width` elements, `to` four times as many.
pub(crate) unsafe fn double(from: *const f32, to: *mut f32, rows: usize, width: usize) {
    let (from, to) = (From(from), To(to));
    let block = (8192 / width.max(1)).max(1);
    each(rows.div_ceil(block), 4 * rows * width, |i| {
        for row in i * block..((i + 1) * block).min(rows) {
            // SAFETY: the rows exist.
            unsafe {
                let (from, to) = (from.at(row * width), to.at(4 * row * width));
                for x in 0..width {
                    let value = *from.add(x);
                    to.add(2 * x).cast::<[f32; 2]>().write_unaligned([value; 2]);
                }
                core::ptr::copy_nonoverlapping(to, to.add(2 * width), 2 * width);
            }
        }
    });
}
