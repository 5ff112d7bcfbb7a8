//! Attention of queries to each other and to places of feature maps.

use burn::prelude::*;
use burn::tensor::activation::softmax;
use prepose_kernels as kernels;
use prepose_kernels::Levels;

use crate::layers::Linear;
use crate::params::Params;

/// Multi-head attention with the four layers of PyTorch's.
#[derive(Module, Debug)]
pub(crate) struct MultiHead {
    query: Linear,
    key: Linear,
    value: Linear,
    out: Linear,
    heads: usize,
}

fn split(x: Tensor<3>, heads: usize) -> Tensor<4> {
    let [batch, count, channels] = x.dims();
    x.reshape([batch, count, heads, channels / heads])
        .swap_dims(1, 2)
}

fn merge(x: Tensor<4>) -> Tensor<3> {
    let [batch, heads, count, width] = x.dims();
    x.swap_dims(1, 2).reshape([batch, count, heads * width])
}

impl MultiHead {
    /// `names` are those of the layers for queries, keys, values and the result.
    pub fn load(params: &mut Params, names: [&str; 4], channels: usize, heads: usize) -> Self {
        Self::load_across(params, names, [channels; 2], heads)
    }

    /// As [`Self::load`], for keys and values of another width: `[C, context]`.
    pub fn load_across(
        params: &mut Params,
        names: [&str; 4],
        [channels, context]: [usize; 2],
        heads: usize,
    ) -> Self {
        let mut layer = |i: usize, input| Linear::load(params.pp(names[i]), input, channels, true);
        Self {
            query: layer(0, channels),
            key: layer(1, context),
            value: layer(2, context),
            out: layer(3, channels),
            heads,
        }
    }

    /// Queries `[B, N, C]` to keys and values `[B, M, C]`. `mask` `[1, 1, N, M]` is added to the scores.
    pub fn forward(
        &self,
        queries: Tensor<3>,
        keys: Tensor<3>,
        values: Tensor<3>,
        mask: Option<&Tensor<4>>,
    ) -> Tensor<3> {
        let q = split(self.query.forward(queries), self.heads);
        let k = split(self.key.forward(keys), self.heads);
        let v = split(self.value.forward(values), self.heads);
        let mixed = match mask {
            None => kernels::attention(q, k, v),
            Some(mask) => masked(q, k, v, mask),
        };
        self.out.forward(merge(mixed))
    }
}

/// `softmax(q kᵀ / √D + mask) v`, with the scores in memory: for short texts and for windows.
pub(crate) fn masked(q: Tensor<4>, k: Tensor<4>, v: Tensor<4>, mask: &Tensor<4>) -> Tensor<4> {
    let scale = 1.0 / (q.dims()[3] as f64).sqrt();
    let scores = (q * scale).matmul(k.swap_dims(2, 3)) + mask.clone();
    softmax(scores, 3).matmul(v)
}

/// Where queries look from.
pub(crate) enum Reference<'a> {
    /// The queries are the maps' own pixels.
    Pixels,
    /// Centre, width and height `[B, Q, 4]` as shares of the picture.
    Boxes(&'a Tensor<3>),
}

/// Deformable attention of queries to the tokens of feature maps (Zhu et al. 2021).
#[derive(Module, Debug)]
pub(crate) struct DeformableAttention {
    sampling_offsets: Linear,
    attention_weights: Linear,
    value_proj: Linear,
    output_proj: Linear,
    heads: usize,
    levels: usize,
    points: usize,
    /// What offsets are multiplied with, besides the width and height of a box.
    scale: f64,
}

/// Sizes of a [`DeformableAttention`].
#[derive(Clone, Copy)]
pub(crate) struct DeformableShape {
    pub channels: usize,
    pub heads: usize,
    pub levels: usize,
    pub points: usize,
    /// Of offsets from a box, in halves of the box in the papers.
    pub offset_scale: f64,
}

impl DeformableAttention {
    pub fn load(mut params: Params, shape: DeformableShape) -> Self {
        let DeformableShape {
            channels,
            heads,
            levels,
            points,
            offset_scale,
        } = shape;
        let samples = heads * levels * points;
        Self {
            sampling_offsets: Linear::load(
                params.pp("sampling_offsets"),
                channels,
                2 * samples,
                true,
            ),
            attention_weights: Linear::load(
                params.pp("attention_weights"),
                channels,
                samples,
                true,
            ),
            value_proj: Linear::load(params.pp("value_proj"), channels, channels, true),
            output_proj: Linear::load(params.pp("output_proj"), channels, channels, true),
            heads,
            levels,
            points,
            scale: offset_scale / points as f64,
        }
    }

    /// `queries` `[B, Q, C]`, with their positions added, to `tokens` `[B, T, C]` of maps of `sizes`.
    pub fn forward(
        &self,
        queries: Tensor<3>,
        tokens: Tensor<3>,
        sizes: &[[usize; 2]],
        reference: Reference,
    ) -> Tensor<3> {
        let [batch, count, channels] = queries.dims();
        let [_, length, _] = tokens.dims();
        let (heads, samples) = (self.heads, self.levels * self.points);
        let values = self.value_proj.forward(tokens);
        let values = values.reshape([batch, length, heads, channels / heads]);
        let offsets = self.sampling_offsets.forward(queries.clone());
        let offsets = offsets.reshape([batch, count, heads, samples, 2]);
        let weights = self.attention_weights.forward(queries);
        let weights = softmax(weights.reshape([batch, count, heads, samples]), 3);
        let places = match reference {
            Reference::Pixels => {
                let device = offsets.device();
                let centres = pixel_centres(sizes, &device).reshape([1, count, 1, 1, 2]);
                let each = sizes.iter().flat_map(|[height, width]| {
                    core::iter::repeat_n([1.0 / *width as f32, 1.0 / *height as f32], self.points)
                });
                let pixels: Vec<f32> = each.flatten().collect();
                let pixels = Tensor::<1>::from_data(pixels.as_slice(), &device);
                offsets * pixels.reshape([1, 1, 1, samples, 2]) + centres
            }
            Reference::Boxes(boxes) => {
                let part = |first| {
                    let part = boxes.clone().narrow(2, first, 2);
                    part.reshape([batch, count, 1, 1, 2])
                };
                offsets * (part(2) * self.scale) + part(0)
            }
        };
        let levels = Levels::new(sizes);
        let mixed = kernels::deformable_attention(values, &levels, places, weights);
        self.output_proj.forward(mixed)
    }
}

/// x and y of the middle of each pixel as shares of its map, `[tokens, 2]`.
fn pixel_centres(sizes: &[[usize; 2]], device: &Device) -> Tensor<2> {
    let mut places = Vec::new();
    for &[height, width] in sizes {
        for row in 0..height {
            for column in 0..width {
                places.push((column as f32 + 0.5) / width as f32);
                places.push((row as f32 + 0.5) / height as f32);
            }
        }
    }
    let count = places.len() / 2;
    Tensor::<1>::from_data(places.as_slice(), device).reshape([count, 2])
}
