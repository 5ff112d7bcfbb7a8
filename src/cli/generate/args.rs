//! The arguments of `prepose generate`.

use std::path::PathBuf;

use anyhow::bail;
use prepose::make::BatchSize;
use prepose::prompt::scene::Extractor;

use super::options::{ChangeArgs, GuideArgs, MapArgs, SearchArgs};
use crate::cli::memory::RunningArgs;
use crate::cli::model::ModelArgs;
use crate::cli::sampling::SamplingArgs;
use crate::cli::values::{Seeds, parse_seeds};

/// Make pictures from a prompt.
///
/// One picture for each prompt and seed. Each PNG carries the whole request; `--again FILE.png`
/// makes the same picture again.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  prepose generate \"a dog to the left of a cat\"
  prepose generate \"a dog to the left of a cat\" --guide pos
  prepose generate \"a dog to the left of a cat\" --best-of 16 --prune
  prepose generate \"a (red:1.3) car\" --seeds 0-7 --batch 4 -o cars/
  prepose generate \"a castle\" --checkpoint sd15.safetensors --lora style.safetensors:0.8
  prepose generate --again cars/a-red-car-3.png -o again.png")]
pub struct Args {
    /// What the pictures should show; each argument is a prompt of its own.
    #[arg(required_unless_present = "again", conflicts_with = "again")]
    pub(super) prompts: Vec<String>,
    /// Make the picture in this PNG again, from the request inside it.
    #[arg(long, value_name = "FILE.png", conflicts_with_all = [
        "negative_prompt", "checkpoint", "config", "vae", "lora", "allow_mismatch", "dtype", "seed", "seeds", "steps", "guidance_scale",
        "size", "scheduler", "clip_skip", "noise", "init_image", "strength", "vae_tiling", "guide", "relation", "extract_with",
        "boxes", "switch_to", "delay_order", "best_of"])]
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

    /// The seed of the first picture; random unless given.
    #[arg(long, conflicts_with = "seeds", help_heading = "Sampling")]
    pub(super) seed: Option<u64>,
    /// Several seeds: 0-7 or 1,5,9 or both.
    #[arg(long, value_name = "LIST", value_parser = parse_seeds, help_heading = "Sampling")]
    pub(super) seeds: Option<Seeds>,
    #[command(flatten)]
    pub(super) sampling: SamplingArgs,
    /// Start from this picture instead of noise.
    #[arg(long, value_name = "FILE", help_heading = "Sampling")]
    pub(super) init_image: Option<PathBuf>,
    /// How far to go from the start picture, in (0, 1].
    #[arg(
        long,
        default_value_t = 0.8,
        requires = "init_image",
        help_heading = "Sampling"
    )]
    pub(super) strength: f64,
    #[command(flatten)]
    pub(super) guide: GuideArgs,
    #[command(flatten)]
    pub(super) change: ChangeArgs,
    #[command(flatten)]
    pub(super) search: SearchArgs,
    #[command(flatten)]
    pub(super) maps: MapArgs,

    /// Pictures at a time, or auto: as many as fit into the GPU's memory, one on the CPU. The result does not depend
    /// on it.
    #[arg(short, long, value_name = "N|auto", default_value_t)]
    pub(super) batch: BatchSize,
    /// Write a preview beside each picture every so many steps.
    #[arg(long, value_name = "STEPS", conflicts_with = "best_of")]
    pub(super) preview_every: Option<usize>,
    /// Where a line about each picture is appended [default: manifest.jsonl beside the pictures].
    #[arg(long, value_name = "FILE")]
    pub(super) manifest: Option<PathBuf>,
    /// One JSON object a picture on standard output.
    #[arg(long)]
    pub(super) json: bool,
}

impl Args {
    /// Whom to ask for the prompts' relations.
    ///
    /// # Errors
    /// Nothing that was asked for reads them.
    pub(super) fn extractor(&self) -> anyhow::Result<Option<Extractor>> {
        let extractor = self.guide.extract.extractor()?;
        let maps = self.maps.attention_maps.is_some() && self.maps.attention_words.is_empty();
        let reads_scene = self.guide.config().is_some() || self.search.config().is_some() || maps;
        if extractor.is_some() && !reads_scene {
            bail!(
                "--extract-with is for what reads objects or relations: --guide, --best-of, \
                 --attention-maps without --attention-words"
            );
        }
        Ok(extractor)
    }
}
