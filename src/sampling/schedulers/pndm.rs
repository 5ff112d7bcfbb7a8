//! PNDM (Liu et al. 2022, "Pseudo numerical methods for diffusion models on manifolds") in the form that Stable
//! Diffusion uses: linear multistep from the start, warmed up by one step that is taken twice.

use burn::tensor::Tensor;

use super::history::Remembered;
use super::{History, Prediction, Schedule, StepOutput};

pub(super) fn step(
    schedule: &Schedule,
    history: &mut History,
    i: usize,
    model_output: Tensor<4>,
    sample: Tensor<4>,
) -> StepOutput {
    let time = schedule.timestep(i);
    let a = schedule.alpha_cumprod(i);
    let (alpha, sigma) = (a.sqrt(), (1.0 - a).sqrt());
    let pred_original =
        schedule.predict_original(model_output.clone(), sample.clone(), alpha, sigma);

    let mut from = time;
    let mut to = time - schedule.interval();
    // The second call is at the end of the first step, and takes that step again with the mean of both answers.
    let again = history.sample.take().filter(|_| history.steps == 1);
    if again.is_none() {
        let per_x0 = match schedule.scheduler.prediction {
            Prediction::V => -sigma,
            _ => 0.0,
        };
        history.remember(model_output.clone(), per_x0, 4);
    }
    let e = |back| history.output(back);
    let (start, combined) = match (again, history.outputs.len()) {
        (Some(first), _) => {
            (from, to) = (time + schedule.interval(), time);
            (first.value, (model_output + e(0)) / 2.0)
        }
        (None, 1) => {
            history.sample = Some(Remembered {
                value: sample.clone(),
                per_x0: alpha,
            });
            (sample, model_output)
        }
        (None, 2) => (sample, (e(0) * 3.0 - e(1)) / 2.0),
        (None, 3) => (sample, (e(0) * 23.0 - e(1) * 16.0 + e(2) * 5.0) / 12.0),
        (None, _) => {
            let sum = e(0) * 55.0 - e(1) * 59.0 + e(2) * 37.0 - e(3) * 9.0;
            (sample, sum * (1.0f32 / 24.0))
        }
    };
    history.alpha = schedule.alpha_cumprod_at(to).sqrt();
    StepOutput {
        prev_sample: transfer(schedule, start, from, to, combined),
        pred_original,
    }
}

/// Equation 11: from timestep `from` to timestep `to` along the answer.
fn transfer(
    schedule: &Schedule,
    sample: Tensor<4>,
    from: f64,
    to: f64,
    answer: Tensor<4>,
) -> Tensor<4> {
    let (a, a_to) = (
        schedule.alpha_cumprod_at(from),
        schedule.alpha_cumprod_at(to),
    );
    let (b, b_to) = (1.0 - a, 1.0 - a_to);
    let epsilon = match schedule.scheduler.prediction {
        Prediction::V => answer * a.sqrt() + sample.clone() * b.sqrt(),
        _ => answer,
    };
    let denominator = a * b_to.sqrt() + (a * b * a_to).sqrt();
    sample * (a_to / a).sqrt() - epsilon * (a_to - a) / denominator
}
