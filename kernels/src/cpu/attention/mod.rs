//! Attention on the CPU and its gradients: what they share.

mod blocks;
pub(crate) mod forward;
pub(crate) mod grid;
pub(crate) mod input_grads;
pub(crate) mod query_grad;
mod work;

use super::columns::{Patches, Transposed};
use super::gemm;
use super::operand::Packs;
use super::scratch::Scratch;
use super::simd::{Element, Vector, exp2};
use super::tile::{GROUP, Left};
use core::f32::consts::LOG2_E;
use rayon::prelude::*;

/// Queries that gradients handle together.
const QUERIES: usize = 64;
/// Work of gradients (queries · keys · width) below which one thread does it all.
const SERIAL: usize = 1 << 19;

/// A tensor `[B, H, N, D]` with unit stride along `D`.
#[derive(Clone, Copy)]
pub(crate) struct Heads<E> {
    pub at: *const E,
    /// Elements between batches, heads and rows.
    pub strides: [usize; 3],
}

impl<E: Element> Heads<E> {
    fn head(&self, batch: usize, head: usize) -> *const E {
        self.at
            .wrapping_add(batch * self.strides[0] + head * self.strides[1])
    }
}

/// Rows of an operand, and how many elements they are apart.
type Strided<E> = (*const E, usize);

/// Words that hold `count` elements.
#[inline(always)]
fn words<E: Element>(count: usize) -> usize {
    count.div_ceil(E::PER_WORD)
}

/// `rows` rows as a left operand.
///
/// Rows of bf16 must be whole words, and so must be what is between them.
#[inline(always)]
fn left<E: Element>((at, stride): Strided<E>, rows: usize) -> Left {
    Left::along(at.cast(), stride / E::PER_WORD, rows)
}

/// Shapes of `q` `[B, H, N, D]` and of `k` and `v` `[B, H, M, D]`.
#[derive(Clone, Copy)]
pub(crate) struct Sizes {
    pub batch: usize,
    pub heads: usize,
    pub queries: usize,
    pub keys: usize,
    pub width: usize,
}

impl Sizes {
    /// Columns of the packed rows.
    fn depth(&self) -> usize {
        self.width.next_multiple_of(GROUP)
    }

    /// Softmax in base 2: e^(s/√D) = 2^(s · scale).
    fn scale(&self) -> f32 {
        LOG2_E / (self.width as f32).sqrt()
    }

    /// Into how many parts to cut the queries of each head so that all threads have work.
    fn parts(&self) -> usize {
        let (pairs, threads) = (self.batch * self.heads, rayon::current_num_threads());
        let small = pairs * self.queries * self.keys * self.width < SERIAL;
        if small || pairs >= 2 * threads || pairs == threads {
            return 1;
        }
        (2 * threads)
            .div_ceil(pairs)
            .min(self.queries.div_ceil(QUERIES))
    }

    /// Calls `f` with batch, head and part of the queries: the part's index, its first query and
    /// how many there are.
    fn each(&self, parts: usize, f: impl Fn(usize, usize, (usize, usize, usize)) + Sync + Send) {
        let task = |index: usize| {
            let (pair, part) = (index / parts, index % parts);
            let first = self.queries * part / parts;
            let count = self.queries * (part + 1) / parts - first;
            f(pair / self.heads, pair % self.heads, (part, first, count));
        };
        let tasks = self.batch * self.heads * parts;
        let small = self.queries * self.keys * self.width * self.batch * self.heads < SERIAL;
        if small || rayon::current_num_threads() == 1 {
            (0..tasks).for_each(task);
        } else {
            (0..tasks).into_par_iter().with_max_len(1).for_each(task);
        }
    }
}

/// Packs `count` rows from `first`, of `width` elements, as columns.
///
/// # Safety
/// The rows must exist, and `to` must have room for the words of `width` rows of them in whole groups.
unsafe fn pack_across<E: Element, W: Packs<E>>(
    (from, stride): Strided<E>,
    rows: (usize, usize),
    width: usize,
    to: *mut f32,
) {
    // SAFETY: this function's contract.
    unsafe { gemm::pack::<E, W>(&Transposed { from, stride }, rows, (0, width), to) };
}

/// Packs `count` rows from `first`, of `width` elements, as rows.
///
/// # Safety
/// The rows must exist, and `to` must have room for their words with `width` in whole groups.
unsafe fn pack_rows<E: Element, W: Packs<E>>(
    (from, stride): Strided<E>,
    rows: (usize, usize),
    width: usize,
    to: *mut f32,
) {
    // SAFETY: this function's contract.
    unsafe { gemm::pack::<E, W>(&Patches::rows(from, stride, width), (0, width), rows, to) };
}

/// Scratch in pieces of the given lengths, each aligned to 64 bytes.
fn pieces<const N: usize>(lens: [usize; N]) -> (Scratch, [*mut f32; N]) {
    let lens = lens.map(|len| len.next_multiple_of(GROUP));
    let mut scratch = Scratch::take(lens.iter().sum());
    let mut at = scratch.as_mut_ptr();
    let pieces = lens.map(|len| {
        let next = at.wrapping_add(len);
        core::mem::replace(&mut at, next)
    });
    (scratch, pieces)
}

/// Row `i` of rows that start at `at`, `stride` elements apart.
#[inline(always)]
fn row<E: Element>((at, stride): Strided<E>, i: usize) -> *const E {
    at.wrapping_add(i * stride)
}

/// Makes the padding of `keys` scores invisible.
///
/// # Safety
/// `scores` must have room for `keys` elements in whole groups.
#[inline(always)]
unsafe fn mask(scores: *mut f32, keys: usize) {
    for i in keys..keys.next_multiple_of(GROUP) {
        // SAFETY: `i` lies in the last group.
        unsafe { *scores.add(i) = f32::NEG_INFINITY };
    }
}

/// Replaces the scores of one query by `2^(scale · score − largest)`, as elements `E` that follow each other, with the running
/// maximum (of the scaled scores) and sum brought up to date. Returns by what earlier sums must be multiplied.
///
/// # Safety
/// `line` must have `keys` elements, a multiple of [`GROUP`]; `largest` and `total` point to one each.
#[inline(always)]
unsafe fn softmax<V: Vector, E: Element>(
    line: *mut f32,
    keys: usize,
    scale: f32,
    largest: *mut f32,
    total: *mut f32,
) -> f32 {
    let mut most = V::splat(f32::NEG_INFINITY);
    for j in (0..keys).step_by(V::LANES) {
        // SAFETY: `keys` elements are whole vectors.
        most = most.max(unsafe { V::load(line.add(j)) });
    }
    // SAFETY: the caller's elements.
    let (largest, total) = unsafe { (&mut *largest, &mut *total) };
    let before = *largest;
    let now = before.max(most.largest() * scale);
    // Where nothing is to be seen yet, any finite number makes a zero row of it (and leaves what is no number as it is).
    let base = if now == f32::NEG_INFINITY { 0.0 } else { now };
    let mut sum = V::splat(0.0);
    for j in (0..keys).step_by(V::LANES) {
        // SAFETY: as above.
        let score = unsafe { V::load(line.add(j)) };
        let y = exp2(score.mul_add(V::splat(scale), V::splat(-base)));
        // SAFETY: as above; elements are no larger than scores, so that only what was read is overwritten.
        unsafe { E::store(y, line.cast::<E>().add(j)) };
        sum = sum.add(y);
    }
    let shrink = if before == now {
        1.0
    } else {
        (before - now).exp2()
    };
    *largest = now;
    *total = *total * shrink + sum.sum();
    shrink
}

/// Writes `len` elements of `from`, times `factor`, to `to`.
///
/// # Safety
/// `from` must have them, and `to` room for them.
#[inline(always)]
unsafe fn scaled<V: Vector, E: Element>(from: *const f32, to: *mut E, len: usize, factor: f32) {
    let mut i = 0;
    while i + V::LANES <= len {
        // SAFETY: a whole vector remains.
        unsafe { E::store(V::load(from.add(i)).mul(V::splat(factor)), to.add(i)) };
        i += V::LANES;
    }
    while i < len {
        // SAFETY: `i` is below `len`.
        unsafe { *to.add(i) = E::narrow(*from.add(i) * factor) };
        i += 1;
    }
}

/// The sum of the products of `len` elements.
///
/// # Safety
/// `a` and `b` must have `len` elements.
#[inline(always)]
unsafe fn dot<V: Vector, E: Element>(a: *const E, b: *const E, len: usize) -> f32 {
    let (mut sum, mut i) = (V::splat(0.0), 0);
    let mut rest = 0.0;
    while i + V::LANES <= len {
        // SAFETY: a whole vector remains.
        let (x, y): (V, V) = unsafe { (E::load(a.add(i)), E::load(b.add(i))) };
        sum = x.mul_add(y, sum);
        i += V::LANES;
    }
    while i < len {
        // SAFETY: `i` is below `len`.
        rest += unsafe { (*a.add(i)).widen() * (*b.add(i)).widen() };
        i += 1;
    }
    sum.sum() + rest
}
