//! Attention to a few places of several feature maps.

use burn::tensor::Tensor;

use crate::cpu::deformable::Sampling;
use crate::flex::{Operand, filled};
use crate::plain::{self, Levels};
use crate::profile::{self, Family};

/// Multi-scale deformable attention (Zhu et al. 2021): each query of each head takes the weighted sum of values that are
/// interpolated at places of its own, as transformers' `MultiScaleDeformableAttention` does.
///
/// `values` are `[B, tokens, H, D]`, the tokens of all maps of `levels` one after the other; `locations`
/// `[B, Q, H, levels · points, 2]` are x and y in 0..=1 of the map, those of the first map first; what lies outside counts
/// as zero. `weights` are `[B, Q, H, levels · points]`. The result is `[B, Q, H · D]` in the type of the values.
///
/// # Panics
/// If shapes do not fit together.
pub fn deformable_attention(
    values: Tensor<4>,
    levels: &Levels,
    locations: Tensor<5>,
    weights: Tensor<4>,
) -> Tensor<3> {
    let [batch, tokens, heads, _] = values.dims();
    let [_, queries, _, samples] = weights.dims();
    let _span = profile::span(Family::Other, &weights, || 0);
    assert_eq!(tokens, levels.tokens(), "deformable_attention: tokens");
    assert_eq!(
        (weights.dims(), locations.dims()),
        (
            [batch, queries, heads, samples],
            [batch, queries, heads, samples, 2]
        ),
        "deformable_attention: locations and weights"
    );
    assert!(
        samples.is_multiple_of(levels.sizes().len()),
        "deformable_attention: {samples} samples of {} levels",
        levels.sizes().len()
    );
    fast!(
        fast(&values, levels, &locations, &weights),
        crate::cube::deformable_attention(&values, levels, &locations, &weights)
    )
    .unwrap_or_else(|| plain::deformable_attention(values, levels, locations, weights))
}

fn fast(
    values: &Tensor<4>,
    levels: &Levels,
    locations: &Tensor<5>,
    weights: &Tensor<4>,
) -> Option<Tensor<3>> {
    let [batch, _, heads, width] = values.dims();
    let [_, queries, _, samples] = weights.dims();
    let dtype = values.dtype();
    let values = Operand::<f32>::new(values)?.contiguous();
    let locations = Operand::<f32>::new(locations)?.contiguous();
    let weights = Operand::<f32>::new(weights)?.contiguous();
    let sampling = Sampling {
        values: values.as_slice(),
        locations: locations.as_slice(),
        weights: weights.as_slice(),
        levels: *levels,
        batch,
        queries,
        heads,
        width,
        samples,
    };
    // SAFETY: the sizes are those of the tensors, as `deformable_attention` has asserted, and every query's part of the
    // result is written.
    Some(unsafe {
        filled([batch, queries, heads * width], dtype, |to| {
            sampling.run(to)
        })
    })
}
