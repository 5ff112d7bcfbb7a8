//! `prepose audit`

mod analyze;
mod calibrate;
mod input;
pub mod label;
mod sample;

/// Measure the checker against people: draw a sample, label it, compare, calibrate.
#[derive(Debug, clap::Args)]
#[command(after_help = "In order:
  prepose audit sample --records RUN --out audit/sample.csv
  prepose audit label --sample audit/sample.csv        # then open audit/label.html in a browser and export the labels
  prepose audit analyze --records RUN --labels audit/labels_filled.json --out audit/analysis
  prepose audit calibrate --records RUN --labels audit/labels_filled.json --out audit/calibration")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Sample(sample::Args),
    Label(label::Args),
    Analyze(analyze::Args),
    Calibrate(calibrate::Args),
}

pub fn run(args: &Args) -> anyhow::Result<u8> {
    match &args.command {
        Command::Sample(args) => sample::run(args),
        Command::Label(args) => label::run(args),
        Command::Analyze(args) => analyze::run(args),
        Command::Calibrate(args) => calibrate::run(args),
    }
}
