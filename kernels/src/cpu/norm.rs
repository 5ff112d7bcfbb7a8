//! Group and layer normalisation.

use super::simd::{Element, Vector, map, multiversion, silu};
use super::tasks::{From, SERIAL, To, each};
use rayon::prelude::*;

/// Elements summed in f32 before the sums go to f64.
pub(super) const CHUNK: usize = 4096;

/// Group normalisation of contiguous pictures `[batch, channels, plane]`.
pub(crate) struct GroupNorm<'a> {
    pub batch: usize,
    pub channels: usize,
    pub plane: usize,
    pub groups: usize,
    pub weight: &'a [f32],
    pub bias: &'a [f32],
    pub eps: f64,
    pub silu: bool,
}

impl GroupNorm<'_> {
    /// Normalises `from` into `to`, which may be the same place.
    ///
    /// # Safety
    /// Both must cover `batch · channels · plane` elements, and there must be one.
    pub(crate) unsafe fn run<E: Element>(&self, from: *const E, to: *mut E) {
        let per_group = self.channels / self.groups;
        let size = per_group * self.plane;
        let elements = self.batch * self.channels * self.plane;
        let groups = self.batch * self.groups;
        let (from, to) = (From(from), To(to));
        let channel = |group: usize, (mean, variance): (f64, f64), c: usize| {
            let channel = group % self.groups * per_group + c;
            let inverse = 1.0 / (variance + self.eps).sqrt();
            let factor = self.weight[channel] as f64 * inverse;
            let addend = (self.bias[channel] as f64 - mean * factor) as f32;
            let at = group * size + c * self.plane;
            let (from, to) = (from.at(at), to.at(at));
            // SAFETY: channel `c` of the group, which one task alone writes. The group's sums are taken, so that it does not matter
            // whether they are written where they are read.
            unsafe { affine(from, to, self.plane, factor as f32, addend, self.silu) };
        };
        if groups >= rayon::current_num_threads() || elements < SERIAL {
            each(groups, elements, |i| {
                // SAFETY: group `i` lies inside the tensor, and has elements because the tensor has.
                let moments = unsafe { moments(from.at(i * size), size) };
                (0..per_group).for_each(|c| channel(i, moments, c));
            });
            return;
        }
        // Too few for all threads.
        // SAFETY: as above.
        let moments = (0..groups).map(|i| unsafe { moments_together(from.at(i * size), size) });
        let moments: Vec<_> = moments.collect();
        each(groups * per_group, elements, |i| {
            channel(i / per_group, moments[i / per_group], i % per_group);
        });
    }
}

/// Mean and biased variance, of chunks in f32 around the first element and together in f64.
///
/// # Safety
/// `from` must have `len` elements, and at least one.
pub(super) unsafe fn moments<E: Element>(from: *const E, len: usize) -> (f64, f64) {
    // SAFETY: the caller's elements.
    let parts = (0..len)
        .step_by(CHUNK)
        .map(|start| unsafe { part(from, len, start) });
    // SAFETY: the caller has at least one element.
    of_parts(parts, unsafe { *from }.widen(), len)
}

/// [`moments`] by all threads, with the same result.
///
/// # Safety
/// As for that.
unsafe fn moments_together<E: Element>(from: *const E, len: usize) -> (f64, f64) {
    let all = From(from);
    let parts = (0..len.div_ceil(CHUNK)).into_par_iter();
    // SAFETY: the caller's elements.
    let parts = parts.map(|i| unsafe { part(all.at(0), len, i * CHUNK) });
    let parts: Vec<_> = parts.collect();
    // SAFETY: the caller has at least one element.
    of_parts(parts.into_iter(), unsafe { *from }.widen(), len)
}

/// The sums of the chunk from `start` on.
///
/// # Safety
/// As for [`moments`]; the chunk must begin within the elements.
unsafe fn part<E: Element>(from: *const E, len: usize, start: usize) -> [f32; 2] {
    let mut part = [0.0f32; 2];
    // SAFETY: the caller has at least one element, and the chunk ends at the last one at the latest.
    unsafe {
        let around = (*from).widen();
        chunk_sums(from.add(start), CHUNK.min(len - start), around, &mut part);
    }
    part
}

/// Mean and biased variance of `len` elements from the sums of their chunks.
fn of_parts(parts: impl Iterator<Item = [f32; 2]>, around: f32, len: usize) -> (f64, f64) {
    let (mut sum, mut squares) = (0.0, 0.0);
    for part in parts {
        sum += part[0] as f64;
        squares += part[1] as f64;
    }
    let mean = sum / len as f64;
    (
        around as f64 + mean,
        (squares / len as f64 - mean * mean).max(0.0),
    )
}

multiversion! {
    /// Sums of `x − around` and of its square.
    ///
    /// # Safety
    /// `from` must have `len` elements.
    unsafe fn chunk_sums<E>(from: *const E, len: usize, around: f32, out: &mut [f32; 2]) = chunk_sums_body
}

#[inline(always)]
pub(super) unsafe fn chunk_sums_body<V: Vector, E: Element>(
    from: *const E,
    len: usize,
    around: f32,
    out: &mut [f32; 2],
) {
    let zero = V::splat(0.0);
    let (mut sums, mut squares) = ([zero; 4], [zero; 4]);
    let step = 4 * V::LANES;
    let mut i = 0;
    while i + step <= len {
        for j in 0..4 {
            // SAFETY: four whole vectors remain.
            let x: V = unsafe { E::load(from.add(i + j * V::LANES)) };
            let x = x.sub(V::splat(around));
            sums[j] = sums[j].add(x);
            squares[j] = x.mul_add(x, squares[j]);
        }
        i += step;
    }
    for j in 0..4 {
        out[0] += sums[j].sum();
        out[1] += squares[j].sum();
    }
    while i < len {
        // SAFETY: `i` is below `len`.
        let x = unsafe { *from.add(i) }.widen() - around;
        out[0] += x;
        out[1] += x * x;
        i += 1;
    }
}

multiversion! {
    /// `x · factor + addend`, then SiLU if `activate`. Each vector is read before it is written.
    ///
    /// # Safety
    /// `from` must have, and `to` have room for, `len` elements; they are apart or the same.
    unsafe fn affine<E>(from: *const E, to: *mut E, len: usize, factor: f32, addend: f32, activate: bool) = affine_body
}

#[inline(always)]
unsafe fn affine_body<V: Vector, E: Element>(
    from: *const E,
    to: *mut E,
    len: usize,
    factor: f32,
    addend: f32,
    activate: bool,
) {
    let (factor, addend) = (V::splat(factor), V::splat(addend));
    // SAFETY: the caller's `len` elements.
    unsafe {
        if activate {
            map!(V, E, from, to, len, |x| silu(x.mul_add(factor, addend)));
        } else {
            map!(V, E, from, to, len, |x| x.mul_add(factor, addend));
        }
    }
}

/// Layer normalisation of `rows` rows of `weight.len()` elements.
///
/// # Safety
/// `from` must have, and `to` have room for, the rows; `bias` must be as long as `weight`, and not empty.
pub(crate) unsafe fn layer_norm<E: Element>(
    from: *const E,
    to: *mut E,
    rows: usize,
    weight: &[f32],
    bias: &[f32],
    eps: f32,
) {
    let width = weight.len();
    let (from, to) = (From(from), To(to));
    let block = (8192 / width).max(1);
    each(rows.div_ceil(block), rows * width, |i| {
        let first = i * block;
        let count = block.min(rows - first);
        let (from, to) = (from.at(first * width), to.at(first * width));
        // SAFETY: these are `count` of the caller's rows, which this task alone writes; the bias has an element for each
        // of the weight's.
        unsafe { normalise(from, to, count, weight, bias, eps) };
    });
}

multiversion! {
    /// Layer normalisation on this thread.
    ///
    /// # Safety
    /// As for [`layer_norm`].
    unsafe fn normalise<E>(from: *const E, to: *mut E, rows: usize, weight: &[f32], bias: &[f32], eps: f32) = normalise_body
}

#[inline(always)]
unsafe fn normalise_body<V: Vector, E: Element>(
    from: *const E,
    to: *mut E,
    rows: usize,
    weight: &[f32],
    bias: &[f32],
    eps: f32,
) {
    let width = weight.len();
    for row in 0..rows {
        let (from, to) = (from.wrapping_add(row * width), to.wrapping_add(row * width));
        // SAFETY: the caller's row has `width` elements, and at least one.
        let (mean, variance) = unsafe { row_moments::<V, E>(from, width) };
        let inverse = 1.0 / (variance + eps).sqrt();
        let mut i = 0;
        while i + V::LANES <= width {
            // SAFETY: a whole vector remains in the row, and so it does in weight and bias.
            unsafe {
                let x: V = E::load(from.add(i));
                let x = x.sub(V::splat(mean)).mul(V::splat(inverse));
                let y = x.mul_add(
                    V::load(weight.as_ptr().add(i)),
                    V::load(bias.as_ptr().add(i)),
                );
                E::store(y, to.add(i));
            }
            i += V::LANES;
        }
        while i < width {
            // SAFETY: `i` is below `width`.
            unsafe {
                let x = ((*from.add(i)).widen() - mean) * inverse;
                *to.add(i) = E::narrow(x * weight[i] + bias[i]);
            }
            i += 1;
        }
    }
}

/// Mean and biased variance of a row, in f32 around its first element.
///
/// # Safety
/// `from` must have `width` elements, and at least one.
#[inline(always)]
pub(super) unsafe fn row_moments<V: Vector, E: Element>(
    from: *const E,
    width: usize,
) -> (f32, f32) {
    let mut sums = [0.0; 2];
    // SAFETY: the caller's elements.
    let around = unsafe {
        let around = (*from).widen();
        chunk_sums_body::<V, E>(from, width, around, &mut sums);
        around
    };
    let mean = sums[0] / width as f32;
    let variance = (sums[1] / width as f32 - mean * mean).max(0.0);
    (mean + around, variance)
}
