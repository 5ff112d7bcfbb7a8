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
    let edit = prompt.edit.as_ref();
    let plain = Request {
        // Moments are counted in the steps that are run, which of a picture that is changed are the last ones.
        init: edit.map(|edit| start(prompt, edit, job.seed)).transpose()?,
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
    if goes_by_boxes(&request) {
        give_boxes(&mut request, prompt)?;
    }
    if needs_scene(method) {
        give_relations(&mut request, prompt, blueprint);
    }
    blueprint.check(&mut request)?;
    if let Some(search) = &method.search {
        search::check(blueprint, &request, search)?;
    }
    Ok(request)
}

/// Gives `request` the relations that a set knows of `prompt`, also where English leaves them open or says something else. Where
/// the text itself says them, or the set knows of none, it stays as it is.
pub fn give_relations(request: &mut Request, prompt: &SuitePrompt, blueprint: &Blueprint) {
    if prompt.relations.is_empty() {
        return;
    }
    let with = |relations| Request {
        relations,
        ..request.clone()
    };
    let read = blueprint.scene(&with(Vec::new()));
    let told = with(given_relations(&prompt.objects, &prompt.relations));
    let given = blueprint.scene(&told);
    if !matches!((read, given), (Ok(read), Ok(given)) if read.relations == given.relations) {
        request.relations = told.relations;
    }
}

/// Gives `request` the boxes that a set has for the things of `prompt`, if it has any.
///
/// # Errors
/// A box that is none.
pub fn give_boxes(request: &mut Request, prompt: &SuitePrompt) -> Result<(), RunError> {
    if prompt.boxes.is_empty() {
        return Ok(());
    }
    let boxes = prompt.boxes.iter().map(|given| given.parse());
    let boxes: Result<Vec<ObjectBox>, _> = boxes.collect();
    request.boxes = boxes.map_err(|source| RunError::Box {
        prompt_id: prompt.prompt_id.clone(),
        source,
    })?;
    Ok(())
}

/// The picture of `seed` that a prompt changes.
///
/// # Errors
/// It is still to be made.
pub fn start(prompt: &SuitePrompt, edit: &Edit, seed: u64) -> Result<InitImage, RunError> {
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

/// Whether `request` puts things into boxes.
pub fn goes_by_boxes(request: &Request) -> bool {
    let guided = |guide: &GuidanceConfig| guide.method.needs() == Needs::Boxes;
    request.ground.is_some() || request.guide.as_ref().is_some_and(guided)
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

#[cfg(test)]
#[cfg(feature = "toybox")]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::suite::tests::plan;

    #[test]
    fn the_prompt_of_a_change_begins_with_the_steps_that_are_run() {
        let methods = [
            "delayed-order-0.5",
            "swapped-order-sigma4",
            "delayed-order-3",
        ];
        let mut plan = plan(1, 1, &methods);
        let model = plan.config.model.clone().unwrap();
        let blueprint = Blueprint::open(&model).unwrap();
        let sampling = plan.config.sampling.as_mut().unwrap();
        (sampling.steps, sampling.width, sampling.height) = (20, 64, 64);
        let moments = |plan: &Plan| {
            [0, 1, 2].map(|method| {
                let request = request(plan, &blueprint, plan.job(method)).unwrap();
                let levels = blueprint.noise_levels(&request).unwrap();
                (request.delay_order.unwrap().steps, levels)
            })
        };
        plan.prompts[0].prompt = "a dog to the left of a cat".into();
        plan.prompts[0].objects = vec!["dog".into(), "cat".into()];
        let [half, noisy, three] = moments(&plan);
        assert_eq!((half.0, half.1.len(), three.0), (10, 20, 3));
        let before = noisy.1.iter().filter(|level| **level > 4.0).count();
        assert_eq!(noisy.0, before);
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let picture = root.join("fixtures/pictures/rgb.png").display().to_string();
        plan.prompts[0].edit = Some(Edit {
            picture: Some(picture),
            strength: Some(0.9),
            ..Edit::default()
        });
        // Two steps fewer, the noisiest of all.
        let [half, noisy, three] = moments(&plan);
        assert_eq!((half.0, half.1.len(), three.0), (9, 18, 3));
        assert_eq!(noisy.0, before - 2);
    }
}
