//! Gradients of attention in tiles of scores that are computed again (Dao et al. 2022). With the
//! probabilities `P = softmax(s)`, `s = q kᵀ / √D`, and the gradient `g` of the result:
//! `∂P = g vᵀ`, `∂s = P ∘ (∂P − rowsum(P ∘ ∂P))`, `∂q = ∂s k / √D`, `∂k = ∂sᵀ q / √D`, `∂v = Pᵀ g`,
//! and `rowsum(P ∘ ∂P)` is `rowsum(g ∘ result)`.

use super::attention::{Heads, softmax};
use super::columns::{Patches, Transposed};
use super::gemm;
use super::scratch::Scratch;
use super::simd::{Vector, exp2, multiversion};
use super::tile::{GROUP, Left, product};
use core::f32::consts::LOG2_E;
use rayon::prelude::*;

/// Queries handled together.
pub(super) const QUERIES: usize = 64;
/// Up to this many keys are one block: the softmax of a query is then complete in one tile.
const ONE_BLOCK: usize = 1024;
/// Keys in a block when there are more.
const KEYS: usize = 768;
/// Work (queries · keys · width) below which one thread does it all.
const SERIAL: usize = 1 << 19;

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
    pub(super) fn depth(&self) -> usize {
        self.width.next_multiple_of(GROUP)
    }

    /// Softmax in base 2: e^(s/√D) = 2^(s · scale).
    pub(super) fn scale(&self) -> f32 {
        LOG2_E / (self.width as f32).sqrt()
    }

    /// Into how many parts to cut the queries of each head so that all threads have work.
    pub(super) fn parts(&self) -> usize {
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
    pub(super) fn each(
        &self,
        parts: usize,
        f: impl Fn(usize, usize, (usize, usize, usize)) + Sync + Send,
    ) {
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

/// Gradients of self-attention.
pub(crate) struct InputGrads {
    pub sizes: Sizes,
    /// Of the result, and the result.
    pub grad: Heads,
    pub out: Heads,
    pub q: Heads,
    pub k: Heads,
    pub v: Heads,
    /// Where the gradients go, `[B, N, H, D]` and `[B, M, H, D]`.
    pub q_grad: *mut f32,
    pub k_grad: *mut f32,
    pub v_grad: *mut f32,
}

// SAFETY: the inputs are only read, and no two tasks write the same rows.
unsafe impl Sync for InputGrads {}

impl InputGrads {
    /// Computes the gradients on Rayon's threads.
    ///
    /// # Safety
    /// The pointers must cover tensors of these sizes, and the results must not overlap the inputs.
    pub(crate) unsafe fn run(&self) {
        let parts = self.sizes.parts();
        let Sizes {
            batch,
            heads,
            keys,
            width,
            ..
        } = self.sizes;
        // Every part after the first adds to gradients of keys and values of its own.
        let size = batch * heads * keys * width;
        let mut others = vec![0.0f32; 2 * (parts - 1) * size];
        let at = Shared(others.as_mut_ptr());
        self.sizes.each(parts, |batch, head, (part, first, count)| {
            let (k_grad, v_grad) = match part {
                0 => (self.k_grad, self.v_grad),
                _ => {
                    let to = at.get().wrapping_add(2 * (part - 1) * size);
                    (to, to.wrapping_add(size))
                }
            };
            let task = Task {
                problem: self,
                batch,
                head,
                first,
                count,
                k_grad,
                v_grad,
            };
            // SAFETY: every task has its own rows of the results.
            unsafe { differentiate(task) };
        });
        for part in others.chunks(2 * size) {
            let (k_part, v_part) = part.split_at(size);
            for (to, part) in [(self.k_grad, k_part), (self.v_grad, v_part)] {
                for (i, x) in part.iter().enumerate() {
                    // SAFETY: the first part has written all of them.
                    unsafe { *to.add(i) += x };
                }
            }
        }
    }
}

#[derive(Clone, Copy)]
struct Shared(*mut f32);
// SAFETY: every task writes its own part.
unsafe impl Send for Shared {}
unsafe impl Sync for Shared {}
impl Shared {
    fn get(self) -> *mut f32 {
        self.0
    }
}

/// Some queries of one head.
#[derive(Clone, Copy)]
struct Task<'a> {
    problem: &'a InputGrads,
    batch: usize,
    head: usize,
    first: usize,
    count: usize,
    k_grad: *mut f32,
    v_grad: *mut f32,
}

multiversion! {
    /// The gradient of some queries of a head, and what they add to those of its keys and values.
    unsafe fn differentiate(task: Task<'_>) = differentiate_body
}

#[inline(always)]
unsafe fn differentiate_body<V: Vector>(task: Task<'_>) {
    let InputGrads { sizes, .. } = *task.problem;
    let Sizes {
        heads, keys, width, ..
    } = sizes;
    let (depth, scale) = (sizes.depth(), sizes.scale());
    let block = if keys <= ONE_BLOCK { keys } else { KEYS };
    let padded = block.next_multiple_of(GROUP);
    // One more group in each row of scores keeps columns of them out of a single cache set.
    let ld = padded + GROUP;
    let [q, k, v, grad, out] = [
        &task.problem.q,
        &task.problem.k,
        &task.problem.v,
        &task.problem.grad,
        &task.problem.out,
    ]
    .map(|rows| (rows.head(task.batch, task.head), rows.strides[2]));
    let [q, grad, out] = [q, grad, out].map(|(at, row)| (at.wrapping_add(task.first * row), row));
    let (_keys, [keys_across, values_across]) = pieces([padded * width; 2]);
    let (_sums, [key_rows, key_sums, value_sums]) = pieces([padded * depth; 3]);
    let (_tile, [query_rows, grad_rows, scores, slopes, offsets]) = pieces([
        QUERIES * depth,
        QUERIES * depth,
        QUERIES * ld,
        QUERIES * ld,
        QUERIES,
    ]);
    let (_queries, [query_sums, largest, total, along]) =
        pieces([task.count * depth, task.count, task.count, task.count]);
    let offsets = offsets.cast::<u32>();
    let blocks = || {
        (0..keys)
            .step_by(block)
            .map(|key| (key, block.min(keys - key)))
    };
    let queries = || {
        let first = (0..task.count).step_by(QUERIES);
        first.map(|i| (i, QUERIES.min(task.count - i)))
    };
    unsafe {
        for i in 0..QUERIES {
            *offsets.add(i) = (i * ld) as u32;
        }
        for i in 0..task.count {
            *largest.add(i) = f32::NEG_INFINITY;
            *total.add(i) = 0.0;
            *along.add(i) = dot::<V>(row(grad, i), row(out, i), width);
        }
        let pack_across = |rows: (*const f32, usize), (key, count), to| {
            let columns = Transposed {
                from: rows.0,
                stride: rows.1,
            };
            gemm::pack(&columns, (key, count), (0, width), to);
        };
        let pack_rows = |rows: (*const f32, usize), first: (usize, usize), to| {
            gemm::pack(&Patches::rows(rows.0, rows.1, width), (0, width), first, to);
        };
        if keys > block {
            for (key, count) in blocks() {
                pack_across(k, (key, count), keys_across);
                for (i, rows) in queries() {
                    let left = Left::along(row(q, i), q.1, rows);
                    product::<V>(left, keys_across, count, width, scores, ld, false);
                    for j in 0..rows {
                        let (largest, total) = (largest.add(i + j), total.add(i + j));
                        mask(scores.add(j * ld), count);
                        let size = count.next_multiple_of(GROUP);
                        softmax::<V>(scores.add(j * ld), size, scale, largest, total);
                    }
                }
            }
        }
        for (key, count) in blocks() {
            let size = count.next_multiple_of(GROUP);
            pack_across(k, (key, count), keys_across);
            pack_across(v, (key, count), values_across);
            pack_rows(k, (key, count), key_rows);
            for (i, rows) in queries() {
                let left =
                    |rows_of: (*const f32, usize)| Left::along(row(rows_of, i), rows_of.1, rows);
                product::<V>(left(q), keys_across, count, width, scores, ld, false);
                product::<V>(left(grad), values_across, count, width, slopes, ld, false);
                for j in 0..rows {
                    let (scores, slopes) = (scores.add(j * ld), slopes.add(j * ld));
                    let (largest, total) = (largest.add(i + j), total.add(i + j));
                    let along = V::splat(*along.add(i + j));
                    if keys > block {
                        let shift = V::splat(-*largest);
                        let factor = V::splat(1.0 / *total);
                        for x in (0..size).step_by(V::LANES) {
                            let power = V::load(scores.add(x)).mul_add(V::splat(scale), shift);
                            let p = exp2(power).mul(factor);
                            p.store(scores.add(x));
                            p.mul(V::load(slopes.add(x)).sub(along))
                                .store(slopes.add(x));
                        }
                    } else {
                        mask(scores, count);
                        softmax::<V>(scores, size, scale, largest, total);
                        let factor = V::splat(1.0 / *total);
                        for x in (0..size).step_by(V::LANES) {
                            let p = V::load(scores.add(x)).mul(factor);
                            p.store(scores.add(x));
                            p.mul(V::load(slopes.add(x)).sub(along))
                                .store(slopes.add(x));
                        }
                    }
                }
                pack_rows(q, (i, rows), query_rows);
                pack_rows(grad, (i, rows), grad_rows);
                let down = |at: *mut f32| Left {
                    at,
                    stride: 1,
                    rows: count,
                    offsets,
                };
                let to = query_sums.add(i * depth);
                let left = Left::along(slopes, ld, rows);
                product::<V>(left, key_rows, width, count, to, depth, key > 0);
                product::<V>(
                    down(slopes),
                    query_rows,
                    width,
                    rows,
                    key_sums,
                    depth,
                    i > 0,
                );
                product::<V>(
                    down(scores),
                    grad_rows,
                    width,
                    rows,
                    value_sums,
                    depth,
                    i > 0,
                );
            }
            let at = |i| ((task.batch * keys + key + i) * heads + task.head) * width;
            let factor = (width as f32).sqrt().recip();
            for i in 0..count {
                scaled(
                    key_sums.add(i * depth),
                    task.k_grad.add(at(i)),
                    width,
                    factor,
                );
                scaled(
                    value_sums.add(i * depth),
                    task.v_grad.add(at(i)),
                    width,
                    1.0,
                );
            }
        }
        let first = task.batch * sizes.queries + task.first;
        let factor = (width as f32).sqrt().recip();
        for i in 0..task.count {
            let to = task
                .problem
                .q_grad
                .add(((first + i) * heads + task.head) * width);
            scaled(query_sums.add(i * depth), to, width, factor);
        }
    }
}

/// Scratch in pieces of the given lengths, each aligned to 64 bytes.
pub(super) fn pieces<const N: usize>(lens: [usize; N]) -> (Scratch, [*mut f32; N]) {
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
pub(super) fn row((at, stride): (*const f32, usize), i: usize) -> *const f32 {
    at.wrapping_add(i * stride)
}

/// Makes the padding of `keys` scores invisible.
#[inline(always)]
pub(super) unsafe fn mask(scores: *mut f32, keys: usize) {
    for i in keys..keys.next_multiple_of(GROUP) {
        unsafe { *scores.add(i) = f32::NEG_INFINITY };
    }
}

#[inline(always)]
pub(super) unsafe fn scaled(from: *const f32, to: *mut f32, len: usize, factor: f32) {
    for i in 0..len {
        unsafe { *to.add(i) = *from.add(i) * factor };
    }
}

#[inline(always)]
unsafe fn dot<V: Vector>(a: *const f32, b: *const f32, len: usize) -> f32 {
    let (mut sum, mut i) = (V::splat(0.0), 0);
    let mut rest = 0.0;
    unsafe {
        while i + V::LANES <= len {
            sum = V::load(a.add(i)).mul_add(V::load(b.add(i)), sum);
            i += V::LANES;
        }
        while i < len {
            rest += *a.add(i) * *b.add(i);
            i += 1;
        }
    }
    sum.sum() + rest
}
