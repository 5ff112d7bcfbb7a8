//! The time embedding, and SDXL's added conditioning.

use burn::module::Param;
use burn::prelude::*;
use burn::tensor::{DType, TensorData};
use prepose_kernels as kernels;

use super::{AddedConditioning, PreparedConditioning, UNet, UNetConfig};
use crate::layers::Linear;
use crate::params::Params;
use crate::resnet::TimeShift;

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

/// The `time_emb_proj` of all residual blocks, which have the same input, as one product, and the biases of the
/// convolutions that their results are added to.
#[derive(Module, Debug)]
pub(crate) struct TimeProjections {
    projections: Linear,
    /// Of all blocks, `[Σ C]`.
    biases: Param<Tensor<1>>,
    #[module(skip)]
    channels: Vec<usize>,
}

impl TimeProjections {
    /// `resnets` are the names and channels of the residual blocks in the order of execution.
    pub fn load(params: &mut Params, resnets: &[(String, usize)], time_dim: usize) -> Self {
        let named = |what: &str| {
            let part = |(name, channels): &(String, usize)| (format!("{name}.{what}"), *channels);
            resnets.iter().map(part).collect::<Vec<_>>()
        };
        let channels: Vec<_> = resnets.iter().map(|(_, channels)| *channels).collect();
        Self {
            projections: Linear::load_stacked(params, &named("time_emb_proj"), time_dim, true),
            biases: params.stacked(&named("conv1.bias"), [channels.iter().sum()]),
            channels,
        }
    }

    /// From `silu` of the embedding, `[1 or B, T]`: one row for the whole batch when all samples are at the same
    /// timestep, else one for each.
    fn forward(&self, x: Tensor<2>) -> Vec<TimeShift> {
        let [rows, _] = x.dims();
        let shifts = self.projections.forward_rows(x) + self.biases.val().unsqueeze_dim(0);
        let all = shifts.dims()[1];
        let mut start = 0;
        let blocks = self.channels.iter().map(|&channels| {
            let from = start;
            start += channels;
            match rows {
                1 => {
                    let shifts = shifts.clone().reshape([all]);
                    TimeShift::Same(kernels::narrow_columns(shifts, from, channels))
                }
                _ => TimeShift::Each(kernels::narrow_columns(shifts.clone(), from, channels)),
            }
        });
        blocks.collect()
    }
}

impl UNet {
    /// Sinusoids of the timesteps, one for the whole batch of `sample` or one for each: `[1 or B, C]`, f32. They are
    /// copied to the device.
    pub(super) fn embed_timesteps(&self, timesteps: &[f64], sample: &Tensor<4>) -> Tensor<2> {
        let batch = sample.dims()[0];
        assert!(
            timesteps.len() == 1 || timesteps.len() == batch,
            "{} timesteps for a batch of {batch}",
            timesteps.len()
        );
        let timesteps: Vec<f32> = timesteps.iter().map(|&t| t as f32).collect();
        let device = sample.device().without_autodiff();
        self.sinusoids(&timesteps, self.config.block_out_channels[0], &device)
    }

    /// What timestep, guidance scale and added conditioning add in each residual block, in the order of execution, from
    /// [`Self::embed_timesteps`].
    pub(super) fn time_shifts(
        &self,
        timesteps: Tensor<2>,
        conditioning: &PreparedConditioning,
    ) -> Vec<TimeShift> {
        let guidance = conditioning.guidance.clone();
        let mut x = self.time_embedding.forward(timesteps, guidance);
        if let Some(added) = &conditioning.added {
            x = x + added.clone();
        }
        let x = kernels::silu(x).cast(self.conv_in.dtype());
        self.time_projections.forward(x)
    }

    /// The input of SDXL's `add_embedding`: the pooled text and the embedded time ids, `[B, width]`.
    pub(super) fn embed_added(&self, added: &AddedConditioning) -> Tensor<2> {
        let text = added.text_embeds.clone().cast(DType::F32);
        let [batch, _] = text.dims();
        let ids: Vec<f32> = added.time_ids.to_data().iter().collect();
        let dim = self.config.addition_time_embed_dim.unwrap_or_default();
        let ids = self.sinusoids(&ids, dim, &text.device());
        let width = ids.dims().iter().product::<usize>() / batch;
        Tensor::cat(vec![text, ids.reshape([batch, width])], 1)
    }

    fn sinusoids(&self, values: &[f32], dim: usize, device: &Device) -> Tensor<2> {
        let UNetConfig {
            flip_sin_to_cos,
            freq_shift,
            ..
        } = self.config;
        sinusoids(values, dim, flip_sin_to_cos, freq_shift, device)
    }
}

/// LCM's embedding of a guidance scale `w` for networks with a `time_cond_proj_dim` (Luo et al.
/// 2023): `[1, dim]` sinusoids of `1000 (w − 1)`.
pub(crate) fn guidance_embedding(scale: f64, dim: usize, device: &Device) -> Tensor<2> {
    let w = ((scale - 1.0) * 1000.0) as f32;
    // The reference code divides by half − 1, that is a shift of 1, and puts sines first.
    sinusoids(&[w], dim, false, 1.0, device)
}
