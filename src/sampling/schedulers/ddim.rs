//! DDIM (Song, Meng and Ermon 2021, "Denoising diffusion implicit models"), equation 12 with η = 0.

use burn::tensor::Tensor;

use super::{Prediction, Schedule, StepOutput};

pub(super) fn step(
    schedule: &Schedule,
    i: usize,
    model_output: Tensor<4>,
    sample: Tensor<4>,
) -> StepOutput {
    let a = schedule.alpha_cumprod(i);
    let a_prev = schedule.alpha_cumprod_at(schedule.timestep(i) - schedule.interval());
    let (alpha, sigma) = (a.sqrt(), (1.0 - a).sqrt());
    let mut original =
        schedule.predict_original(model_output.clone(), sample.clone(), alpha, sigma);
    let epsilon = match schedule.scheduler.prediction {
        Prediction::Epsilon => model_output,
        Prediction::V => model_output * alpha + sample * sigma,
        Prediction::Sample => (sample - original.clone() * alpha) / sigma,
    };
    if let Some(range) = schedule.scheduler.clip {
        original = original.clamp(-range, range);
    }
    StepOutput {
        prev_sample: original.clone() * a_prev.sqrt() + epsilon * (1.0 - a_prev).sqrt(),
        pred_original: original,
    }
}
