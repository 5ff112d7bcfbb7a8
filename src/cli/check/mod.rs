//! `prepose check`

mod records;
mod results;

use std::path::PathBuf;

/// Say whether pictures show what was asked for: PASS, FAIL or UNDECIDABLE, why, and how sure.
///
/// Into --out go per_sample.jsonl, metrics.json, checker_config.yaml and the tables of the paper for this run.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  prepose check --records per_sample.jsonl --config checker_config.yaml --out again
  prepose check --records per_sample.jsonl --out again --json")]
pub struct Args {
    /// Decide the detections of these records again, without pictures: what the detectors found is in them, and so is how
    /// stable each verdict was.
    #[arg(long, value_name = "FILE", required = true)]
    records: Option<PathBuf>,
    /// The thresholds, as SpatialBench-UC's checker_config.yaml [default: the one beside the records].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The folder for the results.
    #[arg(short, long, value_name = "FOLDER", required = true)]
    out: Option<PathBuf>,
    /// Decide as the released evaluator does also where it is plainly wrong [default: true with --records].
    #[arg(
        long,
        value_name = "YES|NO",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "yes",
        value_parser = clap::builder::BoolishValueParser::new()
    )]
    published: Option<bool>,
    /// One JSON object on standard output.
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> anyhow::Result<u8> {
    match (&args.records, &args.out) {
        (Some(file), Some(out)) => records::run(args, file, out),
        _ => anyhow::bail!("--records and --out are both needed"),
    }
}
