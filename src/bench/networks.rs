//! Rows of bare networks: a product of matrices, a call of the UNet.

use std::time::Instant;

use burn::tensor::{DType, Device, Distribution, Tensor};
use prepose_kernels::profile::{self, Family, linear_flops};
use prepose_models::unet::AddedConditioning;

use super::error::BenchError;
use super::row::{FamilyTime, Outcome, TOKENS, What};
use super::timing::{Timer, Times, wait};
use crate::engine::Engine;

/// A product of square matrices.
pub(super) fn matmul(timer: &Timer, outcome: &mut Outcome) -> Result<Times, BenchError> {
    let (row, device) = (timer.row, &timer.device.device);
    let n = row.size;
    let dtype = row.dtype.float();
    let a = random::<3>([1, n, n], device).cast(dtype);
    let b = (random::<2>([n, n], device) * (n as f32).powf(-0.5)).cast(dtype);
    outcome.flops = Some(linear_flops(n, n, n));
    timer.time(|| {
        let product = prepose_kernels::linear(a.clone(), b.clone(), None);
        Ok(product.slice([0..1, 0..1, 0..1]).reshape([1, 1, 1, 1]))
    })
}

/// The network alone, on random latents and random text.
pub(super) fn unet(
    timer: &Timer,
    engine: &Engine,
    outcome: &mut Outcome,
) -> Result<Times, BenchError> {
    let (row, device) = (timer.row, &timer.device.device);
    let unet = engine.unet();
    let config = unet.config();
    let side = row.size / engine.blueprint().vae_factor();
    let rows = 2 * row.batch;
    let latents = random::<4>([rows, config.in_channels, side, side], device);
    let width = config.cross_attention_dim.first().unwrap_or(768);
    let context = random::<3>([rows, TOKENS, width], device);
    let added = config.projection_class_embeddings_input_dim.map(|width| {
        let ids = 6 * config.addition_time_embed_dim.unwrap_or_default();
        let size = row.size as f32;
        AddedConditioning {
            text_embeds: random([rows, width.saturating_sub(ids)], device),
            time_ids: Tensor::from_floats([[size, size, 0.0, 0.0, size, size]], device)
                .repeat_dim(0, rows),
        }
    });
    let prepared = unet.prepare(context, added.as_ref());
    let flops = config.flops(rows, [side, side], TOKENS);
    outcome.flops = flops.ok().map(|flops| flops.step());
    let call = || unet.forward_prepared(latents.clone(), &[500.0], &prepared);
    if row.what == What::Unet {
        return timer.time(|| Ok(call()));
    }
    let mut fastest = f64::INFINITY;
    timer.time(|| {
        let started = Instant::now();
        let (result, profile) = profile::record(|| {
            let result = call();
            wait(device)?;
            Ok::<_, BenchError>(result)
        });
        let seconds = started.elapsed().as_secs_f64();
        if seconds < fastest {
            fastest = seconds;
            outcome.families = families(&profile, seconds);
        }
        result
    })
}

/// The families' parts of `seconds`, and what is left.
fn families(profile: &profile::Profile, seconds: f64) -> Vec<FamilyTime> {
    let mut rest = seconds;
    let mut times = Vec::new();
    for family in Family::ALL {
        let totals = profile.get(family);
        rest -= totals.seconds;
        times.push(FamilyTime {
            family: family.name().into(),
            calls: totals.calls,
            seconds: totals.seconds,
            flops: totals.flops,
        });
    }
    times.push(FamilyTime {
        family: "rest".into(),
        calls: 0,
        seconds: rest.max(0.0),
        flops: 0,
    });
    times
}

/// Normally distributed numbers, f32.
pub(super) fn random<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::random(shape, Distribution::Normal(0.0, 1.0), (device, DType::F32))
}
