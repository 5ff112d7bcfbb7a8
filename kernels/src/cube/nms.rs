//! Non-maximum suppression without a read-back: one kernel finds which box would remove which, a bit
//! for each pair, and one cube for each problem then goes through the boxes, 32 at a time.

use super::*;
use burn::tensor::Bool;

/// Boxes of a word.
const WORD: usize = 32;
/// The largest problem: its words of removed boxes are in shared memory.
const MOST: usize = 4096 * WORD / 4;

/// [`crate::nms`].
pub(crate) fn nms(boxes: &Tensor<3>, threshold: f64) -> Option<Tensor<2, Bool>> {
    if boxes.dims()[1] > MOST {
        return None;
    }
    // An f32 is above the threshold exactly if it is above the nearest f32 that is not.
    let mut limit = threshold as f32;
    if f64::from(limit) > threshold {
        limit = limit.next_down();
    }
    let kept = Dispatch::nms(operand(boxes)?, limit);
    Some(Tensor::<2>::from_dispatch(kept).greater_elem(0.5))
}

#[cube]
fn corner<F: Float>(boxes: &[F], number: usize, #[comptime] side: usize) -> f32 {
    f32::cast_from(boxes[number * 4 + side])
}

/// Which boxes of a word a box would remove.
#[cube(launch_unchecked, address_type = "dynamic")]
fn pairs_kernel<F: Float>(
    boxes: &[F],
    removes: &mut [u32],
    count: usize,
    words: usize,
    threads: usize,
    limit: f32,
    #[define(F)] _type: ElemType,
) {
    let i = ABSOLUTE_POS;
    if i < threads {
        let word = i % words;
        let own = i / words;
        let number = own % count;
        let first = own - number;
        let left = corner(boxes, own, 0usize);
        let top = corner(boxes, own, 1usize);
        let right = corner(boxes, own, 2usize);
        let bottom = corner(boxes, own, 3usize);
        let area = (right - left) * (bottom - top);
        let mut bits = 0u32;
        for bit in 0..WORD {
            let later = word * WORD + bit;
            if later > number && later < count {
                let at = first + later;
                let x0 = corner(boxes, at, 0usize);
                let y0 = corner(boxes, at, 1usize);
                let x1 = corner(boxes, at, 2usize);
                let y1 = corner(boxes, at, 3usize);
                let width = max(min(right, x1) - max(left, x0), 0.0f32);
                let height = max(min(bottom, y1) - max(top, y0), 0.0f32);
                let intersection = width * height;
                let union = area + (x1 - x0) * (y1 - y0) - intersection;
                if union > 0.0f32 && intersection / union > limit {
                    bits |= 1u32 << bit as u32;
                }
            }
        }
        removes[i] = bits;
    }
}

/// Goes through the boxes of a problem, best first.
#[cube(launch_unchecked, address_type = "dynamic")]
fn sweep_kernel<F: Float>(
    removes: &[u32],
    kept: &mut [F],
    problems: usize,
    count: usize,
    #[comptime] words: usize,
    #[comptime] units: usize,
    #[define(F)] _type: ElemType,
) {
    let problem = CUBE_POS;
    let unit = UNIT_POS as usize;
    let count = select(problem < problems, count, 0);
    let mut removed = Shared::<[u32]>::new_slice(words);
    let mut staying = Shared::<[u32]>::new_slice(1usize);
    let mut i = unit;
    while i < words {
        removed[i] = 0u32;
        i += units;
    }
    sync_cube();
    for word in 0..words {
        let first = word * WORD;
        if unit == 0 {
            let mut gone = removed[word];
            for bit in 0..WORD {
                if first + bit < count && (gone >> bit as u32) & 1u32 == 0u32 {
                    gone |= removes[(problem * count + first + bit) * words + word];
                }
            }
            removed[word] = gone;
            staying[0] = !gone;
        }
        sync_cube();
        let stay = staying[0];
        let mut later = word + 1 + unit;
        while later < words {
            let mut gone = removed[later];
            for bit in 0..WORD {
                if first + bit < count && (stay >> bit as u32) & 1u32 == 1u32 {
                    gone |= removes[(problem * count + first + bit) * words + later];
                }
            }
            removed[later] = gone;
            later += units;
        }
        sync_cube();
    }
    let mut i = unit;
    while i < count {
        let gone = (removed[i / WORD] >> (i % WORD) as u32) & 1u32;
        kept[problem * count + i] = select(gone == 0u32, F::new(1.0), F::new(0.0));
        i += units;
    }
}

/// Runs [`Kernels::nms`].
pub(super) fn launch(boxes: CubeTensor, limit: f32) -> CubeTensor {
    let boxes = into_contiguous(boxes);
    let [problems, count] = [boxes.meta.shape()[0], boxes.meta.shape()[1]];
    let words = count.div_ceil(WORD);
    let client = boxes.client.clone();
    let removes = empty(&boxes, Shape::from([problems, count, words]), DType::U32);
    let kept = empty(&boxes, Shape::from([problems, count]), boxes.dtype);
    let threads = problems * count * words;
    let (cubes, dim) = elementwise(&client, threads);
    let units = units(&client, words.next_power_of_two().clamp(32, 256));
    // SAFETY: threads past the last pair and cubes past the last problem do nothing.
    unsafe {
        pairs_kernel::launch_unchecked(
            &client,
            cubes,
            dim,
            address(&[&boxes, &removes]),
            boxes.clone().into_buffer_arg(),
            removes.clone().into_buffer_arg(),
            count,
            words,
            threads,
            limit,
            element(&boxes),
        );
        sweep_kernel::launch_unchecked(
            &client,
            grid(&client, problems),
            CubeDim::new_1d(units as u32),
            address(&[&removes]),
            removes.into_buffer_arg(),
            kept.clone().into_buffer_arg(),
            problems,
            count,
            words,
            units,
            element(&kept),
        );
    }
    kept
}
