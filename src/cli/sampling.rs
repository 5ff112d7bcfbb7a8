//! How pictures are sampled: what `generate`, `run` and the experiments ask alike.

use prepose::engine::{Blueprint, Defaults, EngineError};
use prepose::request::{DeepCache, Gate, PicturePrompt, Request, Savings};
use prepose::sampling::StepRange;
use prepose::sampling::noise::NoiseKind;
use prepose::sampling::schedulers::{SchedulerKind, Spacing};

use super::memory::Tiling;
use super::values::{OrOff, parse_size};

/// How pictures are sampled. What is not given is the checkpoint's own choice.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Sampling")]
pub struct SamplingArgs {
    /// Denoising steps [default: 50].
    #[arg(short, long, value_name = "N")]
    pub steps: Option<usize>,
    /// Classifier-free guidance; 1 is none [default: the checkpoint's].
    #[arg(short, long, value_name = "SCALE")]
    pub guidance_scale: Option<f64>,
    /// The steps in which classifier-free guidance acts, counted from 0: 5-30, 5- or -30; the others take half the time
    /// [default: all].
    #[arg(long, value_name = "A-B", hide_short_help = true)]
    pub guidance_steps: Option<StepRange>,
    #[command(flatten)]
    pub savings: SavingsArgs,
    /// The size in pixels, such as 768x512 or 512 [default: the checkpoint's].
    #[arg(long, value_name = "WxH", value_parser = parse_size)]
    pub size: Option<(usize, usize)>,
    /// The scheduler [default: the checkpoint's].
    #[arg(long, value_name = "NAME", value_enum, hide_short_help = true)]
    pub scheduler: Option<SchedulerKind>,
    /// Which timesteps the steps visit; checkpoints distilled for few steps often want trailing [default: the checkpoint's].
    #[arg(long, value_name = "SPACING", value_enum, hide_short_help = true)]
    pub timestep_spacing: Option<Spacing>,
    /// The share of fresh noise in each step of tcd, from 0 to 1 [default: 0.3].
    #[arg(long, value_name = "SHARE", hide_short_help = true)]
    pub eta: Option<f64>,
    /// What the pictures should not show [default: nothing].
    #[arg(short, long, value_name = "TEXT")]
    pub negative_prompt: Option<String>,
    /// A picture that an IP-Adapter shows to the network; may be repeated (docs/guidance/ip-adapter.md).
    ///
    /// For example dog.png, or dog.png,scale=0.6,steps=0-14,region=0:0:0.5:1. Options: scale, steps (counted from 0),
    /// region (a box or a mask), blocks, adapter (which one, counted from 1), softmax=own.
    #[arg(long, value_name = "FILE[,OPTIONS]", hide_short_help = true)]
    pub ip_picture: Vec<PicturePrompt>,
    /// How many layers to leave out at the end of the text encoder [default: 0].
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub clip_skip: Option<usize>,
    /// Whose random numbers to use: PyTorch's on the CPU, or its CUDA generator's [default: torch].
    #[arg(long, value_name = "WHOSE", value_enum, hide_short_help = true)]
    pub noise: Option<NoiseKind>,
    /// Encode and decode in tiles, for large pictures in little memory [default: auto, only where they do not fit
    /// otherwise; off in a run, whose pictures do not depend on memory].
    #[arg(long, value_name = "WHEN", value_enum, num_args = 0..=1, default_missing_value = "on", require_equals = true,
          hide_short_help = true)]
    pub vae_tiling: Option<Tiling>,
}

impl SamplingArgs {
    /// Width and height in pixels.
    pub fn size(&self, defaults: &Defaults) -> (usize, usize) {
        self.size.unwrap_or((defaults.width, defaults.height))
    }

    /// Whose random numbers.
    pub fn noise(&self) -> NoiseKind {
        self.noise.unwrap_or_default()
    }

    /// Puts what was given into `request`. Tiling is not among it: memory may decide about that.
    pub fn apply(&self, request: &mut Request) {
        if let Some(steps) = self.steps {
            request.steps = steps;
        }
        if let Some(scale) = self.guidance_scale {
            request.guidance_scale = scale;
        }
        if self.guidance_steps.is_some() {
            request.guidance_steps = self.guidance_steps;
        }
        request.savings = self.savings.over(request.savings);
        if self.timestep_spacing.is_some() {
            request.timestep_spacing = self.timestep_spacing;
        }
        if let Some(size) = self.size {
            (request.width, request.height) = size;
        }
        if let Some(scheduler) = self.scheduler {
            request.scheduler = Some(scheduler.to_string());
        }
        if self.eta.is_some() {
            request.eta = self.eta;
        }
        if let Some(negative_prompt) = &self.negative_prompt {
            request.negative_prompt.clone_from(negative_prompt);
        }
        if !self.ip_picture.is_empty() {
            request.pictures.clone_from(&self.ip_picture);
        }
        if let Some(clip_skip) = self.clip_skip {
            request.clip_skip = clip_skip;
        }
        if let Some(noise) = self.noise {
            request.noise = noise;
        }
    }

    /// Takes out of `requests` what does nothing beside what else was given: what a picture was made with before, or what
    /// other cells of a sheet have. Something that was given and does nothing anywhere stays, so that it is refused.
    ///
    /// # Errors
    /// A scheduler that does not fit the checkpoint.
    pub fn drop_inert(
        &self,
        requests: &mut [Request],
        blueprint: &Blueprint,
    ) -> Result<(), EngineError> {
        for request in &mut *requests {
            blueprint.drop_inert(request)?;
        }
        let nowhere = |has: fn(&Request) -> bool| !requests.iter().any(has);
        let eta = nowhere(|request| request.eta.is_some());
        let spacing = nowhere(|request| request.timestep_spacing.is_some());
        let guided = nowhere(|request| request.guidance_steps.is_some());
        if let Some(first) = requests.first_mut() {
            first.eta = self.eta.filter(|_| eta).or(first.eta);
            first.timestep_spacing =
                (self.timestep_spacing.filter(|_| spacing)).or(first.timestep_spacing);
            first.guidance_steps =
                (self.guidance_steps.filter(|_| guided)).or(first.guidance_steps);
        }
        Ok(())
    }
}

/// Leave something out of the network's calls (docs/fewer-calls.md).
#[derive(Clone, Debug, Default, clap::Args)]
pub struct SavingsArgs {
    /// DeepCache: run the deep part of the network in every N-th step only; 3:1 keeps one more skip connection fresh.
    #[arg(
        long,
        value_name = "N[:BRANCH]|off",
        help_heading = "Fewer calls",
        hide_short_help = true
    )]
    pub deep_cache: Option<OrOff<DeepCache>>,
    /// T-GATE: from this step on (10, or 0.4 of all), reuse the cross-attention and end classifier-free guidance.
    #[arg(
        long,
        value_name = "STEP|SHARE|off",
        help_heading = "Fewer calls",
        hide_short_help = true
    )]
    pub tgate: Option<OrOff<Gate>>,
    /// Merge this share of the tokens, up to 0.75, in the self-attention of the largest feature maps.
    #[arg(
        long,
        value_name = "SHARE|off",
        help_heading = "Fewer calls",
        hide_short_help = true
    )]
    pub token_merging: Option<OrOff<f64>>,
}

impl SavingsArgs {
    /// What was given, and for the rest what there is.
    pub fn over(&self, there: Savings) -> Savings {
        fn choose<T: Copy>(given: Option<OrOff<T>>, there: Option<T>) -> Option<T> {
            given.map_or(there, |OrOff(given)| given)
        }
        Savings {
            deep_cache: choose(self.deep_cache, there.deep_cache),
            tgate: choose(self.tgate, there.tgate),
            token_merging: choose(self.token_merging, there.token_merging),
        }
    }

    /// The first option that was given.
    pub fn given(&self) -> Option<&'static str> {
        let given = [
            ("--deep-cache", self.deep_cache.is_some()),
            ("--tgate", self.tgate.is_some()),
            ("--token-merging", self.token_merging.is_some()),
        ];
        (given.into_iter()).find_map(|(option, given)| given.then_some(option))
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, Command};

    use super::*;

    #[test]
    fn the_savings_alone_stand_under_their_heading() {
        let command = SamplingArgs::augment_args(Command::new("sampling"));
        let others = SavingsArgs::augment_args(Command::new("savings")).arg(clap::Arg::new("next"));
        let headings = |command: &Command, heading: &str| -> Vec<String> {
            let arguments = command.get_arguments();
            let there = arguments.filter(|one| one.get_help_heading() == Some(heading));
            there.map(|one| one.get_id().to_string()).collect()
        };
        let savings = ["deep_cache", "tgate", "token_merging"];
        assert_eq!(headings(&command, "Fewer calls"), savings);
        assert_eq!(headings(&others, "Fewer calls"), savings);
        let sampling = headings(&command, "Sampling");
        assert!(sampling.contains(&"size".to_owned()) && sampling.contains(&"eta".to_owned()));
    }
}
