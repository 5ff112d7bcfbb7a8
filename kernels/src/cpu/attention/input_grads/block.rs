//! What a block of keys adds to the gradients.

use super::Task;
use crate::cpu::attention::work::Work;
use crate::cpu::attention::{Strided, left, mask, pack_across, pack_rows, row, softmax, words};
use crate::cpu::simd::{Element, Vector, exp2};
use crate::cpu::tile::{GROUP, Left, product};

/// Adds to the gradients of all queries, and sums those of keys and values, for the block of `count`
/// keys from `key`.
///
/// # Safety
/// As for [`differentiate`](super::differentiate), after [`begin`](super::begin), [`summarise`](super::summarise) of all blocks if there are several, and this
/// function of the blocks before; there must be such a block.
#[inline(always)]
pub(super) unsafe fn differentiate_block<V: Vector, E: Element>(
    task: &Task<'_, E>,
    work: &Work<E>,
    (key, count): (usize, usize),
) {
    let sizes = task.problem.sizes;
    let (width, depth, ld) = (sizes.width, sizes.depth(), work.ld);
    // SAFETY: the head has these keys and values, and there is room for the largest block.
    unsafe {
        pack_across::<E, E>(work.operands.k, (key, count), width, work.keys_across);
        pack_across::<E, E>(work.operands.v, (key, count), width, work.values_across);
        pack_rows::<E, E>(work.operands.k, (key, count), width, work.key_rows);
    }
    for (i, rows) in task.tiles() {
        let along = |of: Strided<E>| left((row(of, i), of.1), rows);
        let width_words = words::<E>(width);
        let (q, grad) = (along(work.operands.q), along(work.operands.grad));
        // SAFETY: keys and values are packed, the queries have rows of `width` elements, and both tiles have room for
        // `count` columns in whole groups, which the products write and `slopes` then needs.
        unsafe {
            product::<V, E>(
                q,
                work.keys_across,
                count,
                width_words,
                work.scores,
                ld,
                false,
            );
            product::<V, E>(
                grad,
                work.values_across,
                count,
                width_words,
                work.slopes,
                ld,
                false,
            );
            slopes::<V, E>(task, work, (i, rows), count);
            if E::PER_WORD > 1 {
                as_words::<V, E>(work, rows, count.next_multiple_of(GROUP));
            }
        }
        // SAFETY: the task has these queries, and there is room for a tile's.
        unsafe {
            pack_rows::<E, E>(work.operands.q, (i, rows), width, work.query_rows);
            pack_rows::<E, E>(work.operands.grad, (i, rows), width, work.grad_rows);
        }
        let left = Left::along(work.slopes, ld, rows);
        let down = |at: *mut f32| Left {
            at,
            stride: 1,
            rows: count,
            offsets: work.offsets,
        };
        let (to_keys, to_values) = (work.key_sums, work.value_sums);
        // SAFETY: the tiles have `rows` rows of `count` elements, and `offsets` says where each row is. Sums have rows of
        // `depth` elements, and hold numbers after the first block of keys or the first tile of queries.
        unsafe {
            let to = work.query_sums.add(i * depth);
            product::<V, E>(
                left,
                work.key_rows,
                width,
                words::<E>(count),
                to,
                depth,
                key > 0,
            );
            let (slopes, probs) = (down(work.slopes_down), down(work.scores));
            let rows = words::<E>(rows);
            product::<V, E>(slopes, work.query_rows, width, rows, to_keys, depth, i > 0);
            product::<V, E>(probs, work.grad_rows, width, rows, to_values, depth, i > 0);
        }
    }
}

/// Replaces the scores of `rows` queries from `i`, the tile's, by the probabilities `P`, and the slopes,
/// which hold `∂P`, by `P ∘ (∂P − rowsum(P ∘ ∂P))`.
///
/// # Safety
/// As for [`differentiate_block`]; both tiles must hold `rows` rows of `count` numbers in whole groups.
#[inline(always)]
unsafe fn slopes<V: Vector, E: Element>(
    task: &Task<'_, E>,
    work: &Work<E>,
    (i, rows): (usize, usize),
    count: usize,
) {
    let sizes = task.problem.sizes;
    let padded = count.next_multiple_of(GROUP);
    for j in 0..rows {
        let scores = work.scores.wrapping_add(j * work.ld);
        let slopes = work.slopes.wrapping_add(j * work.ld);
        // SAFETY: the working memory has these elements for each query, which `begin` has written, and the caller's
        // rows have `padded` elements, which are whole vectors.
        unsafe {
            let (largest, total) = (work.largest.add(i + j), work.total.add(i + j));
            let along = V::splat(*work.along.add(i + j));
            if sizes.keys > count {
                let shift = V::splat(-*largest);
                let factor = V::splat(1.0 / *total);
                for x in (0..padded).step_by(V::LANES) {
                    let power = V::load(scores.add(x)).mul_add(V::splat(sizes.scale()), shift);
                    let p = exp2(power).mul(factor);
                    p.store(scores.add(x));
                    let slope = V::load(slopes.add(x)).sub(along);
                    p.mul(slope).store(slopes.add(x));
                }
            } else {
                mask(scores, count);
                softmax::<V, f32>(scores, padded, sizes.scale(), largest, total);
                let factor = V::splat(1.0 / *total);
                for x in (0..padded).step_by(V::LANES) {
                    let p = V::load(scores.add(x)).mul(factor);
                    p.store(scores.add(x));
                    let slope = V::load(slopes.add(x)).sub(along);
                    p.mul(slope).store(slopes.add(x));
                }
            }
        }
    }
}

/// Makes words of the tiles: of the slopes along the keys, where they lie, and along the queries; of the probabilities along the
/// queries, where they lie.
///
/// # Safety
/// Both tiles must hold `rows` rows of `padded` numbers, a multiple of [`GROUP`].
#[inline(always)]
unsafe fn as_words<V: Vector, E: Element>(work: &Work<E>, rows: usize, padded: usize) {
    for j in (0..rows).step_by(2) {
        let (here, next) = (j * work.ld, (j + 1) * work.ld);
        for (from, to) in [(work.scores, work.scores), (work.slopes, work.slopes_down)] {
            for x in (0..padded).step_by(V::LANES) {
                // SAFETY: both rows have `padded` elements, if there is a second; words go to rows that lie no later than
                // these, or to another tile.
                unsafe {
                    let second = match j + 1 < rows {
                        true => V::load(from.add(next + x)),
                        false => V::splat(0.0),
                    };
                    let words = V::load(from.add(here + x)).pairs_bf16(second);
                    words.store(to.add(j / 2 * work.ld + x));
                }
            }
        }
    }
    for j in 0..rows {
        let line = work.slopes.wrapping_add(j * work.ld);
        for x in (0..padded).step_by(V::LANES) {
            // SAFETY: the row has `padded` elements; only what was read is overwritten.
            unsafe { E::store(V::load(line.add(x)), line.cast::<E>().add(x)) };
        }
    }
}
