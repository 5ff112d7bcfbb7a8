//! Gradients of layer normalisation to its parameters.

use super::norm::row_moments;
use super::simd::{Vector, multiversion};
use rayon::prelude::*;

/// Rows whose sums are taken in f32.
const BLOCK: usize = 64;

/// The gradients with respect to weight and bias, one after the other, of rows of `width` elements, from that of the result
/// and the input.
pub(crate) fn layer_norm(grad: &[f32], from: &[f32], width: usize, eps: f32) -> Vec<f32> {
    let mut sums = vec![0.0f64; 2 * width];
    if width == 0 || grad.is_empty() {
        return vec![0.0; 2 * width];
    }
    let blocks = grad
        .par_chunks(BLOCK * width)
        .zip(from.par_chunks(BLOCK * width));
    let parts = blocks.map(|(grad, from)| {
        let mut part = vec![0.0; 2 * width];
        // SAFETY: both have the same whole rows of at least one element, and the part two numbers for each of a row.
        unsafe { add_rows(grad, from, &mut part, eps) };
        part
    });
    let parts: Vec<_> = parts.collect();
    // In their order, whoever was done first.
    for part in parts {
        for (sum, part) in sums.iter_mut().zip(part) {
            *sum += f64::from(part);
        }
    }
    sums.into_iter().map(|sum| sum as f32).collect()
}

multiversion! {
    /// Adds what rows of half the length of `sums` contribute.
    ///
    /// # Safety
    /// `grad` and `from` must have the same number of whole rows, of at least one element.
    unsafe fn add_rows(grad: &[f32], from: &[f32], sums: &mut [f32], eps: f32) = add_rows_body
}

#[inline(always)]
unsafe fn add_rows_body<V: Vector>(grad: &[f32], from: &[f32], sums: &mut [f32], eps: f32) {
    let width = sums.len() / 2;
    let (of_weight, of_bias) = sums.split_at_mut(width);
    for (grad, from) in grad.chunks_exact(width).zip(from.chunks_exact(width)) {
        // SAFETY: a row has `width` elements, and at least one.
        let (mean, variance) = unsafe { row_moments::<V, f32>(from.as_ptr(), width) };
        let inverse = 1.0 / (variance + eps).sqrt();
        let all = grad
            .iter()
            .zip(from)
            .zip(of_weight.iter_mut().zip(of_bias.iter_mut()));
        for ((grad, x), (of_weight, of_bias)) in all {
            *of_weight += grad * (x - mean) * inverse;
            *of_bias += grad;
        }
    }
}
