//! Which timesteps and noise levels are visited: the spacings of Lin et al. 2024 (table 2) as diffusers computes
//! them with NumPy, and the noise levels of Karras et al. 2022.

use serde::{Deserialize, Serialize};

/// Which timesteps a number of steps visits: `timestep_spacing` in `scheduler_config.json`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Spacing {
    /// From the last timestep to the first, both included.
    Linspace,
    /// Multiples of the step from 0, plus `steps_offset`.
    Leading,
    /// Multiples of the step down from the end.
    Trailing,
}

impl Spacing {
    /// As the one-step methods space `n` steps over `train` timesteps, from noise to picture. Euler asks for
    /// fractions of a timestep when linear; the others round.
    pub fn timesteps(self, n: usize, train: usize, offset: usize, fractions: bool) -> Vec<f64> {
        match self {
            Spacing::Linspace => {
                let times = linspace(0.0, (train - 1) as f64, n).into_iter().rev();
                let round = |t: f64| {
                    if fractions {
                        f64::from(t as f32)
                    } else {
                        t.round_ties_even()
                    }
                };
                times.map(round).collect()
            }
            Spacing::Leading => (0..n)
                .rev()
                .map(|i| (i * (train / n) + offset) as f64)
                .collect(),
            Spacing::Trailing => trailing(n, train, train),
        }
    }

    /// As DPM-Solver++ and UniPC space them: one interval more, without its end at the picture. `last` is the
    /// number of timesteps that are not clipped away.
    pub fn solver_timesteps(self, n: usize, train: usize, last: usize, offset: usize) -> Vec<f64> {
        match self {
            Spacing::Linspace => {
                let times = linspace(0.0, (last - 1) as f64, n + 1);
                times[1..]
                    .iter()
                    .rev()
                    .map(|t| t.round_ties_even())
                    .collect()
            }
            Spacing::Leading => (1..=n)
                .rev()
                .map(|i| (i * (last / (n + 1)) + offset) as f64)
                .collect(),
            Spacing::Trailing => trailing(n, train, last),
        }
    }
}

/// `np.arange(last, 0, -train / n).round() - 1`.
fn trailing(n: usize, train: usize, last: usize) -> Vec<f64> {
    let last = last as f64;
    // NumPy fills an arange by the difference of its first two elements.
    let delta = (last - train as f64 / n as f64) - last;
    let times = (0..n).map(|i| (last + i as f64 * delta).round_ties_even() - 1.0);
    times.filter(|t| *t >= 0.0).collect()
}

/// `np.linspace`.
pub fn linspace(start: f64, end: f64, n: usize) -> Vec<f64> {
    let step = (end - start) / (n.max(2) - 1) as f64;
    let mut values: Vec<f64> = (0..n).map(|i| i as f64 * step + start).collect();
    if n > 1 {
        values[n - 1] = end;
    }
    values
}

/// σ of every training timestep: √((1 − ᾱ) / ᾱ).
pub fn training_sigmas(alphas_cumprod: &[f32]) -> Vec<f32> {
    alphas_cumprod
        .iter()
        .map(|a| ((1.0 - a) / a).sqrt())
        .collect()
}

/// σ between the training timesteps, linearly; constant beyond both ends.
pub fn interpolate(t: f64, sigmas: &[f32]) -> f64 {
    let last = sigmas.len() - 1;
    let t = t.clamp(0.0, last as f64);
    let low = (t as usize).min(last - 1);
    let [a, b] = [sigmas[low], sigmas[low + 1]].map(f64::from);
    (b - a) * (t - low as f64) + a
}

/// `n` noise levels from `max` to `min` that are even in the 7th root (Karras et al. 2022, equation 5).
pub fn karras(min: f64, max: f64, n: usize) -> Vec<f64> {
    const RHO: f64 = 7.0;
    let (min, max) = (min.powf(1.0 / RHO), max.powf(1.0 / RHO));
    linspace(0.0, 1.0, n)
        .into_iter()
        .map(|ramp| (max + ramp * (min - max)).powf(RHO))
        .collect()
}

/// The timestep, with a fraction, whose log σ is that of `sigma`.
pub fn timestep_of(sigma: f64, log_sigmas: &[f32]) -> f64 {
    let log_sigma = sigma.max(1e-10).ln();
    let below = log_sigmas
        .iter()
        .rposition(|&level| f64::from(level) <= log_sigma)
        .unwrap_or(0);
    let low = below.min(log_sigmas.len() - 2);
    let (a, b) = (log_sigmas[low], log_sigmas[low + 1]);
    let weight = ((f64::from(a) - log_sigma) / f64::from(a - b)).clamp(0.0, 1.0);
    (1.0 - weight) * low as f64 + weight * (low + 1) as f64
}
