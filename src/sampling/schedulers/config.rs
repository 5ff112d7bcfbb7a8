//! `scheduler_config.json` for a method.

use serde::Deserialize;
use serde_json::Value;

use super::raw::Raw;
use super::schedule::Schedule;
use super::timesteps::{self, Spacing};
use super::{Prediction, SchedulerError, SchedulerKind, betas, pndm};

/// How a solver of more than first order weighs the change of its predictions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Solver {
    /// DPM-Solver++ by the midpoint.
    Midpoint,
    /// DPM-Solver++ by the exact integral of a linear change.
    Heun,
    /// UniPC with B(h) = h.
    Bh1,
    /// UniPC with B(h) = eʰ − 1.
    Bh2,
}

/// Far more training timesteps than any checkpoint has.
const MAX_TRAIN: usize = 100_000;

/// A checkpoint's noise schedule with the method that samples from it.
#[derive(Debug, Clone)]
pub struct Scheduler {
    pub(super) kind: SchedulerKind,
    pub(super) prediction: Prediction,
    /// ᾱ of each training timestep.
    pub(super) alphas_cumprod: Vec<f32>,
    /// ᾱ after the last step of DDIM, PNDM and LCM.
    pub(super) final_alpha_cumprod: f32,
    pub(super) spacing: Spacing,
    steps_offset: usize,
    /// Bound of the predicted picture (DDIM, LCM).
    pub(super) clip: Option<f32>,
    karras: bool,
    /// The squared-cosine schedule keeps fractions of timesteps.
    cosine: bool,
    /// The last noise level of Euler, DPM-Solver++ and UniPC is 0, else the smallest of training.
    pub(super) final_sigma_zero: bool,
    pub(super) solver: Solver,
    pub(super) solver_order: usize,
    pub(super) lower_order_final: bool,
    /// PNDM without the paper's warm-up.
    pub(super) skip_runge_kutta: bool,
    pub(super) euler_at_final: bool,
    /// Steps after which UniPC does not correct.
    pub(super) disable_corrector: Vec<usize>,
    lambda_min_clipped: f32,
    original_inference_steps: usize,
    pub(super) timestep_scaling: f32,
}

impl Scheduler {
    /// Reads the contents of a `scheduler_config.json` for the method `kind`, or for the one that it names.
    ///
    /// As diffusers' `Class.from_config`: keys that the file lacks take the class's defaults, and keys that the
    /// class does not know are ignored. A known key whose value would change the pictures in a way that is not
    /// implemented is refused by name.
    pub fn from_config(
        config: &Value,
        kind: Option<SchedulerKind>,
    ) -> Result<Self, SchedulerError> {
        let kind = match kind {
            Some(kind) => kind,
            None => named_kind(config)?,
        };
        let raw = Raw::deserialize(config).map_err(SchedulerError::Config)?;
        raw.refuse_unsupported(kind)?;
        let unsupported = |key, value: &str| {
            Err(SchedulerError::Unsupported {
                kind,
                key,
                value: value.to_owned(),
            })
        };

        let prediction = match raw.prediction_type.as_deref().unwrap_or("epsilon") {
            "epsilon" => Prediction::Epsilon,
            "v_prediction" => Prediction::V,
            "sample" if kind != SchedulerKind::Pndm => Prediction::Sample,
            other => return unsupported("prediction_type", other),
        };
        let leading = matches!(
            kind,
            SchedulerKind::Ddim | SchedulerKind::Pndm | SchedulerKind::Lcm
        );
        let spacing = match raw.timestep_spacing.as_deref() {
            None if leading => Spacing::Leading,
            None | Some("linspace") => Spacing::Linspace,
            Some("leading") => Spacing::Leading,
            Some("trailing") => Spacing::Trailing,
            Some(other) => return unsupported("timestep_spacing", other),
        };
        let train = raw.num_train_timesteps.unwrap_or(1000);
        if !(2..=MAX_TRAIN).contains(&train) {
            return unsupported("num_train_timesteps", &train.to_string());
        }
        // LCM is the only class whose defaults are Stable Diffusion's.
        let lcm = kind == SchedulerKind::Lcm;
        let start = raw.beta_start.unwrap_or(if lcm { 0.00085 } else { 0.0001 });
        let end = raw.beta_end.unwrap_or(if lcm { 0.012 } else { 0.02 });
        let default_betas = if lcm { "scaled_linear" } else { "linear" };
        let beta_schedule = raw.beta_schedule.as_deref().unwrap_or(default_betas);
        let mut betas = match (&raw.trained_betas, beta_schedule) {
            (Some(betas), _) if betas.len() == train => betas.clone(),
            (Some(betas), _) => {
                return unsupported("trained_betas", &format!("[{} values]", betas.len()));
            }
            (None, "linear") => betas::linear(start, end, train, false),
            (None, "scaled_linear") => betas::linear(start, end, train, true),
            (None, "squaredcos_cap_v2") => betas::squared_cosine(train),
            (None, other) => return unsupported("beta_schedule", other),
        };
        if let Some(beta) = betas.iter().find(|beta| !(0.0..1.0).contains(*beta)) {
            return unsupported("beta_end", &format!("{end} (it leads to a beta of {beta})"));
        }
        // PNDM does not know the setting.
        let zero_snr = raw.rescale_betas_zero_snr == Some(true) && kind != SchedulerKind::Pndm;
        if zero_snr && !kind.uses_sigmas() && prediction == Prediction::Epsilon {
            // Of pure noise, the noise tells nothing about the picture.
            return unsupported("rescale_betas_zero_snr", "true with epsilon prediction");
        }
        if zero_snr {
            betas = betas::zero_terminal_snr(&betas);
        }
        let mut alphas_cumprod = betas::alphas_cumprod(&betas);
        if zero_snr && kind.uses_sigmas() {
            // Diffusers' stand-in for 0, so that the first noise level is finite.
            alphas_cumprod[train - 1] = 2f32.powi(-24);
        }
        let original_inference_steps = raw.original_inference_steps.unwrap_or(50);
        if lcm && !(1..=train).contains(&original_inference_steps) {
            return unsupported(
                "original_inference_steps",
                &original_inference_steps.to_string(),
            );
        }
        let one = raw.set_alpha_to_one.unwrap_or(kind != SchedulerKind::Pndm);
        let solver = match (kind, raw.solver_type.as_deref()) {
            (SchedulerKind::UniPc, Some("bh1")) => Solver::Bh1,
            (SchedulerKind::UniPc, None | Some("bh2" | "midpoint" | "heun" | "logrho")) => {
                Solver::Bh2
            }
            (SchedulerKind::Dpmpp2m | SchedulerKind::Dpmpp2mKarras, Some("heun")) => Solver::Heun,
            (SchedulerKind::UniPc, Some(other)) => return unsupported("solver_type", other),
            _ => Solver::Midpoint,
        };
        let default_clip = kind == SchedulerKind::Ddim;
        Ok(Self {
            kind,
            prediction,
            final_alpha_cumprod: if one { 1.0 } else { alphas_cumprod[0] },
            alphas_cumprod,
            spacing,
            steps_offset: raw.steps_offset.unwrap_or(0),
            clip: raw
                .clip_sample
                .unwrap_or(default_clip)
                .then_some(raw.clip_sample_range.unwrap_or(1.0)),
            karras: kind == SchedulerKind::Dpmpp2mKarras || raw.use_karras_sigmas == Some(true),
            cosine: beta_schedule == "squaredcos_cap_v2",
            final_sigma_zero: raw.final_sigmas_type.as_deref() != Some("sigma_min"),
            solver,
            solver_order: raw.solver_order.unwrap_or(2),
            lower_order_final: raw.lower_order_final.unwrap_or(true),
            skip_runge_kutta: raw.skip_prk_steps.unwrap_or(false),
            euler_at_final: raw.euler_at_final.unwrap_or(false),
            disable_corrector: raw.disable_corrector.unwrap_or_default(),
            lambda_min_clipped: match raw.lambda_min_clipped.as_ref().and_then(Value::as_f64) {
                Some(lambda) => lambda as f32,
                None => f32::NEG_INFINITY,
            },
            original_inference_steps,
            timestep_scaling: raw.timestep_scaling.unwrap_or(10.0),
        })
    }

    /// The method.
    pub fn kind(&self) -> SchedulerKind {
        self.kind
    }

    /// What the UNet predicts.
    pub fn prediction(&self) -> Prediction {
        self.prediction
    }

    /// The timesteps and noise levels of `steps` steps. PNDM calls the UNet once more than that, or nine times more
    /// with the warm-up of its paper (`skip_prk_steps` absent or false).
    pub fn schedule(&self, steps: usize) -> Result<Schedule, SchedulerError> {
        let train = self.alphas_cumprod.len();
        let most = match self.kind {
            SchedulerKind::Lcm => self.original_inference_steps.min(train),
            // With an offset the first of `train` timesteps would lie beyond the last of training.
            _ if self.spacing == Spacing::Leading && self.steps_offset > 0 => train - 1,
            _ => train,
        };
        let least = match self.kind == SchedulerKind::Pndm && !self.skip_runge_kutta {
            true => 4,
            false => 1,
        };
        if !(least..=most).contains(&steps) {
            return Err(SchedulerError::Steps {
                kind: self.kind,
                steps,
                least,
                most,
            });
        }
        let (timesteps, sigmas) = match self.kind {
            SchedulerKind::Ddim => (self.one_step_timesteps(steps, false), vec![]),
            SchedulerKind::Pndm => {
                let times = self.one_step_timesteps(steps, false);
                let interval = (train / steps) as f64;
                let times = pndm::timesteps(times, self.skip_runge_kutta, interval);
                (times, vec![])
            }
            SchedulerKind::Lcm => (self.lcm_timesteps(steps), vec![]),
            SchedulerKind::Euler | SchedulerKind::EulerA => self.euler_levels(steps),
            SchedulerKind::Dpmpp2m | SchedulerKind::Dpmpp2mKarras | SchedulerKind::UniPc => {
                self.solver_levels(steps)
            }
        };
        Ok(Schedule {
            scheduler: self.clone(),
            steps,
            timesteps,
            sigmas,
        })
    }

    fn one_step_timesteps(&self, steps: usize, fractions: bool) -> Vec<f64> {
        let train = self.alphas_cumprod.len();
        self.spacing
            .timesteps(steps, train, self.steps_offset, fractions)
    }

    /// An even choice among the timesteps of distillation.
    fn lcm_timesteps(&self, steps: usize) -> Vec<f64> {
        let original = self.original_inference_steps;
        let interval = self.alphas_cumprod.len() / original;
        let choice =
            (0..steps).map(|i| (i as f64 * (original as f64 / steps as f64)).floor() as usize);
        choice
            .map(|i| ((original - i) * interval - 1) as f64)
            .collect()
    }

    fn euler_levels(&self, steps: usize) -> (Vec<f64>, Vec<f32>) {
        let training = timesteps::training_sigmas(&self.alphas_cumprod);
        let mut times = self.one_step_timesteps(steps, true);
        let mut sigmas: Vec<f64> = times
            .iter()
            .map(|&t| timesteps::interpolate(t, &training))
            .collect();
        // Euler spreads Karras' levels over the range of the chosen timesteps, the solvers over all of training.
        if self.karras && self.kind == SchedulerKind::Euler {
            sigmas = timesteps::karras(sigmas[sigmas.len() - 1], sigmas[0], steps);
            let logs: Vec<f32> = training.iter().map(|sigma| sigma.ln()).collect();
            times = sigmas
                .iter()
                .map(|&sigma| f64::from(timesteps::timestep_of(sigma, &logs) as f32))
                .collect();
        }
        let last = match self.final_sigma_zero || self.kind == SchedulerKind::EulerA {
            true => 0.0,
            false => training[0],
        };
        (
            times,
            sigmas
                .into_iter()
                .map(|sigma| sigma as f32)
                .chain([last])
                .collect(),
        )
    }

    fn solver_levels(&self, steps: usize) -> (Vec<f64>, Vec<f32>) {
        let training = timesteps::training_sigmas(&self.alphas_cumprod);
        let train = training.len();
        let (times, sigmas, karras_min);
        if self.karras {
            let [min, max] = [training[0], training[train - 1]].map(f64::from);
            let logs: Vec<f32> = training.iter().map(|sigma| sigma.ln()).collect();
            let levels = timesteps::karras(min, max, steps);
            let whole = |t: f64| match self.cosine && self.kind != SchedulerKind::UniPc {
                true => t.trunc(),
                false => t.round_ties_even(),
            };
            times = levels
                .iter()
                .map(|&sigma| whole(timesteps::timestep_of(sigma, &logs)))
                .collect();
            karras_min = levels[steps - 1] as f32;
            sigmas = levels;
        } else {
            let last = match self.kind {
                SchedulerKind::UniPc => train,
                _ => train - self.clipped_timesteps(),
            };
            times = self
                .spacing
                .solver_timesteps(steps, train, last, self.steps_offset);
            sigmas = times
                .iter()
                .map(|&t| timesteps::interpolate(t, &training))
                .collect();
            karras_min = training[0];
        }
        let last = match (self.final_sigma_zero, self.kind) {
            (true, _) => 0.0,
            (false, SchedulerKind::UniPc) => karras_min,
            (false, _) => training[0],
        };
        (
            times,
            sigmas
                .into_iter()
                .map(|sigma: f64| sigma as f32)
                .chain([last])
                .collect(),
        )
    }

    /// How many timesteps have a log signal-to-noise ratio below `lambda_min_clipped`.
    fn clipped_timesteps(&self) -> usize {
        let lambda = |a: &f32| a.sqrt().ln() - (1.0 - a).sqrt().ln();
        self.alphas_cumprod
            .iter()
            .filter(|a| lambda(a) < self.lambda_min_clipped)
            .count()
    }
}

impl SchedulerKind {
    /// Steps in noise levels σ, not in ᾱ.
    pub(super) fn uses_sigmas(self) -> bool {
        !matches!(
            self,
            SchedulerKind::Ddim | SchedulerKind::Pndm | SchedulerKind::Lcm
        )
    }
}

fn named_kind(config: &Value) -> Result<SchedulerKind, SchedulerError> {
    let class = config
        .get("_class_name")
        .and_then(Value::as_str)
        .ok_or(SchedulerError::NoClass)?;
    let kind = SchedulerKind::ALL
        .into_iter()
        .find(|kind| kind.class_name() == class);
    let kind = kind.ok_or_else(|| SchedulerError::UnknownClass(class.to_owned()))?;
    let karras = config.get("use_karras_sigmas").and_then(Value::as_bool) == Some(true);
    Ok(match (kind, karras) {
        (SchedulerKind::Dpmpp2m, true) => SchedulerKind::Dpmpp2mKarras,
        (kind, _) => kind,
    })
}
