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
    /// ᾱ after the last step of DDIM, PNDM and LCM.
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
        let between = if zero_snr { train - 1 } else { train };
        let lost = |alpha: &f32| !alpha.is_normal() || *alpha >= 1.0;
        if let Some(at) = alphas_cumprod[..between].iter().position(lost) {
            let (key, value) = match &raw.trained_betas {
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
