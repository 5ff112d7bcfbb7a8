//! Largest values of neighbourhoods.

use rayon::prelude::*;

use super::simd::{Vector, multiversion};
use super::tasks::To;

/// Elements below which planes stay together in one task.
const TOGETHER: usize = 1 << 14;

/// Planes of height and width `size` to those of the largest of each 3 × 3 pixels around every second
/// one.
///
/// # Safety
/// `to` must have room for the planes of half the size, rounded up.
pub(crate) unsafe fn three(from: &[f32], to: *mut f32, size: [usize; 2]) {
    let plane = size[0] * size[1];
    if plane == 0 {
        return;
    }
    let out = size[0].div_ceil(2) * size[1].div_ceil(2);
    let to = To(to);
    let planes = from.par_chunks(plane).enumerate();
    planes
        .with_min_len((TOGETHER / plane).max(1))
        .for_each(|(i, from)| {
            // SAFETY: plane `i` of the result, which this task alone writes, has `out` elements.
            unsafe { three_of_plane(from, to.at(i * out), size) };
        });
}

multiversion! {
    /// [`three`] of one plane.
    ///
    /// # Safety
    /// `to` must have room for a plane of half the size, rounded up.
    unsafe fn three_of_plane(from: &[f32], to: *mut f32, size: [usize; 2]) = three_body
}

/// The compiler finds the vectors here, for which it knows the instruction set.
#[inline(always)]
unsafe fn three_body<V: Vector>(from: &[f32], to: *mut f32, [height, width]: [usize; 2]) {
    let columns = width.div_ceil(2);
    // The largest of three rows, with a border that is less than everything.
    let mut line = vec![f32::NEG_INFINITY; 2 * columns + 2];
    for y in 0..height.div_ceil(2) {
        let row = |y: usize| &from[y * width..][..width];
        let (above, middle) = (row((2 * y).saturating_sub(1)), row(2 * y));
        let below = row((2 * y + 1).min(height - 1));
        let sides = above.iter().zip(middle).zip(below);
        for (x, ((a, b), c)) in line[1..].iter_mut().zip(sides) {
            *x = larger(larger(*a, *b), *c);
        }
        for x in 0..columns {
            let largest = larger(larger(line[2 * x], line[2 * x + 1]), line[2 * x + 2]);
            // SAFETY: row `y` and column `x` are below half the size, rounded up.
            unsafe { *to.add(y * columns + x) = largest };
        }
    }
}

/// NaN if one of them is, as in PyTorch.
#[inline(always)]
fn larger(a: f32, b: f32) -> f32 {
    if a > b || a.is_nan() { a } else { b }
}
