//! How far a guided step goes, and how often it is repeated.

/// How far the latents move down the gradient.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepSize {
    /// What the gradient is multiplied with, before the schedule.
    pub scale: f64,
    schedule: StepSchedule,
    /// Whether the step is meant for latents x₀ + σ·ε as Euler keeps them, or for √ᾱ·x₀ + √(1 − ᾱ)·ε. Under a scheduler
    /// of the other kind it is converted, so that it does the same to the picture.
    sigma_space: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum StepSchedule {
    /// √ of a line from 1 at the first step to ½ at the last, as in Attend-and-Excite's code and all that follow it.
    Decaying,
    /// σ², for latents in σ's space alone.
    NoiseLevel,
    /// Always the same.
    Constant,
}

impl StepSize {
    /// `scale` at the first step, falling to `scale` · √½ at the last.
    pub fn decaying(scale: f64) -> Self {
        Self {
            scale,
            schedule: StepSchedule::Decaying,
            sigma_space: false,
        }
    }

    /// `scale` at every step.
    pub fn constant(scale: f64) -> Self {
        Self {
            scale,
            schedule: StepSchedule::Constant,
            sigma_space: false,
        }
    }

    /// `scale` · σ² for latents in σ's space.
    pub fn noise_level(scale: f64) -> Self {
        Self {
            scale,
            schedule: StepSchedule::NoiseLevel,
            sigma_space: true,
        }
    }

    /// The same numbers for latents in σ's space.
    pub fn in_sigma_space(self) -> Self {
        Self {
            sigma_space: true,
            ..self
        }
    }

    /// What the gradient with respect to the UNet's input is multiplied with to move the latents of step `step` of
    /// `steps` at noise level `sigma`, where the input is `input_scale` times the latents.
    pub fn factor(&self, step: usize, steps: usize, sigma: f64, input_scale: f64) -> f64 {
        let shrunk = match self.sigma_space {
            // Both the gradient and the move shrink by √(σ² + 1) on the way to the UNet's input.
            true => 1.0 / (sigma * sigma + 1.0),
            false => 1.0,
        };
        let size = match self.schedule {
            StepSchedule::Decaying => {
                let done = step as f64 / (steps.max(2) - 1) as f64;
                (1.0 - 0.5 * done).sqrt() * shrunk
            }
            // σ² / (σ² + 1), also of pure noise, whose σ is infinite.
            StepSchedule::NoiseLevel => 1.0 - shrunk,
            StepSchedule::Constant => shrunk,
        };
        self.scale * size / input_scale
    }
}

/// When a step is repeated until the loss is low enough.
#[derive(Clone, Debug, PartialEq)]
pub enum Refinement {
    /// Never: one update a step.
    None,
    /// At some steps, before the ordinary update.
    AtSteps {
        /// Step and greatest loss.
        thresholds: Vec<(usize, f64)>,
        /// The most updates.
        updates: usize,
        /// As in the authors' code, which looks at the loss before the last update and so makes one too many.
        quirk: bool,
    },
    /// At every guided step, instead of the ordinary update.
    Until {
        /// The greatest loss.
        threshold: f64,
        /// The most updates.
        updates: usize,
        /// As in the authors' code of layout guidance, which looks at the loss before the last update, and never looks
        /// again once it was low enough: guidance then ends for good.
        quirk: bool,
    },
    /// At every guided step, instead of the ordinary update: the method's passes take turns, and the step ends when the
    /// loss of the one whose turn it is is low enough.
    InTurn {
        /// The greatest loss at each guided step, the last one's also at those after it.
        thresholds: Vec<f64>,
        /// The most updates.
        updates: usize,
    },
}

impl Refinement {
    /// The thresholds of Attend-and-Excite and BoxDiff: attention of at least 0.05, 0.5 and 0.8 at steps 0, 10 and 20.
    pub fn published(quirk: bool) -> Self {
        Self::AtSteps {
            thresholds: vec![(0, 0.95), (10, 0.5), (20, 0.2)],
            updates: 20,
            quirk,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn step_sizes() {
        let close = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 1e-3, "{a}, not {b}");
        let plain = StepSize::decaying(20.0);
        close(plain.factor(0, 51, 13.12, 1.0), 20.0);
        close(plain.factor(50, 51, 0.03, 1.0), 20.0 * 0.5f64.sqrt());
        close(plain.factor(0, 1, 13.12, 1.0), 20.0);
        // SDXL's 20 000 in σ space is this much for unit variance.
        let xl = StepSize::decaying(20_000.0).in_sigma_space();
        close(xl.factor(0, 50, 13.12, 1.0), 115.5);
        close(xl.factor(9, 50, 5.134, 1.0), 696.6);
        // Under Euler latents and gradient differ from the UNet's input by √(σ² + 1) each.
        let input_scale = (13.12f64.powi(2) + 1.0).powf(-0.5);
        close(xl.factor(0, 50, 13.12, input_scale) * input_scale, 115.5);
        close(
            StepSize::noise_level(30.0).factor(3, 51, 2.0, 1.0),
            30.0 * 4.0 / 5.0,
        );
        // The limits for pure noise, with which a schedule of zero terminal SNR begins.
        let pure = f64::INFINITY;
        close(StepSize::noise_level(30.0).factor(0, 51, pure, 1.0), 30.0);
        close(plain.factor(0, 51, pure, 1.0), 20.0);
        assert_eq!(xl.factor(0, 50, pure, 1.0), 0.0);
    }
}
