//! `prepose bench unet`

use std::io::Write;
use std::time::Instant;

use anyhow::ensure;
use burn::tensor::{Tensor, TensorData};
use prepose::device::{self, DeviceSpec};
use prepose::engine::Blueprint;
use prepose::request::{Dtype, ModelRequest};
use prepose::sampling::noise::{NoiseKind, NoiseSource};
use prepose_models::unet::AddedConditioning;

use crate::cli::OK;

/// Time the UNet alone, on random latents and random text.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A checkpoint, as for `prepose generate`.
    #[arg(short, long, default_value = "toybox")]
    checkpoint: String,
    /// The side of the picture in pixels [default: the checkpoint's].
    #[arg(long)]
    size: Option<usize>,
    /// Rows of the UNet's batch; classifier-free guidance takes two a picture.
    #[arg(long, default_value_t = 2)]
    batch: usize,
    /// Timed calls, after one that is not counted.
    #[arg(long, default_value_t = 5)]
    repeat: usize,
    /// The type of the weights.
    #[arg(long, default_value = "f32")]
    dtype: Dtype,
    /// The device.
    #[arg(long, default_value = "auto")]
    device: DeviceSpec,
    /// One JSON object on standard output.
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> anyhow::Result<u8> {
    ensure!(args.batch >= 1, "--batch is 0, but must be at least 1");
    ensure!(args.repeat >= 1, "--repeat is 0, but must be at least 1");
    let model = ModelRequest {
        checkpoint: args.checkpoint.clone(),
        sha256: None,
        config: None,
        vae: None,
        loras: Vec::new(),
        allow_mismatch: false,
        dtype: args.dtype,
    };
    let blueprint = Blueprint::open(&model)?;
    let factor = blueprint.vae_factor();
    let size = args.size.unwrap_or(blueprint.defaults().width);
    ensure!(
        size.is_multiple_of(factor) && size > 0,
        "--size is {size}, but must be a multiple of {factor}"
    );
    let device = device::open(args.device)?;
    device.check_dtype(args.dtype)?;
    let checkpoint = blueprint.checkpoint();
    let unet = checkpoint.load_unet(&device.device, model.dtype.float())?;

    let random = |seed: u64, shape: &[usize]| {
        let values = NoiseSource::new(NoiseKind::Torch, seed).randn(shape.iter().product());
        TensorData::new(values, shape.to_vec())
    };
    let side = size / factor;
    let on = &device.device;
    let config = unet.config();
    let latents =
        Tensor::<4>::from_data(random(0, &[args.batch, config.in_channels, side, side]), on);
    let context_width = config.cross_attention_dim.first().unwrap_or(768);
    let context = Tensor::<3>::from_data(random(1, &[args.batch, 77, context_width]), on);
    let added = config
        .projection_class_embeddings_input_dim
        .map(|width| AddedConditioning {
            text_embeds: Tensor::from_data(
                random(
                    2,
                    &[
                        args.batch,
                        width - 6 * config.addition_time_embed_dim.unwrap_or(0),
                    ],
                ),
                on,
            ),
            time_ids: Tensor::from_floats([[size, size, 0, 0, size, size].map(|n| n as f32)], on)
                .repeat_dim(0, args.batch),
        });
    let prepared = unet.prepare(context, added.as_ref());
    let mut seconds = Vec::with_capacity(args.repeat);
    for call in 0..=args.repeat {
        let started = Instant::now();
        let output = unet.forward_prepared(latents.clone(), &[500.0], &prepared);
        // Reading one value back waits for the device.
        let probe: f32 = output.slice([0..1, 0..1, 0..1, 0..1]).into_scalar();
        ensure!(
            probe.is_finite(),
            "the UNet's output is not finite in {:?}",
            args.dtype
        );
        if call > 0 {
            seconds.push(started.elapsed().as_secs_f64());
        }
    }
    let mut sorted = seconds.clone();
    sorted.sort_by(f64::total_cmp);
    let median = sorted[sorted.len() / 2];
    let mut out = std::io::stdout().lock();
    if args.json {
        let report = serde_json::json!({
            "what": "unet", "checkpoint": args.checkpoint, "size": size, "batch": args.batch,
            "dtype": args.dtype, "device": device.spec.to_string(), "device_name": device.name,
            "seconds": seconds, "median": median,
        });
        writeln!(out, "{report}")?;
    } else {
        writeln!(
            out,
            "UNet of {} at {size}², batch {}, {:?} on {} ({}): median {median:.3} s, fastest {:.3} s of {}",
            args.checkpoint,
            args.batch,
            args.dtype,
            device.spec,
            device.name,
            sorted[0],
            args.repeat
        )?;
    }
    Ok(OK)
}
