//! The gradient of attention to a fixed context, as in [`super::input_grads`]; all keys of such a
//! context are one block, so that the softmax of a query is complete at once.

use super::{
    Heads, QUERIES, Sizes, Strided, left, mask, pack_across, pack_rows, pieces, row, scaled,
    softmax, words,
};
use crate::cpu::simd::{Element, Vector, multiversion};
use crate::cpu::tile::{GROUP, Left, engaged, product};

/// The gradient of attention with respect to its queries. Rows of queries and of the gradient of the result must be whole
/// words, and so must be what is between them.
pub(crate) struct QueryGrad<E> {
    pub sizes: Sizes,
    /// The gradient of the result `[B, H, N, D]`; none counts as zero.
    pub grad: Option<Heads<E>>,
    /// The gradient of the probabilities `[B, H, N, M]`; none counts as zero.
    pub grad_probs: Option<Heads<E>>,
    pub q: Heads<E>,
    pub k: Heads<E>,
    pub v: Heads<E>,
    /// Where the gradient goes, `[B, N, H, D]`.
    pub q_grad: *mut E,
}

// SAFETY: the inputs are only read, and no two tasks of `run`, which alone writes, write the same rows.
unsafe impl<E: Element> Sync for QueryGrad<E> {}

impl<E: Element> QueryGrad<E> {
    /// Computes the gradient on Rayon's threads.
    ///
    /// # Safety
    /// The pointers must cover tensors of these sizes, none of which is 0, and the result must not
    /// overlap the inputs.
    pub(crate) unsafe fn run(&self) {
        self.sizes
            .each(self.sizes.parts(), |batch, head, (_, first, count)| {
                // SAFETY: every task has its own head or part of the queries, and so its own rows of the result.
                unsafe { differentiate_queries(self, (batch, head), (first, count)) };
            });
    }
}

multiversion! {
    /// The gradient of some of a head's queries: the first and how many there are.
    ///
    /// # Safety
    /// As for [`QueryGrad::run`]; the head must have the queries, and nobody else may write to their rows of
    /// the result.
    unsafe fn differentiate_queries<E>(problem: &QueryGrad<E>, head: (usize, usize), queries: (usize, usize)) = queries_body
}

#[inline(always)]
unsafe fn queries_body<V: Vector, E: Element>(
    problem: &QueryGrad<E>,
    (batch, head): (usize, usize),
    (first, all): (usize, usize),
) {
    let _engaged = engaged::<E>();
    let sizes = problem.sizes;
    let Sizes { keys, width, .. } = sizes;
    let depth = sizes.depth();
    let padded = keys.next_multiple_of(GROUP);
    let (_scratch, [keys_across, values_across, key_rows, scores, slopes, sums]) = pieces([
        padded * words::<E>(width),
        padded * words::<E>(width),
        words::<E>(keys) * depth,
        QUERIES * padded,
        QUERIES * padded,
        QUERIES * depth,
    ]);
    let rows_of = |heads: &Heads<E>| (heads.head(batch, head), heads.strides[2]);
    let (q, k, v) = (
        rows_of(&problem.q),
        rows_of(&problem.k),
        rows_of(&problem.v),
    );
    let grad = problem.grad.as_ref().map(rows_of);
    let grad_probs = problem.grad_probs.as_ref().map(rows_of);
    // SAFETY: the head has these keys and values, and the scratch has room for all of them in whole groups.
    unsafe {
        pack_across::<E, E>(k, (0, keys), width, keys_across);
        pack_across::<E, E>(v, (0, keys), width, values_across);
        pack_rows::<E, E>(k, (0, keys), width, key_rows);
    }
    for i in (0..all).step_by(QUERIES) {
        let rows = QUERIES.min(all - i);
        let of = |of: Strided<E>| left((row(of, first + i), of.1), rows);
        let width_words = words::<E>(width);
        // SAFETY: keys and values are packed, the head has these queries, and the scratch has room for a tile of scores.
        unsafe {
            product::<V, E>(of(q), keys_across, keys, width_words, scores, padded, false);
            if let Some(grad) = grad {
                product::<V, E>(
                    of(grad),
                    values_across,
                    keys,
                    width_words,
                    slopes,
                    padded,
                    false,
                );
            }
        }
        for j in 0..rows {
            let scores = scores.wrapping_add(j * padded);
            let slopes = slopes.wrapping_add(j * padded);
            let given = grad_probs.map(|given| row(given, first + i + j));
            // SAFETY: the products have written row `j` of the scores, and of the slopes if there is a gradient of the
            // result; the gradient of the probabilities has a row of `keys` elements for this query.
            unsafe {
                add_given(slopes, given, grad.is_some(), keys);
                slopes_of_query::<V, E>(scores, slopes, keys, sizes.scale());
            }
        }
        let left = Left::along(slopes, padded, rows);
        // SAFETY: the keys are packed, the slopes have `rows` rows of `keys` elements with zeros up to whole words, and the
        // sums room for as many.
        unsafe { product::<V, E>(left, key_rows, width, words::<E>(keys), sums, depth, false) };
        let factor = (width as f32).sqrt().recip();
        for j in 0..rows {
            let query = batch * sizes.queries + first + i + j;
            let at = (query * sizes.heads + head) * width;
            // SAFETY: the product has written row `j` of the sums, and the result has the row of this query and head.
            unsafe {
                let sums = sums.add(j * depth);
                scaled::<V, E>(sums, problem.q_grad.add(at), width, factor);
            }
        }
    }
}

/// Adds the gradient of `keys` probabilities, if one is given, to the slopes or, if they are not there yet,
/// writes it there; and zeros behind it.
///
/// # Safety
/// `slopes` must have room for `keys` elements in whole groups, with numbers in them if they are `there`;
/// `given` must have `keys` elements. One of them must be there.
#[inline(always)]
unsafe fn add_given<E: Element>(
    slopes: *mut f32,
    given: Option<*const E>,
    there: bool,
    keys: usize,
) {
    if let Some(given) = given {
        for x in 0..keys {
            // SAFETY: both have `keys` elements, and what is not there is not read.
            unsafe {
                let given = (*given.add(x)).widen();
                *slopes.add(x) = if there { *slopes.add(x) + given } else { given };
            }
        }
    }
    // Beyond the keys the probabilities are zero, and what they multiply must be finite.
    for x in keys..keys.next_multiple_of(GROUP) {
        // SAFETY: `x` lies in the last group.
        unsafe { *slopes.add(x) = 0.0 };
    }
}

/// Replaces the slopes of a query, which hold `∂P`, by `P ∘ (∂P − rowsum(P ∘ ∂P))` as elements `E` that follow each other, and
/// its scores by probabilities that are not yet divided by their sum.
///
/// # Safety
/// Both must have `keys` numbers, and the slopes zeros behind them, in whole groups.
#[inline(always)]
unsafe fn slopes_of_query<V: Vector, E: Element>(
    scores: *mut f32,
    slopes: *mut f32,
    keys: usize,
    scale: f32,
) {
    let padded = keys.next_multiple_of(GROUP);
    let (mut largest, mut total) = (f32::NEG_INFINITY, 0.0);
    // SAFETY: the caller's scores have `padded` elements.
    unsafe {
        mask(scores, keys);
        softmax::<V, f32>(scores, padded, scale, &mut largest, &mut total);
    }
    let mut along = V::splat(0.0);
    for x in (0..padded).step_by(V::LANES) {
        // SAFETY: both have `padded` elements, which are whole vectors.
        along = unsafe { V::load(scores.add(x)).mul_add(V::load(slopes.add(x)), along) };
    }
    let factor = 1.0 / total;
    let (along, factor) = (V::splat(along.sum() * factor), V::splat(factor));
    for x in (0..padded).step_by(V::LANES) {
        // SAFETY: as above; elements are no larger than slopes, so that only what was read is overwritten.
        unsafe {
            let p = V::load(scores.add(x)).mul(factor);
            let slope = V::load(slopes.add(x)).sub(along);
            E::store(p.mul(slope), slopes.cast::<E>().add(x));
        }
    }
}
