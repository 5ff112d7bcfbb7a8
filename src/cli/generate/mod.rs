//! `prepose generate`

mod args;
mod maps;
mod plan;
mod run;

use std::cell::Cell;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, bail};
use prepose::check::detect::RcnnDetector;
use prepose::check::detect::reward::PictureReward;
use prepose::device;
use prepose::engine::Blueprint;
use prepose::output::files::{free_name, parent, prepare_folder, slug};
use prepose::output::png;
use prepose::request::{DelayedOrder, InitImage, ModelRequest, PromptSwitch, Request};
use prepose::search;

pub use args::Args;
pub(super) use args::{Seeds, parse_seeds, parse_size};
use run::{Judge, Provenance, Run};

use super::extract::give_relations;
use super::memory::Tiling;
use super::progress::Progress;
use super::{OK, checker, interrupt};

pub fn run(args: &Args, quiet: bool) -> anyhow::Result<u8> {
    let started = Instant::now();
    for (name, value) in [
        ("--preview-every", args.preview_every),
        ("--attention-every", Some(args.maps.attention_every)),
    ] {
        if value == Some(0) {
            bail!("{name} is 0, but must be at least 1");
        }
    }
    let extractor = args.extractor()?;
    let again = args.again.as_deref().map(png::read_request).transpose()?;
    let model = match &again {
        Some(request) => request.model.clone(),
        None => args.model.request(),
    };
    // All that can be wrong without a look at the weights is found before they are loaded.
    let blueprint = Blueprint::open(&model)?;
    let mut requests = match again {
        Some(request) => vec![request],
        None => requests(args, &model, &blueprint)?,
    };
    if let Some(extractor) = &extractor {
        give_relations(extractor, &blueprint, &mut requests)?;
    }
    let search = args.search.config();
    let detector = args.search.detector()?;
    for request in &mut requests {
        blueprint.check(request)?;
        if let Some(search) = &search {
            search::check(&blueprint, request, search)?;
        }
        if let Some((weights, kind)) = &detector {
            let labels = RcnnDetector::labels(weights.config());
            PictureReward::new(*kind, &blueprint.scene(request)?, Some(&labels))
                .with_context(|| format!("cannot search for {:?}", request.prompt))?;
        }
    }
    let maps = maps::MapFiles::plan(&args.maps, &blueprint, &requests)?;
    let targets = targets(args, &requests)?;
    let device = device::open(args.model.device)?;
    if args.model.dtype.is_none() && args.again.is_none() {
        for request in &mut requests {
            request.model.dtype = device.default_dtype();
        }
    }
    device.check_dtype(requests[0].model.dtype)?;
    let stop = interrupt::listen()?;

    let model = requests[0].model.clone();
    let mut provenance = Provenance::Computing(blueprint.fingerprint());
    let engine = args.running.apply(blueprint.load(&model, &device)?);
    let judge = detector
        .map(|(weights, kind)| {
            let detector = checker::load(&weights, &device.device, None)?;
            anyhow::Ok(Judge { detector, kind })
        })
        .transpose()?;
    tracing::info!(
        "loaded in {:.1} s on {}",
        started.elapsed().as_secs_f64(),
        device.name
    );
    // A picture that is made again is made as it was.
    let chooses_tiling = args.again.is_none() && args.vae_tiling == Tiling::Auto;
    let engine = engine.tiling_when_short(chooses_tiling);
    if args.again.is_none() {
        let tiling = args.vae_tiling.choose(&engine, &requests[0])?;
        for request in &mut requests {
            request.vae_tiling = tiling;
        }
    }
    let batch = args.batch.choose(&engine, &requests[0], 1)?;
    let candidates = search.as_ref().map_or(1, |search| search.best_of);
    let steps = requests.iter().map(|request| engine.steps(request));
    let steps = candidates * steps.sum::<usize>();
    let mut progress = Progress::new(steps as u64, "steps", quiet || args.json);
    let run = Run {
        args,
        engine: &engine,
        batch: Cell::new(batch),
        search,
        judge,
        maps,
        device: format!("{} ({})", device.spec, device.name),
        stop: &stop,
    };
    let result = run.all(&requests, &targets, &mut provenance, &mut progress);
    progress.finish();
    result.map(|()| OK)
}

fn requests(
    args: &Args,
    model: &ModelRequest,
    blueprint: &Blueprint,
) -> anyhow::Result<Vec<Request>> {
    let seeds = match (&args.seeds, args.seed) {
        (Some(Seeds(seeds)), _) => seeds.clone(),
        (None, Some(seed)) => vec![seed],
        (None, None) => vec![random_seed()],
    };
    let switch = args.change.switch_to.clone().zip(args.change.switch_at);
    let switch = switch.map(|(to, at)| PromptSwitch { to, at });
    let init = args.init_image.clone().map(|path| InitImage {
        path,
        strength: args.strength,
        sha256: None,
    });
    let one = |prompt: &String, delay_order: &Option<DelayedOrder>, seed: u64| {
        let defaults = blueprint.request(prompt, model);
        let (width, height) = args.size.unwrap_or((defaults.width, defaults.height));
        Request {
            negative_prompt: args.negative_prompt.clone(),
            switch: switch.clone(),
            delay_order: delay_order.clone(),
            relations: args.guide.relation.clone(),
            boxes: args.guide.boxes.clone(),
            guide: args.guide.config(),
            seed,
            width,
            height,
            steps: args.steps.unwrap_or(defaults.steps),
            guidance_scale: args.guidance_scale.unwrap_or(defaults.guidance_scale),
            scheduler: args.scheduler.map(|kind| kind.to_string()),
            clip_skip: args.clip_skip,
            noise: args.noise,
            init: init.clone(),
            ..defaults
        }
    };
    let mut requests = Vec::with_capacity(args.prompts.len() * seeds.len());
    for prompt in &args.prompts {
        let delay = args.change.delay(prompt)?;
        requests.extend(seeds.iter().map(|seed| one(prompt, &delay, *seed)));
    }
    Ok(requests)
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
