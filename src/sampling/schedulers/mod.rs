//! Schedulers as pure functions: which timesteps the UNet is asked about, and how its answers move the
//! latents.
//!
//! A [`Scheduler`] is a checkpoint's `scheduler_config.json` read for one [`SchedulerKind`]; its
//! [`Schedule`] for a number of steps is computed once on the host, with diffusers' rounding, and holds no
//! state. What a multistep method remembers is in a [`History`] that the caller owns, and noise that a
//! method adds is passed in. Every step is tensor arithmetic with host scalars, so no step waits for the
//! device. Each kind follows diffusers' trajectory to 1e-5 (`tests/lib/sampling.rs`).
//!
//! Where diffusers departs from the papers it is diffusers that is followed, because pictures must be
//! the same: DDIM and PNDM step by `num_train_timesteps / steps` whatever the spacing, and PNDM's warm-up
//! is repeated in the middle of an image-to-image run.

mod betas;
mod config;
mod ddim;
mod dpmpp;
mod euler;
mod history;
mod lcm;
mod levels;
mod pndm;
mod raw;
mod schedule;
mod steps;
mod tcd;
mod timesteps;
mod unipc;

use std::fmt;
use std::str::FromStr;

pub use config::Scheduler;
pub use history::History;
pub use schedule::{Schedule, StepOutput};
pub use timesteps::Spacing;

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

/// A sampling method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum SchedulerKind {
    /// DDIM without noise (Song et al. 2021).
    Ddim,
    /// PNDM as Stable Diffusion 1.x uses it, pseudo linear multistep (Liu et al. 2022).
    Pndm,
    /// Euler (Karras et al. 2022, algorithm 2 without churn).
    Euler,
    /// Euler with ancestral noise (k-diffusion).
    #[value(name = "euler_a")]
    EulerA,
    /// DPM-Solver++(2M) (Lu et al. 2022).
    #[value(name = "dpmpp_2m")]
    Dpmpp2m,
    /// DPM-Solver++(2M) on the noise levels of Karras et al. 2022.
    #[value(name = "dpmpp_2m_karras")]
    Dpmpp2mKarras,
    /// UniPC (Zhao et al. 2023).
    #[value(name = "unipc")]
    UniPc,
    /// Latent consistency models (Luo et al. 2023); needs a checkpoint distilled for it.
    Lcm,
    /// Trajectory consistency distillation (Zheng et al. 2024); needs a checkpoint or LoRA distilled for it, such as TCD or
    /// Hyper-SD.
    Tcd,
}

impl SchedulerKind {
    /// All kinds.
    pub const ALL: [SchedulerKind; 9] = [
        SchedulerKind::Ddim,
        SchedulerKind::Pndm,
        SchedulerKind::Euler,
        SchedulerKind::EulerA,
        SchedulerKind::Dpmpp2m,
        SchedulerKind::Dpmpp2mKarras,
        SchedulerKind::UniPc,
        SchedulerKind::Lcm,
        SchedulerKind::Tcd,
    ];

    /// The name on the command line and in requests.
    pub fn name(self) -> &'static str {
        match self {
            SchedulerKind::Ddim => "ddim",
            SchedulerKind::Pndm => "pndm",
            SchedulerKind::Euler => "euler",
            SchedulerKind::EulerA => "euler_a",
            SchedulerKind::Dpmpp2m => "dpmpp_2m",
            SchedulerKind::Dpmpp2mKarras => "dpmpp_2m_karras",
            SchedulerKind::UniPc => "unipc",
            SchedulerKind::Lcm => "lcm",
            SchedulerKind::Tcd => "tcd",
        }
    }

    /// The diffusers class of the same method.
    pub fn class_name(self) -> &'static str {
        match self {
            SchedulerKind::Ddim => "DDIMScheduler",
            SchedulerKind::Pndm => "PNDMScheduler",
            SchedulerKind::Euler => "EulerDiscreteScheduler",
            SchedulerKind::EulerA => "EulerAncestralDiscreteScheduler",
            SchedulerKind::Dpmpp2m | SchedulerKind::Dpmpp2mKarras => "DPMSolverMultistepScheduler",
            SchedulerKind::UniPc => "UniPCMultistepScheduler",
            SchedulerKind::Lcm => "LCMScheduler",
            SchedulerKind::Tcd => "TCDScheduler",
        }
    }
}

impl fmt::Display for SchedulerKind {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for SchedulerKind {
    type Err = SchedulerError;

    fn from_str(name: &str) -> Result<Self, SchedulerError> {
        (Self::ALL.into_iter().find(|kind| kind.name() == name)).ok_or_else(|| {
            SchedulerError::UnknownName {
                name: name.to_owned(),
            }
        })
    }
}

/// What the UNet was trained to predict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prediction {
    /// The noise.
    Epsilon,
    /// The velocity α·ε − σ·x₀ (Salimans and Ho 2022).
    V,
    /// The clean latents.
    Sample,
}

/// Why a scheduler cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SchedulerError {
    /// No method has that name.
    #[error("unknown scheduler {name:?}; the known ones are {}", SchedulerKind::ALL.map(SchedulerKind::name).join(", "))]
    UnknownName {
        /// What was asked for.
        name: String,
    },
    /// The checkpoint's own method is none of ours.
    #[error(
        "scheduler_config.json asks for {0:?}, which is not supported; choose one with --scheduler"
    )]
    UnknownClass(String),
    /// `scheduler_config.json` has no `_class_name`.
    #[error(
        "scheduler_config.json does not name a class (\"_class_name\"); choose one with --scheduler"
    )]
    NoClass,
    /// A value has the wrong type.
    #[error("scheduler_config.json cannot be read{}", wrong.as_ref().map_or(String::new(), |(key, value)| {
        format!(": `{key}` cannot be {value}")
    }))]
    Config {
        /// The key and its value, if it is a matter of one.
        wrong: Option<(String, String)>,
        /// The parser's reason.
        source: serde_json::Error,
    },
    /// A number that no noise schedule has.
    #[error("scheduler_config.json: `{key}` is {value}, but must be {range}")]
    Range {
        /// The setting.
        key: &'static str,
        /// Its value.
        value: String,
        /// What it may be.
        range: String,
    },
    /// A setting would change the pictures, and this method does not do it.
    #[error(
        "scheduler_config.json: {key} = {value} is not supported for {kind}; choose another --scheduler"
    )]
    Unsupported {
        /// The method in use.
        kind: SchedulerKind,
        /// The setting.
        key: &'static str,
        /// Its value.
        value: String,
    },
    /// Fewer or more steps than the method can take.
    #[error("{kind} takes {least} to {most} steps with this checkpoint, not {steps}")]
    Steps {
        /// The method in use.
        kind: SchedulerKind,
        /// How many were asked for.
        steps: usize,
        /// The fewest that are possible.
        least: usize,
        /// The most that are possible.
        most: usize,
    },
    /// A setting of the checkpoint leaves no room for that many steps.
    #[error(
        "{kind} cannot take {steps} steps: in scheduler_config.json {reason}; take another number of steps, or choose \
         another --scheduler"
    )]
    NoRoom {
        /// The method in use.
        kind: SchedulerKind,
        /// How many were asked for.
        steps: usize,
        /// Which setting, and what it leads to.
        reason: String,
    },
    /// Only one method has a share of fresh noise.
    #[error(
        "eta is the share of fresh noise in each step of tcd; {0} has none: leave out --eta, or take --scheduler tcd"
    )]
    NoEta(SchedulerKind),
    /// A method with timesteps of its own.
    #[error(
        "{0} takes the timesteps that it was distilled for; leave out --timestep-spacing, or take another --scheduler"
    )]
    NoSpacing(SchedulerKind),
    /// Noise levels that go by no timesteps.
    #[error(
        "{0} spreads its steps over the noise levels of Karras et al., whatever the timesteps; leave out --timestep-spacing, or \
         take another --scheduler"
    )]
    KarrasSpacing(SchedulerKind),
    /// No share.
    #[error("eta is {0}, but must be a share from 0 to 1")]
    Eta(f64),
    /// The paper's warm-up of PNDM belongs at the beginning.
    #[error(
        "pndm cannot start in the middle with the warm-up that this checkpoint asks for (skip_prk_steps is not \
         true in scheduler_config.json); choose another --scheduler"
    )]
    WarmUp,
    /// Image-to-image would run no step, or not a share of them.
    #[error(
        "strength {strength} of {steps} steps leaves none to run; it is a share in (0, 1] and must be at least {}",
        1.0 / *steps as f64
    )]
    Strength {
        /// The share of the steps.
        strength: f64,
        /// The steps of the whole schedule.
        steps: usize,
    },
}
