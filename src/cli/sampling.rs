//! How pictures are sampled: what `generate`, `run` and the experiments ask alike.

use prepose::engine::Defaults;
use prepose::request::{PicturePrompt, Request};
use prepose::sampling::StepRange;
use prepose::sampling::noise::NoiseKind;
use prepose::sampling::schedulers::SchedulerKind;

use super::memory::Tiling;
use super::values::parse_size;

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
    /// The steps in which classifier-free guidance acts, from 0: 5-30, 5- or -30; the others take half the time
    /// [default: all].
    #[arg(long, value_name = "A-B", hide_short_help = true)]
    pub guidance_steps: Option<StepRange>,
    /// In pixels, 768x512 or 512 [default: the checkpoint's].
    #[arg(long, value_name = "WxH", value_parser = parse_size)]
    pub size: Option<(usize, usize)>,
    /// The scheduler [default: the checkpoint's].
    #[arg(long, value_name = "NAME", value_enum, hide_short_help = true)]
    pub scheduler: Option<SchedulerKind>,
    /// The share of fresh noise in each step of tcd, from 0 to 1 [default: 0.3].
    #[arg(long, value_name = "SHARE", hide_short_help = true)]
    pub eta: Option<f64>,
    /// What the pictures should not show [default: nothing].
    #[arg(short, long, value_name = "TEXT")]
    pub negative_prompt: Option<String>,
    /// A picture that an IP-Adapter shows to the network; may be repeated (docs/guidance/ip-adapter.md).
    ///
    /// As dog.png, or dog.png,scale=0.6,steps=0-14,region=0:0:0.5:1. Options: scale, steps (from 0), region (a box or a
    /// mask), blocks, adapter (which, from 1), softmax=own.
    #[arg(long, value_name = "FILE[,OPTIONS]", hide_short_help = true)]
    pub ip_picture: Vec<PicturePrompt>,
    /// Layers of the text encoder to leave out at the end [default: 0].
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub clip_skip: Option<usize>,
    /// Whose random numbers: PyTorch's on the CPU, or its CUDA generator's [default: torch].
    #[arg(long, value_name = "WHOSE", value_enum, hide_short_help = true)]
    pub noise: Option<NoiseKind>,
    /// Encode and decode in tiles, for large pictures in little memory [default: auto, where they do not fit otherwise;
    /// a run's pictures do not depend on memory, so there it is off].
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
}
