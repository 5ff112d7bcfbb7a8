//! Group and layer normalisation, and the elementwise functions.

use super::simd::{Vector, gelu, multiversion, sigmoid, silu};
use rayon::prelude::*;

/// Elements below which one thread does it all.
const SERIAL: usize = 1 << 16;
/// Elements summed in f32 before the sums go to f64.
pub(super) const CHUNK: usize = 4096;

/// Writes `$f` of each vector of `$from` to `$to`. A macro, because a closure would not be compiled
/// for the instruction set of the function around it.
macro_rules! map {
    ($V:ident, $from:expr, $to:expr, $len:expr, |$x:ident| $f:expr) => {{
        let (from, to, len): (*const f32, *mut f32, usize) = ($from, $to, $len);
        let mut i = 0;
        while i + $V::LANES <= len {
            let $x = $V::load(from.add(i));
            $f.store(to.add(i));
            i += $V::LANES;
        }
        if i < len {
            let mut rest = [0.0f32; 16];
            core::ptr::copy_nonoverlapping(from.add(i), rest.as_mut_ptr(), len - i);
            let $x = $V::load(rest.as_ptr());
            $f.store(rest.as_mut_ptr());
            core::ptr::copy_nonoverlapping(rest.as_ptr(), to.add(i), len - i);
        }
    }};
}

/// Calls `f(i)` for `i` in `0..count`, on Rayon's threads if there are `elements` enough.
pub(super) fn each(count: usize, elements: usize, f: impl Fn(usize) + Sync + Send) {
    if elements < SERIAL || rayon::current_num_threads() == 1 {
        (0..count).for_each(f);
    } else {
        (0..count).into_par_iter().for_each(f);
    }
}

/// A source shared by tasks.
#[derive(Clone, Copy)]
pub(super) struct From(pub *const f32);
/// A destination of which every task writes its own part.
#[derive(Clone, Copy)]
pub(super) struct To(pub *mut f32);
// SAFETY: read only, and written at places that no two tasks share.
unsafe impl Send for From {}
unsafe impl Sync for From {}
unsafe impl Send for To {}
unsafe impl Sync for To {}

impl From {
    pub(super) fn at(self, i: usize) -> *const f32 {
        self.0.wrapping_add(i)
    }
}
impl To {
    pub(super) fn at(self, i: usize) -> *mut f32 {
        self.0.wrapping_add(i)
    }
}

/// An elementwise function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activation {
    Silu,
    Gelu,
    /// `x · sigmoid(1.702 x)`.
    QuickGelu,
}

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
    /// Normalises `from` into `to`.
    ///
    /// # Safety
    /// Both must cover `batch · channels · plane` elements.
    pub(crate) unsafe fn run(&self, from: *const f32, to: *mut f32) {
        let per_group = self.channels / self.groups;
        let size = per_group * self.plane;
        let (from, to) = (From(from), To(to));
        each(
            self.batch * self.groups,
            self.batch * self.channels * self.plane,
            |i| {
                let channel = i % self.groups * per_group;
                // SAFETY: group `i` lies inside the tensors.
                unsafe {
                    let (mean, variance) = moments(from.at(i * size), size);
                    let inverse = 1.0 / (variance + self.eps).sqrt();
                    for c in 0..per_group {
                        let factor = self.weight[channel + c] as f64 * inverse;
                        let addend = self.bias[channel + c] as f64 - mean * factor;
                        let at = i * size + c * self.plane;
                        affine(
                            from.at(at),
                            to.at(at),
                            self.plane,
                            factor as f32,
                            addend as f32,
                            self.silu,
                        );
                    }
                }
            },
        );
    }
}

/// Mean and biased variance, of chunks in f32 around the first element and together in f64.
pub(super) unsafe fn moments(from: *const f32, len: usize) -> (f64, f64) {
    // SAFETY: the caller's `len` elements exist, and there is one.
    let around = unsafe { *from };
    let (mut sum, mut squares) = (0.0, 0.0);
    for start in (0..len).step_by(CHUNK) {
        let mut part = [0.0f32; 2];
        unsafe { chunk_sums(from.add(start), CHUNK.min(len - start), around, &mut part) };
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
    unsafe fn chunk_sums(from: *const f32, len: usize, around: f32, out: &mut [f32; 2]) = chunk_sums_body
}

#[inline(always)]
pub(super) unsafe fn chunk_sums_body<V: Vector>(
    from: *const f32,
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
            let x = unsafe { V::load(from.add(i + j * V::LANES)) }.sub(V::splat(around));
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
        let x = unsafe { *from.add(i) } - around;
        out[0] += x;
        out[1] += x * x;
        i += 1;
    }
}

multiversion! {
    /// `x · factor + addend`, then SiLU if `activate`.
    unsafe fn affine(from: *const f32, to: *mut f32, len: usize, factor: f32, addend: f32, activate: bool) = affine_body
}

#[inline(always)]
unsafe fn affine_body<V: Vector>(
    from: *const f32,
    to: *mut f32,
    len: usize,
    factor: f32,
    addend: f32,
    activate: bool,
) {
    let (factor, addend) = (V::splat(factor), V::splat(addend));
    unsafe {
        if activate {
            map!(V, from, to, len, |x| silu(x.mul_add(factor, addend)));
        } else {
            map!(V, from, to, len, |x| x.mul_add(factor, addend));
        }
    }
}

/// Layer normalisation of `rows` rows of `weight.len()` elements.
///
/// # Safety
/// `from` and `to` must cover the rows.
pub(crate) unsafe fn layer_norm(
    from: *const f32,
    to: *mut f32,
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
        // SAFETY: the rows exist.
        unsafe {
            normalise(
                from.at(first * width),
                to.at(first * width),
                count,
                weight,
                bias,
                eps,
            )
        };
    });
}

multiversion! {
    unsafe fn normalise(from: *const f32, to: *mut f32, rows: usize, weight: &[f32], bias: &[f32], eps: f32) = normalise_body
}

#[inline(always)]
unsafe fn normalise_body<V: Vector>(
    from: *const f32,
    to: *mut f32,
    rows: usize,
    weight: &[f32],
    bias: &[f32],
    eps: f32,
) {
    let width = weight.len();
    for row in 0..rows {
        unsafe {
            let (from, to) = (from.add(row * width), to.add(row * width));
            let mut sums = [0.0; 2];
            chunk_sums_body::<V>(from, width, *from, &mut sums);
            let mean = sums[0] / width as f32;
            let variance = (sums[1] / width as f32 - mean * mean).max(0.0);
            let mean = mean + *from;
            let inverse = 1.0 / (variance + eps).sqrt();
            let mut i = 0;
            while i + V::LANES <= width {
                let x = V::load(from.add(i))
                    .sub(V::splat(mean))
                    .mul(V::splat(inverse));
                let y = x.mul_add(
                    V::load(weight.as_ptr().add(i)),
                    V::load(bias.as_ptr().add(i)),
                );
                y.store(to.add(i));
                i += V::LANES;
            }
            while i < width {
                *to.add(i) = (*from.add(i) - mean) * inverse * weight[i] + bias[i];
                i += 1;
            }
        }
    }
}

/// Applies `activation` to `len` elements.
///
/// # Safety
/// `from` and `to` must cover them; they may be the same.
pub(crate) unsafe fn activate(activation: Activation, from: *const f32, to: *mut f32, len: usize) {
    let (from, to) = (From(from), To(to));
    let block = 1 << 14;
    each(len.div_ceil(block), len, |i| {
        let first = i * block;
        // SAFETY: inside the slices.
        unsafe {
            activate_block(
                activation,
                from.at(first),
                to.at(first),
                block.min(len - first),
            )
        };
    });
}

multiversion! {
    unsafe fn activate_block(activation: Activation, from: *const f32, to: *mut f32, len: usize) = activate_body
}

#[inline(always)]
unsafe fn activate_body<V: Vector>(
    activation: Activation,
    from: *const f32,
    to: *mut f32,
    len: usize,
) {
    unsafe {
        match activation {
            Activation::Silu => map!(V, from, to, len, |x| silu(x)),
            Activation::Gelu => map!(V, from, to, len, |x| gelu(x)),
            Activation::QuickGelu => {
                map!(V, from, to, len, |x| x.mul(sigmoid(x.mul(V::splat(1.702)))));
            }
        }
    }
}

/// `a · gelu(b)` of rows that hold `width` elements of `a`, then as many of `b`.
///
/// # Safety
/// `from` must cover `rows · 2 · width` elements, `to` half of them.
pub(crate) unsafe fn geglu(from: *const f32, to: *mut f32, rows: usize, width: usize) {
    let (from, to) = (From(from), To(to));
    let block = (8192 / width.max(1)).max(1);
    each(rows.div_ceil(block), rows * width, |i| {
        let first = i * block;
        for row in first..(first + block).min(rows) {
            // SAFETY: the rows exist.
            unsafe { geglu_row(from.at(row * 2 * width), to.at(row * width), width) };
        }
    });
}

multiversion! {
    unsafe fn geglu_row(from: *const f32, to: *mut f32, width: usize) = geglu_body
}

#[inline(always)]
unsafe fn geglu_body<V: Vector>(from: *const f32, to: *mut f32, width: usize) {
    unsafe {
        let gate = from.add(width);
        let mut i = 0;
        while i + V::LANES <= width {
            V::load(from.add(i))
                .mul(gelu(V::load(gate.add(i))))
                .store(to.add(i));
            i += V::LANES;
        }
        let mut rest = [0.0f32; 16];
        core::ptr::copy_nonoverlapping(gate.add(i), rest.as_mut_ptr(), width - i);
        gelu(V::load(rest.as_ptr())).store(rest.as_mut_ptr());
        for j in i..width {
            *to.add(j) = *from.add(j) * rest[j - i];
        }
    }
}
