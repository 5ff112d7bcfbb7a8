//! From arguments to requests, and where each picture goes.

use std::collections::HashSet;
use std::path::PathBuf;

use anyhow::bail;
use prepose::engine::Blueprint;
use prepose::output::files::{free_name, parent, prepare_folder, slug};
use prepose::request::{DelayedOrder, InitImage, ModelRequest, PromptSwitch, Request};

use super::args::Args;
use crate::cli::values::Seeds;

/// What the arguments ask for: a picture of each prompt for each seed.
pub fn requests(
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
        let mut request = Request {
            switch: switch.clone(),
            delay_order: delay_order.clone(),
            relations: args.guide.relation.clone(),
            boxes: args.guide.boxes.clone(),
            guide: args.guide.config(),
            seed,
            init: init.clone(),
            ..blueprint.request(prompt, model)
        };
        args.sampling.apply(&mut request);
        request
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
pub fn targets(args: &Args, requests: &[Request]) -> anyhow::Result<Vec<PathBuf>> {
    let output = &args.out;
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
        let mut taken = HashSet::new();
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
