//! Trajectory consistency distillation (Zheng et al. 2024), strategic stochastic sampling: go back further than the next
//! timestep, then add noise up to it. With a share of 0 this is DDIM's step on the model's few timesteps.

use burn::tensor::Tensor;

use super::{Prediction, Schedule, StepOutput};

/// The paper's share of fresh noise, and diffusers' default.
pub(super) const GAMMA: f64 = 0.3;

pub(super) fn step(
    schedule: &Schedule,
    i: usize,
    model_output: Tensor<4>,
    sample: Tensor<4>,
    noise: Option<Tensor<4>>,
) -> StepOutput {
    let a = schedule.alpha_cumprod(i);
    let (alpha, sigma) = (a.sqrt(), (1.0 - a).sqrt());
    let original = schedule.predict_original(model_output.clone(), sample.clone(), alpha, sigma);
    let epsilon = match schedule.scheduler.prediction {
        Prediction::Epsilon => model_output,
        Prediction::V => model_output * alpha + sample * sigma,
        Prediction::Sample => (sample - original.clone() * alpha) / sigma,
    };
    // After the last step comes timestep 0, which still has the noise of training's first level.
    let next = match i + 1 < schedule.len() {
        true => schedule.timestep(i + 1),
        false => 0.0,
    };
    // diffusers multiplies a 32-bit float.
    let between = f64::from((((1.0 - schedule.eta) as f32) * next as f32).floor());
    let a_between = schedule.alpha_cumprod_at(between);
    let noised = original.clone() * a_between.sqrt() + epsilon * (1.0 - a_between).sqrt();
    let prev_sample = match schedule.needs_noise(i) {
        true => {
            let noise = noise.expect("a step of TCD before the last is given noise");
            let kept = schedule.alpha_cumprod_at(next) / a_between;
            noised * kept.sqrt() + noise * (1.0 - kept).sqrt()
        }
        false => noised,
    };
    StepOutput {
        prev_sample,
        pred_original: original,
    }
}
