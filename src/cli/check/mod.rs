//! `prepose check`

mod inputs;
mod pictures;
mod records;
mod results;

use std::path::PathBuf;

use prepose::device::DeviceSpec;
use prepose::prompt::scene::GivenRelation;
pub(super) use records::read_config;

/// Say whether pictures show what was asked for: PASS, FAIL or UNDECIDABLE, why, and how sure (docs/checker.md).
///
/// Into --out go per_sample.jsonl, metrics.json, checker_config.yaml, the tables of the paper for this run, and the
/// pictures with what was seen in them.
///
/// Exit codes: 0 everything was looked at, 1 with --strict if not everything passed, 2 an error.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  prepose check out/*.png
  prepose check photo.jpg --prompt \"a dog to the left of a cat\" --checker frcnn-v2
  prepose check --manifest out/manifest.jsonl --out checked
  prepose check --records per_sample.jsonl --config checker_config.yaml --out again")]
pub struct Args {
    /// PNG, JPEG or WebP files.
    #[arg(required_unless_present_any = ["manifest", "records"], conflicts_with_all = ["manifest", "records"])]
    pictures: Vec<PathBuf>,
    /// What they should show [default: the prompt that a picture by prepose carries].
    #[arg(short, long, requires = "pictures")]
    prompt: Option<String>,
    /// What should hold instead of the prompt's own relations, as "dog | left of | cat"; may be repeated.
    #[arg(long, value_name = "A | RELATION | B", requires = "pictures")]
    relation: Vec<GivenRelation>,
    /// Pictures with their prompts: a manifest.jsonl by prepose or of a SpatialBench-UC run.
    #[arg(long, value_name = "FILE", conflicts_with = "records")]
    manifest: Option<PathBuf>,
    /// Decide the detections of these records again, without pictures: what the detectors found is in them, and so is how
    /// stable each verdict was.
    #[arg(long, value_name = "FILE", requires = "out",
          conflicts_with_all = ["checker", "secondary", "device", "batch", "strict"])]
    records: Option<PathBuf>,
    /// The thresholds, as SpatialBench-UC's checker_config.yaml [default: the one beside the records, or the paper's
    /// calibrated ones].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The folder for the results.
    #[arg(short, long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// The detector: toybox, frcnn, frcnn-v2, mask-rcnn, mask-rcnn-v2, or the path of one [default: toybox, which refuses
    /// pictures that another checkpoint made].
    #[arg(long, value_name = "NAME|PATH")]
    checker: Option<String>,
    /// Another detector, whose agreement moves the confidence.
    #[arg(long, value_name = "NAME|PATH")]
    secondary: Option<String>,
    /// auto, cuda[:i], vulkan[:i], metal, wgpu[:i] or flex (the CPU).
    #[arg(long, default_value = "auto")]
    device: DeviceSpec,
    /// Pictures at a time; the result does not depend on it.
    #[arg(short, long, default_value_t = 8)]
    batch: usize,
    /// Decide as the released evaluator does also where it is plainly wrong [default: yes with --records, else no].
    #[arg(
        long,
        value_name = "YES|NO",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "yes",
        value_parser = clap::builder::BoolishValueParser::new()
    )]
    published: Option<bool>,
    /// Exit with 1 unless every relation of every picture passed.
    #[arg(long)]
    strict: bool,
    /// JSON on standard output: a record a line, or with --records one object.
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args, quiet: bool) -> anyhow::Result<u8> {
    match (&args.records, &args.out) {
        (Some(file), Some(out)) => records::run(args, file, out),
        _ => pictures::run(args, quiet),
    }
}
