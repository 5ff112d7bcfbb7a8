//! Euler steps in noise levels: plain (Karras et al. 2022, "Elucidating the design space of diffusion-based
//! generative models", algorithm 2 without churn) and ancestral (k-diffusion).

use burn::tensor::Tensor;

use super::{Prediction, Schedule, StepOutput};

pub(super) fn step(
    schedule: &Schedule,
    i: usize,
    model_output: Tensor<4>,
    sample: Tensor<4>,
) -> StepOutput {
    let (sigma, next) = (schedule.sigmas[i], schedule.sigmas[i + 1]);
    let original = original(schedule, sigma, model_output, sample.clone());
    let derivative = (sample.clone() - original.clone()) / sigma;
    StepOutput {
        prev_sample: sample + derivative * (next - sigma),
        pred_original: original,
    }
}

/// Steps down further than the next level and adds noise up to it.
pub(super) fn ancestral_step(
    schedule: &Schedule,
    i: usize,
    model_output: Tensor<4>,
    sample: Tensor<4>,
    noise: Tensor<4>,
) -> StepOutput {
    let (sigma, next) = (schedule.sigmas[i], schedule.sigmas[i + 1]);
    let (from2, to2) = (sigma * sigma, next * next);
    let up = (to2 * (from2 - to2) / from2).sqrt();
    let down = (to2 - up * up).sqrt();
    let original = original(schedule, sigma, model_output, sample.clone());
    let derivative = (sample.clone() - original.clone()) / sigma;
    StepOutput {
        prev_sample: sample + derivative * (down - sigma) + noise * up,
        pred_original: original,
    }
}

/// The clean latents, for a sample x₀ + σ·ε.
fn original(
    schedule: &Schedule,
    sigma: f32,
    model_output: Tensor<4>,
    sample: Tensor<4>,
) -> Tensor<4> {
    match schedule.scheduler.prediction {
        Prediction::Epsilon => sample - model_output * sigma,
        Prediction::V => {
            let variance = sigma * sigma + 1.0;
            model_output * (-sigma / variance.sqrt()) + sample / variance
        }
        Prediction::Sample => model_output,
    }
}
