//! The gradient of attention to a fixed context, as in [`super::attention_grad`]; all keys of such a
//! context are one block, so that the softmax of a query is complete at once.

use super::attention::{Heads, softmax};
use super::attention_grad::{QUERIES, Sizes, mask, pieces, row, scaled};
use super::columns::{Patches, Transposed};
use super::gemm;
use super::simd::{Vector, multiversion};
use super::tile::{GROUP, Left, product};

/// The gradient of attention with respect to its queries.
pub(crate) struct QueryGrad {
    pub sizes: Sizes,
    /// Of the result.
    pub grad: Option<Heads>,
    /// Of the probabilities `[B, H, N, M]`.
    pub grad_probs: Option<Heads>,
    pub q: Heads,
    pub k: Heads,
    pub v: Heads,
    /// Where the gradient goes, `[B, N, H, D]`.
    pub q_grad: *mut f32,
}

// SAFETY: the inputs are only read, and no two tasks write the same rows.
unsafe impl Sync for QueryGrad {}

impl QueryGrad {
    /// Computes the gradient on Rayon's threads.
    ///
    /// # Safety
    /// The pointers must cover tensors of these sizes, and the result must not overlap the inputs.
    pub(crate) unsafe fn run(&self) {
        self.sizes
            .each(self.sizes.parts(), |batch, head, (_, first, count)| {
                // SAFETY: every task has its own rows of the result.
                unsafe { differentiate_queries(self, (batch, head), (first, count)) };
            });
    }
}

multiversion! {
    unsafe fn differentiate_queries(problem: &QueryGrad, head: (usize, usize), queries: (usize, usize)) = queries_body
}

#[inline(always)]
unsafe fn queries_body<V: Vector>(
    problem: &QueryGrad,
    (batch, head): (usize, usize),
    (first, all): (usize, usize),
) {
    let sizes = problem.sizes;
    let Sizes { keys, width, .. } = sizes;
    let (depth, scale) = (sizes.depth(), sizes.scale());
    let padded = keys.next_multiple_of(GROUP);
    let (_scratch, [keys_across, values_across, key_rows, scores, slopes, sums]) = pieces([
        padded * width,
        padded * width,
        padded * depth,
        QUERIES * padded,
        QUERIES * padded,
        QUERIES * depth,
    ]);
    let rows_of = |heads: &Heads| (heads.head(batch, head), heads.strides[2]);
    let (q, k, v) = (
        rows_of(&problem.q),
        rows_of(&problem.k),
        rows_of(&problem.v),
    );
    let grad = problem.grad.as_ref().map(rows_of);
    let grad_probs = problem.grad_probs.as_ref().map(rows_of);
    unsafe {
        for (rows, to) in [(k, keys_across), (v, values_across)] {
            let columns = Transposed {
                from: rows.0,
                stride: rows.1,
            };
            gemm::pack(&columns, (0, keys), (0, width), to);
        }
        gemm::pack(
            &Patches::rows(k.0, k.1, width),
            (0, width),
            (0, keys),
            key_rows,
        );
        for i in (0..all).step_by(QUERIES) {
            let rows = QUERIES.min(all - i);
            let left = |of: (*const f32, usize)| Left::along(row(of, first + i), of.1, rows);
            product::<V>(left(q), keys_across, keys, width, scores, padded, false);
            if let Some(grad) = grad {
                product::<V>(
                    left(grad),
                    values_across,
                    keys,
                    width,
                    slopes,
                    padded,
                    false,
                );
            }
            for j in 0..rows {
                let (scores, slopes) = (scores.add(j * padded), slopes.add(j * padded));
                if let Some(given) = grad_probs {
                    let given = row(given, first + i + j);
                    if grad.is_none() {
                        core::ptr::copy_nonoverlapping(given, slopes, keys);
                    } else {
                        for x in 0..keys {
                            *slopes.add(x) += *given.add(x);
                        }
                    }
                }
                // Beyond the keys the probabilities are zero, and what they multiply must be finite.
                for x in keys..padded {
                    *slopes.add(x) = 0.0;
                }
                mask(scores, keys);
                let (mut largest, mut total) = (f32::NEG_INFINITY, 0.0);
                softmax::<V>(scores, padded, scale, &mut largest, &mut total);
                let mut along = V::splat(0.0);
                for x in (0..padded).step_by(V::LANES) {
                    along = V::load(scores.add(x)).mul_add(V::load(slopes.add(x)), along);
                }
                let factor = 1.0 / total;
                let (along, factor) = (V::splat(along.sum() * factor), V::splat(factor));
                for x in (0..padded).step_by(V::LANES) {
                    let p = V::load(scores.add(x)).mul(factor);
                    p.mul(V::load(slopes.add(x)).sub(along))
                        .store(slopes.add(x));
                }
            }
            let left = Left::along(slopes, padded, rows);
            product::<V>(left, key_rows, width, keys, sums, depth, false);
            let factor = (width as f32).sqrt().recip();
            for j in 0..rows {
                let at = batch * sizes.queries + first + i + j;
                let to = problem.q_grad.add((at * sizes.heads + head) * width);
                scaled(sums.add(j * depth), to, width, factor);
            }
        }
    }
}
