//! The exponential moving average of weights (EMA), as diffusers' `EMAModel` computes it.

use serde::{Deserialize, Serialize};

/// How fast old weights are forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Average {
    /// The most that is kept of the average at a step.
    pub decay: f64,
}

impl Average {
    /// What is kept at the update number `update`, from 1: little at first, when the weights are still far off.
    pub fn kept(&self, update: u64) -> f64 {
        match update.saturating_sub(1) as f64 {
            0.0 => 0.0,
            steps => ((1.0 + steps) / (10.0 + steps)).min(self.decay),
        }
    }

    /// Moves the average towards `values`.
    pub fn update(&self, average: &mut [f32], values: &[f32], update: u64) {
        let new = (1.0 - self.kept(update)) as f32;
        for (average, value) in average.iter_mut().zip(values) {
            *average -= new * (*average - value);
        }
    }
}
