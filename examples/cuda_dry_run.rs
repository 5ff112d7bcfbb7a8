//! Drives the engine on a CUDA device that executes nothing (`scripts/gpu/dry-run.sh`): every kernel is compiled, all memory is
//! allocated, nothing is computed.
//!
//! ```text
//! cuda_dry_run operations [NAME...]
//! cuda_dry_run CHECKPOINT [--size N] [--batch N] [--steps N] [--dtype f16|bf16|f32] [--guide]
//! ```
//!
//! Prints a line of JSON for each operation or each phase of a picture: the bytes that Burn's allocator has in use after it, and
//! the most that it held meanwhile (the first time with what trying kernels takes). A kernel that does not compile ends it.

use std::error::Error;

use burn::tensor::{DType, Device};
use clap::ValueEnum;
use prepose::device::{Backend, DeviceSpec, OpenDevice};
use prepose::engine::Blueprint;
use prepose::guidance::GuidanceConfig;
use prepose::guidance::pos::Pos;
use prepose::request::{Dtype, ModelRequest, Request};

const USAGE: &str = "cuda_dry_run operations [NAME...], or \
    cuda_dry_run CHECKPOINT [--size N] [--batch N] [--steps N] [--dtype f16|bf16|f32] [--guide]";

fn main() -> Result<(), Box<dyn Error>> {
    // A second run takes what the first compiled and chose.
    let kernel_cache = prepose_kernels::keep_compiled_kernels();
    let mut arguments = std::env::args().skip(1);
    let checkpoint = arguments.next().ok_or(USAGE)?;
    if checkpoint == "operations" {
        operations(&arguments.collect::<Vec<_>>());
        return Ok(());
    }
    let (mut size, mut batch, mut steps, mut dtype, mut guide) = (None, 1, 2, Dtype::F16, false);
    while let Some(name) = arguments.next() {
        if name == "--guide" {
            guide = true;
            continue;
        }
        let value = arguments.next().ok_or(USAGE)?;
        match name.as_str() {
            "--size" => size = Some(value.parse::<usize>()?),
            "--batch" => batch = value.parse::<u64>()?,
            "--steps" => steps = value.parse::<usize>()?,
            "--dtype" => dtype = Dtype::from_str(&value, true)?,
            _ => return Err(USAGE.into()),
        }
    }
    let device = OpenDevice {
        device: Device::cuda(0),
        spec: DeviceSpec::One {
            backend: Backend::Cuda,
            index: 0,
        },
        name: "dry run".into(),
        kernel_cache,
    };
    let model = ModelRequest::new(checkpoint, dtype);
    let blueprint = Blueprint::open(&model)?;
    let mut request = blueprint.request("a dog to the left of a cat", &model);
    if let Some(size) = size {
        (request.width, request.height) = (size, size);
    }
    request.steps = steps;
    if guide {
        request.guide = Some(GuidanceConfig {
            steps: Some(steps),
            ..GuidanceConfig::new(&Pos)
        });
    }
    blueprint.check(&mut request)?;
    let engine = blueprint.load(&model, &device)?;
    tell("weights", &device.device);

    let requests: Vec<Request> = (0..batch)
        .map(|seed| Request {
            seed,
            ..request.clone()
        })
        .collect();
    let latents = {
        let mut session = engine.begin(&requests, &mut [])?;
        tell("text", &device.device);
        while session.remaining() > 0 {
            session.advance(1, &mut [])?;
            tell("step", &device.device);
        }
        session.finish()?
    };
    engine.decode(latents, request.vae_tiling)?;
    tell("decode", &device.device);
    Ok(())
}

/// All operations that have one of `names` in theirs, in every type; what comes out is not looked at.
fn operations(names: &[String]) {
    let device = Device::cuda(0);
    let operations: Vec<_> = prepose_kernels::selftest::operations().collect();
    // One of that very name, or all that have it in theirs.
    let exact = |name: &String| {
        operations
            .iter()
            .any(|operation| operation.name == name.as_str())
    };
    let means =
        |name: &String, of: &str| of == name.as_str() || (!exact(name) && of.contains(&**name));
    for operation in &operations {
        if names.is_empty() || names.iter().any(|name| means(name, operation.name)) {
            for dtype in [DType::F32, DType::F16, DType::BF16] {
                operation.run(&device, dtype);
                tell(&format!("{} {dtype:?}", operation.name), &device);
            }
        }
    }
}

fn tell(phase: &str, device: &Device) {
    let _ = device.sync();
    let usage = device.memory_pool_usage();
    println!(
        "{}",
        serde_json::json!({
            "phase": phase,
            "in_use": usage.as_ref().map(|usage| usage.bytes_in_use),
            "held": usage.as_ref().map(|usage| usage.bytes_reserved),
        })
    );
    // What is free now goes back, so that the next phase shows what it needs itself.
    device.memory_cleanup();
}
