//! `prepose check`

mod check_run;
mod inputs;
mod judged;
mod manifest;
mod opened;
mod pictures;
mod records;
mod results;
mod told;

use std::path::{Path, PathBuf};

pub(super) use check_run::read_picture;
pub(super) use inputs::pictures_in;
pub use inputs::{depth_map, refusal_of_the_toybox};
pub use opened::open_checker;
use prepose::prompt::scene::GivenRelation;
pub use records::read_config;

use prepose::eyes::MaskChoice;

use super::detecting::DetectingArgs;
use super::judge::prompted::PromptedArgs;

/// Check whether pictures show what was asked for: PASS, FAIL or UNDECIDABLE, why, and how sure (docs/checker.md).
///
/// With --out, the folder gets per_sample.jsonl, manifest.jsonl, metrics.json, checker_config.yaml, the paper's tables for this
/// run, and the pictures with what was seen drawn on them; `prepose report` shows such a folder.
///
/// Where the checker's rule has nothing to say, a published rule does: for a prompt with two things and no relation, which side
/// the first-mentioned one is on (OTS-Bench); how well "near" (T2I-CompBench), "between" (HRS-Bench) and, with --depth, "in
/// front of" and "behind" (T2I-CompBench) hold. These answers go to rules.jsonl.
///
/// A picture that no rule decides, or whose objects the detector does not know, is skipped. This is reported, but it is not an
/// error.
///
/// Exit codes: 0 everything was looked at, 1 with --strict if not everything passed, 2 an error.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  prepose check out/                        # all pictures in a folder, each for the prompt that it carries
  prepose check photo.jpg --prompt \"a dog to the left of a cat\" --checker frcnn-v2
  prepose check photo.jpg --relation \"dog | left of | cat\" --checker frcnn-v2
  prepose check --manifest out/manifest.jsonl --out checked
  prepose check photo.jpg --prompt \"a dog to the left of a cat\" --judge http://localhost:8000/v1 --judge-model qwen-vl
  prepose check --records per_sample.jsonl --config checker_config.yaml --out again")]
pub struct Args {
    /// PNG, JPEG or WebP files, or folders of them.
    #[arg(required_unless_present_any = ["manifest", "records"], conflicts_with_all = ["manifest", "records"])]
    pictures: Vec<PathBuf>,
    /// What they should show [default: the prompt that pictures made by prepose carry].
    #[arg(short, long, value_name = "TEXT", requires = "pictures")]
    prompt: Option<String>,
    /// What should hold instead of what the prompt states, as "dog | left of | cat"; may be repeated.
    #[arg(long, value_name = "A | RELATION | B", requires = "pictures")]
    relation: Vec<GivenRelation>,
    /// Pictures with their prompts, as JSON lines; - is standard input.
    ///
    /// A manifest.jsonl of prepose or of a SpatialBench-UC run, or just {"image_path": "a.png", "prompt": "a dog to the left of
    /// a cat"}; the keys may also be "file_name" or "path", and "text". If several lines are about one picture, the last one
    /// counts.
    #[arg(long, value_name = "FILE", conflicts_with = "records")]
    manifest: Option<PathBuf>,
    /// A folder of depth maps with the same names as the pictures, grey PNGs or .npy, where larger is nearer; or a Depth
    /// Anything model (docs/eyes.md).
    #[arg(long, value_name = "FOLDER|PATH", conflicts_with = "records")]
    depth: Option<PathBuf>,
    /// A SAM model, for masks of what the detector finds [default: the detector's own].
    #[arg(
        long,
        value_name = "PATH",
        conflicts_with = "records",
        help_heading = "Checker",
        hide_short_help = true
    )]
    masks: Option<PathBuf>,
    /// Which of the possible masks of a box to use [default: best].
    #[arg(
        long,
        value_name = "CHOICE",
        requires = "masks",
        hide_short_help = true
    )]
    mask_choice: Option<MaskChoice>,
    /// Decide again from the detections in these records, without pictures; - is standard input.
    ///
    /// The records hold what the detectors found, and how stable each verdict was.
    #[arg(long, value_name = "FILE", requires = "out",
          conflicts_with_all = ["checker", "secondary", "device", "batch", "strict"])]
    records: Option<PathBuf>,
    /// The detector: toybox, frcnn-v2, grounding-dino-base and others (docs/detectors.md), or a path [default: toybox].
    ///
    /// Unless it is named here, the toybox's detector refuses pictures that another checkpoint made.
    #[arg(long, value_name = "NAME|PATH", help_heading = "Checker")]
    checker: Option<String>,
    /// A second detector, whose agreement changes the confidence [default: none].
    #[arg(
        long,
        value_name = "NAME|PATH",
        help_heading = "Checker",
        hide_short_help = true
    )]
    secondary: Option<String>,
    /// The thresholds, in the format of SpatialBench-UC's checker_config.yaml [default: the file beside the records, or the
    /// paper's calibrated thresholds].
    #[arg(long, value_name = "FILE", help_heading = "Checker")]
    config: Option<PathBuf>,
    /// Decide as the released evaluator does, even where it is plainly wrong [default: yes with --records, else no].
    #[arg(
        long,
        value_name = "yes|no",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "yes",
        value_parser = clap::builder::BoolishValueParser::new(),
        hide_possible_values = true,
        help_heading = "Checker",
        hide_short_help = true
    )]
    published: Option<bool>,
    #[command(flatten)]
    detecting: DetectingArgs,
    #[command(flatten)]
    judge: PromptedArgs,
    /// The folder for the results [default: nothing is written].
    #[arg(short, long, value_name = "FOLDER", help_heading = "Output")]
    out: Option<PathBuf>,
    /// Exit with 1 unless every relation of every picture passed, or scored at least one half.
    #[arg(long, help_heading = "Output")]
    strict: bool,
    /// Print JSON on standard output: one record per line with path, prompt, verdict, reason and confidence, or one object with
    /// --records.
    #[arg(long, help_heading = "Output")]
    json: bool,
}

impl Args {
    /// The folder of depth maps, where `--depth` names one and not a network.
    pub fn depth_maps(&self) -> Option<&Path> {
        opened::depths(self.depth.as_deref()).0
    }
}

pub fn run(args: &Args, quiet: bool) -> anyhow::Result<u8> {
    match (&args.records, &args.out) {
        (Some(file), Some(out)) => records::run(args, file, out),
        _ => pictures::run(args, quiet),
    }
}
