//! What a training is told.

use std::path::PathBuf;

use clap::ValueEnum;
use prepose::device::DeviceSpec;
use prepose::engine::Blueprint;
use prepose::request::{Dtype, ModelRequest};
use prepose::train::dataset::Options;
use prepose::train::dataset::bucket::{Buckets, Sizes};
use prepose::train::dataset::order::Flips;
use prepose::train::dataset::sides::SideWords;
use prepose::train::optimizer::average::Average;
use prepose::train::optimizer::draws::{Draws, Timesteps};
use prepose::train::optimizer::objective::Weighting;
use prepose::train::optimizer::rate::{Decay, Rate};
use prepose::train::optimizer::rule::Rule;
use prepose::train::optimizer::{Adafactor, AdamW};
use prepose::train::recipe::{Kind, Layers, Recipe};
use prepose::train::run::{Job, Samples};
use prepose_weights::TOYBOX;

/// `prepose train lora`
#[derive(Debug, clap::Args)]
pub struct LoraArgs {
    /// The rank of the changes of linear layers and 1x1 convolutions.
    #[arg(long, value_name = "N", default_value_t = 16, help_heading = "LoRA")]
    pub rank: usize,
    /// Scales the change, divided by the rank [default: the rank].
    #[arg(long, value_name = "NUMBER", help_heading = "LoRA")]
    pub alpha: Option<f64>,
    /// Which layers are changed.
    #[arg(long, value_enum, default_value_t, help_heading = "LoRA")]
    pub layers: Layers,
    /// The rank of larger convolutions; with it --layers is all [default: the rank].
    #[arg(long, value_name = "N", help_heading = "LoRA")]
    pub conv_rank: Option<usize>,
    /// As --alpha, of larger convolutions [default: their rank].
    #[arg(long, value_name = "NUMBER", help_heading = "LoRA")]
    pub conv_alpha: Option<f64>,
    #[command(flatten)]
    pub common: Common,
}

/// `prepose train unet`
#[derive(Debug, clap::Args)]
pub struct UnetArgs {
    /// Only parameters with these parts of names between dots, such as attn2 or mid_block; may be repeated [default: all].
    #[arg(long, value_name = "NAME")]
    pub only: Vec<String>,
    #[command(flatten)]
    pub common: Common,
}

/// `prepose train gligen`
#[derive(Debug, clap::Args)]
pub struct GligenArgs {
    /// Layers to begin with: a file for this checkpoint [default: the checkpoint's own, or new ones].
    #[arg(long, value_name = "FILE", help_heading = "GLIGEN")]
    pub gligen: Option<PathBuf>,
    /// The share of batches that are told of no objects.
    #[arg(
        long,
        value_name = "SHARE",
        default_value_t = 0.1,
        help_heading = "GLIGEN"
    )]
    pub grounding_dropout: f64,
    #[command(flatten)]
    pub common: Common,
}

/// What is usual for a kind of training.
#[derive(Clone, Copy, Debug)]
pub struct Usual {
    /// The learning rate.
    pub rate: f64,
    /// AdamW's.
    pub weight_decay: f64,
    /// The longest gradient.
    pub clip: f64,
    /// The share of captions that are left out.
    pub dropout: f64,
}

impl Usual {
    /// As diffusers' scripts, with this learning rate.
    pub fn with_rate(rate: f64) -> Self {
        Self {
            rate,
            weight_decay: 0.01,
            clip: 1.0,
            dropout: 0.0,
        }
    }

    /// As GLIGEN's authors.
    pub fn gligen() -> Self {
        Self {
            rate: 5e-5,
            weight_decay: 0.0,
            clip: 0.0,
            dropout: 0.5,
        }
    }
}

/// Which optimiser.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Optimizer {
    /// AdamW, as PyTorch has it
    Adamw,
    /// AdamW with 8-bit moments, as bitsandbytes has it
    #[value(name = "adamw8bit")]
    Adamw8bit,
    /// Adafactor, as transformers has it with a fixed rate
    Adafactor,
}

/// What comes after the warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Schedule {
    /// The rate until the end
    Constant,
    /// Straight down to 0
    Linear,
    /// Half a cosine down to 0
    Cosine,
}

/// Flipped samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FlipArg {
    /// None
    None,
    /// Mirror images of pictures whose captions name no side
    WithoutSides,
    /// Mirror images of all; left is right in their captions, and right is left
    Swap,
    /// Mirror images of all, with the captions as they are
    All,
    /// The same pictures with their two objects named in the other order
    Exchange,
}

/// Which noise levels are trained how often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum TimestepArg {
    /// All as often
    #[default]
    Uniform,
    /// Mostly the middle: the sigmoid of a normal number, as in table 12 of Order Is Not Layout
    Sigmoid,
}

/// What all trainings have in common.
#[derive(Debug, clap::Args)]
pub struct Common {
    /// A folder of pictures with captions, a run, or a .jsonl, .csv, .parquet or .tar file.
    #[arg(value_name = "DATA")]
    data: PathBuf,
    /// Where everything goes; a training that this folder has is gone on with.
    #[arg(short, long, value_name = "FOLDER")]
    out: PathBuf,
    /// What is trained: as for generate [default: toybox].
    #[arg(short, long, value_name = "PATH|NAME")]
    checkpoint: Option<String>,
    /// auto, cuda[:i], wgpu[:i], vulkan[:i], metal or flex (the CPU).
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub device: DeviceSpec,
    /// JSON lines on standard output: one for each step and each file.
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

/// What is taken of the data.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Pictures")]
struct Pictures {
    /// The size that pictures are brought to [default: the checkpoint's].
    #[arg(long, value_name = "PIXELS|WxH", value_parser = size)]
    resolution: Option<[usize; 2]>,
    /// Sizes of other shapes with about that area, as kohya chooses them.
    #[arg(long)]
    buckets: bool,
    /// The shortest side of a bucket [default: half the resolution].
    #[arg(
        long,
        value_name = "PIXELS",
        requires = "buckets",
        hide_short_help = true
    )]
    bucket_min: Option<usize>,
    /// The longest side of a bucket [default: twice the resolution].
    #[arg(
        long,
        value_name = "PIXELS",
        requires = "buckets",
        hide_short_help = true
    )]
    bucket_max: Option<usize>,
    /// Sides of buckets are multiples of it [default: 64, or an eighth of a smaller resolution].
    #[arg(
        long,
        value_name = "PIXELS",
        requires = "buckets",
        hide_short_help = true
    )]
    bucket_step: Option<usize>,
    /// Small pictures are not enlarged: they get a bucket of their own size.
    #[arg(long, requires = "buckets", hide_short_help = true)]
    no_upscale: bool,
    /// Mirror images, or captions in the other order, as samples of their own.
    #[arg(long, value_name = "WHICH", value_enum, default_value = "none")]
    flips: FlipArg,
    /// What the captions' column or key is called.
    #[arg(long, value_name = "NAME")]
    caption_column: Option<String>,
    /// The caption of pictures that have none.
    #[arg(long, value_name = "TEXT")]
    caption: Option<String>,
    /// Of a run: the verdicts whose pictures are taken, or all.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "PASS",
        hide_short_help = true
    )]
    verdicts: Vec<String>,
    /// Of a run: the methods whose pictures are taken [default: all].
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        hide_short_help = true
    )]
    methods: Vec<String>,
    /// The largest share of pictures that may be of no use.
    #[arg(
        long,
        value_name = "SHARE",
        default_value_t = 0.1,
        hide_short_help = true
    )]
    most_skipped: f64,
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
    /// The learning rate [default: 1e-4 for a LoRA, 1e-5 for the UNet, 5e-5 for GLIGEN's layers].
    #[arg(long, value_name = "NUMBER")]
    rate: Option<f64>,
    /// Steps until the rate is reached; the first of them has 0.
    #[arg(long, value_name = "N", default_value_t = 0)]
    warmup: u64,
    /// What comes after the warm-up.
    #[arg(long, value_enum, default_value = "constant")]
    schedule: Schedule,
    /// Weight decay [default: 0.01; 0 with Adafactor and for GLIGEN's layers].
    #[arg(long, value_name = "NUMBER", hide_short_help = true)]
    weight_decay: Option<f64>,
    /// AdamW's betas.
    #[arg(
        long,
        value_name = "A,B",
        value_delimiter = ',',
        num_args = 1,
        default_value = "0.9,0.999",
        hide_short_help = true
    )]
    betas: Vec<f64>,
    /// AdamW's epsilon.
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = 1e-8,
        hide_short_help = true
    )]
    eps: f64,
    /// The longest gradient; 0: any [default: 1; 0 for GLIGEN's layers].
    #[arg(long, value_name = "NUMBER")]
    clip: Option<f64>,
    /// Keep a running average of the weights, and write that: how much of it stays at a step, such as 0.999.
    #[arg(long, value_name = "SHARE")]
    ema: Option<f64>,
    /// Of everything that is drawn: order, noise, first values.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

/// What is asked of the network.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Noise")]
struct Noise {
    /// min-SNR weights with this gamma; 5 is usual [default: all noise levels count the same].
    #[arg(long, value_name = "GAMMA")]
    min_snr: Option<f64>,
    /// Which noise levels are trained how often.
    #[arg(long, value_enum, default_value_t, conflicts_with = "layout_share")]
    timesteps: TimestepArg,
    /// Draw this share of the timesteps with a bias to high noise, where layouts are decided, and the others around the middle.
    #[arg(long, value_name = "SHARE")]
    layout_share: Option<f64>,
    /// Noise that is the same all over a channel, such as 0.05.
    #[arg(long, value_name = "NUMBER", default_value_t = 0.0)]
    offset_noise: f64,
    /// The share of captions that are left out, for classifier-free guidance [default: 0; 0.5 for GLIGEN's layers].
    #[arg(long, value_name = "SHARE")]
    dropout: Option<f64>,
}

/// What is kept on the way.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "On the way")]
struct Kept {
    /// Steps between states that are kept: what a kill can cost.
    #[arg(long, value_name = "N", default_value_t = 100)]
    keep_every: u64,
    /// A picture of this prompt before the first step and after the last, and with --sample-every between; may be repeated.
    #[arg(long, value_name = "PROMPT")]
    sample: Vec<String>,
    /// Steps between sample pictures.
    #[arg(long, value_name = "N", default_value_t = 0)]
    sample_every: u64,
    /// Denoising steps of sample pictures.
    #[arg(long, value_name = "N", default_value_t = 20, hide_short_help = true)]
    sample_steps: usize,
    /// The seed of sample pictures.
    #[arg(long, value_name = "N", default_value_t = 0, hide_short_help = true)]
    sample_seed: u64,
    /// Where latents and states of captions are kept, for several trainings [default: within --out].
    #[arg(long, value_name = "FOLDER", hide_short_help = true)]
    cache: Option<PathBuf>,
}

/// Reads `512` or `640x448`.
fn size(text: &str) -> Result<[usize; 2], String> {
    let side = |text: &str| match text.trim().parse() {
        Ok(side @ 8..=16_384) => Ok(side),
        _ => Err(format!(
            "{text:?} is no side of a picture: from 8 to 16384 pixels"
        )),
    };
    match text.split_once('x') {
        Some((width, height)) => Ok([side(width)?, side(height)?]),
        None => side(text).map(|side| [side, side]),
    }
}

impl Common {
    /// The training that is asked for, with what is usual for it where nothing is said.
    ///
    /// # Errors
    /// A checkpoint that cannot be opened.
    pub fn job(&self, kind: Kind, usual: Usual) -> anyhow::Result<Job> {
        let checkpoint = self.checkpoint.as_deref().unwrap_or(TOYBOX);
        let model = ModelRequest::new(checkpoint, Dtype::F32);
        let objects = kind.is_grounded();
        let resolution = match self.pictures.resolution {
            Some(resolution) => resolution,
            None => {
                let defaults = Blueprint::open(&model)?.defaults();
                [defaults.width, defaults.height]
            }
        };
        let all = |verdicts: &[String]| {
            verdicts
                .iter()
                .any(|verdict| verdict.eq_ignore_ascii_case("all"))
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
                flips: match self.pictures.flips {
                    FlipArg::None => Flips::None,
                    FlipArg::WithoutSides => Flips::Both(SideWords::LeaveOut),
                    FlipArg::Swap => Flips::Both(SideWords::Swap),
                    FlipArg::All => Flips::Both(SideWords::Keep),
                    FlipArg::Exchange => Flips::Exchange,
                },
                sizes: Sizes {
                    resolution,
                    buckets: self.pictures.buckets(resolution)?,
                },
                seed: Draws(self.steps.seed),
            },
            model,
            data: self.data.clone(),
            options: Options {
                caption_column: self.pictures.caption_column.clone(),
                caption: self.pictures.caption.clone(),
                verdicts: match all(&self.pictures.verdicts) {
                    true => Vec::new(),
                    false => self.pictures.verdicts.clone(),
                },
                methods: self.pictures.methods.clone(),
                objects,
                most_skipped: self.pictures.most_skipped,
            },
            out: self.out.clone(),
            cache: self.kept.cache.clone(),
            keep_every: self.kept.keep_every,
            samples: Samples {
                prompts: self.kept.sample.clone(),
                every: self.kept.sample_every,
                steps: self.kept.sample_steps,
                seed: self.kept.sample_seed,
            },
        })
    }
}

impl Pictures {
    fn buckets(&self, [width, height]: [usize; 2]) -> anyhow::Result<Option<Buckets>> {
        if !self.buckets {
            return Ok(None);
        }
        let shorter = width.min(height);
        let step = self.bucket_step.unwrap_or((shorter / 8).clamp(8, 64));
        let buckets = Buckets {
            shortest: self.bucket_min.unwrap_or(shorter / 2),
            longest: self.bucket_max.unwrap_or(2 * width.max(height)),
            step,
            no_upscale: self.no_upscale,
        };
        anyhow::ensure!(
            step > 0 && buckets.shortest >= step && buckets.shortest <= shorter,
            "the shortest side of buckets is {}, and must be from their step, {step}, to the resolution, {shorter}",
            buckets.shortest
        );
        anyhow::ensure!(
            buckets.longest >= shorter,
            "the longest side of buckets is {}, and must be at least the resolution, {shorter}",
            buckets.longest
        );
        Ok(Some(buckets))
    }
}

impl Steps {
    fn rule(&self, usual: Usual) -> anyhow::Result<Rule> {
        let (Some(beta1), Some(beta2)) = (self.betas.first(), self.betas.get(1)) else {
            anyhow::bail!("--betas takes two numbers, as 0.9,0.999");
        };
        for beta in [beta1, beta2] {
            anyhow::ensure!(
                (0.0..1.0).contains(beta),
                "a beta is {beta}, and must be from 0 to below 1"
            );
        }
        anyhow::ensure!(self.eps > 0.0, "--eps is {}, and must be above 0", self.eps);
        let adam = AdamW {
            beta1: *beta1,
            beta2: *beta2,
            eps: self.eps,
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
