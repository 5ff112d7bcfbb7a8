//! Sums over all but one axis: of runs in f32, of those in f64. And sums of two tensors.

use super::simd::{Element, Vector, multiversion};
use super::tasks::{From, To, each};

/// Elements summed in f32.
const RUN: usize = 256;

/// The sums of the `width` columns of `rows` rows.
pub(crate) fn of_columns(from: &[f32], rows: usize, width: usize) -> Vec<f32> {
    let mut sums = vec![0.0f64; width];
    if rows * width == 0 {
        return vec![0.0; width];
    }
    let mut part = vec![0.0f32; width];
    for run in from.chunks(RUN * width) {
        part.fill(0.0);
        for row in run.chunks_exact(width) {
            for (sum, x) in part.iter_mut().zip(row) {
                *sum += x;
            }
        }
        for (sum, part) in sums.iter_mut().zip(&part) {
            *sum += f64::from(*part);
        }
    }
    sums.into_iter().map(|sum| sum as f32).collect()
}

/// The sums of each of `channels` planes over all samples of `[batch, channels, plane]`.
pub(crate) fn of_planes(from: &[f32], [batch, channels, plane]: [usize; 3]) -> Vec<f32> {
    let mut sums = vec![0.0f64; channels];
    if batch * channels * plane > 0 {
        for sample in from.chunks_exact(channels * plane) {
            for (sum, plane) in sums.iter_mut().zip(sample.chunks_exact(plane)) {
                *sum += plane.chunks(8 * RUN).map(of_run).sum::<f64>();
            }
        }
    }
    sums.into_iter().map(|sum| sum as f32).collect()
}

/// The sum of a run, of which eight lanes are summed each on its own.
fn of_run(run: &[f32]) -> f64 {
    let (eights, rest) = run.as_chunks::<8>();
    let mut lanes = [0.0f32; 8];
    for eight in eights {
        for (lane, x) in lanes.iter_mut().zip(eight) {
            *lane += x;
        }
    }
    let rest: f64 = rest.iter().copied().map(f64::from).sum();
    rest + lanes.into_iter().map(f64::from).sum::<f64>()
}

/// Writes the sums of `len` elements of `a` and `b`, perhaps in the place of one of them.
///
/// # Safety
/// `a` and `b` must have them, and `to` room for as many; it is apart from them or begins where one does.
pub(crate) unsafe fn add<E: Element>(a: *const E, b: *const E, to: *mut E, len: usize) {
    let (a, b, to) = (From(a), From(b), To(to));
    let block = 1 << 15;
    each(len.div_ceil(block), len, |i| {
        let first = i * block;
        let count = block.min(len - first);
        // SAFETY: `first + count` is at most `len`, and this task alone writes these elements.
        unsafe { add_block(a.at(first), b.at(first), to.at(first), count) };
    });
}

multiversion! {
    /// [`add`] on this thread, with its contract.
    unsafe fn add_block<E>(a: *const E, b: *const E, to: *mut E, len: usize) = add_body
}

#[inline(always)]
unsafe fn add_body<V: Vector, E: Element>(a: *const E, b: *const E, to: *mut E, len: usize) {
    let mut i = 0;
    while i + V::LANES <= len {
        // SAFETY: a whole vector remains.
        unsafe {
            let (x, y): (V, V) = (E::load(a.add(i)), E::load(b.add(i)));
            E::store(x.add(y), to.add(i));
        }
        i += V::LANES;
    }
    while i < len {
        // SAFETY: `i` is below `len`.
        unsafe { *to.add(i) = E::narrow((*a.add(i)).widen() + (*b.add(i)).widen()) };
        i += 1;
    }
}
