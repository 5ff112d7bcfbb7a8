//! From arguments to the plan of a run.

use anyhow::{bail, ensure};
use prepose::engine::Blueprint;
use prepose::request::{ModelRequest, Savings};
use prepose::suite::examiner::labels;
use prepose::suite::method::Method;
use prepose::suite::plan::{Plan, RunConfig, Sampling, SourceId};
use prepose::suite::shard::Shard;
use prepose::suite::{Suite, SuitePrompt};

use super::args::Settings;
use super::detectors::DetectorSpecs;
use crate::cli::memory::Tiling;

/// The most pictures that a run can have: at one a second they take four months.
const MOST_PICTURES: usize = 10_000_000;

/// The prompts that are run.
pub fn prompts(
    mut suite: Suite,
    args: &Settings,
    detectors: &DetectorSpecs,
) -> anyhow::Result<Suite> {
    let all = suite.prompts.len();
    if let Some(vocabulary) = detectors.labels() {
        let known = |prompt: &SuitePrompt| labels(prompt, Some(vocabulary));
        if args.known_objects {
            suite.prompts.retain(|prompt| known(prompt).is_ok());
            ensure!(
                !suite.prompts.is_empty(),
                "none of the {all} prompts has only objects that the checker knows"
            );
        } else {
            let unknown = suite
                .prompts
                .iter()
                .find_map(|prompt| Some((prompt, known(prompt).err()?)));
            if let Some((prompt, why)) = unknown {
                let count = suite
                    .prompts
                    .iter()
                    .filter(|prompt| known(prompt).is_err())
                    .count();
                bail!(
                    "{count} of {all} prompts name objects that --checker {} does not know, for example {:?}: {why}; \
                     --known-objects leaves them out, --checker none looks at nothing",
                    args.checker(),
                    prompt.prompt_id
                );
            }
        }
    }
    suite.thin(args.every, args.limit);
    ensure!(!suite.prompts.is_empty(), "--limit 0 leaves no prompts");
    Ok(suite)
}

/// The run that the arguments ask for, of pictures that are made here.
pub fn plan(
    args: &Settings,
    suite: Suite,
    mut methods: Vec<Method>,
    model: ModelRequest,
    blueprint: &Blueprint,
    detectors: &DetectorSpecs,
) -> anyhow::Result<Plan> {
    let defaults = blueprint.defaults();
    let asked = &args.sampling;
    let (width, height) = asked.size(&defaults);
    let vae_tiling = match asked.vae_tiling.unwrap_or(Tiling::Off) {
        Tiling::On => true,
        Tiling::Off => false,
        Tiling::Auto => bail!(
            "--vae-tiling=auto lets the memory of a machine decide, and the pictures of a run must not depend on that; \
             say on or off"
        ),
    };
    let mut pictures = asked.ip_picture.clone();
    let shown = methods
        .iter_mut()
        .filter_map(|method| method.pictures.as_mut());
    for pictures in shown.chain([&mut pictures]) {
        blueprint.record_pictures(pictures)?;
    }
    for guide in methods
        .iter_mut()
        .filter_map(|method| method.guide.as_mut())
    {
        blueprint.record_classifier(guide)?;
    }
    let kind = asked.scheduler.map(|kind| kind.to_string());
    let sampling = Sampling {
        steps: asked.steps.unwrap_or(defaults.steps),
        guidance_scale: asked.guidance_scale.unwrap_or(defaults.guidance_scale),
        guidance_steps: asked.guidance_steps,
        savings: asked.savings.over(Savings::default()),
        timestep_spacing: asked.timestep_spacing,
        eta: asked.eta,
        scheduler: blueprint.scheduler_name(kind.as_deref())?,
        width,
        height,
        negative_prompt: asked.negative_prompt.clone().unwrap_or_default(),
        noise: asked.noise(),
        clip_skip: asked.clip_skip.unwrap_or(0),
        vae_tiling,
        pictures,
    };
    let mut plan = common(args, suite, methods, detectors)?;
    plan.config.model = Some(model);
    plan.config.sampling = Some(sampling);
    Ok(plan)
}

/// The run that the arguments ask for, of pictures from elsewhere.
pub fn plan_elsewhere(
    args: &Settings,
    suite: Suite,
    methods: Vec<Method>,
    source: SourceId,
    detectors: &DetectorSpecs,
) -> anyhow::Result<Plan> {
    let mut plan = common(args, suite, methods, detectors)?;
    plan.config.source = Some(source);
    Ok(plan)
}

/// One picture of each prompt for each of these.
pub fn seeds(args: &Settings, suite: &Suite) -> Vec<u64> {
    match &args.seeds {
        Some(seeds) => seeds.0.clone(),
        None => (0..suite.pictures_per_prompt as u64).collect(),
    }
}

/// What runs have whoever makes their pictures.
fn common(
    args: &Settings,
    suite: Suite,
    methods: Vec<Method>,
    detectors: &DetectorSpecs,
) -> anyhow::Result<Plan> {
    let seeds = seeds(args, &suite);
    let pictures = (suite.prompts.len())
        .checked_mul(seeds.len())
        .and_then(|number| number.checked_mul(methods.len()));
    ensure!(
        pictures.is_some_and(|number| number <= MOST_PICTURES),
        "{} prompts, {} seeds and {} methods are more than the {MOST_PICTURES} pictures that a run can have; --every, \
         --limit and --seeds make it smaller",
        suite.prompts.len(),
        seeds.len(),
        methods.len()
    );
    let mut sorted = seeds.clone();
    sorted.sort_unstable();
    if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        bail!(
            "--seeds has {} twice; a seed stands for one picture",
            twice[0]
        );
    }
    let judge = match &args.judge {
        Some(judge) if methods.iter().any(Method::asks_judge) => Some(judge.model.id()?),
        _ => None,
    };
    let config = RunConfig {
        suite: suite.id()?,
        prompts: suite.prompts.len(),
        seeds,
        methods,
        model: None,
        sampling: None,
        source: None,
        checker: detectors.id()?,
        judge,
        attention_maps: args.save_attention_maps,
        shard: shard(args)?,
    };
    Ok(Plan {
        config,
        prompts: suite.prompts,
    })
}

/// The part of the run to make, if it is divided.
pub fn shard(args: &Settings) -> anyhow::Result<Option<Shard>> {
    Ok(Shard::choose(args.shard, args.shards, |name| {
        std::env::var(name).ok()
    })?)
}
