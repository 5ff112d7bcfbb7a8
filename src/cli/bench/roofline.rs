//! `prepose bench roofline`

use std::io::Write;

use anyhow::{Context, ensure};
use prepose::bench::roofline::{Roofline, gpus_to_markdown};
use prepose::engine::Blueprint;
use prepose::request::{Dtype, ModelRequest};

use super::weights;
use crate::cli::OK;

/// Compute the least time that a UNet call can take on GPUs, from shapes and the GPU makers' figures; nothing is run.
///
/// Prints Markdown.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Whose networks: sd15, sdxl, or checkpoints, as for `prepose generate`.
    #[arg(short, long, value_delimiter = ',', default_value = "sd15,sdxl")]
    checkpoints: Vec<String>,
    /// The side of the pictures in pixels [default: the checkpoint's].
    #[arg(long)]
    size: Option<usize>,
    /// Pictures at a time.
    #[arg(short, long, default_value_t = 1)]
    batch: usize,
}

pub fn run(args: &Args) -> anyhow::Result<u8> {
    ensure!(
        (1..=1024).contains(&args.batch),
        "--batch is {}, but must be between 1 and 1024",
        args.batch
    );
    let rooflines = args.checkpoints.iter().map(|name| open(name, args));
    let rooflines = rooflines.collect::<anyhow::Result<Vec<_>>>()?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "# Rooflines of UNet calls\n\n{}", gpus_to_markdown())?;
    for roofline in rooflines {
        writeln!(out, "{}", roofline.to_markdown())?;
    }
    Ok(OK)
}

fn open(name: &str, args: &Args) -> anyhow::Result<Roofline> {
    let (unet, factor, native) = match weights::known(name) {
        Some(_) => {
            let unet = weights::plan(name, Dtype::F16, 0)?.unet_config()?;
            let latents = unet.sample_size.as_ref().and_then(|size| size.first());
            (unet, 8, 8 * latents.unwrap_or(64))
        }
        None => {
            let model = ModelRequest::new(name, Dtype::F32);
            let blueprint = Blueprint::open(&model).with_context(|| {
                format!("cannot open {name} (the known names are sd15 and sdxl)")
            })?;
            let unet = blueprint.checkpoint().unet_config()?;
            (unet, blueprint.vae_factor(), blueprint.defaults().width)
        }
    };
    let size = args.size.unwrap_or(native);
    ensure!(
        size.is_multiple_of(factor) && (factor..=1 << 14).contains(&size),
        "--size is {size}, but must be a multiple of {factor} between {factor} and {}",
        1 << 14
    );
    Ok(Roofline::new(name, &unet, [size, factor, args.batch])?)
}
