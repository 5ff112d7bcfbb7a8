//! The steps of one run.

use burn::tensor::Tensor;

use super::config::Scheduler;
use super::levels::alpha_sigma;
use super::timesteps::Spacing;
use super::{History, Prediction, SchedulerError, SchedulerKind};
use super::{ddim, dpmpp, euler, lcm, pndm, tcd, unipc};

/// Timesteps and noise levels of one number of steps. Indices count UNet calls, from noise to picture.
#[derive(Debug, Clone)]
pub struct Schedule {
    pub(super) scheduler: Scheduler,
    /// As asked for.
    pub(super) steps: usize,
    pub(super) timesteps: Vec<f64>,
    /// Noise level of each call's sample and of the final one; empty for methods that step in ᾱ.
    pub(super) sigmas: Vec<f32>,
    /// The share of fresh noise in a step of TCD, from 0 to 1.
    pub(super) eta: f64,
}

/// What a step returns, both f32 [B, C, h, w].
#[derive(Debug, Clone)]
pub struct StepOutput {
    /// The sample for the next UNet call, or the final latents.
    pub prev_sample: Tensor<4>,
    /// The clean latents that the UNet's answer amounts to, for previews.
    pub pred_original: Tensor<4>,
}

impl Schedule {
    /// The method.
    pub fn kind(&self) -> SchedulerKind {
        self.scheduler.kind
    }

    /// With another share of fresh noise in each step of TCD: 0 is deterministic, 1 all fresh
    /// [default: 0.3, the paper's γ].
    ///
    /// # Errors
    /// Another method; a number that is no share.
    pub fn with_eta(self, eta: f64) -> Result<Self, SchedulerError> {
        match (self.kind(), eta) {
            (SchedulerKind::Tcd, 0.0..=1.0) => Ok(Self { eta, ..self }),
            (SchedulerKind::Tcd, _) => Err(SchedulerError::Eta(eta)),
            (kind, _) => Err(SchedulerError::NoEta(kind)),
        }
    }

    /// The number of UNet calls: the steps, and one or nine more for PNDM.
    pub fn len(&self) -> usize {
        self.timesteps.len()
    }

    /// Never: a schedule has at least one step.
    pub fn is_empty(&self) -> bool {
        self.timesteps.is_empty()
    }

    /// The timestep of call `i` in units of training steps, in [0, 1000) for Stable Diffusion. Euler's may have
    /// a fraction.
    pub fn timestep(&self, i: usize) -> f64 {
        self.timesteps[i]
    }

    /// All timesteps.
    pub fn timesteps(&self) -> &[f64] {
        &self.timesteps
    }

    /// The noise levels σ of the calls and of the result; empty for methods that step in ᾱ.
    pub fn sigmas(&self) -> &[f32] {
        &self.sigmas
    }

    /// What N(0, 1) noise is multiplied with to start from.
    pub fn init_noise_sigma(&self) -> f64 {
        match self.kind() {
            SchedulerKind::Euler | SchedulerKind::EulerA => {
                let max = self.sigmas.iter().copied().fold(0.0, f32::max);
                f64::from(match self.scheduler.spacing {
                    Spacing::Leading => (max * max + 1.0).sqrt(),
                    Spacing::Linspace | Spacing::Trailing => max,
                })
            }
            _ => 1.0,
        }
    }

    /// The index of the first call of image-to-image with `strength` in (0, 1]: the last ⌊steps · strength⌋ steps
    /// are run.
    pub fn start_index(&self, strength: f64) -> Result<usize, SchedulerError> {
        let run = (self.steps as f64 * strength) as usize;
        if !(strength > 0.0 && strength <= 1.0) || run == 0 {
            return Err(SchedulerError::Strength {
                strength,
                steps: self.steps,
            });
        }
        let start = self.steps - run;
        if start > 0 && self.kind() == SchedulerKind::Pndm && !self.scheduler.skip_runge_kutta {
            return Err(SchedulerError::WarmUp);
        }
        Ok(start)
    }

    /// The sample as the UNet wants it, of unit variance.
    pub fn scale_model_input(&self, sample: Tensor<4>, i: usize) -> Tensor<4> {
        match self.kind() {
            SchedulerKind::Euler | SchedulerKind::EulerA => {
                sample / (self.sigmas[i] * self.sigmas[i] + 1.0).sqrt()
            }
            _ => sample,
        }
    }

    /// What [`scale_model_input`](Self::scale_model_input) multiplies with.
    pub fn input_scale(&self, i: usize) -> f64 {
        match self.kind() {
            SchedulerKind::Euler | SchedulerKind::EulerA => {
                f64::from(self.sigmas[i]).hypot(1.0).recip()
            }
            _ => 1.0,
        }
    }

    /// The noise level of call `i` as σ = √(1 − ᾱ) / √ᾱ.
    pub fn sigma(&self, i: usize) -> f64 {
        match self.kind() {
            kind if !kind.uses_sigmas() => {
                let alpha = f64::from(self.alpha_cumprod(i));
                ((1.0 - alpha) / alpha).sqrt()
            }
            _ => f64::from(self.sigmas[i]),
        }
    }

    /// Clean latents with noise of the level of call `i`, the start of image-to-image.
    pub fn add_noise(&self, original: Tensor<4>, noise: Tensor<4>, i: usize) -> Tensor<4> {
        match self.kind() {
            SchedulerKind::Euler | SchedulerKind::EulerA => original + noise * self.sigmas[i],
            SchedulerKind::Dpmpp2m | SchedulerKind::Dpmpp2mKarras | SchedulerKind::UniPc => {
                let (alpha, sigma) = alpha_sigma(self.sigmas[i]);
                original * alpha + noise * sigma
            }
            SchedulerKind::Ddim | SchedulerKind::Pndm | SchedulerKind::Lcm | SchedulerKind::Tcd => {
                let a = self.alpha_cumprod(i);
                original * a.sqrt() + noise * (1.0 - a).sqrt()
            }
        }
    }

    /// Whether step `i` adds noise, to be drawn in the order of the steps.
    pub fn needs_noise(&self, i: usize) -> bool {
        match self.kind() {
            // Also the last one, where its weight is 0: diffusers draws it, and a later draw must not change.
            SchedulerKind::EulerA => true,
            SchedulerKind::Lcm => i + 1 != self.steps,
            SchedulerKind::Tcd => self.eta > 0.0 && i + 1 != self.steps,
            _ => false,
        }
    }

    /// Takes step `i`: from `sample` and the UNet's answer at its timestep to the next sample.
    ///
    /// `history` is empty at a run's first step, wherever in the schedule that is, and the steps of a run follow each
    /// other. All tensors are f32 [B, C, h, w]; `noise` is N(0, 1), given where [`needs_noise`](Self::needs_noise)
    /// says so.
    ///
    /// # Panics
    /// If `i` is not below [`len`](Self::len), or noise is needed and not given.
    pub fn step(
        &self,
        history: &mut History,
        i: usize,
        model_output: Tensor<4>,
        sample: Tensor<4>,
        noise: Option<Tensor<4>>,
    ) -> StepOutput {
        let output = match self.kind() {
            SchedulerKind::Ddim => ddim::step(self, i, model_output, sample),
            SchedulerKind::Pndm => pndm::step(self, history, i, model_output, sample),
            SchedulerKind::Euler => euler::step(self, i, model_output, sample),
            SchedulerKind::EulerA => {
                let noise = noise.expect("an ancestral step is given noise");
                euler::ancestral_step(self, i, model_output, sample, noise)
            }
            SchedulerKind::Dpmpp2m | SchedulerKind::Dpmpp2mKarras => {
                dpmpp::step(self, history, i, model_output, sample)
            }
            SchedulerKind::UniPc => unipc::step(self, history, i, model_output, sample),
            SchedulerKind::Lcm => lcm::step(self, i, model_output, sample, noise),
            SchedulerKind::Tcd => tcd::step(self, i, model_output, sample, noise),
        };
        history.steps += 1;
        output
    }

    /// ᾱ at the timestep of call `i`.
    pub(super) fn alpha_cumprod(&self, i: usize) -> f32 {
        self.scheduler.alphas_cumprod[self.timesteps[i] as usize]
    }

    /// ᾱ at any timestep; before the first it is that of the finished picture.
    pub(super) fn alpha_cumprod_at(&self, timestep: f64) -> f32 {
        let alphas = &self.scheduler.alphas_cumprod;
        match timestep < 0.0 {
            true => self.scheduler.final_alpha_cumprod,
            // PNDM in image-to-image may look one interval beyond the last timestep.
            false => alphas[(timestep as usize).min(alphas.len() - 1)],
        }
    }

    /// Training timesteps between two steps, as DDIM and PNDM count them.
    pub(super) fn interval(&self) -> f64 {
        (self.scheduler.alphas_cumprod.len() / self.steps) as f64
    }

    /// The clean latents from the UNet's answer, for a sample √ᾱ·x₀ + √(1−ᾱ)·ε.
    pub(super) fn predict_original(
        &self,
        model_output: Tensor<4>,
        sample: Tensor<4>,
        alpha: f32,
        sigma: f32,
    ) -> Tensor<4> {
        match self.scheduler.prediction {
            Prediction::Epsilon => (sample - model_output * sigma) / alpha,
            Prediction::V => sample * alpha - model_output * sigma,
            Prediction::Sample => model_output,
        }
    }
}
