//! The keys of `scheduler_config.json`, and which of their values nobody here implements.

use serde::Deserialize;
use serde_json::Value;

use super::{SchedulerError, SchedulerKind};

/// A key, whether the method goes by it, and its value if we cannot obey that.
type Setting = (&'static str, bool, Option<String>);

/// The keys that matter to any of the methods. What is absent takes the default of the diffusers class in use,
/// which need not be the class that wrote the file.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Raw {
    pub num_train_timesteps: Option<usize>,
    pub beta_start: Option<f64>,
    pub beta_end: Option<f64>,
    pub beta_schedule: Option<String>,
    pub trained_betas: Option<Vec<f32>>,
    pub prediction_type: Option<String>,
    pub timestep_spacing: Option<String>,
    pub steps_offset: Option<usize>,
    pub rescale_betas_zero_snr: Option<bool>,
    pub set_alpha_to_one: Option<bool>,
    pub clip_sample: Option<bool>,
    pub clip_sample_range: Option<f32>,
    pub thresholding: Option<bool>,
    pub skip_prk_steps: Option<bool>,
    pub interpolation_type: Option<String>,
    pub timestep_type: Option<String>,
    pub use_karras_sigmas: Option<bool>,
    pub use_exponential_sigmas: Option<bool>,
    pub use_beta_sigmas: Option<bool>,
    pub use_lu_lambdas: Option<bool>,
    pub use_flow_sigmas: Option<bool>,
    pub use_dynamic_shifting: Option<bool>,
    pub sigma_min: Option<f64>,
    pub sigma_max: Option<f64>,
    pub final_sigmas_type: Option<String>,
    pub algorithm_type: Option<String>,
    pub solver_type: Option<String>,
    pub solver_order: Option<usize>,
    pub lower_order_final: Option<bool>,
    pub euler_at_final: Option<bool>,
    pub lambda_min_clipped: Option<Value>,
    pub variance_type: Option<String>,
    pub predict_x0: Option<bool>,
    pub disable_corrector: Option<Vec<usize>>,
    pub solver_p: Option<Value>,
    pub original_inference_steps: Option<usize>,
    pub timestep_scaling: Option<f32>,
}

/// Far more training timesteps than any checkpoint has.
const MAX_TRAIN: usize = 100_000;

impl Raw {
    /// Refuses numbers that no noise schedule has: they would lead out of its tables, or to pictures of nothing.
    pub fn refuse_out_of_range(&self) -> Result<(), SchedulerError> {
        const SHARE: (f64, f64) = (1e-7, 1.0 - 1e-7);
        let whole = |number: Option<usize>| number.map(|number| number as f64);
        let train = self.num_train_timesteps.unwrap_or(1000);
        let lambda = self.lambda_min_clipped.as_ref().and_then(Value::as_f64);
        let betas = self.trained_betas.iter().flatten();
        let ranges = [
            (
                "num_train_timesteps",
                whole(Some(train)),
                (2.0, MAX_TRAIN as f64),
            ),
            ("beta_start", self.beta_start, SHARE),
            ("beta_end", self.beta_end, SHARE),
            (
                "steps_offset",
                whole(self.steps_offset),
                (0.0, (train - 1) as f64),
            ),
            (
                "clip_sample_range",
                self.clip_sample_range.map(f64::from),
                (1e-3, 1e6),
            ),
            ("lambda_min_clipped", lambda, (-1e3, 0.0)),
            (
                "timestep_scaling",
                self.timestep_scaling.map(f64::from),
                (1e-3, 1e6),
            ),
        ];
        let betas = betas.map(|beta| ("trained_betas", Some(f64::from(*beta)), SHARE));
        for (key, value, (least, most)) in ranges.into_iter().chain(betas) {
            if let Some(value) = value
                && !(least..=most).contains(&value)
            {
                return Err(SchedulerError::Range {
                    key,
                    value: value.to_string(),
                    range: format!("between {least} and {most}"),
                });
            }
        }
        Ok(())
    }

    /// Settings that diffusers' class of this method would obey and we do not.
    pub fn refuse_unsupported(&self, kind: SchedulerKind) -> Result<(), SchedulerError> {
        let refusals = self.switches(kind).into_iter().chain(self.values(kind));
        for (key, applies, value) in refusals {
            if let (true, Some(value)) = (applies, value) {
                return Err(SchedulerError::Unsupported { kind, key, value });
            }
        }
        Ok(())
    }

    /// What is on or off where we know only the other; whether the method goes by it.
    fn switches(&self, kind: SchedulerKind) -> [Setting; 8] {
        use SchedulerKind::{Ddim, Dpmpp2m, Dpmpp2mKarras, Euler, Lcm, UniPc};
        let dpm = matches!(kind, Dpmpp2m | Dpmpp2mKarras);
        let solver = dpm || kind == UniPc;
        let on = |flag: Option<bool>| (flag == Some(true)).then(|| "true".to_owned());
        let off = |flag: Option<bool>| (flag == Some(false)).then(|| "false".to_owned());
        let zero = self.final_sigmas_type.as_deref().unwrap_or("zero") == "zero";
        let infinite = zero && self.order() > 1 && kind == UniPc;
        [
            (
                "thresholding",
                matches!(kind, Ddim | Lcm) || solver,
                on(self.thresholding),
            ),
            (
                "use_exponential_sigmas",
                solver || kind == Euler,
                on(self.use_exponential_sigmas),
            ),
            (
                "use_beta_sigmas",
                solver || kind == Euler,
                on(self.use_beta_sigmas),
            ),
            ("use_lu_lambdas", dpm, on(self.use_lu_lambdas)),
            ("use_flow_sigmas", solver, on(self.use_flow_sigmas)),
            (
                "use_dynamic_shifting",
                solver,
                on(self.use_dynamic_shifting),
            ),
            ("lower_order_final", infinite, off(self.lower_order_final)),
            ("predict_x0", kind == UniPc, off(self.predict_x0)),
        ]
    }

    /// Names and numbers that we do not know; whether the method goes by them.
    fn values(&self, kind: SchedulerKind) -> [Setting; 10] {
        use SchedulerKind::{Dpmpp2m, Dpmpp2mKarras, Euler, UniPc};
        let dpm = matches!(kind, Dpmpp2m | Dpmpp2mKarras);
        let solver = dpm || kind == UniPc;
        let karras = matches!(kind, Euler | UniPc);
        let number = |value: Option<f64>| value.map(|value| value.to_string());
        let other_than = |value: &Option<String>, known: &[&str]| {
            let unknown = |value: &String| !known.contains(&value.as_str());
            value.clone().filter(unknown)
        };
        let most = if dpm { 2 } else { 3 };
        let order = Some(self.order()).filter(|order| !(1..=most).contains(order));
        let solvers = ["midpoint", "heun", "logrho", "bh1", "bh2"];
        let p = self.solver_p.as_ref().filter(|p| !p.is_null());
        [
            (
                "interpolation_type",
                kind == Euler,
                other_than(&self.interpolation_type, &["linear"]),
            ),
            (
                "timestep_type",
                kind == Euler,
                other_than(&self.timestep_type, &["discrete"]),
            ),
            ("sigma_min", karras, number(self.sigma_min)),
            ("sigma_max", karras, number(self.sigma_max)),
            (
                "final_sigmas_type",
                solver || kind == Euler,
                other_than(&self.final_sigmas_type, &["zero", "sigma_min"]),
            ),
            (
                "algorithm_type",
                dpm,
                other_than(&self.algorithm_type, &["dpmsolver++", "deis"]),
            ),
            ("solver_type", dpm, other_than(&self.solver_type, &solvers)),
            ("solver_order", solver, order.map(|order| order.to_string())),
            (
                "variance_type",
                dpm,
                other_than(&self.variance_type, &["fixed_small"]),
            ),
            ("solver_p", kind == UniPc, p.map(Value::to_string)),
        ]
    }

    fn order(&self) -> usize {
        self.solver_order.unwrap_or(2)
    }
}
