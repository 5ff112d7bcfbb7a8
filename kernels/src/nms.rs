//! Non-maximum suppression.

use crate::plain;
use crate::profile::{self, Family};
use burn::tensor::{Bool, Tensor, TensorData};
use rayon::prelude::*;

use crate::flex::Operand;

/// Which of the boxes stay when, from the first to the last, every box that stays removes all later
/// ones whose intersection with it is more than `threshold` of their union.
///
/// `boxes` `[B, N, 4]` holds `B` problems of `N` corners `x0, y0, x1, y1` each, best first; the result
/// is `[B, N]`. A box without area neither removes others nor is removed.
pub fn nms(boxes: Tensor<3>, threshold: f64) -> Tensor<2, Bool> {
    let _span = profile::span(Family::Other, &boxes, || 0);
    let [batch, n, coordinates] = boxes.dims();
    assert_eq!(coordinates, 4, "nms: corners of a box");
    let Some(operand) = Operand::<f32>::new(&boxes) else {
        return fast!(None, crate::cube::nms(&boxes, threshold))
            .unwrap_or_else(|| plain::nms(boxes, threshold));
    };
    let operand = operand.contiguous();
    let corners: &[[f32; 4]] = bytemuck::cast_slice(operand.as_slice());
    let keep: Vec<bool> = match n {
        0 => Vec::new(),
        n => corners
            .par_chunks(n)
            .flat_map_iter(|boxes| suppress(boxes, threshold))
            .collect(),
    };
    Tensor::from_data(TensorData::new(keep, [batch, n]), &boxes.device())
}

/// [`nms`] of one problem on the host.
pub fn suppress(boxes: &[[f32; 4]], threshold: f64) -> Vec<bool> {
    // An f32 is above the threshold exactly if it is above the nearest f32 that is not.
    let mut limit = threshold as f32;
    if f64::from(limit) > threshold {
        limit = limit.next_down();
    }
    let side = |corner: usize| boxes.iter().map(|b| b[corner]).collect::<Vec<f32>>();
    let [x0, y0, x1, y1] = [side(0), side(1), side(2), side(3)];
    let area: Vec<f32> = boxes
        .iter()
        .map(|[x0, y0, x1, y1]| (x1 - x0) * (y1 - y0))
        .collect();
    // Bytes rather than bits, so that the compiler can use vectors.
    let mut removed = vec![0u8; boxes.len()];
    for i in 0..boxes.len() {
        if removed[i] != 0 {
            continue;
        }
        let [left, top, right, bottom] = boxes[i];
        let own = area[i];
        let rest = i + 1..boxes.len();
        let sides = x0[rest.clone()].iter().zip(&y0[rest.clone()]);
        let sides = sides.zip(x1[rest.clone()].iter().zip(&y1[rest.clone()]));
        let later = removed[rest.clone()].iter_mut().zip(sides.zip(&area[rest]));
        for (removed, (((x0, y0), (x1, y1)), area)) in later {
            let width = (right.min(*x1) - left.max(*x0)).max(0.0);
            let height = (bottom.min(*y1) - top.max(*y0)).max(0.0);
            let intersection = width * height;
            let overlap = intersection / (own + area - intersection);
            *removed |= u8::from(overlap > limit);
        }
    }
    removed.into_iter().map(|removed| removed == 0).collect()
}
