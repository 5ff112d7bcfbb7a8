//! `prepose bench weights`

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context;
use prepose::request::Dtype;
use prepose_weights::{Checkpoint, Family, LoadOptions, RandomCheckpoint};

use crate::cli::OK;

/// Write a checkpoint of random weights: a diffusers folder that prepose and diffusers load.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Whose networks: sd15, sdxl, or a checkpoint, as for `prepose generate`.
    like: String,
    /// The folder to write, which must be new or empty.
    #[arg(short, long, alias = "output", value_name = "FOLDER")]
    out: PathBuf,
    /// The type of the weights.
    #[arg(long, default_value = "f16")]
    dtype: Dtype,
    /// Seeds the weights: the same seed gives the same weights everywhere.
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

pub fn run(args: &Args, quiet: bool) -> anyhow::Result<u8> {
    let checkpoint = plan(&args.like, args.dtype, args.seed)?;
    write(&checkpoint, &args.out, quiet)?;
    writeln!(std::io::stdout().lock(), "{}", args.out.display())?;
    Ok(OK)
}

/// Checkpoints that are known by name.
pub fn known(name: &str) -> Option<Family> {
    match name {
        "sd15" => Some(Family::Sd1),
        "sdxl" => Some(Family::Sdxl),
        _ => None,
    }
}

/// A checkpoint with the networks of another.
pub fn plan(like: &str, dtype: Dtype, seed: u64) -> anyhow::Result<RandomCheckpoint> {
    if let Some(family) = known(like) {
        return Ok(RandomCheckpoint::standard(family, dtype.float(), seed)?);
    }
    let checkpoint = Checkpoint::open(like, &LoadOptions::default()).with_context(|| {
        format!("cannot use {like} as a pattern (the known names are sd15 and sdxl)")
    })?;
    Ok(checkpoint.random(dtype.float(), seed)?)
}

/// Writes it, saying so.
pub fn write(checkpoint: &RandomCheckpoint, folder: &Path, quiet: bool) -> anyhow::Result<()> {
    let say = |text: String| {
        if !quiet {
            eprintln!("{text}");
        }
    };
    say(format!(
        "random weights: {:.0} million parameters, {:.1} GB, to {}",
        checkpoint.parameters() as f64 / 1e6,
        checkpoint.bytes() as f64 / 1e9,
        folder.display()
    ));
    let started = Instant::now();
    checkpoint.write(folder)?;
    say(format!(
        "written in {:.1} s",
        started.elapsed().as_secs_f64()
    ));
    Ok(())
}
