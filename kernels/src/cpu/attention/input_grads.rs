//! Gradients of attention in tiles of scores that are computed again (Dao et al. 2022). With the
//! probabilities `P = softmax(s)`, `s = q kᵀ / √D`, and the gradient `g` of the result:
//! `∂P = g vᵀ`, `∂s = P ∘ (∂P − rowsum(P ∘ ∂P))`, `∂q = ∂s k / √D`, `∂k = ∂sᵀ q / √D`, `∂v = Pᵀ g`,
//! and `rowsum(P ∘ ∂P)` is `rowsum(g ∘ result)`.

mod block;

use super::work::{Operands, Work};
use super::{Heads, QUERIES, Sizes, dot, left, mask, pack_across, row, scaled, softmax, words};
use crate::cpu::simd::{Element, Vector, multiversion};
use crate::cpu::tile::{GROUP, engaged, product};
use block::differentiate_block;

/// Up to this many keys are one block: the softmax of a query is then complete in one tile.
const ONE_BLOCK: usize = 1024;
/// Keys in a block when there are more.
const KEYS: usize = 768;
/// Keys in a block.
fn block_of(keys: usize) -> usize {
    if keys <= ONE_BLOCK { keys } else { KEYS }
}

/// Gradients of self-attention. Rows of queries and of the gradient must be whole words, and so must be what is between them.
pub(crate) struct InputGrads<E> {
    pub sizes: Sizes,
    /// Of the result, and the result.
    pub grad: Heads<E>,
    pub out: Heads<E>,
    pub q: Heads<E>,
    pub k: Heads<E>,
    pub v: Heads<E>,
    /// Where the gradients go, `[B, N, H, D]` and `[B, M, H, D]`.
    pub q_grad: *mut E,
    pub k_grad: *mut E,
    pub v_grad: *mut E,
}

// SAFETY: the inputs are only read, and no two tasks of `run`, which alone writes, write the same rows.
unsafe impl<E: Element> Sync for InputGrads<E> {}

impl<E: Element> InputGrads<E> {
    /// Computes the gradients on Rayon's threads.
    ///
    /// # Safety
    /// The pointers must cover tensors of these sizes, none of which is 0, and the results must not
    /// overlap the inputs.
    pub(crate) unsafe fn run(&self) {
        let parts = self.sizes.parts();
        let Sizes {
            batch,
            heads,
            keys,
            width,
            ..
        } = self.sizes;
        // Several parts have gradients of keys and values of their own, which are summed afterwards.
        let size = batch * heads * keys * width;
        let mut sums = vec![0.0f32; if parts > 1 { 2 * parts * size } else { 0 }];
        let at = Shared(sums.as_mut_ptr());
        self.sizes.each(parts, |batch, head, (part, first, count)| {
            let sums = (parts > 1).then(|| {
                let to = at.get().wrapping_add(2 * part * size);
                [to, to.wrapping_add(size)]
            });
            let task = Task {
                problem: self,
                batch,
                head,
                first,
                count,
                sums,
            };
            // SAFETY: every task has its own head or part of the queries, and each part its own gradients of keys and
            // values: the caller's if there is one, else `size` elements each of `sums`.
            unsafe { differentiate(task) };
        });
        let Some((first, others)) = sums.split_at_mut_checked(2 * size) else {
            return;
        };
        for part in others.chunks(2 * size) {
            for (sum, x) in first.iter_mut().zip(part) {
                *sum += x;
            }
        }
        let (of_keys, of_values) = first.split_at(size);
        for (to, sums) in [(self.k_grad, of_keys), (self.v_grad, of_values)] {
            for (i, x) in sums.iter().enumerate() {
                // SAFETY: the caller's `size` elements.
                unsafe { *to.add(i) = E::narrow(*x) };
            }
        }
    }
}

/// Memory of which every task writes its own part.
#[derive(Clone, Copy)]
struct Shared(*mut f32);
// SAFETY: no two tasks use the same elements, so it does not matter which threads they are on.
unsafe impl Send for Shared {}
// SAFETY: as for `Send`.
unsafe impl Sync for Shared {}
impl Shared {
    fn get(self) -> *mut f32 {
        self.0
    }
}

/// Some queries of one head.
#[derive(Clone, Copy)]
struct Task<'a, E> {
    problem: &'a InputGrads<E>,
    batch: usize,
    head: usize,
    first: usize,
    count: usize,
    /// Where the gradients of keys and values go if not to the problem's.
    sums: Option<[*mut f32; 2]>,
}

impl<E: Element> Task<'_, E> {
    fn operands(&self) -> Operands<E> {
        let of_head = |rows: &Heads<E>| (rows.head(self.batch, self.head), rows.strides[2]);
        let of_task = |rows: &Heads<E>| {
            let (at, stride) = of_head(rows);
            (at.wrapping_add(self.first * stride), stride)
        };
        Operands {
            q: of_task(&self.problem.q),
            grad: of_task(&self.problem.grad),
            out: of_task(&self.problem.out),
            k: of_head(&self.problem.k),
            v: of_head(&self.problem.v),
        }
    }

    /// The first query and the number of them of each tile.
    fn tiles(&self) -> impl Iterator<Item = (usize, usize)> {
        let first = (0..self.count).step_by(QUERIES);
        first.map(|i| (i, QUERIES.min(self.count - i)))
    }
}

multiversion! {
    /// The gradient of some queries of a head, and what they add to those of its keys and values.
    ///
    /// # Safety
    /// As for [`InputGrads::run`]; the head must have the queries, `sums`, if given, must have room for
    /// the gradients of all keys and values, and nobody else may write to what is the head's in them (or else in the
    /// problem's) or to the gradients of the queries.
    unsafe fn differentiate<E>(task: Task<'_, E>) = differentiate_body
}

#[inline(always)]
unsafe fn differentiate_body<V: Vector, E: Element>(task: Task<'_, E>) {
    let _engaged = engaged::<E>();
    let sizes = &task.problem.sizes;
    let (keys, block) = (sizes.keys, block_of(sizes.keys));
    let blocks = || {
        let first = (0..keys).step_by(block);
        first.map(|key| (key, block.min(keys - key)))
    };
    let work = Work::new(task.operands(), sizes, task.count, block);
    // SAFETY: this function's contract, and `work` is the task's own. What each call needs the one before it has written.
    unsafe {
        begin::<V, E>(&task, &work);
        if keys > block {
            for keys in blocks() {
                summarise::<V, E>(&task, &work, keys);
            }
        }
        for keys in blocks() {
            differentiate_block::<V, E>(&task, &work, keys);
            write_key_grads::<V, E>(&task, &work, keys);
        }
        write_query_grads::<V, E>(&task, &work);
    }
}

/// Writes what does not depend on keys: offsets, empty softmaxes, and `rowsum(g ∘ result)`.
///
/// # Safety
/// As for [`differentiate`]; `work` must be the task's.
#[inline(always)]
unsafe fn begin<V: Vector, E: Element>(task: &Task<'_, E>, work: &Work<E>) {
    for i in 0..QUERIES {
        // SAFETY: there are that many offsets.
        unsafe { *work.offsets.add(i) = (i * work.ld) as u32 };
    }
    for i in 0..task.count {
        let (grad, out) = (row(work.operands.grad, i), row(work.operands.out, i));
        // SAFETY: the working memory has an element for each query, and the query has its row of gradient and result.
        unsafe {
            *work.largest.add(i) = f32::NEG_INFINITY;
            *work.total.add(i) = 0.0;
            *work.along.add(i) = dot::<V, E>(grad, out, task.problem.sizes.width);
        }
    }
}

/// Brings the queries' largest scores and sums up to date for the block of `count` keys from `key`.
///
/// # Safety
/// As for [`differentiate`], after [`begin`] and the blocks before; there must be such a block.
#[inline(always)]
unsafe fn summarise<V: Vector, E: Element>(
    task: &Task<'_, E>,
    work: &Work<E>,
    (key, count): (usize, usize),
) {
    let sizes = task.problem.sizes;
    // SAFETY: the head has these keys, and there is room for the largest block.
    unsafe { pack_across::<E, E>(work.operands.k, (key, count), sizes.width, work.keys_across) };
    for (i, rows) in task.tiles() {
        let left = left((row(work.operands.q, i), work.operands.q.1), rows);
        let (scores, width) = (work.scores, words::<E>(sizes.width));
        // SAFETY: the keys are packed, and the tile has room for these scores in whole groups.
        unsafe { product::<V, E>(left, work.keys_across, count, width, scores, work.ld, false) };
        for j in 0..rows {
            let line = scores.wrapping_add(j * work.ld);
            // SAFETY: the product has written the row, and the query has its maximum and sum.
            unsafe {
                mask(line, count);
                let (largest, total) = (work.largest.add(i + j), work.total.add(i + j));
                let padded = count.next_multiple_of(GROUP);
                softmax::<V, f32>(line, padded, sizes.scale(), largest, total);
            }
        }
    }
}

/// Writes the sums for the block of `count` keys from `key` to the gradients of keys and values.
///
/// # Safety
/// As for [`differentiate`], after [`differentiate_block`] of the block.
#[inline(always)]
unsafe fn write_key_grads<V: Vector, E: Element>(
    task: &Task<'_, E>,
    work: &Work<E>,
    (key, count): (usize, usize),
) {
    let sizes = task.problem.sizes;
    let (width, factor) = (sizes.width, (sizes.width as f32).sqrt().recip());
    for i in 0..count {
        let at = ((task.batch * sizes.keys + key + i) * sizes.heads + task.head) * width;
        let sums = i * sizes.depth();
        // SAFETY: the block's sums have this row, and the gradients the row of this key and head.
        unsafe {
            let (of_key, of_value) = (work.key_sums.add(sums), work.value_sums.add(sums));
            if let Some([k_grad, v_grad]) = task.sums {
                scaled::<V, f32>(of_key, k_grad.add(at), width, factor);
                scaled::<V, f32>(of_value, v_grad.add(at), width, 1.0);
            } else {
                scaled::<V, E>(of_key, task.problem.k_grad.add(at), width, factor);
                scaled::<V, E>(of_value, task.problem.v_grad.add(at), width, 1.0);
            }
        }
    }
}

/// Writes the sums for the task's queries to their gradients.
///
/// # Safety
/// As for [`differentiate`], after [`differentiate_block`] of all blocks.
#[inline(always)]
unsafe fn write_query_grads<V: Vector, E: Element>(task: &Task<'_, E>, work: &Work<E>) {
    let sizes = task.problem.sizes;
    let (width, factor) = (sizes.width, (sizes.width as f32).sqrt().recip());
    for i in 0..task.count {
        let query = task.batch * sizes.queries + task.first + i;
        let at = (query * sizes.heads + task.head) * width;
        // SAFETY: the sums have a row for each query, and the gradient the row of this query and head.
        unsafe {
            let sums = work.query_sums.add(i * sizes.depth());
            scaled::<V, E>(sums, task.problem.q_grad.add(at), width, factor);
        }
    }
}
