//! What the gradients of self-attention compute in.

use super::{QUERIES, Sizes, Strided, pieces, words};
use crate::cpu::scratch::Scratch;
use crate::cpu::simd::Element;
use crate::cpu::tile::GROUP;

/// The operands of a task.
pub(super) struct Operands<E> {
    /// The rows of its queries.
    pub q: Strided<E>,
    pub grad: Strided<E>,
    pub out: Strided<E>,
    /// All rows of its head.
    pub k: Strided<E>,
    pub v: Strided<E>,
}

/// A task's operands and working memory.
pub(super) struct Work<E> {
    pub operands: Operands<E>,
    /// A block of keys and values, packed across, and its keys packed row by row.
    pub keys_across: *mut f32,
    pub values_across: *mut f32,
    pub key_rows: *mut f32,
    /// Gradients of the block's keys and values, rows of `depth`.
    pub key_sums: *mut f32,
    pub value_sums: *mut f32,
    /// A tile's queries and gradients, packed row by row.
    pub query_rows: *mut f32,
    pub grad_rows: *mut f32,
    /// A tile of scores, which become probabilities, and of their gradients: rows of `ld`.
    pub scores: *mut f32,
    pub slopes: *mut f32,
    /// The slopes as words of neighbouring queries: those themselves if a word is an element.
    pub slopes_down: *mut f32,
    pub ld: usize,
    /// Where in a column of a tile each word lies.
    pub offsets: *mut u32,
    /// Of each of the task's queries the gradient (rows of `depth`), the largest score, the sum of the softmax, and
    /// `rowsum(g ∘ result)`.
    pub query_sums: *mut f32,
    pub largest: *mut f32,
    pub total: *mut f32,
    pub along: *mut f32,
    /// What all of this lies in.
    _scratch: [Scratch; 4],
}

impl<E: Element> Work<E> {
    /// For a task with `count` queries and blocks of up to `block` keys.
    pub(super) fn new(operands: Operands<E>, sizes: &Sizes, count: usize, block: usize) -> Self {
        let (width, depth) = (sizes.width, sizes.depth());
        let padded = block.next_multiple_of(GROUP);
        // One more group in each row of scores keeps columns of them out of a single cache set.
        let ld = padded + GROUP;
        let (across, [keys_across, values_across]) = pieces([padded * words::<E>(width); 2]);
        let (sums, [key_rows, key_sums, value_sums]) =
            pieces([words::<E>(padded) * depth, padded * depth, padded * depth]);
        let (rows, tile) = (words::<E>(QUERIES) * depth, QUERIES * ld);
        let down = if E::PER_WORD > 1 { words::<E>(tile) } else { 0 };
        let (tile, [query_rows, grad_rows, scores, slopes, slopes_down, offsets]) =
            pieces([rows, rows, tile, tile, down, QUERIES]);
        let (queries, [query_sums, largest, total, along]) =
            pieces([count * depth, count, count, count]);
        Self {
            operands,
            keys_across,
            values_across,
            key_rows,
            key_sums,
            value_sums,
            query_rows,
            grad_rows,
            scores,
            slopes,
            slopes_down: if E::PER_WORD > 1 { slopes_down } else { slopes },
            ld,
            offsets: offsets.cast(),
            query_sums,
            largest,
            total,
            along,
            _scratch: [across, sums, tile, queries],
        }
    }
}
