//! DPM-Solver++(2M) (Lu et al. 2022, "DPM-Solver++", algorithm 2).

use burn::tensor::Tensor;

use super::levels::{alpha_sigma, log_snr};
use super::{History, Schedule, Solver, StepOutput};

pub(super) fn step(
    schedule: &Schedule,
    history: &mut History,
    i: usize,
    model_output: Tensor<4>,
    sample: Tensor<4>,
) -> StepOutput {
    let scheduler = &schedule.scheduler;
    let (here, next) = (schedule.sigmas[i], schedule.sigmas[i + 1]);
    let (alpha_s, sigma_s) = alpha_sigma(here);
    let (alpha_t, sigma_t) = alpha_sigma(next);
    let original = schedule.predict_original(model_output, sample.clone(), alpha_s, sigma_s);
    history.remember(original.clone(), 1.0, 2);
    history.alpha = alpha_t;

    let last = i + 1 == schedule.len();
    let few = schedule.len() < 15;
    let first_order_final = scheduler.euler_at_final
        || scheduler.final_sigma_zero
        || (scheduler.lower_order_final && few);
    let first_order =
        scheduler.solver_order == 1 || history.steps == 0 || (last && first_order_final);

    let h = log_snr(next) - log_snr(here);
    let decay = alpha_t * ((-h).exp() - 1.0);
    let mut prev_sample = sample * (sigma_t / sigma_s) - original.clone() * decay;
    if !first_order {
        let ratio = (log_snr(here) - log_snr(schedule.sigmas[i - 1])) / h;
        let change = (history.output(0) - history.output(1)) * (1.0 / ratio);
        prev_sample = match scheduler.solver {
            Solver::Heun => prev_sample + change * (alpha_t * (((-h).exp() - 1.0) / h + 1.0)),
            _ => prev_sample - change * (0.5 * decay),
        };
    }
    StepOutput {
        prev_sample,
        pred_original: original,
    }
}
