//! Attention in tiles with a running softmax, so that no more than a strip of scores exists at a time
//! (Milakov & Gimelshein 2018; Dao et al. 2022).

#[cfg(target_arch = "x86_64")]
use super::blocks::WIDTH_IN_PARTS;
use super::blocks::{block, queries_at_once};
use super::grid::Grid;
use super::{Heads, left, pack_across, pack_rows, pieces, row, scaled, softmax};
use crate::cpu::operand::Packs;
use crate::cpu::scratch::Scratch;
use crate::cpu::simd::{Element, Vector, exp2, multiversion};
#[cfg(target_arch = "x86_64")]
use crate::cpu::simd::{Level, level};
#[cfg(target_arch = "x86_64")]
use crate::cpu::tile::Parts;
use crate::cpu::tile::{GROUP, Left, engaged, product};
use core::f32::consts::LOG2_E;
use rayon::prelude::*;

/// Work (queries · keys · width) below which one thread does it all.
const SERIAL: usize = 1 << 20;

/// `softmax(q kᵀ / √D) v`. Rows of queries must be whole words, and so must be what is between them.
pub(crate) struct Attention<E> {
    pub q: Heads<E>,
    pub k: Heads<E>,
    pub v: Heads<E>,
    /// Where the result goes, `[B, N, H, D]`.
    pub out: *mut E,
    pub batch: usize,
    pub heads: usize,
    pub queries: usize,
    pub keys: usize,
    pub width: usize,
    pub causal: bool,
    /// Where the probabilities `[B, H, N, M]` go, or null. Not together with `causal`.
    pub probs: *mut E,
    /// What is added to the scores. Not together with `causal` or `probs`.
    pub grid: Option<Grid>,
}

// SAFETY: the inputs are only read, and no two tasks of `run`, which alone writes, write the same rows.
unsafe impl<E: Element> Sync for Attention<E> {}

/// The packed keys and values of one head, and the block of queries to answer.
#[derive(Clone, Copy)]
struct Task<'a, E> {
    problem: &'a Attention<E>,
    batch: usize,
    head: usize,
    /// Panels of the transposed keys, block after block.
    keys: *const f32,
    /// Panels of the values, block after block.
    values: *const f32,
    first: usize,
    count: usize,
}

// SAFETY: as for `Attention`; the packed keys and values are only read.
unsafe impl<E: Element> Sync for Task<'_, E> {}

impl<E: Element> Attention<E> {
    /// Computes the attention on Rayon's threads.
    ///
    /// # Safety
    /// The pointers must cover tensors of these sizes, none of which is 0, and the outputs must not
    /// overlap the inputs.
    pub(crate) unsafe fn run(&self) {
        let pairs = self.batch * self.heads;
        let threads = rayon::current_num_threads();
        let serial = pairs * self.queries * self.keys * self.width < SERIAL || threads == 1;
        // SAFETY: the caller's tensors have this head, and each head has rows of its own in the outputs.
        let head = |pair, parallel| unsafe { self.head(pair, parallel) };
        if serial {
            (0..pairs).for_each(|pair| head(pair, false));
        } else if pairs >= 2 * threads || pairs == threads {
            let pairs = (0..pairs).into_par_iter().with_max_len(1);
            pairs.for_each(|pair| head(pair, false));
        } else {
            (0..pairs).for_each(|pair| head(pair, true));
        }
    }

    /// Packs keys and values of one head, then answers all its queries.
    ///
    /// # Safety
    /// As for [`Attention::run`], and nobody else may write to the head's rows of the outputs.
    unsafe fn head(&self, pair: usize, parallel: bool) {
        #[cfg(target_arch = "x86_64")]
        if self.in_parts() {
            // SAFETY: this function's contract.
            return unsafe { self.head_in::<Parts>(pair, parallel) };
        }
        // SAFETY: this function's contract.
        unsafe { self.head_in::<E>(pair, parallel) }
    }

    /// Whether elements are f32 that are multiplied in three parts.
    #[cfg(target_arch = "x86_64")]
    fn in_parts(&self) -> bool {
        E::PER_WORD == 1 && level() == Level::Amx && self.width >= WIDTH_IN_PARTS
    }

    /// [`Attention::head`] in words of `W`.
    ///
    /// # Safety
    /// As for that.
    unsafe fn head_in<W: Packs<E>>(&self, pair: usize, parallel: bool) {
        let (batch, head) = (pair / self.heads, pair % self.heads);
        let depth = self.width.next_multiple_of(GROUP);
        let width = W::words(self.width);
        let keys_size = self.keys.next_multiple_of(GROUP) * width;
        let values_size = W::words(self.keys) * depth;
        let mut scratch = Scratch::take(keys_size.next_multiple_of(GROUP) + values_size);
        let keys = scratch.as_mut_ptr();
        let values = keys.wrapping_add(keys_size.next_multiple_of(GROUP));
        let of_head = |rows: &Heads<E>| (rows.head(batch, head), rows.strides[2]);
        let (key_rows, value_rows) = (of_head(&self.k), of_head(&self.v));
        let size = block::<W>(self.width);
        for key in (0..self.keys).step_by(size) {
            let count = size.min(self.keys - key);
            let keys = keys.wrapping_add(key * width);
            // SAFETY: a block takes `width` words of its keys in whole groups. Only in the last block are keys no whole
            // groups, so that all blocks take `keys_size`; the head has these keys.
            unsafe { pack_across::<E, W>(key_rows, (key, count), self.width, keys) };
            let values = values.wrapping_add(W::words(key) * depth);
            // SAFETY: a block takes `depth` columns for each word of its values, of which the head has these.
            unsafe { pack_rows::<E, W>(value_rows, (key, count), self.width, values) };
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
        let at_once = queries_at_once::<W>(self.width, size.min(self.keys));
        let blocks = self.queries.div_ceil(at_once);
        let task = &task;
        let answer = |block: usize| {
            let first = block * at_once;
            let count = at_once.min(self.queries - first);
            let task = Task {
                first,
                count,
                ..*task
            };
            // SAFETY: the head has these queries and nobody else answers them; its keys and values are packed.
            unsafe { answer(task) };
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
    ///
    /// # Safety
    /// As for [`Attention::run`]; keys and values must be packed as in [`Attention::head`], the head must
    /// have the queries, and nobody else may write to their rows of the outputs.
    unsafe fn answer<E>(task: Task<'_, E>) = answer_body
}

#[inline(always)]
unsafe fn answer_body<V: Vector, E: Element>(task: Task<'_, E>) {
    #[cfg(target_arch = "x86_64")]
    if V::LANES == 16 && task.problem.in_parts() {
        // SAFETY: this function's contract.
        return unsafe { answer_in::<V, Parts, E>(task) };
    }
    // SAFETY: this function's contract.
    unsafe { answer_in::<V, E, E>(task) }
}

/// [`answer`] in words of `W`.
///
/// # Safety
/// As for that.
#[inline(always)]
unsafe fn answer_in<V: Vector, W: Packs<E>, E: Element>(task: Task<'_, E>) {
    let _engaged = engaged::<W>();
    let Attention {
        queries: all_queries,
        keys: all_keys,
        width,
        ..
    } = *task.problem;
    let depth = width.next_multiple_of(GROUP);
    let block = block::<W>(width);
    let widest = all_keys.min(block).next_multiple_of(GROUP);
    // Rows of parts lie beside the numbers that they are made of.
    let in_parts = |count: usize| {
        if W::PARTS > 1 {
            task.count * W::words(count)
        } else {
            0
        }
    };
    let lens = [
        task.count * widest,
        task.count * depth,
        task.count,
        task.count,
    ];
    let (_scratch, [scores, sums, largest, total]) = pieces(lens);
    let (_parts, [query_parts, score_parts]) = pieces([in_parts(width), in_parts(widest)]);
    let query_stride = task.problem.q.strides[2];
    let queries = task.problem.q.head(task.batch, task.head);
    let queries = (
        queries.wrapping_add(task.first * query_stride),
        query_stride,
    );
    let depth_words = W::words(width);
    let of_queries = match W::PARTS {
        1 => left(queries, task.count),
        _ => {
            for i in 0..task.count {
                // SAFETY: each query has `width` elements, and there is room for the parts of `count` of them.
                unsafe { W::row(row(queries, i), width, query_parts.add(i * depth_words)) };
            }
            Left::along(query_parts, depth_words, task.count)
        }
    };
    // Softmax in base 2: e^(s/√D) = 2^(s · scale).
    let scale = LOG2_E / (width as f32).sqrt();
    // Key j is seen by query i if j <= i + offset.
    let offset = (all_keys as isize) - (all_queries as isize);
    let seen = |row: usize| match task.problem.causal {
        true => (row as isize + offset + 1).clamp(0, all_keys as isize) as usize,
        false => all_keys,
    };
    for i in 0..task.count {
        // SAFETY: `largest` and `total` have an element for each query.
        unsafe {
            *largest.add(i) = f32::NEG_INFINITY;
            *total.add(i) = 0.0;
        }
    }
    for i in 0..task.count * depth / V::LANES {
        // SAFETY: `sums` has `count · depth` elements, in whole vectors because `depth` is.
        unsafe { V::splat(0.0).store(sums.add(i * V::LANES)) };
    }
    let end = seen(task.first + task.count - 1);
    let mut key = 0;
    while key < end {
        let keys = block.min(all_keys - key);
        let padded = keys.next_multiple_of(GROUP);
        let packed = task.keys.wrapping_add(key * depth_words);
        // SAFETY: this block of keys is packed there, each query has `width` elements, and `scores` has `count` rows of
        // `widest` elements, which is at least `padded`.
        unsafe { product::<V, W>(of_queries, packed, keys, depth_words, scores, padded, false) };
        for i in 0..task.count {
            if let Some(grid) = task.problem.grid {
                let head = task.batch * task.problem.heads + task.head;
                let row = head * all_queries + task.first + i;
                // SAFETY: the caller's query; its row of the scores has `padded` elements, `keys` or more.
                unsafe { grid.add(row, (key, keys), scores.wrapping_add(i * padded)) };
            }
            let visible = seen(task.first + i).saturating_sub(key).min(keys);
            let line = scores.wrapping_add(i * padded);
            for j in visible..padded {
                // SAFETY: row `i` of the scores has `padded` elements.
                unsafe { *line.add(j) = f32::NEG_INFINITY };
            }
            let (largest, total) = (largest.wrapping_add(i), total.wrapping_add(i));
            // SAFETY: the product has written the row; `largest` and `total` were set above.
            let shrink = unsafe { softmax::<V, E>(line, padded, scale, largest, total) };
            if W::PARTS > 1 {
                let to = score_parts.wrapping_add(i * W::words(keys));
                // SAFETY: `keys` scores, of f32, since parts are of these; there is room for the parts of `count` rows of the most
                // keys.
                unsafe { W::row(line.cast(), keys, to) };
            }
            if shrink != 1.0 {
                let line = sums.wrapping_add(i * depth);
                for j in (0..depth).step_by(V::LANES) {
                    let at = line.wrapping_add(j);
                    // SAFETY: row `i` of the sums has `depth` elements, which is whole vectors.
                    unsafe { V::load(at).mul(V::splat(shrink)).store(at) };
                }
            }
        }
        let of_scores = match W::PARTS {
            // Elements now, in rows as far apart as before.
            1 => Left::along(scores, padded, task.count),
            _ => Left::along(score_parts, W::words(keys), task.count),
        };
        let packed = task.values.wrapping_add(W::words(key) * depth);
        // SAFETY: this block of values is packed there, each row of scores has `keys` elements and zeros up to `padded`,
        // and `sums` has `count` rows of `depth` elements that were set above.
        unsafe {
            product::<V, W>(of_scores, packed, width, W::words(keys), sums, depth, true);
        }
        key += keys;
    }
    for i in 0..task.count {
        let row = task.first + i;
        let at = (task.batch * all_queries + row) * task.problem.heads + task.head;
        // SAFETY: row `i` of the sums has at least `width` elements, and so has the query's row of the result.
        unsafe {
            let factor = 1.0 / *total.add(i);
            scaled::<V, E>(
                sums.add(i * depth),
                task.problem.out.add(at * width),
                width,
                factor,
            );
        }
    }
    if !task.problem.probs.is_null() {
        // SAFETY: `scores`, no longer needed, has rows for the widest block, and every query has its maximum and sum.
        unsafe { probabilities::<V, W, E>(&task, of_queries, scores, (largest, total), scale) };
    }
}

/// Writes the probabilities of the task's queries, recomputing the scores block by block.
///
/// # Safety
/// As for [`answer`]; `scores` must have room for those of the queries to a block of keys, `largest` and `total` hold every query's
/// maximum and sum.
#[inline(always)]
unsafe fn probabilities<V: Vector, W: Packs<E>, E: Element>(
    task: &Task<'_, E>,
    queries: Left,
    scores: *mut f32,
    (largest, total): (*const f32, *const f32),
    scale: f32,
) {
    let problem = task.problem;
    let width = W::words(problem.width);
    let block = block::<W>(problem.width);
    for key in (0..problem.keys).step_by(block) {
        let keys = block.min(problem.keys - key);
        let padded = keys.next_multiple_of(GROUP);
        let packed = task.keys.wrapping_add(key * width);
        // SAFETY: this block of keys is packed there, and `scores` has room for `padded` of each query.
        unsafe { product::<V, W>(queries, packed, keys, width, scores, padded, false) };
        for i in 0..task.count {
            let row = task.first + i;
            let at = (task.batch * problem.heads + task.head) * problem.queries + row;
            let line = scores.wrapping_add(i * padded);
            // SAFETY: every query has its maximum and sum.
            let (largest, total) = unsafe { (*largest.add(i), *total.add(i)) };
            for j in (0..padded).step_by(V::LANES) {
                let at = line.wrapping_add(j);
                // SAFETY: the product has written `padded` scores, which are whole vectors.
                let score = unsafe { V::load(at) };
                let x = score.mul_add(V::splat(scale), V::splat(-largest));
                // SAFETY: as above.
                unsafe { exp2(x).store(at) };
            }
            // SAFETY: the query's row of the probabilities has `keys` elements from `key` on.
            unsafe {
                let to = problem.probs.add(at * problem.keys + key);
                scaled::<V, E>(line, to, keys, 1.0 / total);
            }
        }
    }
}
