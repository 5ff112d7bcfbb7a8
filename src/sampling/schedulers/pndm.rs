//! PNDM (Liu et al. 2022, "Pseudo numerical methods for diffusion models on manifolds").
//!
//! Four answers of the UNet at earlier steps make a multistep method of fourth order. Where they come from
//! differs: Stable Diffusion (`skip_prk_steps`) uses lower orders at the start and takes the first step
//! twice; the paper takes three Runge–Kutta steps of four calls each.

use burn::tensor::Tensor;

use super::history::Remembered;
use super::{History, Prediction, Schedule, StepOutput};

/// UNet calls of the paper's warm-up.
const RUNGE_KUTTA_CALLS: usize = 12;

/// The timesteps of the calls, given those of the steps from noise to picture. The warm-up of the paper needs
/// four steps or more.
pub(super) fn timesteps(steps: Vec<f64>, skip_runge_kutta: bool, interval: f64) -> Vec<f64> {
    if skip_runge_kutta {
        // The first step is taken again from its end.
        let second = steps.get(1).copied();
        let (first, rest) = steps.split_at(1);
        return [first, second.as_slice(), rest].concat();
    }
    let half = (interval / 2.0).floor();
    // A step's two middle calls are half an interval after the next step.
    let warm_up = steps[..4]
        .windows(2)
        .flat_map(|step| [step[0], step[1] + half, step[1] + half, step[1]]);
    warm_up.chain(steps[3..].iter().copied()).collect()
}

pub(super) fn step(
    schedule: &Schedule,
    history: &mut History,
    i: usize,
    model_output: Tensor<4>,
    sample: Tensor<4>,
) -> StepOutput {
    let a = schedule.alpha_cumprod(i);
    let (alpha, sigma) = (a.sqrt(), (1.0 - a).sqrt());
    let pred_original =
        schedule.predict_original(model_output.clone(), sample.clone(), alpha, sigma);
    let answer = Remembered {
        value: model_output,
        per_x0: match schedule.scheduler.prediction {
            Prediction::V => -sigma,
            _ => 0.0,
        },
    };
    let sample = Remembered {
        value: sample,
        per_x0: alpha,
    };
    let warm_up = !schedule.scheduler.skip_runge_kutta && history.steps < RUNGE_KUTTA_CALLS;
    let (start, from, to, combined) = match warm_up {
        true => runge_kutta(schedule, history, i, answer, sample),
        false => multistep(schedule, history, i, answer, sample),
    };
    history.alpha = schedule.alpha_cumprod_at(to).sqrt();
    StepOutput {
        prev_sample: transfer(schedule, start, from, to, combined),
        pred_original,
    }
}

/// What to transfer: a sample, its timestep, the next one, and the combined answer.
type Transfer = (Tensor<4>, f64, f64, Tensor<4>);

/// The classical method of fourth order: answers at the start, twice in the middle and at the end.
fn runge_kutta(
    schedule: &Schedule,
    history: &mut History,
    i: usize,
    answer: Remembered,
    sample: Remembered,
) -> Transfer {
    let call = history.steps % 4;
    let half = (schedule.interval() / 2.0).floor();
    let to = match call % 2 {
        0 => schedule.timestep(i) - half,
        _ => schedule.timestep(i),
    };
    let from = schedule.timestep(i - call);
    let start = match call {
        0 => history.sample.insert(sample).value.clone(),
        _ => history
            .sample
            .as_ref()
            .map_or(sample.value, |start| start.value.clone()),
    };
    let weight = [1.0f32 / 6.0, 1.0 / 3.0, 1.0 / 3.0, 1.0 / 6.0][call];
    let weighted = Remembered {
        value: answer.value.clone() * weight,
        per_x0: answer.per_x0 * weight,
    };
    let sum = match history.sum.take() {
        Some(sum) => Remembered {
            value: sum.value + weighted.value,
            per_x0: sum.per_x0 + weighted.per_x0,
        },
        None => weighted,
    };
    if call == 3 {
        return (start, from, to, sum.value);
    }
    history.sum = Some(sum);
    if call == 0 {
        history.remember(answer.value.clone(), answer.per_x0, 4);
    }
    (start, from, to, answer.value)
}

fn multistep(
    schedule: &Schedule,
    history: &mut History,
    i: usize,
    answer: Remembered,
    sample: Remembered,
) -> Transfer {
    let time = schedule.timestep(i);
    let before = time - schedule.interval();
    // The second call is at the end of the first step, and takes that step again with the mean of both answers.
    if let Some(start) = history.sample.take().filter(|_| history.steps == 1) {
        let mean = (answer.value + history.output(0)) / 2.0;
        return (start.value, time + schedule.interval(), time, mean);
    }
    history.remember(answer.value, answer.per_x0, 4);
    let e = |back| history.output(back);
    let combined = match history.outputs.len() {
        1 => e(0),
        2 => (e(0) * 3.0 - e(1)) / 2.0,
        3 => (e(0) * 23.0 - e(1) * 16.0 + e(2) * 5.0) / 12.0,
        _ => (e(0) * 55.0 - e(1) * 59.0 + e(2) * 37.0 - e(3) * 9.0) * (1.0f32 / 24.0),
    };
    if history.steps == 0 {
        history.sample = Some(sample.clone());
    }
    (sample.value, time, before, combined)
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
