//! `prepose bench guidance`

use std::io::Write;
use std::time::Instant;

use anyhow::ensure;
use prepose::device::{self, DeviceSpec};
use prepose::engine::{Blueprint, Engine};
use prepose::guidance::{GuidanceConfig, Layers, Method};
use prepose::memory::Meter;
use prepose::request::{Dtype, ModelRequest, Request};

use crate::cli::OK;

/// Time and memory of a guided step against a plain one, for each method, in one run.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A checkpoint, as for `prepose generate`.
    #[arg(short, long, default_value = "toybox")]
    checkpoint: String,
    /// A prompt with a relation.
    #[arg(long, default_value = "a dog to the left of a cat")]
    prompt: String,
    /// The side of the picture in pixels [default: the checkpoint's].
    #[arg(long)]
    size: Option<usize>,
    /// Pictures at a time.
    #[arg(long, default_value_t = 1)]
    batch: usize,
    /// Timed steps of each kind, after one that is not counted.
    #[arg(long, default_value_t = 5)]
    repeat: usize,
    /// These variants only, by their beginning: pos, boxdiff ...
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
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

/// The median time and the peak memory of a step.
struct Cost {
    seconds: f64,
    extra_bytes: Option<u64>,
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
    let mut request = blueprint.request(&args.prompt, &model);
    if let Some(size) = args.size {
        (request.width, request.height) = (size, size);
    }
    let variants: Vec<_> = variants()
        .into_iter()
        .filter(|(name, _)| {
            args.only.is_empty() || args.only.iter().any(|only| name.starts_with(&**only))
        })
        .collect();
    ensure!(
        !variants.is_empty(),
        "there is no variant that begins with {:?}",
        args.only
    );
    for (_, config) in &variants {
        request.guide = Some(config.clone());
        blueprint.check(&mut request)?;
    }
    let device = device::open(args.device)?;
    device.check_dtype(args.dtype)?;
    let engine = blueprint.load(&model, &device)?;

    request.guide = None;
    let plain = measure(&engine, &request, args)?;
    let mut costs = Vec::with_capacity(variants.len());
    for (name, config) in variants {
        request.guide = Some(GuidanceConfig {
            steps: Some(request.steps),
            ..config
        });
        costs.push((name, measure(&engine, &request, args)?));
    }

    let mut out = std::io::stdout().lock();
    let mebibytes = |bytes: Option<u64>| bytes.map(|bytes| bytes as f64 / f64::from(1 << 20));
    if args.json {
        let step = |cost: &Cost| {
            serde_json::json!({
                "seconds": cost.seconds,
                "extra_mebibytes": mebibytes(cost.extra_bytes),
                "of_plain": cost.seconds / plain.seconds,
                "ten_of_fifty_steps": 0.2 * (cost.seconds / plain.seconds - 1.0),
            })
        };
        let guided = costs
            .iter()
            .map(|(name, cost)| (name.to_string(), step(cost)));
        let report = serde_json::json!({
            "what": "guidance", "checkpoint": args.checkpoint, "prompt": args.prompt,
            "width": request.width, "height": request.height, "batch": args.batch, "dtype": args.dtype,
            "device": device.spec.to_string(), "device_name": device.name, "repeat": args.repeat,
            "plain": step(&plain), "guided": guided.collect::<serde_json::Map<_, _>>(),
        });
        writeln!(out, "{report}")?;
        return Ok(OK);
    }
    writeln!(
        out,
        "{} at {}x{}, batch {}, {:?} on {} ({}); medians of {} steps\n",
        args.checkpoint,
        request.width,
        request.height,
        args.batch,
        args.dtype,
        device.spec,
        device.name,
        args.repeat
    )?;
    writeln!(
        out,
        "| step | s | of a plain step | 10 of 50 steps guided | extra memory, MiB |"
    )?;
    writeln!(out, "| --- | ---: | ---: | ---: | ---: |")?;
    for (name, cost) in [("plain", &plain)]
        .into_iter()
        .chain(costs.iter().map(|(n, c)| (*n, c)))
    {
        let ratio = cost.seconds / plain.seconds;
        let memory = mebibytes(cost.extra_bytes).map_or("?".into(), |size| format!("{size:.0}"));
        writeln!(
            out,
            "| {name} | {:.3} | {ratio:.2} | {:+.1} % | {memory} |",
            cost.seconds,
            20.0 * (ratio - 1.0)
        )?;
    }
    Ok(OK)
}

/// What is measured.
fn variants() -> Vec<(&'static str, GuidanceConfig)> {
    let cheap = |method| GuidanceConfig {
        layers: Some(Layers::Cheap),
        ..GuidanceConfig::new(method)
    };
    let one_pass = |config| GuidanceConfig {
        one_pass: true,
        ..config
    };
    let new = GuidanceConfig::new;
    vec![
        ("pos", new(Method::Pos)),
        ("pos, cheap layers", cheap(Method::Pos)),
        ("pos, one pass", one_pass(new(Method::Pos))),
        ("pos, cheap layers, one pass", one_pass(cheap(Method::Pos))),
        ("boxdiff", new(Method::BoxDiff)),
        ("attend-and-excite", new(Method::AttendAndExcite)),
        ("layout", new(Method::Layout)),
    ]
}

/// Steps of `request`, timed one by one.
fn measure(engine: &Engine, request: &Request, args: &Args) -> anyhow::Result<Cost> {
    let requests: Vec<Request> = (0..args.batch as u64)
        .map(|seed| Request {
            seed,
            // As many as are taken, so that every one is guided.
            steps: request.steps.max(args.repeat + 1),
            ..request.clone()
        })
        .collect();
    let memory = Meter::start(engine.device());
    let mut session = engine.begin(&requests, &mut [])?;
    let mut seconds = Vec::with_capacity(args.repeat);
    for step in 0..=args.repeat {
        let started = Instant::now();
        session.advance(1, &mut [])?;
        // Reading one value back waits for the device.
        let value: f32 = session
            .latents()
            .clone()
            .slice([0..1, 0..1, 0..1, 0..1])
            .into_scalar();
        ensure!(
            value.is_finite(),
            "the latents are not finite in {:?}",
            args.dtype
        );
        if step > 0 {
            seconds.push(started.elapsed().as_secs_f64());
        }
    }
    seconds.sort_by(f64::total_cmp);
    Ok(Cost {
        seconds: seconds[seconds.len() / 2],
        extra_bytes: memory.extra(),
    })
}
