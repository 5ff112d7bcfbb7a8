//! From arguments to requests.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use prepose::engine::Blueprint;
use prepose::output::files::parent;
use prepose::prompt::neutral::neutral;
use prepose::request::{
    DelayedOrder, InitImage, ModelRequest, PictureRegion, PromptSwitch, Request,
};
use prepose::suite::sets;

use super::args::{Args, Seed};
use crate::cli::values::Seeds;

/// How far img2img goes from its start picture, unless it is said.
const STRENGTH: f64 = 0.8;

/// What standard input may hold at most, in bytes.
const MOST_INPUT: u64 = 64 << 20;

/// What the arguments ask for: a picture of each prompt for each seed.
pub fn fresh(
    args: &Args,
    model: &ModelRequest,
    blueprint: &Blueprint,
) -> anyhow::Result<Vec<Request>> {
    let prompts = prompts(args)?;
    let seeds = match seeds(args) {
        Some(seeds) => seeds,
        None => vec![random_seed()],
    };
    let mut requests = Vec::with_capacity(prompts.len() * seeds.len());
    for prompt in &prompts {
        let request = changed(args, blueprint.request(prompt, model))?;
        requests.extend(with_seeds(&request, &seeds));
    }
    Ok(requests)
}

/// The request of the picture at `path`, with the pictures that it names where they are now.
pub fn located(args: &Args, path: &Path, stored: &Request) -> anyhow::Result<Request> {
    let mut base = stored.clone();
    if let (Some(init), None) = (&mut base.init, &args.init_image) {
        find(&mut init.path, path, "--init-image")?;
    }
    if args.sampling.ip_picture.is_empty() {
        for picture in &mut base.pictures {
            find(&mut picture.path, path, "--ip-picture")?;
            if let Some(PictureRegion::Mask { path: mask, .. }) = &mut picture.region {
                find(mask, path, "--ip-picture")?;
            }
        }
    }
    Ok(base)
}

/// The request `base` for the networks `model`, with whatever else is asked for; as it is where nothing is.
pub fn again(args: &Args, base: &Request, model: &ModelRequest) -> anyhow::Result<Vec<Request>> {
    let mut prompts = prompts(args)?;
    if prompts.is_empty() {
        prompts.push(base.prompt.clone());
    }
    let seeds = seeds(args).unwrap_or_else(|| vec![base.seed]);
    let mut requests = Vec::with_capacity(prompts.len() * seeds.len());
    for prompt in prompts {
        let mut request = base.clone();
        request.put_networks(model.clone());
        if request.prompt != prompt {
            // Both were about the other prompt.
            request.relations.clear();
            if let Some(delay) = &mut request.delay_order {
                delay.neutral_prompt = neutral(&prompt)?;
            }
            request.prompt = prompt;
        }
        let request = changed(args, request)?;
        requests.extend(with_seeds(&request, &seeds));
    }
    Ok(requests)
}

/// A search has found the picture of `base` alone: none of those that differ from it.
pub fn forget_search(base: &Request, requests: &mut [Request]) {
    for request in requests.iter_mut().filter(|request| **request != *base) {
        request.found = None;
    }
}

/// `request` with what the arguments say.
fn changed(args: &Args, mut request: Request) -> anyhow::Result<Request> {
    args.model.apply(&mut request.model);
    args.sampling.apply(&mut request);
    if let Some((to, at)) = args.change.switch() {
        request.switch = Some(PromptSwitch { to, at });
        request.delay_order = None;
    }
    if let Some(steps) = args.change.delay_order {
        let neutral_prompt = args.change.neutral(&request.prompt)?;
        request.switch = None;
        request.delay_order = Some(DelayedOrder {
            neutral_prompt,
            steps,
        });
    }
    if !args.guide.relation.is_empty() {
        request.relations.clone_from(&args.guide.relation);
    }
    if !args.guide.boxes.is_empty() {
        request.boxes.clone_from(&args.guide.boxes);
    }
    if !args.guide.region.is_empty() {
        request.regions.clone_from(&args.guide.region);
    }
    args.guide.apply(&mut request, args.sheet.chooses_guide())?;
    ensure!(
        args.model.ip_adapter.is_empty() || !request.pictures.is_empty(),
        "--ip-adapter shows pictures, but there are none; give one with --ip-picture FILE"
    );
    if let Some(path) = &args.init_image {
        let known = request.init.map(|init| (init.strength, init.upscale));
        let (strength, upscale) = known.unwrap_or((STRENGTH, None));
        request.init = Some(InitImage {
            path: path.clone(),
            strength,
            sha256: None,
            upscale,
        });
    }
    if let Some(strength) = args.strength {
        let init = request.init.as_mut();
        init.context("--strength is for pictures with a start picture: give --init-image")?
            .strength = strength;
    }
    Ok(request)
}

fn with_seeds<'a>(request: &'a Request, seeds: &'a [u64]) -> impl Iterator<Item = Request> + 'a {
    seeds.iter().map(|seed| Request {
        seed: *seed,
        ..request.clone()
    })
}

/// What `picture` was made from is named as it was typed then: as seen from here, or else it may lie beside the picture.
fn find(file: &mut PathBuf, picture: &Path, option: &str) -> anyhow::Result<()> {
    let beside = parent(picture).join(&file);
    if file.exists() {
        return Ok(());
    }
    ensure!(
        beside.exists(),
        "the picture {} is neither there nor beside {}; say where it is with {option}",
        file.display(),
        picture.display()
    );
    *file = beside;
    Ok(())
}

/// The prompts as typed, from files and from standard input.
fn prompts(args: &Args) -> anyhow::Result<Vec<String>> {
    let mut prompts = Vec::new();
    for prompt in &args.prompts {
        match prompt.as_str() {
            "-" => prompts.extend(from_standard_input()?),
            prompt => prompts.push(prompt.to_string()),
        }
    }
    for file in &args.prompt_files {
        match file.to_str() {
            Some("-") => prompts.extend(from_standard_input()?),
            _ => prompts.extend(from_file(file)?),
        }
    }
    Ok(prompts)
}

/// A prompt a line.
fn from_standard_input() -> anyhow::Result<Vec<String>> {
    let mut text = String::new();
    let mut input = std::io::stdin().lock().take(MOST_INPUT + 1);
    (input.read_to_string(&mut text)).context("cannot read prompts from standard input")?;
    ensure!(
        text.len() as u64 <= MOST_INPUT,
        "standard input is longer than {} MB; give the prompts as a file",
        MOST_INPUT >> 20
    );
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let prompts: Vec<String> = lines.map(Into::into).collect();
    ensure!(!prompts.is_empty(), "standard input has no prompt in it");
    Ok(prompts)
}

/// As `prepose run` reads it.
fn from_file(file: &Path) -> anyhow::Result<Vec<String>> {
    if !file.exists() {
        bail!("--prompts {}: there is no such file", file.display());
    }
    let suite = sets::open(&file.to_string_lossy())?;
    Ok(suite
        .prompts
        .into_iter()
        .map(|prompt| prompt.prompt)
        .collect())
}

fn seeds(args: &Args) -> Option<Vec<u64>> {
    match (&args.seeds, &args.seed) {
        (Some(Seeds(seeds)), _) => Some(seeds.clone()),
        (None, Some(Seed::Is(seed))) => Some(vec![*seed]),
        (None, Some(Seed::Random)) => Some(vec![random_seed()]),
        (None, None) => None,
    }
}

/// A seed that nobody chose, small enough to be typed.
fn random_seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::hash::RandomState::new().build_hasher().finish() >> 32
}
