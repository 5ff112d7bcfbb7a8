//! The arguments of `prepose generate`.

use std::path::PathBuf;

use anyhow::{bail, ensure};
use prepose::make::BatchSize;
use prepose::output::png;
use prepose::prompt::scene::Extractor;
use prepose::request::Request;

use super::options::{ChangeArgs, GuideArgs, MapArgs, SearchArgs};
use super::sheet::SheetArgs;
use crate::cli::memory::{RunningArgs, Tiling};
use crate::cli::model::ModelArgs;
use crate::cli::sampling::SamplingArgs;
use crate::cli::values::{Seeds, parse_seeds};

/// Make pictures from a prompt.
///
/// Makes one picture for each prompt and seed. Each PNG carries the whole request: `--again FILE.png` makes the same
/// picture again, with the changes that other options ask for.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  prepose generate \"a dog to the left of a cat\" --guide pos -o out/
  prepose generate \"a dog to the left of a cat\" --best-of 16 --prune
  prepose generate \"a (red:1.3) car\" --seeds 0-7 --grid cars.png
  prepose generate \"a castle\" -c sd15.safetensors --lora style.safetensors:0.8
  prepose generate --again out/castle-3.png --steps 30
-h lists the everyday options, --help all of them.",
    after_long_help = "Examples:
  prepose generate \"a dog to the left of a cat\"
  prepose generate \"a dog to the left of a cat\" --guide pos
  prepose generate \"a dog to the left of a cat\" --best-of 16 --prune
  prepose generate \"a (red:1.3) car\" --seeds 0-7 --batch 4 -o cars/
  prepose generate \"a castle\" --checkpoint sd15.safetensors --lora style.safetensors:0.8
  prepose generate --prompts prompts.txt --seeds 0-3 -o out/ --grid out/all.png
  prepose generate \"a dog to the left of a cat\" --x seed=0-3 --y guide=none,pos,boxdiff --grid methods.png
  prepose generate --again cars/a-red-car-3.png -o again.png           # the same picture
  prepose generate --again cars/a-red-car-3.png --steps 30 --guide pos  # the same with changes",
    group = clap::ArgGroup::new("what").args(["prompts", "prompt_files", "again"]).multiple(true).required(true),
    group = clap::ArgGroup::new("guided").args(["guide", "again", "x", "y"]).multiple(true),
    group = clap::ArgGroup::new("boxed").args(["guide", "ground", "again", "x", "y"]).multiple(true),
)]
pub struct Args {
    /// What the pictures should show; - reads one prompt per line.
    ///
    /// Each argument is a separate prompt; - reads prompts from standard input, one per line.
    pub(super) prompts: Vec<String>,
    /// A file of prompts: .jsonl, .csv, or one per line; - is standard input. May be repeated.
    ///
    /// What a file says of a prompt besides its text (relations, boxes, a neutral prompt, a picture to change) counts
    /// where no other option says it (docs/suites.md).
    #[arg(
        long = "prompts",
        id = "prompt_files",
        value_name = "FILE",
        hide_short_help = true
    )]
    pub(super) prompt_files: Vec<PathBuf>,
    /// Make this picture again, with any changes that are given.
    ///
    /// The request is read from the PNG. Other options say what should be different; without any, the picture is the same.
    #[arg(long, value_name = "FILE.png")]
    pub(super) again: Option<PathBuf>,
    /// A file to write (one picture) or a folder.
    #[arg(
        short,
        long,
        alias = "output",
        default_value = ".",
        value_name = "PATH"
    )]
    pub(super) out: PathBuf,

    #[command(flatten)]
    pub(super) model: ModelArgs,
    #[command(flatten)]
    pub(super) running: RunningArgs,

    /// The seed, or random [default: random, or that of --again].
    #[arg(long, value_name = "N", conflicts_with = "seeds", value_parser = parse_seed, allow_hyphen_values = true,
          help_heading = "Sampling")]
    pub(super) seed: Option<Seed>,
    /// Several seeds, a picture each: 0-7 or 1,5,9.
    #[arg(long, value_name = "LIST", value_parser = parse_seeds, help_heading = "Sampling")]
    pub(super) seeds: Option<Seeds>,
    #[command(flatten)]
    pub(super) sampling: SamplingArgs,
    /// Start from this picture instead of noise.
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "Sampling",
        hide_short_help = true
    )]
    pub(super) init_image: Option<PathBuf>,
    /// How far to depart from the start picture, in (0, 1] [default: 0.8].
    #[arg(
        long,
        value_name = "SHARE",
        help_heading = "Sampling",
        hide_short_help = true
    )]
    pub(super) strength: Option<f64>,
    #[command(flatten)]
    pub(super) guide: GuideArgs,
    #[command(flatten)]
    pub(super) change: ChangeArgs,
    #[command(flatten)]
    pub(super) search: SearchArgs,
    #[command(flatten)]
    pub(super) maps: MapArgs,
    #[command(flatten)]
    pub(super) sheet: SheetArgs,

    /// Pictures at a time, or auto: as many as fit into the GPU's memory, one on the CPU. The result does not depend
    /// on it.
    #[arg(
        short,
        long,
        value_name = "N|auto",
        default_value_t,
        help_heading = "Output",
        hide_short_help = true
    )]
    pub(super) batch: BatchSize,
    /// Write a preview beside each picture once every STEPS steps; it is removed when the picture is finished.
    #[arg(
        long,
        value_name = "STEPS",
        conflicts_with = "best_of",
        help_heading = "Output",
        hide_short_help = true
    )]
    pub(super) preview_every: Option<usize>,
    /// Keep the previews, as NAME.step-010.png.
    #[arg(
        long,
        requires = "preview_every",
        help_heading = "Output",
        hide_short_help = true
    )]
    pub(super) keep_previews: bool,
    /// The file to append a line about each picture to [default: manifest.jsonl beside the pictures].
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "Output",
        hide_short_help = true
    )]
    pub(super) manifest: Option<PathBuf>,
    /// Print one JSON object per picture on standard output.
    #[arg(long, help_heading = "Output")]
    pub(super) json: bool,
}

/// `--seed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seed {
    /// This one.
    Is(u64),
    /// Any.
    Random,
}

fn parse_seed(text: &str) -> Result<Seed, String> {
    match text {
        // As in AUTOMATIC1111's web UI.
        "random" | "-1" => Ok(Seed::Random),
        text => text.parse().map(Seed::Is).map_err(|_| {
            format!(
                "a seed is a number from 0 to {}, or random; --seeds takes lists such as 0-7",
                u64::MAX
            )
        }),
    }
}

impl Args {
    /// Refuses numbers that mean nothing.
    ///
    /// # Errors
    /// One of them is zero.
    pub fn check(&self) -> anyhow::Result<()> {
        for (name, value) in [
            ("--preview-every", self.preview_every),
            ("--attention-every", Some(self.maps.attention_every)),
        ] {
            ensure!(value != Some(0), "{name} is 0, but must be at least 1");
        }
        Ok(())
    }

    /// The request of the picture that is made again, if one is.
    ///
    /// # Errors
    /// It carries none.
    pub fn stored(&self) -> anyhow::Result<Option<Request>> {
        Ok(self.again.as_deref().map(png::read_request).transpose()?)
    }

    /// Pictures at a time.
    pub fn batch(&self) -> BatchSize {
        self.batch
    }

    /// Whether all finished candidates of a search are kept.
    pub fn keeps_all(&self) -> bool {
        self.search.keep_all
    }

    /// Whether a picture that is made again goes through the autoencoder as it did, whatever memory there is.
    pub(super) fn stays_tiled(&self) -> bool {
        let Self {
            again, sampling, ..
        } = self;
        again.is_some() && sampling.vae_tiling.is_none() && sampling.size.is_none()
    }

    /// Whether pictures are decoded in tiles when memory runs out without.
    pub fn tiles_when_short(&self) -> bool {
        let tiling = self.sampling.vae_tiling.unwrap_or(Tiling::Auto);
        !self.stays_tiled() && tiling == Tiling::Auto
    }

    /// Whether something besides a request's own guidance reads objects or relations.
    pub(super) fn reads_scene(&self) -> bool {
        let maps = self.maps.attention_maps.is_some() && self.maps.attention_words.is_empty();
        self.search.config().is_some() || maps
    }

    /// Whom to ask for the prompts' relations.
    ///
    /// # Errors
    /// Nothing that was asked for reads them.
    pub(super) fn extractor(&self) -> anyhow::Result<Option<Extractor>> {
        let extractor = self.guide.extract.extractor()?;
        let reads_scene = self.guide.is_asked() || self.again.is_some() || self.reads_scene();
        if extractor.is_some() && !reads_scene {
            bail!(
                "--extract-with is for what reads objects or relations: --guide, --best-of, \
                 --attention-maps without --attention-words"
            );
        }
        Ok(extractor)
    }
}
