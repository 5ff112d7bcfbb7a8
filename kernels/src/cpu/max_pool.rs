//! Largest values of neighbourhoods.

use rayon::prelude::*;

use super::simd::{Vector, multiversion};
use super::tasks::To;

/// Elements below which planes stay together in one task.
const TOGETHER: usize = 1 << 14;

/// The height and width of what becomes of a plane of `size`, in which a window must have room.
pub(crate) fn size(size: [usize; 2], padding: usize) -> [usize; 2] {
    size.map(|n| (n + 2 * padding - 3) / 2 + 1)
}

/// Planes of height and width `sides` to those of the largest of each 3 × 3 pixels in steps of two, the first of which begins
/// `padding` pixels, 0 or 1, before the edge.
///
/// # Safety
/// A plane must have room for a window, and `to` for the planes of [`size`].
pub(crate) unsafe fn three(from: &[f32], to: *mut f32, sides: [usize; 2], padding: usize) {
    let plane = sides[0] * sides[1];
    if plane == 0 {
        return;
    }
    let out = size(sides, padding).iter().product::<usize>();
    let to = To(to);
    let planes = from.par_chunks(plane).enumerate();
    planes
        .with_min_len((TOGETHER / plane).max(1))
        .for_each(|(i, from)| {
            // SAFETY: plane `i` of the result, which this task alone writes, has `out` elements.
            unsafe { three_of_plane(from, to.at(i * out), sides, padding) };
        });
}

multiversion! {
    /// [`three`] of one plane.
    ///
    /// # Safety
    /// A plane must have room for a window, and `to` for a plane of [`size`].
    unsafe fn three_of_plane(from: &[f32], to: *mut f32, sides: [usize; 2], padding: usize) = three_body
}

/// The compiler finds the vectors here, for which it knows the instruction set.
#[inline(always)]
unsafe fn three_body<V: Vector>(from: &[f32], to: *mut f32, sides: [usize; 2], padding: usize) {
    let [height, width] = sides;
    let [rows, columns] = size(sides, padding);
    // The largest of three rows, with a border that is less than everything.
    let mut line = vec![f32::NEG_INFINITY; width + 2 * padding];
    for y in 0..rows {
        // A row beyond the edge is the one at it: that changes no maximum.
        let row = |i: usize| {
            let y = (2 * y + i).saturating_sub(padding).min(height - 1);
            &from[y * width..][..width]
        };
        let three = row(0).iter().zip(row(1)).zip(row(2));
        for (x, ((a, b), c)) in line[padding..].iter_mut().zip(three) {
            *x = larger(larger(*a, *b), *c);
        }
        for x in 0..columns {
            let largest = larger(larger(line[2 * x], line[2 * x + 1]), line[2 * x + 2]);
            // SAFETY: row `y` and column `x` are in the plane of the result.
            unsafe { *to.add(y * columns + x) = largest };
        }
    }
}

/// NaN if one of them is, as in PyTorch.
#[inline(always)]
fn larger(a: f32, b: f32) -> f32 {
    if a > b || a.is_nan() { a } else { b }
}
