//! `scheduler_config.json` for a method.

use prepose_models::wrong_key;
use serde::Deserialize;
use serde_json::Value;

use super::raw::Raw;
use super::timesteps::Spacing;
use super::{Prediction, SchedulerError, SchedulerKind, Solver, betas};

/// A checkpoint's noise schedule with the method that samples from it.
#[derive(Debug, Clone)]
pub struct Scheduler {
    pub(super) kind: SchedulerKind,
    pub(super) prediction: Prediction,
    /// ᾱ of each training timestep.
    pub(super) alphas_cumprod: Vec<f32>,
    /// ᾱ after the last step of methods that step in ᾱ.
    pub(super) final_alpha_cumprod: f32,
    pub(super) spacing: Spacing,
    pub(super) steps_offset: usize,
    /// Bound of the predicted picture (DDIM, LCM).
    pub(super) clip: Option<f32>,
    pub(super) karras: bool,
    /// The squared-cosine schedule keeps fractions of timesteps.
    pub(super) cosine: bool,
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
    pub(super) lambda_min_clipped: f32,
    pub(super) original_inference_steps: usize,
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
        let raw = Raw::deserialize(config).map_err(|source| SchedulerError::Config {
            wrong: wrong_key::<Raw>(config),
            source,
        })?;
        raw.refuse_out_of_range()?;
        raw.refuse_unsupported(kind)?;
        let prediction = raw.prediction(kind)?;
        let spacing = raw.spacing(kind)?;
        let train = raw.train_timesteps();
        let alphas_cumprod = raw.alphas_cumprod(kind, prediction)?;
        let solver = raw.solver(kind)?;
        let original_inference_steps = raw.original_inference_steps.unwrap_or(50);
        if kind.is_distilled() && !(1..=train).contains(&original_inference_steps) {
            let value = original_inference_steps.to_string();
            return Err(unsupported(kind, "original_inference_steps", &value));
        }
        let one = raw.set_alpha_to_one.unwrap_or(kind != SchedulerKind::Pndm);
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
            cosine: raw.beta_schedule(kind) == "squaredcos_cap_v2",
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

    /// The same with other timesteps, as diffusers' `from_config(…, timestep_spacing=…)`.
    ///
    /// # Errors
    /// [`SchedulerError::NoSpacing`] for methods that take timesteps of their own.
    pub fn with_spacing(self, spacing: Spacing) -> Result<Self, SchedulerError> {
        match self.kind.is_distilled() {
            true => Err(SchedulerError::NoSpacing(self.kind)),
            false => Ok(Self { spacing, ..self }),
        }
    }

    /// Whether other timesteps make a difference: not where a method has its own, and not to solvers on Karras' noise
    /// levels, which they spread over all of training.
    pub fn reads_spacing(&self) -> bool {
        let solver = matches!(
            self.kind,
            SchedulerKind::Dpmpp2m | SchedulerKind::Dpmpp2mKarras | SchedulerKind::UniPc
        );
        !(self.kind.is_distilled() || self.karras && solver)
    }

    /// As diffusers' `StableDiffusionPipeline`, for SD 1.x and 2.x, corrects the scheduler that it is given, whatever an outdated
    /// file says: `steps_offset` is 1, and nothing is clipped, since latents are not confined to the range of pixels.
    pub fn corrected(self) -> Self {
        Self {
            steps_offset: 1,
            clip: None,
            ..self
        }
    }

    /// The method.
    pub fn kind(&self) -> SchedulerKind {
        self.kind
    }

    /// ᾱ of each training timestep.
    pub fn alphas_cumprod(&self) -> &[f32] {
        &self.alphas_cumprod
    }

    /// What the UNet predicts.
    pub fn prediction(&self) -> Prediction {
        self.prediction
    }
}

impl SchedulerKind {
    /// Whether its steps have a share of fresh noise that can be chosen.
    pub fn has_eta(self) -> bool {
        self == SchedulerKind::Tcd
    }

    /// Steps in noise levels σ, not in ᾱ.
    pub(super) fn uses_sigmas(self) -> bool {
        !matches!(
            self,
            SchedulerKind::Ddim | SchedulerKind::Pndm | SchedulerKind::Lcm | SchedulerKind::Tcd
        )
    }

    /// Takes few of the timesteps that a model was distilled for.
    pub(super) fn is_distilled(self) -> bool {
        matches!(self, SchedulerKind::Lcm | SchedulerKind::Tcd)
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

/// What the configuration says, with the defaults of the scheduler's class in diffusers.
impl Raw {
    fn prediction(&self, kind: SchedulerKind) -> Result<Prediction, SchedulerError> {
        match self.prediction_type.as_deref().unwrap_or("epsilon") {
            "epsilon" => Ok(Prediction::Epsilon),
            "v_prediction" => Ok(Prediction::V),
            "sample" if kind != SchedulerKind::Pndm => Ok(Prediction::Sample),
            other => Err(unsupported(kind, "prediction_type", other)),
        }
    }

    fn spacing(&self, kind: SchedulerKind) -> Result<Spacing, SchedulerError> {
        let leading = !kind.uses_sigmas();
        match self.timestep_spacing.as_deref() {
            None if leading => Ok(Spacing::Leading),
            None | Some("linspace") => Ok(Spacing::Linspace),
            Some("leading") => Ok(Spacing::Leading),
            Some("trailing") => Ok(Spacing::Trailing),
            Some(other) => Err(unsupported(kind, "timestep_spacing", other)),
        }
    }

    fn solver(&self, kind: SchedulerKind) -> Result<Solver, SchedulerError> {
        Ok(match (kind, self.solver_type.as_deref()) {
            (SchedulerKind::UniPc, Some("bh1")) => Solver::Bh1,
            (SchedulerKind::UniPc, None | Some("bh2" | "midpoint" | "heun" | "logrho")) => {
                Solver::Bh2
            }
            (SchedulerKind::Dpmpp2m | SchedulerKind::Dpmpp2mKarras, Some("heun")) => Solver::Heun,
            (SchedulerKind::UniPc, Some(other)) => {
                return Err(unsupported(kind, "solver_type", other));
            }
            _ => Solver::Midpoint,
        })
    }

    fn train_timesteps(&self) -> usize {
        self.num_train_timesteps.unwrap_or(1000)
    }

    /// The defaults of LCM's and TCD's classes are Stable Diffusion's.
    fn beta_schedule(&self, kind: SchedulerKind) -> &str {
        let default = match kind.is_distilled() {
            true => "scaled_linear",
            false => "linear",
        };
        self.beta_schedule.as_deref().unwrap_or(default)
    }

    /// The share of the picture that is left at each training timestep.
    fn alphas_cumprod(
        &self,
        kind: SchedulerKind,
        prediction: Prediction,
    ) -> Result<Vec<f32>, SchedulerError> {
        let train = self.train_timesteps();
        let (start, end) = match kind.is_distilled() {
            true => (0.00085, 0.012),
            false => (0.0001, 0.02),
        };
        let (start, end) = (
            self.beta_start.unwrap_or(start),
            self.beta_end.unwrap_or(end),
        );
        let mut betas = match (&self.trained_betas, self.beta_schedule(kind)) {
            (Some(betas), _) if betas.len() == train => betas.clone(),
            (Some(betas), _) => {
                let value = format!("[{} values]", betas.len());
                return Err(unsupported(kind, "trained_betas", &value));
            }
            (None, "linear") => betas::linear(start, end, train, false),
            (None, "scaled_linear") => betas::linear(start, end, train, true),
            (None, "squaredcos_cap_v2") => betas::squared_cosine(train),
            (None, other) => return Err(unsupported(kind, "beta_schedule", other)),
        };
        // PNDM does not know the setting.
        let zero_snr = self.rescale_betas_zero_snr == Some(true) && kind != SchedulerKind::Pndm;
        if zero_snr && !kind.uses_sigmas() && prediction == Prediction::Epsilon {
            // Of pure noise, the noise tells nothing about the picture.
            let value = "true with epsilon prediction";
            return Err(unsupported(kind, "rescale_betas_zero_snr", value));
        }
        if zero_snr {
            betas = betas::zero_terminal_snr(&betas);
        }
        let mut alphas_cumprod = betas::alphas_cumprod(&betas);
        let between = if zero_snr { train - 1 } else { train };
        let lost = |alpha: &f32| !alpha.is_normal() || *alpha >= 1.0;
        if let Some(at) = alphas_cumprod[..between].iter().position(lost) {
            let (key, value) = match &self.trained_betas {
                Some(betas) => ("trained_betas", format!("a list of {}", betas.len())),
                None => ("beta_end", end.to_string()),
            };
            let range = format!(
                "such that picture and noise are mixed at all {train} timesteps, which they are not at {at}"
            );
            return Err(SchedulerError::Range { key, value, range });
        }
        if zero_snr && kind.uses_sigmas() {
            // Diffusers' stand-in for 0, so that the first noise level is finite.
            alphas_cumprod[train - 1] = 2f32.powi(-24);
        }
        Ok(alphas_cumprod)
    }
}

fn unsupported(kind: SchedulerKind, key: &'static str, value: &str) -> SchedulerError {
    SchedulerError::Unsupported {
        kind,
        key,
        value: value.to_owned(),
    }
}
