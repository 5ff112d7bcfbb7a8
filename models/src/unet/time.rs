//! The time embedding, and SDXL's added conditioning.

use burn::prelude::*;
use burn::tensor::{DType, TensorData};
use prepose_kernels as kernels;

use crate::layers::Linear;
use crate::params::Params;

/// Sinusoids of each value: `[values, dim]` in f32 (Ho et al. 2020, appendix B; diffusers'
/// `get_timestep_embedding`).
///
/// They are computed on the host: the arguments reach 1000, where the sine of some GPU languages
/// is only an estimate.
pub(crate) fn sinusoids(
    values: &[f32],
    dim: usize,
    flip_sin_to_cos: bool,
    freq_shift: f64,
    device: &Device,
) -> Tensor<2> {
    const MAX_PERIOD: f64 = 10_000.0;
    let half = dim / 2;
    let step = -MAX_PERIOD.ln() as f32;
    let span = (half as f64 - freq_shift) as f32;
    let mut data = vec![0.0; values.len() * dim];
    for (row, value) in data.chunks_exact_mut(dim).zip(values) {
        for i in 0..half {
            let angle = value * (step * i as f32 / span).exp();
            let (sin, cos) = angle.sin_cos();
            let (first, second) = if flip_sin_to_cos {
                (cos, sin)
            } else {
                (sin, cos)
            };
            row[i] = first;
            row[half + i] = second;
        }
    }
    let data = TensorData::new(data, [values.len(), dim]);
    Tensor::from_data(data, (device, DType::F32))
}

/// diffusers' `TimestepEmbedding`, in f32 whatever the type of the other weights.
#[derive(Module, Debug)]
pub(crate) struct TimestepEmbedding {
    linear_1: Linear,
    linear_2: Linear,
    cond_proj: Option<Linear>,
}

impl TimestepEmbedding {
    pub fn load(params: Params, input: usize, output: usize, guidance: Option<usize>) -> Self {
        let mut params = params.f32();
        Self {
            linear_1: Linear::load(params.pp("linear_1"), input, output, true),
            linear_2: Linear::load(params.pp("linear_2"), output, output, true),
            cond_proj: guidance
                .map(|guidance| Linear::load(params.pp("cond_proj"), guidance, input, false)),
        }
    }

    /// `x` `[B, In]` and, for guidance-distilled networks, the embedded guidance scale
    /// `[B or 1, guidance]` to `[B, T]`.
    pub fn forward(&self, x: Tensor<2>, guidance: Option<Tensor<2>>) -> Tensor<2> {
        let x = match (&self.cond_proj, guidance) {
            (Some(projection), Some(guidance)) => x + projection.forward_rows(guidance),
            _ => x,
        };
        self.linear_2
            .forward_rows(kernels::silu(self.linear_1.forward_rows(x)))
    }
}

/// LCM's embedding of a guidance scale `w` for networks with a `time_cond_proj_dim` (Luo et al.
/// 2023): `[1, dim]` sinusoids of `1000 (w − 1)`.
pub(crate) fn guidance_embedding(scale: f64, dim: usize, device: &Device) -> Tensor<2> {
    let w = ((scale - 1.0) * 1000.0) as f32;
    // The reference code divides by half − 1, that is a shift of 1, and puts sines first.
    sinusoids(&[w], dim, false, 1.0, device)
}
