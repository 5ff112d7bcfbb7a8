//! Losses that are scaled, so that gradients in 16 bits do not vanish.

use serde::{Deserialize, Serialize};

/// What a loss is multiplied with, by the rules of PyTorch's `GradScaler`: half as much after a step whose gradients are not
/// all finite, which moves nothing; twice as much after [`PATIENCE`] good ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scale {
    /// It is two to this power.
    pub exponent: i32,
    /// Good steps since it was changed.
    pub good: u64,
}

/// Good steps until it is tried with twice as much.
pub const PATIENCE: u64 = 2000;

/// The largest power of two in f32.
const LARGEST: i32 = 127;

impl Default for Scale {
    fn default() -> Self {
        Self {
            exponent: 16,
            good: 0,
        }
    }
}

impl Scale {
    /// What the loss is multiplied with, and gradients are divided by.
    pub fn factor(self) -> f32 {
        2f32.powi(self.exponent)
    }

    /// What it is after a step whose gradients are all finite, or not.
    pub fn after(self, finite: bool) -> Self {
        let Self { exponent, good } = self;
        match (finite, good + 1) {
            (false, _) => Self {
                exponent: exponent - 1,
                good: 0,
            },
            (true, PATIENCE) => Self {
                exponent: (exponent + 1).min(LARGEST),
                good: 0,
            },
            (true, good) => Self { exponent, good },
        }
    }
}
