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
    /// Draw pictures for people to label, from every method, relation and verdict
    Sample(sample::Args),
    /// Make a page on which people label them, offline, in any browser
    Label(label::Args),
    /// Compare the checker's verdicts with people's: confusion, coverage, risk
    Analyze(analyze::Args),
    /// Find the margin and the thresholds that best fit what people say
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
