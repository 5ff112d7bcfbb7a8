//! From arguments to requests.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use prepose::engine::Blueprint;
use prepose::output::files::parent;
use prepose::request::{
    DelayedOrder, InitImage, ModelRequest, PictureRegion, PromptSwitch, Request,
};
use prepose::suite::requests::{give_boxes, give_relations, goes_by_boxes, start};
use prepose::suite::{SuitePrompt, sets};
use prepose_untrusted::printable;

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
        let request = blueprint.request(&prompt.prompt, model);
        requests.extend(of_prompt(args, blueprint, prompt, request, &seeds)?);
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
pub fn again(
    args: &Args,
    base: &Request,
    model: &ModelRequest,
    blueprint: &Blueprint,
) -> anyhow::Result<Vec<Request>> {
    let mut prompts = prompts(args)?;
    if prompts.is_empty() {
        prompts.push(plain(&base.prompt));
    }
    let seeds = seeds(args).unwrap_or_else(|| vec![base.seed]);
    let mut requests = Vec::with_capacity(prompts.len() * seeds.len());
    for prompt in &prompts {
        let mut request = base.clone();
        request.put_networks(model.clone());
        if request.prompt != prompt.prompt {
            // Both were about the other prompt.
            request.relations.clear();
            if let Some(delay) = &mut request.delay_order {
                delay.neutral_prompt.clear();
            }
            request.prompt.clone_from(&prompt.prompt);
        }
        requests.extend(of_prompt(args, blueprint, prompt, request, &seeds)?);
    }
    Ok(requests)
}

/// A search has found the picture of `base` alone: none of those that differ from it, once `sign` has put in which files make
/// them.
///
/// # Errors
/// That of `sign`.
pub fn forget_search(
    base: &Request,
    requests: &mut [Request],
    sign: impl Fn(&mut Request) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    for request in requests.iter_mut().filter(|one| one.found.is_some()) {
        let mut signed = request.clone();
        sign(&mut signed)?;
        if signed != *base {
            request.found = None;
        }
    }
    Ok(())
}

/// `request` of `prompt` for each of `seeds`, with what the arguments say, or else the file that the prompt is from.
fn of_prompt(
    args: &Args,
    blueprint: &Blueprint,
    prompt: &SuitePrompt,
    mut request: Request,
    seeds: &[u64],
) -> anyhow::Result<Vec<Request>> {
    let edit = (prompt.edit.as_ref()).filter(|_| args.init_image.is_none());
    if let Some(edit) = edit {
        ensure!(
            args.sheet.grid.is_none() || edit.path(0) == edit.path(1),
            "--grid: \"{}\" changes another picture for each seed, which a sheet cannot do; leave out --grid",
            printable(&prompt.prompt)
        );
        request.init = Some(start(prompt, edit, 0)?);
    }
    let mut request = changed(args, request)?;
    give_neutral(args, blueprint, prompt, &mut request)?;
    let mut request = with_relations(args, blueprint, prompt, request);
    // The boxes of a sheet's cells are those of the methods that go by boxes.
    let boxed = goes_by_boxes(&request) || args.sheet.chooses_guide();
    if boxed && args.guide.boxes.is_empty() && request.switch.is_none() {
        give_boxes(&mut request, prompt)?;
    }
    let with_seed = |seed: &u64| {
        let mut request = Request {
            seed: *seed,
            ..request.clone()
        };
        if let (Some(edit), Some(init)) = (edit, &mut request.init) {
            init.path = start(prompt, edit, *seed)?.path;
        }
        anyhow::Ok(request)
    };
    seeds.iter().map(with_seed).collect()
}

/// `request` with the relations that the file of `prompt` gives, for what reads them and for judges of the picture.
fn with_relations(
    args: &Args,
    blueprint: &Blueprint,
    prompt: &SuitePrompt,
    request: Request,
) -> Request {
    // A picture that ends with another prompt does not show what the file speaks of.
    let elsewhere = !args.guide.relation.is_empty() || request.switch.is_some();
    if elsewhere || prompt.relations.is_empty() {
        return request;
    }
    let mut given = request.clone();
    // What does nothing with its scheduler is left out or refused when all cells of a sheet are known.
    if blueprint.drop_inert(&mut given).is_err() {
        return request;
    }
    give_relations(&mut given, prompt, blueprint);
    let guided = request.guide.is_some() || args.sheet.chooses_guide();
    let reads = guided || request.ground.is_some() || args.reads_scene();
    // Where nothing reads them, relations between parts of a composed prompt are in nobody's way.
    match reads || blueprint.scene(&given).is_ok() {
        true => Request {
            relations: given.relations,
            ..request
        },
        false => request,
    }
}

/// The neutral prompt of `request`, which begins with one, where it is still empty.
fn give_neutral(
    args: &Args,
    blueprint: &Blueprint,
    prompt: &SuitePrompt,
    request: &mut Request,
) -> anyhow::Result<()> {
    let is_open = |delay: &DelayedOrder| delay.neutral_prompt.is_empty();
    if request.delay_order.as_ref().is_some_and(is_open) {
        // As in `with_relations`.
        let mut counted = request.clone();
        blueprint.drop_inert(&mut counted)?;
        let steps = blueprint.steps(&counted)?;
        let known = prompt.neutral.as_deref();
        let neutral_prompt = args.change.neutral(&request.prompt, known, steps)?;
        if let Some(delay) = &mut request.delay_order {
            delay.neutral_prompt = neutral_prompt;
        }
    }
    Ok(())
}

/// `request` with what the arguments say. Its neutral prompt, which depends on all else, is left empty.
fn changed(args: &Args, mut request: Request) -> anyhow::Result<Request> {
    args.model.apply(&mut request.model);
    args.sampling.apply(&mut request);
    if let Some((to, at)) = args.change.switch() {
        request.switch = Some(PromptSwitch { to, at });
        request.delay_order = None;
    }
    if let Some(steps) = args.change.delay_order {
        request.switch = None;
        request.delay_order = Some(DelayedOrder {
            neutral_prompt: String::new(),
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
fn prompts(args: &Args) -> anyhow::Result<Vec<SuitePrompt>> {
    let mut prompts = Vec::new();
    for prompt in &args.prompts {
        match prompt.as_str() {
            "-" => prompts.extend(from_standard_input()?),
            prompt => prompts.push(plain(prompt)),
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

/// A prompt of which nothing is known but its text.
fn plain(prompt: &str) -> SuitePrompt {
    SuitePrompt {
        prompt: prompt.to_owned(),
        ..SuitePrompt::default()
    }
}

/// A prompt a line.
fn from_standard_input() -> anyhow::Result<Vec<SuitePrompt>> {
    let mut text = String::new();
    let mut input = std::io::stdin().lock().take(MOST_INPUT + 1);
    (input.read_to_string(&mut text)).context("cannot read prompts from standard input")?;
    ensure!(
        text.len() as u64 <= MOST_INPUT,
        "standard input is longer than {} MB; give the prompts as a file",
        MOST_INPUT >> 20
    );
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let prompts: Vec<SuitePrompt> = lines.map(plain).collect();
    ensure!(!prompts.is_empty(), "standard input has no prompt in it");
    Ok(prompts)
}

/// As `prepose run` reads it.
fn from_file(file: &Path) -> anyhow::Result<Vec<SuitePrompt>> {
    if !file.exists() {
        bail!("--prompts {}: there is no such file", file.display());
    }
    Ok(sets::open(&file.to_string_lossy())?.prompts)
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
