//! UniPC (Zhao et al. 2023, "UniPC: a unified predictor-corrector framework", appendix B, data prediction).

use burn::tensor::Tensor;

use super::history::Remembered;
use super::levels::{alpha_sigma, log_snr};
use super::{History, Schedule, Solver, StepOutput};

/// Corrects the sample that the last step predicted, then predicts the next.
pub(super) fn step(
    schedule: &Schedule,
    history: &mut History,
    i: usize,
    model_output: Tensor<4>,
    sample: Tensor<4>,
) -> StepOutput {
    let scheduler = &schedule.scheduler;
    let (alpha, sigma) = alpha_sigma(schedule.sigmas[i]);
    let original = schedule.predict_original(model_output, sample.clone(), alpha, sigma);

    let corrected = match history.sample.take() {
        Some(last) if i > 0 && !scheduler.disable_corrector.contains(&(i - 1)) => {
            correct(schedule, history, i, last.value, original.clone())
        }
        _ => sample,
    };
    history.remember(original.clone(), 1.0, scheduler.solver_order);
    let left = match scheduler.lower_order_final {
        true => schedule.len() - i,
        false => scheduler.solver_order,
    };
    history.order = scheduler.solver_order.min(left).min(history.steps + 1);
    history.sample = Some(Remembered {
        value: corrected.clone(),
        per_x0: alpha,
    });
    history.alpha = alpha_sigma(schedule.sigmas[i + 1]).0;
    StepOutput {
        prev_sample: predict(schedule, history, i, corrected),
        pred_original: original,
    }
}

/// UniP: from level `i` to level `i + 1`, with the newest answer at level `i`.
fn predict(schedule: &Schedule, history: &History, i: usize, sample: Tensor<4>) -> Tensor<4> {
    let order = history.order;
    let update = Update::new(schedule, i, i + 1, order);
    let weights = match order {
        // The paper's simplification of order 2.
        2 => vec![0.5],
        _ => solve(&update.rows[..order - 1], &update.sums[..order - 1]),
    };
    let mut next = update.first_order(sample, history.output(0));
    for (k, (weight, ratio)) in weights.into_iter().zip(&update.ratios).enumerate() {
        let change = (history.output(k + 1) - history.output(0)) / *ratio;
        next = next - change * (update.scale * weight);
    }
    next
}

/// UniC: from the sample before level `i` to level `i` again, now knowing the answer there.
fn correct(
    schedule: &Schedule,
    history: &History,
    i: usize,
    last: Tensor<4>,
    original: Tensor<4>,
) -> Tensor<4> {
    let order = history.order;
    let update = Update::new(schedule, i - 1, i, order);
    let weights = match order {
        1 => vec![0.5],
        _ => solve(&update.rows, &update.sums),
    };
    let newest = history.output(0);
    let mut next = update.first_order(last, newest.clone());
    for (k, (weight, ratio)) in weights[..order - 1].iter().zip(&update.ratios).enumerate() {
        let change = (history.output(k + 1) - newest.clone()) / *ratio;
        next = next - change * (update.scale * weight);
    }
    next - (original - newest) * (update.scale * weights[order - 1])
}

/// The host scalars of an update between two noise levels, f32 as diffusers has them.
struct Update {
    sample: f32,
    newest: f32,
    /// α·B(h), what the weighted changes are multiplied with.
    scale: f32,
    /// How far back the older answers lie, in steps.
    ratios: Vec<f32>,
    /// The system of the paper's equation 5: powers of the ratios and of 1, and its right side.
    rows: Vec<Vec<f32>>,
    sums: Vec<f32>,
}

impl Update {
    fn new(schedule: &Schedule, from: usize, to: usize, order: usize) -> Self {
        let sigmas = &schedule.sigmas;
        let (_, sigma_s) = alpha_sigma(sigmas[from]);
        let (alpha_t, sigma_t) = alpha_sigma(sigmas[to]);
        let lambda = log_snr(sigmas[from]);
        let h = log_snr(sigmas[to]) - lambda;
        let ratios: Vec<f32> = (1..order)
            .map(|k| (log_snr(sigmas[from - k]) - lambda) / h)
            .collect();

        let hh = -h;
        let phi_1 = hh.exp_m1();
        let scale = match schedule.scheduler.solver {
            Solver::Bh1 => hh,
            _ => phi_1,
        };
        let mut phi_k = phi_1 / hh - 1.0;
        let mut factorial = 1.0;
        let (mut rows, mut sums) = (vec![], vec![]);
        for power in 0..order as i32 {
            rows.push(
                ratios
                    .iter()
                    .copied()
                    .chain([1.0])
                    .map(|r| r.powi(power))
                    .collect(),
            );
            sums.push(phi_k * factorial / scale);
            factorial *= (power + 2) as f32;
            phi_k = phi_k / hh - 1.0 / factorial;
        }
        Self {
            sample: sigma_t / sigma_s,
            newest: alpha_t * phi_1,
            scale: alpha_t * scale,
            ratios,
            rows,
            sums,
        }
    }

    fn first_order(&self, sample: Tensor<4>, newest: Tensor<4>) -> Tensor<4> {
        sample * self.sample - newest * self.newest
    }
}

/// Solves a system of up to three equations, the first `sums.len()` columns of `rows`, by elimination with pivots.
fn solve(rows: &[Vec<f32>], sums: &[f32]) -> Vec<f32> {
    let n = sums.len();
    let mut m: Vec<Vec<f32>> = rows
        .iter()
        .zip(sums)
        .map(|(row, sum)| [&row[..n], &[*sum]].concat())
        .collect();
    for column in 0..n {
        let pivot = (column..n).max_by(|&a, &b| m[a][column].abs().total_cmp(&m[b][column].abs()));
        m.swap(column, pivot.unwrap_or(column));
        let (done, below) = m.split_at_mut(column + 1);
        let pivot = &done[column];
        for row in below {
            let factor = row[column] / pivot[column];
            for (value, above) in row.iter_mut().zip(pivot).skip(column) {
                *value -= factor * above;
            }
        }
    }
    let mut x = vec![0.0; n];
    for row in (0..n).rev() {
        let known: f32 = (row + 1..n).map(|k| m[row][k] * x[k]).sum();
        x[row] = (m[row][n] - known) / m[row][row];
    }
    x
}
