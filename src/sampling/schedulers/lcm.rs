//! Latent consistency models (Luo et al. 2023), multistep sampling: predict the picture, add noise again.

use burn::tensor::Tensor;

use super::{Schedule, StepOutput};

/// Standard deviation of the data in the boundary condition.
const SIGMA_DATA: f32 = 0.5;

pub(super) fn step(
    schedule: &Schedule,
    i: usize,
    model_output: Tensor<4>,
    sample: Tensor<4>,
    noise: Option<Tensor<4>>,
) -> StepOutput {
    let a = schedule.alpha_cumprod(i);
    let mut original =
        schedule.predict_original(model_output, sample.clone(), a.sqrt(), (1.0 - a).sqrt());
    if let Some(range) = schedule.scheduler.clip {
        original = original.clamp(-range, range);
    }
    // The boundary condition: at timestep 0 the sample is the picture.
    let time = schedule.timestep(i) as f32 * schedule.scheduler.timestep_scaling;
    let variance = time * time + SIGMA_DATA * SIGMA_DATA;
    let c_skip = SIGMA_DATA * SIGMA_DATA / variance;
    let c_out = time / variance.sqrt();
    let denoised = original * c_out + sample * c_skip;
    let prev_sample = match schedule.needs_noise(i) {
        true => {
            let noise = noise.expect("a step of LCM before the last is given noise");
            let a_prev = schedule.alpha_cumprod(i + 1);
            denoised.clone() * a_prev.sqrt() + noise * (1.0 - a_prev).sqrt()
        }
        false => denoised.clone(),
    };
    StepOutput {
        prev_sample,
        pred_original: denoised,
    }
}
