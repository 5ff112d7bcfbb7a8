//! `prepose bench`

mod guidance;
mod unet;

use clap::Subcommand;

/// Measure speed.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Time the UNet alone
    Unet(unet::Args),
    /// Time and memory of a guided step against a plain one, for each method
    Guidance(guidance::Args),
}

pub fn run(args: &Args) -> anyhow::Result<u8> {
    match &args.what {
        What::Unet(args) => unet::run(args),
        What::Guidance(args) => guidance::run(args),
    }
}
