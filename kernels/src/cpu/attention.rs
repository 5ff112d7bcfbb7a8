//! Attention in tiles with a running softmax, so that no more than a strip of scores exists at a time
//! (Milakov & Gimelshein 2018; Dao et al. 2022).

use super::columns::{Patches, Transposed};
use super::gemm;
use super::scratch::Scratch;
use super::simd::{Vector, exp2, multiversion};
use super::tile::{GROUP, Left, product};
use core::f32::consts::LOG2_E;
use rayon::prelude::*;

/// Queries handled together: their scores against a block of keys stay in the second-level cache.
/// More of them when heads are so wide that keys and values come from further away.
const fn queries_at_once(width: usize) -> usize {
    if width > 256 { 256 } else { 64 }
}
/// Keys in a block, at most; fewer when they are wide, so that a block of keys and one of values stay
/// in the second-level cache together with the scores.
const KEYS: usize = 768;
const BLOCK: usize = 1 << 16;
/// Work (queries · keys · width) below which one thread does it all.
const SERIAL: usize = 1 << 20;

/// A tensor `[B, H, N, D]` with unit stride along `D`.
#[derive(Clone, Copy)]
pub(crate) struct Heads {
    pub at: *const f32,
    /// Elements between batches, heads and rows.
    pub strides: [usize; 3],
}

impl Heads {
    pub(super) fn head(&self, batch: usize, head: usize) -> *const f32 {
        self.at
            .wrapping_add(batch * self.strides[0] + head * self.strides[1])
    }
}

/// Keys in a block for heads of this width.
fn block(width: usize) -> usize {
    (BLOCK / width / GROUP * GROUP).clamp(GROUP, KEYS)
}

/// `softmax(q kᵀ / √D) v`.
pub(crate) struct Attention {
    pub q: Heads,
    pub k: Heads,
    pub v: Heads,
    /// Where the result goes, `[B, N, H, D]`.
    pub out: *mut f32,
    pub batch: usize,
    pub heads: usize,
    pub queries: usize,
    pub keys: usize,
    pub width: usize,
    pub causal: bool,
    /// Where the probabilities `[B, H, N, M]` go, or null. Not together with `causal`.
    pub probs: *mut f32,
}

// SAFETY: the inputs are only read, and no two tasks write the same rows.
unsafe impl Sync for Attention {}

/// The packed keys and values of one head, and the block of queries to answer.
#[derive(Clone, Copy)]
struct Task<'a> {
    problem: &'a Attention,
    batch: usize,
    head: usize,
    /// Panels of the transposed keys, block after block.
    keys: *const f32,
    /// Panels of the values, block after block.
    values: *const f32,
    first: usize,
    count: usize,
}

// SAFETY: as for `Attention`.
unsafe impl Sync for Task<'_> {}

impl Attention {
    /// Computes the attention on Rayon's threads.
    ///
    /// # Safety
    /// The pointers must cover tensors of these sizes, and the outputs must not overlap the inputs.
    pub(crate) unsafe fn run(&self) {
        let pairs = self.batch * self.heads;
        let threads = rayon::current_num_threads();
        let serial = pairs * self.queries * self.keys * self.width < SERIAL || threads == 1;
        if serial {
            (0..pairs).for_each(|pair| unsafe { self.head(pair, false) });
        } else if pairs >= 2 * threads || pairs == threads {
            (0..pairs)
                .into_par_iter()
                .with_max_len(1)
                .for_each(|pair| unsafe { self.head(pair, false) });
        } else {
            (0..pairs).for_each(|pair| unsafe { self.head(pair, true) });
        }
    }

    /// Packs keys and values of one head, then answers all its queries.
    unsafe fn head(&self, pair: usize, parallel: bool) {
        let (batch, head) = (pair / self.heads, pair % self.heads);
        let depth = self.width.next_multiple_of(GROUP);
        let keys_size = self.keys.next_multiple_of(GROUP) * self.width;
        let mut scratch = Scratch::take(keys_size.next_multiple_of(GROUP) + self.keys * depth);
        let keys = scratch.as_mut_ptr();
        let values = keys.wrapping_add(keys_size.next_multiple_of(GROUP));
        let transposed = Transposed {
            from: self.k.head(batch, head),
            stride: self.k.strides[2],
        };
        let rows = Patches::rows(self.v.head(batch, head), self.v.strides[2], self.width);
        let size = block(self.width);
        for key in (0..self.keys).step_by(size) {
            let count = size.min(self.keys - key);
            // SAFETY: blocks of keys and values follow each other in the scratch.
            unsafe {
                let at = keys.add(key * self.width);
                gemm::pack(&transposed, (key, count), (0, self.width), at);
                gemm::pack(
                    &rows,
                    (0, self.width),
                    (key, count),
                    values.add(key * depth),
                );
            }
        }
        let task = Task {
            problem: self,
            batch,
            head,
            keys,
            values,
            first: 0,
            count: 0,
        };
        let at_once = queries_at_once(self.width);
        let blocks = self.queries.div_ceil(at_once);
        let task = &task;
        let answer = |block: usize| {
            let first = block * at_once;
            let count = at_once.min(self.queries - first);
            // SAFETY: the rows exist, and each block has its own.
            unsafe {
                answer(Task {
                    first,
                    count,
                    ..*task
                })
            }
        };
        if parallel {
            (0..blocks).into_par_iter().with_max_len(1).for_each(answer);
        } else {
            (0..blocks).for_each(answer);
        }
    }
}

multiversion! {
    /// Attends from some queries of a head to all its keys.
    unsafe fn answer(task: Task<'_>) = answer_body
}

#[inline(always)]
unsafe fn answer_body<V: Vector>(task: Task<'_>) {
    let Attention {
        queries: all_queries,
        keys: all_keys,
        width,
        ..
    } = *task.problem;
    let depth = width.next_multiple_of(GROUP);
    let block = block(width);
    let widest = all_keys.min(block).next_multiple_of(GROUP);
    let mut scratch = Scratch::take(task.count * (widest + depth) + 2 * task.count);
    let scores = scratch.as_mut_ptr();
    let sums = scores.wrapping_add(task.count * widest);
    let largest = sums.wrapping_add(task.count * depth);
    let total = largest.wrapping_add(task.count);
    let query_stride = task.problem.q.strides[2];
    let queries = task
        .problem
        .q
        .head(task.batch, task.head)
        .wrapping_add(task.first * query_stride);
    // Softmax in base 2: e^(s/√D) = 2^(s · scale).
    let scale = LOG2_E / (width as f32).sqrt();
    // Key j is seen by query i if j <= i + offset.
    let offset = (all_keys as isize) - (all_queries as isize);
    let seen = |row: usize| match task.problem.causal {
        true => (row as isize + offset + 1).clamp(0, all_keys as isize) as usize,
        false => all_keys,
    };
    for i in 0..task.count {
        unsafe {
            *largest.add(i) = f32::NEG_INFINITY;
            *total.add(i) = 0.0;
        }
    }
    for i in 0..task.count * depth / V::LANES {
        unsafe { V::splat(0.0).store(sums.add(i * V::LANES)) };
    }
    let end = seen(task.first + task.count - 1);
    let mut key = 0;
    while key < end {
        let keys = block.min(all_keys - key);
        let padded = keys.next_multiple_of(GROUP);
        unsafe {
            let left = Left::along(queries, query_stride, task.count);
            let packed = task.keys.add(key * width);
            product::<V>(left, packed, keys, width, scores, padded, false);
        }
        for i in 0..task.count {
            let visible = seen(task.first + i).saturating_sub(key).min(keys);
            unsafe {
                let line = scores.add(i * padded);
                for j in visible..padded {
                    *line.add(j) = f32::NEG_INFINITY;
                }
                let shrink = softmax::<V>(line, padded, scale, largest.add(i), total.add(i));
                if shrink != 1.0 {
                    let line = sums.add(i * depth);
                    for j in (0..depth).step_by(V::LANES) {
                        V::load(line.add(j))
                            .mul(V::splat(shrink))
                            .store(line.add(j));
                    }
                }
            }
        }
        unsafe {
            let left = Left::along(scores, padded, task.count);
            let packed = task.values.add(key * depth);
            product::<V>(left, packed, width, keys, sums, depth, true);
        }
        key += keys;
    }
    for i in 0..task.count {
        let row = task.first + i;
        unsafe {
            let from = sums.add(i * depth);
            let at = (task.batch * all_queries + row) * task.problem.heads + task.head;
            let to = task.problem.out.add(at * width);
            let factor = 1.0 / *total.add(i);
            for j in 0..width {
                *to.add(j) = *from.add(j) * factor;
            }
        }
    }
    if !task.problem.probs.is_null() {
        unsafe { probabilities::<V>(&task, queries, scores, largest, total, scale) };
    }
}

/// Replaces the scores of one query by `2^(scale · score − largest)`, with the running maximum (of
/// the scaled scores) and sum brought up to date. Returns by what earlier sums must be multiplied.
#[inline(always)]
pub(super) unsafe fn softmax<V: Vector>(
    line: *mut f32,
    keys: usize,
    scale: f32,
    largest: *mut f32,
    total: *mut f32,
) -> f32 {
    unsafe {
        let mut most = V::splat(f32::NEG_INFINITY);
        for j in (0..keys).step_by(V::LANES) {
            most = most.max(V::load(line.add(j)));
        }
        let before = *largest;
        let now = before.max(most.largest() * scale);
        if now == f32::NEG_INFINITY {
            // Nothing to be seen yet: a zero row, and nothing to rescale.
            for j in (0..keys).step_by(V::LANES) {
                V::splat(0.0).store(line.add(j));
            }
            return 1.0;
        }
        let mut sum = V::splat(0.0);
        for j in (0..keys).step_by(V::LANES) {
            let y = exp2(V::load(line.add(j)).mul_add(V::splat(scale), V::splat(-now)));
            y.store(line.add(j));
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
}

/// Writes the probabilities of the task's queries, recomputing the scores block by block.
#[inline(always)]
unsafe fn probabilities<V: Vector>(
    task: &Task<'_>,
    queries: *const f32,
    line: *mut f32,
    largest: *const f32,
    total: *const f32,
    scale: f32,
) {
    let problem = task.problem;
    let stride = problem.q.strides[2];
    for i in 0..task.count {
        let row = task.first + i;
        let at = (task.batch * problem.heads + task.head) * problem.queries + row;
        let block = block(problem.width);
        for key in (0..problem.keys).step_by(block) {
            let keys = block.min(problem.keys - key);
            let padded = keys.next_multiple_of(GROUP);
            unsafe {
                let left = Left::along(queries.wrapping_add(i * stride), stride, 1);
                let packed = task.keys.add(key * problem.width);
                product::<V>(left, packed, keys, problem.width, line, padded, false);
            }
            unsafe {
                let factor = V::splat(1.0 / *total.add(i));
                for j in (0..padded).step_by(V::LANES) {
                    let x =
                        V::load(line.add(j)).mul_add(V::splat(scale), V::splat(-*largest.add(i)));
                    exp2(x).mul(factor).store(line.add(j));
                }
                let to = problem.probs.add(at * problem.keys + key);
                core::ptr::copy_nonoverlapping(line, to, keys);
            }
        }
    }
}
