//! What a training is told.

mod kinds;
mod pictures;

use std::path::PathBuf;

use clap::ValueEnum;
pub use kinds::{GligenArgs, IpAdapterArgs, LoraArgs, UnetArgs, Usual};
use pictures::Pictures;
use prepose::device::DeviceSpec;
use prepose::engine::Blueprint;
use prepose::request::{Dtype, ModelRequest};
use prepose::train::dataset::bucket::Sizes;
use prepose::train::optimizer::average::Average;
use prepose::train::optimizer::draws::{Draws, Timesteps};
use prepose::train::optimizer::objective::Weighting;
use prepose::train::optimizer::rate::{Decay, Rate};
use prepose::train::optimizer::rule::Rule;
use prepose::train::optimizer::{Adafactor, AdamW};
use prepose::train::recipe::{Kind, Recipe};
use prepose::train::run::{Job, Samples};
use prepose_models::unet::Memory;
use prepose_weights::TOYBOX;

/// Which optimiser.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Optimizer {
    /// AdamW, as in PyTorch
    Adamw,
    /// AdamW with 8-bit moments, as in bitsandbytes
    #[value(name = "adamw8bit")]
    Adamw8bit,
    /// Adafactor, as in transformers with a fixed rate
    Adafactor,
}

/// What comes after the warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Schedule {
    /// The same rate until the end
    Constant,
    /// Straight down to 0
    Linear,
    /// Half a cosine down to 0
    Cosine,
}

/// How often each noise level is trained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum TimestepArg {
    /// All equally often
    #[default]
    Uniform,
    /// Mostly the middle: the sigmoid of a normally distributed number, as in table 12 of Order Is Not Layout
    Sigmoid,
}

/// What all trainings have in common.
#[derive(Debug, clap::Args)]
pub struct Common {
    /// A folder of pictures with captions, a run, or a .jsonl, .csv, .parquet or .tar file.
    #[arg(value_name = "DATA")]
    data: PathBuf,
    /// The folder for everything; a training that is already there is resumed.
    #[arg(short, long, value_name = "FOLDER")]
    out: PathBuf,
    /// The checkpoint to train, as for generate [default: toybox].
    #[arg(short, long, value_name = "PATH|NAME")]
    checkpoint: Option<String>,
    /// auto, cuda[:i], wgpu[:i], vulkan[:i], metal or flex (the CPU).
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub device: DeviceSpec,
    /// Print JSON lines on standard output: one for each step and each file.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pictures: Pictures,
    #[command(flatten)]
    steps: Steps,
    #[command(flatten)]
    noise: Noise,
    #[command(flatten)]
    kept: Kept,
}

/// How weights move.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Steps")]
struct Steps {
    /// Steps of the optimiser.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    steps: u64,
    /// Samples in a batch.
    #[arg(long, value_name = "N", default_value_t = 1)]
    batch: usize,
    /// Batches in a step.
    #[arg(long, value_name = "N", default_value_t = 1)]
    accumulate: usize,
    /// The optimiser.
    #[arg(long, value_enum, default_value = "adamw")]
    optimizer: Optimizer,
    /// The learning rate [default: 1e-4 for a LoRA and an IP-Adapter, 1e-5 for the UNet, 5e-5 for GLIGEN's layers].
    #[arg(long, value_name = "NUMBER")]
    rate: Option<f64>,
    /// Steps until the rate is reached; the first has a rate of 0.
    #[arg(long, value_name = "N", default_value_t = 0)]
    warmup: u64,
    /// What comes after the warm-up.
    #[arg(long, value_enum, default_value = "constant")]
    schedule: Schedule,
    /// Weight decay [default: 0.01; 0 with Adafactor and for GLIGEN's layers].
    #[arg(long, value_name = "NUMBER", hide_short_help = true)]
    weight_decay: Option<f64>,
    /// AdamW's betas [default: 0.9,0.999].
    #[arg(
        long,
        value_name = "A,B",
        value_delimiter = ',',
        num_args = 1,
        hide_short_help = true
    )]
    betas: Option<Vec<f64>>,
    /// AdamW's epsilon [default: 1e-8].
    #[arg(long, value_name = "NUMBER", hide_short_help = true)]
    eps: Option<f64>,
    /// Clip the gradient to this norm; 0 does not clip [default: 1; 0 for GLIGEN's layers and an IP-Adapter].
    #[arg(long, value_name = "NUMBER")]
    clip: Option<f64>,
    /// Keep a running average of the weights, and write that; SHARE is how much of it is kept at each step, such as 0.999.
    #[arg(long, value_name = "SHARE")]
    ema: Option<f64>,
    /// The seed of everything that is drawn at random: order, noise, initial values.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// The type that the network computes in; weights, moments and averages stay f32. With f16 the loss is scaled.
    #[arg(long, value_enum, value_name = "TYPE", default_value = "f32")]
    dtype: Dtype,
    /// Keep only the input of each block of the UNet, and compute the rest again for the gradient: less memory for the
    /// time of one more forward pass, and on the CPU the same result. A training may be resumed with or without it.
    #[arg(long)]
    recompute: bool,
}

/// What is asked of the network.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Noise")]
struct Noise {
    /// min-SNR weights with this gamma; 5 is usual [default: all noise levels count the same].
    #[arg(long, value_name = "GAMMA")]
    min_snr: Option<f64>,
    /// How often each noise level is trained.
    #[arg(long, value_enum, default_value_t, conflicts_with = "layout_share")]
    timesteps: TimestepArg,
    /// Draw this share of the timesteps with a bias towards high noise, where layouts are decided, and the others
    /// around the middle.
    #[arg(long, value_name = "SHARE")]
    layout_share: Option<f64>,
    /// How much noise to add that is the same throughout a channel, such as 0.05.
    #[arg(long, value_name = "NUMBER", default_value_t = 0.0)]
    offset_noise: f64,
    /// The share of captions to leave out, for classifier-free guidance [default: 0; 0.5 for GLIGEN's layers; 0.05 for
    /// an IP-Adapter, which then still shows the picture].
    #[arg(long, value_name = "SHARE")]
    dropout: Option<f64>,
}

/// What is kept on the way.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "On the way")]
struct Kept {
    /// Steps between saved states: what a kill can cost.
    #[arg(long, value_name = "N", default_value_t = 100)]
    keep_every: u64,
    /// Make a picture of this prompt before the first step and after the last, and with --sample-every in between; may
    /// be repeated.
    #[arg(long, value_name = "PROMPT")]
    sample: Vec<String>,
    /// Steps between sample pictures.
    #[arg(long, value_name = "N", default_value_t = 0, requires = "sample")]
    sample_every: u64,
    /// Denoising steps of sample pictures.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 20,
        requires = "sample",
        hide_short_help = true
    )]
    sample_steps: usize,
    /// The seed of sample pictures.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        requires = "sample",
        hide_short_help = true
    )]
    sample_seed: u64,
    /// Where to keep latents and the encoders' outputs for captions and pictures, to share them between trainings
    /// [default: within --out].
    #[arg(long, value_name = "FOLDER", hide_short_help = true)]
    cache: Option<PathBuf>,
}

impl Common {
    /// The training that is asked for, with what is usual for it where nothing is said.
    ///
    /// # Errors
    /// A checkpoint that cannot be opened.
    pub fn job(&self, kind: Kind, usual: Usual) -> anyhow::Result<Job> {
        let checkpoint = self.checkpoint.as_deref().unwrap_or(TOYBOX);
        let model = ModelRequest::new(checkpoint, Dtype::F32);
        let beside = kind.beside();
        let resolution = match self.pictures.resolution {
            Some(resolution) => resolution,
            None => {
                let defaults = Blueprint::open(&model)?.defaults();
                [defaults.width, defaults.height]
            }
        };
        Ok(Job {
            recipe: Recipe {
                kind,
                optimizer: self.steps.rule(usual)?,
                rate: Rate {
                    peak: self.steps.rate.unwrap_or(usual.rate),
                    warmup: self.steps.warmup,
                    decay: match self.steps.schedule {
                        Schedule::Constant => Decay::Constant,
                        Schedule::Linear => Decay::Linear,
                        Schedule::Cosine => Decay::Cosine,
                    },
                },
                steps: self.steps.steps,
                batch: self.steps.batch,
                accumulate: self.steps.accumulate,
                clip: self.steps.clip.unwrap_or(usual.clip),
                average: self.steps.ema.map(|decay| Average { decay }),
                weighting: self
                    .noise
                    .min_snr
                    .map_or(Weighting::Even, Weighting::MinSnr),
                timesteps: match (self.noise.layout_share, self.noise.timesteps) {
                    (Some(share), _) => Timesteps::Layout(share),
                    (None, TimestepArg::Uniform) => Timesteps::Uniform,
                    (None, TimestepArg::Sigmoid) => Timesteps::Sigmoid,
                },
                offset: self.noise.offset_noise,
                dropout: self.noise.dropout.unwrap_or(usual.dropout),
                flips: self.pictures.flips(),
                sizes: Sizes {
                    resolution,
                    buckets: self.pictures.buckets(resolution)?,
                },
                seed: Draws(self.steps.seed),
                dtype: self.steps.dtype,
            },
            model,
            new_adapter: None,
            data: self.data.clone(),
            options: self.pictures.options(beside),
            out: self.out.clone(),
            cache: self.kept.cache.clone(),
            keep_every: self.kept.keep_every,
            samples: Samples {
                prompts: self.kept.sample.clone(),
                every: self.kept.sample_every,
                steps: self.kept.sample_steps,
                seed: self.kept.sample_seed,
                picture: None,
            },
            memory: match self.steps.recompute {
                true => Memory::Recompute,
                false => Memory::Keep,
            },
        })
    }
}

impl Steps {
    fn rule(&self, usual: Usual) -> anyhow::Result<Rule> {
        let of_adamw = [
            ("--betas", self.betas.is_some()),
            ("--eps", self.eps.is_some()),
        ];
        for (option, is_given) in of_adamw {
            anyhow::ensure!(
                !is_given || self.optimizer != Optimizer::Adafactor,
                "{option} is AdamW's, and Adafactor has no such number; leave it out, or choose --optimizer adamw"
            );
        }
        let [beta1, beta2] = self.betas.as_deref().unwrap_or(&[0.9, 0.999]) else {
            anyhow::bail!("--betas takes two numbers, such as 0.9,0.999");
        };
        for beta in [beta1, beta2] {
            anyhow::ensure!(
                (0.0..1.0).contains(beta),
                "a beta is {beta}, but must be from 0 to below 1"
            );
        }
        let eps = self.eps.unwrap_or(1e-8);
        anyhow::ensure!(eps > 0.0, "--eps is {eps}, but must be above 0");
        let adam = AdamW {
            beta1: *beta1,
            beta2: *beta2,
            eps,
            weight_decay: self.weight_decay.unwrap_or(usual.weight_decay),
        };
        Ok(match self.optimizer {
            Optimizer::Adamw => Rule::AdamW(adam),
            Optimizer::Adamw8bit => Rule::AdamW8bit(adam),
            Optimizer::Adafactor => Rule::Adafactor(Adafactor {
                weight_decay: self.weight_decay.unwrap_or(0.0),
                ..Adafactor::default()
            }),
        })
    }
}
