//! What `prepose ots cure` is told.

use std::path::PathBuf;

use anyhow::{Context, bail, ensure};
use clap::ValueEnum;
use prepose::engine::Blueprint;
use prepose::request::Dtype;
use prepose::train::dataset::bucket::Sizes;
use prepose::train::dataset::order::Flips;
use prepose::train::dataset::sides::SideWords;
use prepose::train::optimizer::AdamW;
use prepose::train::optimizer::draws::{Draws, Timesteps};
use prepose::train::optimizer::objective::Weighting;
use prepose::train::optimizer::rate::{Decay, Rate};
use prepose::train::optimizer::rule::Rule;
use prepose::train::recipe::{Kind, Layers, Recipe};
use prepose::train::run::check_trainable;
use prepose_weights::TOYBOX;

use crate::cli::run::Settings;
use crate::cli::values::{Seeds, parse_seeds};

/// Fine-tune a LoRA against the bias of order, and measure it before and after, beside a control (table 6).
///
/// Pictures of two things are made and checked; those in which the two stand clearly side by side are trained on, each
/// also flipped, so that no order of mention goes with a side. The control is trained on the same pictures without
/// flips. Everything is kept in one folder, and the command can be killed at any time; the same command resumes where
/// it stopped (docs/cure.md).
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  prepose ots cure --with-sides --out runs/cure                       # the toybox
  prepose ots cure --by mirror,exchange --recipe --out runs/cure      # what it would do
  prepose ots cure --with-sides --known-objects --checkpoint sd15.safetensors --checker frcnn-v2 --device cuda --out runs/sd15")]
pub struct Args {
    /// How flipped samples are made; each way trains a LoRA of its own.
    #[arg(
        long,
        value_enum,
        value_name = "HOW",
        value_delimiter = ',',
        default_value = "exchange",
        help_heading = "Cure"
    )]
    pub by: Vec<By>,
    /// Also train each picture with captions that say how its two objects stand, so that "left of" and "right of" are
    /// not forgotten.
    #[arg(long, help_heading = "Cure")]
    pub with_sides: bool,
    /// Show the settings of the training, and do nothing else.
    #[arg(long, help_heading = "Cure")]
    pub recipe: bool,
    /// A set of neutral pairs in both orders.
    #[arg(
        long,
        value_name = "SUITE",
        default_value = "ots-objects",
        help_heading = "Cure"
    )]
    pub suite: String,
    /// Train on the pictures of this run of neutral pairs instead of making some.
    #[arg(
        long,
        value_name = "RUN",
        conflicts_with_all = ["most_pairs", "pair_seeds"],
        help_heading = "Cure"
    )]
    pub pairs: Option<PathBuf>,
    /// Make training pictures of at most N pairs of objects, in both orders; these pairs are never measured.
    #[arg(long, value_name = "N", default_value_t = 128, help_heading = "Cure")]
    pub most_pairs: usize,
    /// Make training pictures from each of these seeds: 0-7 or 1,5,9.
    #[arg(
        long,
        value_name = "LIST",
        value_parser = parse_seeds,
        default_value = "1000-1007",
        help_heading = "Cure"
    )]
    pub pair_seeds: Seeds,
    /// Measure at most N neutral prompts, and as many that say a side.
    #[arg(long, value_name = "N", default_value_t = 264, help_heading = "Cure")]
    pub most_prompts: usize,
    /// The network whose features measure how far pictures are from those that were trained on (docs/quality.md).
    #[arg(
        long,
        value_name = "PATH",
        default_value = "toybox",
        help_heading = "Cure",
        hide_short_help = true
    )]
    pub features: String,
    /// Steps of the optimiser [default: 10000 as in table 12; toybox: 5000].
    #[arg(long, value_name = "N", help_heading = "Cure")]
    pub train_steps: Option<u64>,
    /// Samples in a step [default: 1 as in table 12; toybox: 8].
    #[arg(long, value_name = "N", help_heading = "Cure", hide_short_help = true)]
    pub train_batch: Option<usize>,
    /// The learning rate [default: 1e-4 as in table 12; toybox: 1e-3, with a cosine].
    #[arg(
        long,
        value_name = "NUMBER",
        help_heading = "Cure",
        hide_short_help = true
    )]
    pub train_rate: Option<f64>,
    /// The rank of the changes to linear layers [default: 32 as in table 12; toybox: 16].
    #[arg(long, value_name = "N", help_heading = "Cure", hide_short_help = true)]
    pub rank: Option<usize>,
    /// Which layers are changed [default: all, as in table 12].
    #[arg(
        long,
        value_enum,
        value_name = "WHICH",
        help_heading = "Cure",
        hide_short_help = true
    )]
    pub layers: Option<Layers>,
    /// Draw this share of the timesteps with a bias towards high noise, where layouts are decided, and the others
    /// around the middle [default: all around the middle as in table 12; toybox: 0.7].
    #[arg(
        long,
        value_name = "SHARE",
        help_heading = "Cure",
        hide_short_help = true
    )]
    pub layout_share: Option<f64>,
    /// The seed of everything that a training draws at random.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        help_heading = "Cure",
        hide_short_help = true
    )]
    pub train_seed: u64,
    #[command(flatten)]
    pub settings: Settings,
}

/// How flipped samples are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum By {
    /// The mirror image with the same caption, as in the paper; left and right are swapped in captions that name them
    Mirror,
    /// The same picture, its two objects named in the other order
    Exchange,
}

impl By {
    /// What the arm is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mirror => "mirror",
            Self::Exchange => "exchange",
        }
    }

    pub fn flips(self) -> Flips {
        match self {
            Self::Mirror => Flips::Both(SideWords::Swap),
            Self::Exchange => Flips::Exchange,
        }
    }
}

impl Args {
    /// Refuses what makes no sense here.
    pub fn check(&self) -> anyhow::Result<()> {
        let settings = &self.settings;
        ensure!(
            settings.checker() != "none",
            "a cure is about what a checker sees; --checker none sees nothing"
        );
        if settings.every != 1 || settings.limit.is_some() {
            bail!(
                "what is measured and trained on must not overlap: give --most-prompts and --most-pairs instead of --every and --limit"
            );
        }
        ensure!(
            settings.shard.is_none() && settings.shards.is_none(),
            "a cure is one piece; it has no shards"
        );
        ensure!(
            !settings.source.is_given(),
            "a cure trains the checkpoint that makes the pictures; they cannot come from elsewhere (--pairs takes those of a run)"
        );
        ensure!(
            settings.model.lora.is_empty(),
            "--lora changes the checkpoint that is trained; train it as it is, and give both files to `generate`"
        );
        ensure!(
            !settings.out.contains("://"),
            "{} is not a folder on this machine, where trainings keep their state",
            settings.out
        );
        ensure!(
            self.most_prompts >= 2,
            "--most-prompts is {}, but must be at least 2: each pair comes in both orders",
            self.most_prompts
        );
        ensure!(
            self.most_pairs >= 1 && !self.pair_seeds.0.is_empty(),
            "--most-pairs 0 leaves nothing to train on"
        );
        let mut by = self.by.iter().enumerate();
        ensure!(
            by.all(|(at, one)| !self.by[..at].contains(one)),
            "--by names the same one twice"
        );
        Ok(())
    }

    /// Table 12, scaled down for the toybox; without flips.
    ///
    /// # Errors
    /// A checkpoint that cannot be opened, a setting out of its range.
    pub fn recipe(&self) -> anyhow::Result<Recipe> {
        let model = self.settings.model.request();
        let blueprint = Blueprint::open(&model).context("cannot open the checkpoint")?;
        let (width, height) = self.settings.sampling.size(&blueprint.defaults());
        let is_toybox = model.checkpoint == TOYBOX;
        let rank = self.rank.unwrap_or(if is_toybox { 16 } else { 32 });
        let conv_rank = rank.div_ceil(2);
        let recipe = Recipe {
            dtype: Dtype::F32,
            kind: Kind::Lora {
                rank,
                alpha: rank as f64,
                conv_rank,
                conv_alpha: conv_rank as f64,
                layers: self.layers.unwrap_or(Layers::All),
            },
            optimizer: Rule::AdamW8bit(AdamW {
                beta1: 0.9,
                beta2: 0.999,
                eps: 1e-8,
                weight_decay: 1e-4,
            }),
            rate: Rate {
                peak: self
                    .train_rate
                    .unwrap_or(if is_toybox { 1e-3 } else { 1e-4 }),
                warmup: 0,
                // A few steps at a high rate have to come to rest.
                decay: match is_toybox {
                    true => Decay::Cosine,
                    false => Decay::Constant,
                },
            },
            steps: self
                .train_steps
                .unwrap_or(if is_toybox { 5000 } else { 10_000 }),
            batch: self.train_batch.unwrap_or(if is_toybox { 8 } else { 1 }),
            accumulate: 1,
            clip: 1.0,
            average: None,
            weighting: Weighting::Even,
            timesteps: match (self.layout_share, is_toybox) {
                (Some(share), _) => Timesteps::Layout(share),
                (None, true) => Timesteps::Layout(0.7),
                (None, false) => Timesteps::Sigmoid,
            },
            offset: 0.0,
            dropout: 0.05,
            flips: Flips::None,
            sizes: Sizes {
                resolution: [width, height],
                buckets: None,
            },
            seed: Draws(self.train_seed),
        };
        check_trainable(&recipe, &blueprint)?;
        Ok(recipe)
    }
}
