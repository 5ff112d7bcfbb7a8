//! What is told about pictures that were made.

use std::sync::Arc;

use serde_json::{Value, json};

use super::super::{openai, options, sdlists};
use super::Fields;
use super::start::denoising;
use crate::app::App;
use crate::studio::Finished;
use crate::wire::Wanted;

/// What the interface's clients read as a string of JSON.
pub fn info(
    app: &App,
    fields: &Fields,
    wanted: &Wanted,
    pictures: &[(usize, Arc<Finished>)],
    [width, height]: [usize; 2],
) -> Value {
    let request = &wanted.request;
    let seeds: Vec<u64> = pictures.iter().map(|(_, picture)| picture.seed).collect();
    let texts: Vec<String> = pictures
        .iter()
        .map(|(_, picture)| sdlists::infotext(&picture.png))
        .collect();
    let model = request
        .checkpoint
        .clone()
        .or_else(|| openai::names(app).into_iter().next());
    let sampler = options::SAMPLERS
        .iter()
        .find(|(ours, ..)| request.scheduler.as_deref() == Some(ours));
    let (init, second) = (request.init.as_ref(), wanted.second_pass.as_ref());
    // As it was asked for: our own strength counts steps otherwise.
    let denoising = init.and_then(|_| denoising(fields).ok());
    let denoising = second.map(|second| second.strength).or(denoising);
    let verdicts: Vec<&Value> = pictures
        .iter()
        .map(|(_, picture)| &picture.verdict)
        .collect();
    json!({
        "prompt": request.prompt, "all_prompts": vec![&request.prompt; seeds.len()],
        "negative_prompt": request.negative_prompt, "all_negative_prompts": vec![&request.negative_prompt; seeds.len()],
        "seed": seeds.first(), "all_seeds": seeds, "subseed": 0, "all_subseeds": vec![0; seeds.len()], "subseed_strength": 0,
        "width": width, "height": height, "sampler_name": sampler.map(|(_, label, _)| *label),
        "cfg_scale": request.guidance_scale, "steps": request.steps, "batch_size": seeds.len(),
        "restore_faces": false, "sd_model_name": model, "sd_model_hash": null,
        "denoising_strength": denoising,
        "extra_generation_params": {"prepose": verdicts}, "index_of_first_image": 0, "infotexts": texts, "styles": [],
        "job_timestamp": "0", "clip_skip": request.clip_skip.unwrap_or(0) + 1, "is_using_inpainting_conditioning": false,
        "version": format!("prepose {}", env!("CARGO_PKG_VERSION")),
    })
}
