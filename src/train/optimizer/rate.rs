//! The learning rate over the steps, as diffusers' schedules have it.

use std::f64::consts::PI;

use serde::{Deserialize, Serialize};

/// What comes after the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decay {
    /// The peak until the end.
    #[default]
    Constant,
    /// Straight down to 0.
    Linear,
    /// Half a cosine down to 0.
    Cosine,
}

/// The learning rate over the steps.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    /// The largest.
    pub peak: f64,
    /// Steps until it is reached. The first of them has the rate 0, as diffusers' and transformers' schedules have it.
    pub warmup: u64,
    /// What comes then.
    pub decay: Decay,
}

impl Rate {
    /// That of the step with `before` steps before it, of `steps` in all.
    pub fn at(&self, before: u64, steps: u64) -> f64 {
        if before < self.warmup {
            return self.peak * before as f64 / self.warmup as f64;
        }
        let left = steps.saturating_sub(self.warmup).max(1) as f64;
        let progress = (before - self.warmup) as f64 / left;
        self.peak
            * match self.decay {
                Decay::Constant => 1.0,
                Decay::Linear => (1.0 - progress).max(0.0),
                Decay::Cosine => (0.5 * (1.0 + (PI * progress).cos())).max(0.0),
            }
    }
}
