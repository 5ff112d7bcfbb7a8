//! `prepose generate`

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Context, bail};
use prepose::device::{self, DeviceSpec, OpenDevice};
use prepose::engine::{Blueprint, Engine};
use prepose::output::files::{free_name, parent, prepare_folder, slug};
use prepose::output::manifest::{ManifestLine, Place};
use prepose::output::{files, png};
use prepose::request::{Dtype, InitImage, Lora, ModelRequest, Request};
use prepose::sampling::denoise::{Hook, HookError, State};
use prepose::sampling::noise::NoiseKind;
use prepose::sampling::schedulers::SchedulerKind;

use super::OK;
use super::progress::Progress;

/// Make pictures from a prompt.
///
/// One picture for each prompt and seed. Each PNG carries the whole request; `--again FILE.png`
/// makes the same picture again.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  prepose generate \"a dog to the left of a cat\"
  prepose generate \"a (red:1.3) car\" --seeds 0-7 --batch 4 -o cars/
  prepose generate \"a castle\" --checkpoint sd15.safetensors --lora style.safetensors:0.8
  prepose generate --again cars/a-red-car-3.png -o again.png")]
pub struct Args {
    /// What the pictures should show; each argument is a prompt of its own.
    #[arg(required_unless_present = "again", conflicts_with = "again")]
    prompts: Vec<String>,
    /// Make the picture in this PNG again, from the request inside it.
    #[arg(long, value_name = "FILE.png", conflicts_with_all = [
        "negative_prompt", "checkpoint", "config", "vae", "lora", "dtype", "seed", "seeds", "steps", "guidance_scale",
        "size", "scheduler", "clip_skip", "noise", "init_image", "strength", "vae_tiling"])]
    again: Option<PathBuf>,
    /// A file to write (one picture) or a folder.
    #[arg(short, long, default_value = ".", value_name = "PATH")]
    output: PathBuf,

    /// What the pictures should not show.
    #[arg(short, long, default_value = "")]
    negative_prompt: String,
    /// A diffusers folder, a .safetensors or .ckpt file, a name that `prepose pull` fetched, or the
    /// built-in `toybox`.
    #[arg(short, long, default_value = "toybox", value_name = "PATH|NAME", help_heading = "Networks")]
    checkpoint: String,
    /// A diffusers-like folder with the configuration of a single file of unusual size.
    #[arg(long, value_name = "DIR", help_heading = "Networks")]
    config: Option<PathBuf>,
    /// Another autoencoder.
    #[arg(long, value_name = "PATH", help_heading = "Networks")]
    vae: Option<PathBuf>,
    /// A LoRA to merge, with its weight; may be given several times.
    #[arg(long, value_name = "FILE[:WEIGHT]", value_parser = parse_lora, help_heading = "Networks")]
    lora: Vec<Lora>,
    /// The type of the weights; f32 on the CPU and f16 elsewhere unless given.
    #[arg(long, help_heading = "Networks")]
    dtype: Option<Dtype>,
    /// auto, cuda[:i], vulkan[:i], metal, wgpu[:i] or flex (the CPU).
    #[arg(long, default_value = "auto", help_heading = "Networks")]
    device: DeviceSpec,

    /// The seed of the first picture; random unless given.
    #[arg(long, conflicts_with = "seeds", help_heading = "Sampling")]
    seed: Option<u64>,
    /// Several seeds: 0-7 or 1,5,9 or both.
    #[arg(long, value_name = "LIST", value_parser = parse_seeds, help_heading = "Sampling")]
    seeds: Option<Seeds>,
    /// Denoising steps [default: the checkpoint's].
    #[arg(short, long, help_heading = "Sampling")]
    steps: Option<usize>,
    /// Classifier-free guidance; at most 1 switches it off [default: the checkpoint's].
    #[arg(short, long, help_heading = "Sampling")]
    guidance_scale: Option<f64>,
    /// Width and height in pixels, 768x512 or 512 [default: the checkpoint's].
    #[arg(long, value_name = "WxH", value_parser = parse_size, help_heading = "Sampling")]
    size: Option<(usize, usize)>,
    /// The scheduler [default: the checkpoint's].
    #[arg(long, value_enum, help_heading = "Sampling")]
    scheduler: Option<SchedulerKind>,
    /// Layers of the text encoder to leave out at the end.
    #[arg(long, default_value_t = 0, help_heading = "Sampling")]
    clip_skip: usize,
    /// Whose random numbers: PyTorch's on the CPU, or its CUDA generator's.
    #[arg(long, value_enum, default_value = "torch", help_heading = "Sampling")]
    noise: NoiseKind,
    /// Start from this picture instead of noise.
    #[arg(long, value_name = "FILE", help_heading = "Sampling")]
    init_image: Option<PathBuf>,
    /// How far to go from the start picture, in (0, 1].
    #[arg(long, default_value_t = 0.8, requires = "init_image", help_heading = "Sampling")]
    strength: f64,
    /// Encode and decode in tiles, for large pictures in little memory.
    #[arg(long, help_heading = "Sampling")]
    vae_tiling: bool,

    /// Pictures at a time; the result does not depend on it.
    #[arg(short, long, default_value_t = 1)]
    batch: usize,
    /// Write a preview beside each picture every so many steps.
    #[arg(long, value_name = "STEPS")]
    preview_every: Option<usize>,
    /// Where a line about each picture is appended [default: manifest.jsonl beside the pictures].
    #[arg(long, value_name = "FILE")]
    manifest: Option<PathBuf>,
    /// One JSON object a picture on standard output.
    #[arg(long)]
    json: bool,
}

/// A list of seeds; clap would take a bare `Vec` for a repeated option.
#[derive(Clone, Debug)]
struct Seeds(Vec<u64>);

fn parse_seeds(text: &str) -> Result<Seeds, String> {
    let number = |text: &str| {
        text.trim()
            .parse::<u64>()
            .map_err(|_| format!("{text:?} is not a seed (0 to {})", u64::MAX))
    };
    let mut seeds = Vec::new();
    for part in text.split(',') {
        match part.split_once('-') {
            Some((first, last)) => {
                let (first, last) = (number(first)?, number(last)?);
                if last < first || last - first >= 1_000_000 {
                    return Err(format!("{part:?} is not a range of at most a million seeds"));
                }
                seeds.extend(first..=last);
            }
            None => seeds.push(number(part)?),
        }
    }
    Ok(Seeds(seeds))
}

fn parse_size(text: &str) -> Result<(usize, usize), String> {
    let number = |text: &str| {
        text.parse::<usize>()
            .map_err(|_| "give the size as WIDTHxHEIGHT, for instance 768x512".to_string())
    };
    match text.split_once(['x', 'X', '×']) {
        Some((width, height)) => Ok((number(width)?, number(height)?)),
        None => number(text).map(|side| (side, side)),
    }
}

fn parse_lora(text: &str) -> Result<Lora, String> {
    // The weight stands behind the last colon, unless what stands there is part of the path.
    let (path, weight) = match text.rsplit_once(':') {
        Some((path, weight)) if !path.is_empty() => match weight.parse() {
            Ok(weight) => (path, weight),
            Err(_) => (text, 1.0),
        },
        _ => (text, 1.0),
    };
    Ok(Lora {
        path: path.into(),
        weight,
    })
}

/// The end of the run, asked for by Ctrl-C.
#[derive(Debug, thiserror::Error)]
#[error("interrupted; finished pictures are kept, and nothing was written of the others")]
struct Interrupted;

/// Counts steps, stops on Ctrl-C and writes previews.
struct Watch<'a> {
    progress: &'a mut Progress,
    stop: &'a AtomicBool,
    previews: Option<Previews<'a>>,
    pictures: u64,
}

struct Previews<'a> {
    every: usize,
    engine: &'a Engine,
    paths: Vec<PathBuf>,
    tiling: bool,
}

impl Hook for Watch<'_> {
    fn after_step(
        &mut self,
        state: &State,
        denoised: &burn::tensor::Tensor<4>,
    ) -> Result<(), HookError> {
        self.progress.advance(self.pictures);
        if let Some(previews) = &self.previews
            && (state.step + 1).is_multiple_of(previews.every)
            && state.step + 1 < state.steps
        {
            let pictures = previews.engine.decode(denoised.clone(), previews.tiling)?;
            for (path, picture) in previews.paths.iter().zip(&pictures) {
                png::save_plain(path, picture)?;
            }
        }
        if self.stop.load(Ordering::Relaxed) {
            return Err(Interrupted.into());
        }
        Ok(())
    }
}

pub fn run(args: &Args, quiet: bool) -> anyhow::Result<u8> {
    let started = Instant::now();
    if args.batch == 0 {
        bail!("--batch is 0, but must be at least 1");
    }
    if args.preview_every == Some(0) {
        bail!("--preview-every is 0, but must be at least 1");
    }
    let again = args.again.as_deref().map(png::read_request).transpose()?;
    let model = match &again {
        Some(request) => request.model.clone(),
        None => model_request(args),
    };
    // All that can be wrong without a look at the weights is found before they are loaded.
    let blueprint = Blueprint::open(&model)?;
    let mut requests = match again {
        Some(request) => vec![request],
        None => requests(args, &model, &blueprint),
    };
    for request in &mut requests {
        blueprint.check(request)?;
    }
    let targets = targets(args, &requests)?;
    let device = device::open(args.device)?;
    if args.dtype.is_none() && args.again.is_none() && !device.is_cpu() {
        for request in &mut requests {
            request.model.dtype = Dtype::F16;
        }
    }
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed))
        .context("cannot listen for Ctrl-C")?;

    let model = requests[0].model.clone();
    let engine = blueprint.load(&model, &device)?;
    tracing::info!("loaded in {:.1} s on {}", started.elapsed().as_secs_f64(), device.name);
    let steps: usize = requests.iter().map(|request| engine.steps(request)).sum();
    let mut progress = Progress::new(steps as u64, "steps", quiet || args.json);
    let result = generate(args, &engine, &device, &requests, &targets, &mut progress, &stop);
    progress.finish();
    result.map(|()| OK)
}

fn model_request(args: &Args) -> ModelRequest {
    ModelRequest {
        checkpoint: args.checkpoint.clone(),
        sha256: None,
        config: args.config.clone(),
        vae: args.vae.clone(),
        loras: args.lora.clone(),
        dtype: args.dtype.unwrap_or(Dtype::F32),
    }
}

fn requests(args: &Args, model: &ModelRequest, blueprint: &Blueprint) -> Vec<Request> {
    let defaults = blueprint.defaults();
    let seeds = match (&args.seeds, args.seed) {
        (Some(Seeds(seeds)), _) => seeds.clone(),
        (None, Some(seed)) => vec![seed],
        (None, None) => vec![random_seed()],
    };
    let (width, height) = args.size.unwrap_or((defaults.width, defaults.height));
    let one = |prompt: &String, seed: u64| Request {
        prompt: prompt.clone(),
        negative_prompt: args.negative_prompt.clone(),
        seed,
        width,
        height,
        steps: args.steps.unwrap_or(defaults.steps),
        guidance_scale: args.guidance_scale.unwrap_or(defaults.guidance_scale),
        scheduler: args.scheduler.map(|kind| kind.to_string()),
        clip_skip: args.clip_skip,
        noise: args.noise,
        init: args.init_image.clone().map(|path| InitImage {
            path,
            strength: args.strength,
            sha256: None,
        }),
        vae_tiling: args.vae_tiling,
        model: model.clone(),
    };
    args.prompts
        .iter()
        .flat_map(|prompt| seeds.iter().map(move |seed| (prompt, *seed)))
        .map(|(prompt, seed)| one(prompt, seed))
        .collect()
}

/// A seed that nobody chose, small enough to be typed.
fn random_seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::hash::RandomState::new().build_hasher().finish() >> 32
}

/// Where each picture goes. A file may be overwritten when it is named; in a folder a name that is
/// taken gets a number.
fn targets(args: &Args, requests: &[Request]) -> anyhow::Result<Vec<PathBuf>> {
    let output = &args.output;
    let is_file = output
        .extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("png"))
        && !output.is_dir();
    if !is_file {
        if let Some(extension) = output.extension().filter(|_| !output.is_dir()) {
            bail!(
                "{} looks like a file, but pictures are written as .png, not .{}",
                output.display(),
                extension.display()
            );
        }
        prepare_folder(output)?;
        let mut taken = std::collections::HashSet::new();
        return Ok(requests
            .iter()
            .map(|request| {
                let stem = format!("{}-{}", slug(&request.prompt), request.seed);
                let mut path = free_name(output, &stem);
                let mut n = 2;
                while !taken.insert(path.clone()) {
                    path = free_name(output, &format!("{stem}-{n}"));
                    n += 1;
                }
                path
            })
            .collect());
    }
    if requests.len() > 1 {
        bail!(
            "-o {} names one file, but {} pictures were asked for; give a folder",
            output.display(),
            requests.len()
        );
    }
    prepare_folder(parent(output))?;
    Ok(vec![output.clone()])
}

fn generate(
    args: &Args,
    engine: &Engine,
    device: &OpenDevice,
    requests: &[Request],
    targets: &[PathBuf],
    progress: &mut Progress,
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    let device_name = format!("{} ({})", device.spec, device.name);
    let run_id = format!("prepose-{}", humantime::format_rfc3339_seconds(std::time::SystemTime::now()));
    let mut done = 0;
    while done < requests.len() {
        let size = engine.batch_size(&requests[done..], args.batch)?;
        let batch = &requests[done..done + size];
        let paths = &targets[done..done + size];
        progress.message(batch[0].prompt.chars().take(20).collect::<String>());
        let started = Instant::now();
        let previews = args.preview_every.map(|every| Previews {
            every,
            engine,
            paths: paths.iter().map(|path| path.with_extension("preview.png")).collect(),
            tiling: batch[0].vae_tiling,
        });
        let mut watch = Watch {
            progress,
            stop,
            previews,
            pictures: size as u64,
        };
        let made = engine.generate(batch, &mut [&mut watch])?;
        if let Some(previews) = &watch.previews {
            for path in &previews.paths {
                // The finished picture replaces its preview; one that is gone is no loss.
                let _ = std::fs::remove_file(path);
            }
        }
        let seconds = started.elapsed().as_secs_f64();
        for ((request, path), picture) in batch.iter().zip(paths).zip(&made.pictures) {
            let scheduler = engine.scheduler_name(request)?;
            png::save(path, picture, request, &scheduler, &device_name)?;
            let manifest = args
                .manifest
                .clone()
                .unwrap_or_else(|| parent(path).join("manifest.jsonl"));
            let image_path = relative(path, parent(&manifest));
            let place = Place {
                run_id: &run_id,
                prompt_id: &slug(&request.prompt),
                image_path: &image_path,
            };
            let line = ManifestLine::new(request, &scheduler, &device_name, &place);
            files::append_line(&manifest, &serde_json::to_string(&line)?)?;
            if args.json {
                let event = serde_json::json!({
                    "path": path,
                    "prompt": request.prompt,
                    "seed": request.seed,
                    "device": device_name,
                    "batch": size,
                    "seconds": {"text": made.text_seconds, "denoise": made.denoise_seconds,
                                "decode": made.decode_seconds, "batch": seconds},
                });
                progress.println(&event.to_string())?;
            } else {
                progress.println(&path.display().to_string())?;
            }
        }
        done += size;
    }
    Ok(())
}

/// `path` as seen from `folder` if it lies below it.
fn relative(path: &Path, folder: &Path) -> String {
    path.strip_prefix(folder).unwrap_or(path).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_sizes_and_loras_are_read() {
        assert_eq!(parse_seeds("0-2,7").unwrap().0, [0, 1, 2, 7]);
        for wrong in ["", "a", "3-1", "0-99999999", "-1", "1,,2"] {
            assert!(parse_seeds(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse_size("768x512").unwrap(), (768, 512));
        assert_eq!(parse_size("64").unwrap(), (64, 64));
        assert!(parse_size("64x").is_err());
        let lora = parse_lora("a/b.safetensors:0.5").unwrap();
        assert_eq!((lora.path.to_str().unwrap(), lora.weight), ("a/b.safetensors", 0.5));
        let lora = parse_lora("C:/b.safetensors").unwrap();
        assert_eq!((lora.path.to_str().unwrap(), lora.weight), ("C:/b.safetensors", 1.0));
    }
}
