//! The requests of a run's jobs, and whether they can all be made.

use super::method::Method;
use super::plan::{Job, Plan};
use super::run::RunError;
use super::sets::given_relations;
use super::{Edit, SuitePrompt};
use crate::engine::{Blueprint, Engine};
use crate::guidance::boxes::ObjectBox;
use crate::guidance::{GuidanceConfig, Needs};
use crate::make::{BatchSize, MakeError, picture_reward, reward_kind};
use crate::request::{InitImage, Request};
use crate::search;

/// The request for a job, checked as far as possible without weights and without a detector.
///
/// # Errors
/// A prompt that the method or the networks cannot use.
pub fn request(plan: &Plan, blueprint: &Blueprint, job: Job) -> Result<Request, RunError> {
    let config = &plan.config;
    let (Some(model), Some(sampling)) = (&config.model, &config.sampling) else {
        return Err(RunError::Elsewhere);
    };
    let prompt = &plan.prompts[job.prompt];
    let method = &config.methods[job.method];
    let plain = Request {
        negative_prompt: sampling.negative_prompt.clone(),
        width: sampling.width,
        height: sampling.height,
        steps: sampling.steps,
        guidance_scale: sampling.guidance_scale,
        guidance_steps: sampling.guidance_steps,
        savings: sampling.savings,
        timestep_spacing: sampling.timestep_spacing,
        eta: sampling.eta,
        scheduler: Some(sampling.scheduler.clone()),
        clip_skip: sampling.clip_skip,
        noise: sampling.noise,
        vae_tiling: sampling.vae_tiling,
        pictures: sampling.pictures.clone(),
        ..blueprint.request(&prompt.prompt, model)
    };
    let levels = match method.begin {
        Some(_) => blueprint.noise_levels(&plain)?,
        None => Vec::new(),
    };
    let mut request = method.request(&plain, prompt, job.seed, &levels)?;
    if let Some(edit) = &prompt.edit {
        request.init = Some(start(prompt, edit, job.seed)?);
    }
    if goes_by_boxes(method) {
        let boxes = prompt.boxes.iter().map(|given| given.parse());
        let boxes: Result<Vec<ObjectBox>, _> = boxes.collect();
        request.boxes = boxes.map_err(|source| RunError::Box {
            prompt_id: prompt.prompt_id.clone(),
            source,
        })?;
    }
    if needs_scene(method) && !prompt.relations.is_empty() {
        // The set knows what its prompts say, also where English leaves it open or says something else.
        let read = blueprint.scene(&request);
        request.relations = given_relations(&prompt.objects, &prompt.relations);
        let given = blueprint.scene(&request);
        if matches!((read, given), (Ok(read), Ok(given)) if read.relations == given.relations) {
            request.relations.clear();
        }
    }
    blueprint.check(&mut request)?;
    if let Some(search) = &method.search {
        search::check(blueprint, &request, search)?;
    }
    Ok(request)
}

/// The picture that a prompt changes.
fn start(prompt: &SuitePrompt, edit: &Edit, seed: u64) -> Result<InitImage, RunError> {
    let path = edit.path(seed).ok_or_else(|| RunError::NoPicture {
        prompt_id: prompt.prompt_id.clone(),
    })?;
    Ok(InitImage {
        path: path.into(),
        strength: edit.strength.unwrap_or(Edit::STRENGTH),
        sha256: None,
        upscale: None,
    })
}

/// Whether a method must know where things belong.
fn needs_scene(method: &Method) -> bool {
    method.guide.is_some() || method.search.is_some() || method.ground.is_some()
}

/// Whether a method puts things into boxes.
fn goes_by_boxes(method: &Method) -> bool {
    let guided = |guide: &GuidanceConfig| guide.method.needs() == Needs::Boxes;
    method.ground.is_some() || method.guide.as_ref().is_some_and(guided)
}

/// Checks every prompt with every method as far as possible without weights. `labels` are those of the run's detector;
/// none if there is no detector.
///
/// # Errors
/// The first prompt that cannot be made, a search that needs a detector, all prompts whose candidates a search cannot
/// score.
pub fn check(
    plan: &Plan,
    blueprint: &Blueprint,
    labels: Option<&[String]>,
) -> Result<(), RunError> {
    for (index, method) in plan.config.methods.iter().enumerate() {
        let search = method.search.as_ref();
        let kind = search.and_then(|search| reward_kind(search.reward));
        if kind.is_some() && labels.is_none() {
            return Err(RunError::NoChecker {
                method: method.name.clone(),
            });
        }
        let (mut unscored, mut why) = (Vec::new(), None);
        for (prompt, job) in plan.prompts.iter().zip(plan.first_jobs(index)) {
            let request = request(plan, blueprint, job).map_err(|source| RunError::Prompt {
                method: method.name.clone(),
                prompt_id: prompt.prompt_id.clone(),
                source: source.into(),
            })?;
            let Some(kind) = kind else { continue };
            match picture_reward(blueprint, &request, kind, labels) {
                Ok(_) => {}
                Err(MakeError::Reward { source, .. }) => {
                    unscored.push(prompt.prompt_id.clone());
                    why.get_or_insert(source);
                }
                Err(error) => return Err(error.into()),
            }
        }
        if let (Some(search), Some(why)) = (search, why) {
            return Err(RunError::Unscored {
                method: method.name.clone(),
                reward: search.reward,
                prompts: plan.prompts.len(),
                unscored,
                why,
            });
        }
    }
    Ok(())
}

/// Pictures at a time: room is made for those of the method that takes most.
///
/// # Errors
/// A prompt that the method or the networks cannot use.
pub fn batch_size(batch: BatchSize, plan: &Plan, engine: &Engine) -> Result<usize, RunError> {
    /// On the CPU, where more at a time gain nothing.
    const ON_CPU: usize = 8;
    let mut least = usize::MAX;
    for method in 0..plan.config.methods.len() {
        if let Some(job) = plan.first_jobs(method).next() {
            let request = request(plan, engine.blueprint(), job)?;
            least = least.min(batch.choose(engine, &request, ON_CPU)?);
        }
    }
    Ok(least)
}
