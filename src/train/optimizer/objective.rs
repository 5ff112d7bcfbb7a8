//! What the network should say, and how much each sample's error counts.

use serde::{Deserialize, Serialize};

/// What the network predicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// The noise (Ho et al. 2020).
    Epsilon,
    /// √ᾱ·ε − √(1−ᾱ)·x₀ (Salimans and Ho 2022).
    Velocity,
}

impl Target {
    /// How much of the clean latents and how much of the noise the target is, at ᾱ.
    pub fn parts(self, alpha: f64) -> [f32; 2] {
        match self {
            Self::Epsilon => [0.0, 1.0],
            Self::Velocity => [-(1.0 - alpha).sqrt() as f32, alpha.sqrt() as f32],
        }
    }
}

/// How much of the clean latents and how much of the noise the noisy latents are, at ᾱ.
pub fn noisy_parts(alpha: f64) -> [f32; 2] {
    [alpha.sqrt() as f32, (1.0 - alpha).sqrt() as f32]
}

/// How much errors at different noise levels count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Weighting {
    /// All the same.
    #[default]
    Even,
    /// min-SNR-γ (Hang et al. 2023): those of low noise count less.
    MinSnr(f64),
}

impl Weighting {
    /// The factor on a sample's mean squared error at ᾱ. At ᾱ = 0 that of min-SNR with ε is the limit, 1; with v it is 0, as in
    /// the scripts of diffusers.
    pub fn factor(self, target: Target, alpha: f64) -> f64 {
        let Self::MinSnr(gamma) = self else {
            return 1.0;
        };
        let snr = alpha / (1.0 - alpha);
        match target {
            Target::Epsilon if snr == 0.0 => 1.0,
            Target::Epsilon => snr.min(gamma) / snr,
            Target::Velocity => snr.min(gamma) / (snr + 1.0),
        }
    }
}

/// The mean squared error of a prediction and its gradient: `(prediction − target)² ` averaged over a sample, times the
/// sample's factor.
///
/// The gradient is that of the loss's mean over `batch` samples: `2 · factor · error / (length · batch)`.
pub fn error(prediction: &[f32], target: &[f32], factor: f64, batch: usize) -> (f64, Vec<f32>) {
    let length = prediction.len().max(1) as f64;
    let scale = (2.0 * factor / (length * batch.max(1) as f64)) as f32;
    let mut sum = 0f64;
    let gradient = prediction.iter().zip(target).map(|(prediction, target)| {
        let error = prediction - target;
        sum += f64::from(error) * f64::from(error);
        scale * error
    });
    let gradient = gradient.collect();
    (factor * sum / length, gradient)
}
