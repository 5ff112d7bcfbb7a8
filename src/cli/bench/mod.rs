//! `prepose bench`

mod args;
mod plan;
mod roofline;
mod sheet;
mod start;
mod weights;
mod worker;

use clap::Subcommand;

/// Measure speed.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Sheet(Box<args::Args>),
    /// Write a checkpoint of random weights to measure with
    Weights(weights::Args),
    Roofline(roofline::Args),
    /// Measure rows from standard input; `sheet` runs it
    #[command(hide = true)]
    Worker(worker::Args),
}

pub fn run(args: &Args, quiet: bool) -> anyhow::Result<u8> {
    match &args.what {
        What::Sheet(args) => sheet::run(args, quiet),
        What::Weights(args) => weights::run(args, quiet),
        What::Roofline(args) => roofline::run(args),
        What::Worker(args) => worker::run(args),
    }
}
