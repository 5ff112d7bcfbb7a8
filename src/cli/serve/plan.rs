//! From what is wanted to requests of the engine.

use std::path::PathBuf;
use std::sync::PoisonError;

use prepose::engine::{Blueprint, EngineError};
use prepose::guidance::GuidanceConfig;
use prepose::make::{MakeError, check};
use prepose::prompt::scene::GivenRelation;
use prepose::request::{
    InitImage, Lora, ModelRequest, Pruning, Request, RequestError, RewardKind, SearchConfig,
};
use prepose::sampling::schedulers::SchedulerError;
use prepose::search::AttentionScorer;
use prepose_serve::{Kind, LoraWanted, Plan, Refusal, RequestWanted, SearchWanted, Unit, Wanted};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::studio::{Model, Shared};

/// Checkpoints that are kept open to check requests.
const OPENED: usize = 8;

/// What is to be made.
///
/// # Errors
/// What is wrong with it.
pub fn plan(shared: &Shared, wanted: &Wanted) -> Result<Plan, Refusal> {
    let model = model_of(shared, &wanted.request)?;
    let networks = networks(shared, model, &wanted.request.loras)?;
    let mut opened = shared.opened.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(at) = opened.iter().position(|(known, _)| *known == networks) {
        let used = opened.remove(at);
        opened.push(used);
    } else {
        let blueprint = Blueprint::open(&networks);
        let blueprint = blueprint.map_err(|error| refused(&error, "request.loras"))?;
        if opened.len() == OPENED {
            opened.remove(0);
        }
        opened.push((networks.clone(), blueprint));
    }
    let Some((_, blueprint)) = opened.last() else {
        return Err(Refusal::new(None, "the checkpoint cannot be opened"));
    };
    let request = request(shared, &wanted.request, blueprint, &networks)?;
    let search = wanted.search.as_ref().map(search_of).transpose()?;
    if search
        .as_ref()
        .is_some_and(|search| search.reward != RewardKind::Attention)
        && shared.detector.is_none()
    {
        return Err(Refusal::new(
            "search.reward",
            "that reward needs a detector, and the server has none (--checker)",
        ));
    }
    let kinds = match (&search, &request.guide) {
        (Some(_), _) => vec![Kind::Candidate],
        (None, Some(_)) if wanted.plain => vec![Kind::Plain, Kind::Guided],
        (None, Some(_)) => vec![Kind::Guided],
        (None, None) => vec![Kind::Plain],
    };
    let mut units = Vec::new();
    let mut steps = 0;
    let mut lane = 0;
    for seed in wanted.seeds() {
        for &kind in &kinds {
            let mut one = Request {
                seed,
                ..request.clone()
            };
            let mut wire = wanted.request.clone();
            if kind == Kind::Plain {
                one.guide = None;
                wire.guide = None;
                // Boxes may be for GLIGEN's layers.
                if one.ground.is_none() {
                    one.boxes.clear();
                    wire.boxes.clear();
                }
            }
            let checked = check(
                blueprint,
                &mut one,
                search.as_ref(),
                shared.vocabulary.as_deref(),
            );
            checked.map_err(|error| refused_make(&error))?;
            steps = blueprint
                .steps(&one)
                .map_err(|error| refused(&error, "request.steps"))?;
            let candidates = search.as_ref().map_or(1, |search| search.best_of);
            units.push(Unit {
                key: key(blueprint, &one, wanted, units.len())?,
                seed,
                kind,
                candidates,
                lane,
                steps,
                check: wanted.check && shared.detector.is_some(),
                previews: wanted.previews,
                maps: wanted.maps,
                request: said(&wire, &one, model),
                cost: (one.width * one.height * steps * candidates) as u64,
                order: json!({"request": one, "search": search}),
            });
            lane += candidates;
        }
    }
    Ok(Plan {
        units,
        steps,
        size: [request.width, request.height],
    })
}

/// What units must agree in to be made together.
fn key(
    blueprint: &Blueprint,
    request: &Request,
    wanted: &Wanted,
    number: usize,
) -> Result<String, Refusal> {
    let shape = blueprint
        .batch_shape(request)
        .map_err(|error| refused(&error, "request.prompt"))?;
    // Layers whose maps are read take another path through the kernels.
    let scored =
        wanted.maps && AttentionScorer::for_batch(blueprint, std::slice::from_ref(request)).is_ok();
    let alone = wanted.search.as_ref().map(|_| number);
    let text = format!("{shape:?} {} {scored} {alone:?}", wanted.maps);
    Ok(format!("{:x}", Sha256::digest(text)))
}

/// The request as it is told: in the words of the wire, with what was left to the checkpoint.
fn said(wire: &RequestWanted, request: &Request, model: &Model) -> Value {
    let mut said = json!(wire);
    said["width"] = json!(request.width);
    said["height"] = json!(request.height);
    said["steps"] = json!(request.steps);
    said["guidance_scale"] = json!(request.guidance_scale);
    said["checkpoint"] = json!(model.name);
    if let Some(init) = &wire.init {
        // The bytes are the client's; their hash says which they were.
        said["init"] = json!({"image": init.image, "strength": init.strength});
    }
    said
}

fn model_of<'a>(shared: &'a Shared, wanted: &RequestWanted) -> Result<&'a Model, Refusal> {
    let Some(name) = &wanted.checkpoint else {
        return Ok(&shared.models[0]);
    };
    let found = shared.models.iter().find(|model| model.name == *name);
    found.ok_or_else(|| {
        let known: Vec<&str> = shared.models.iter().map(|model| &*model.name).collect();
        let name = prepose_untrusted::printable(name).to_string();
        Refusal {
            missing: true,
            ..Refusal::new(
                "request.checkpoint",
                format!(
                    "there is no checkpoint {name:?}; there are {}",
                    known.join(", ")
                ),
            )
        }
    })
}

/// The checkpoint with LoRAs of the server's folder, by name.
fn networks(shared: &Shared, model: &Model, loras: &[LoraWanted]) -> Result<ModelRequest, Refusal> {
    let mut networks = model.request.clone();
    for lora in loras {
        let path = shared.loras.get(&lora.name).ok_or_else(|| {
            let known: Vec<&str> = shared.loras.keys().map(String::as_str).collect();
            let name = prepose_untrusted::printable(&lora.name).to_string();
            let known = if known.is_empty() {
                "none".into()
            } else {
                known.join(", ")
            };
            Refusal::new(
                "request.loras",
                format!("there is no LoRA {name:?}; there are: {known}"),
            )
        })?;
        networks.loras.push(Lora {
            path: path.clone(),
            weight: lora.weight as f32,
        });
    }
    Ok(networks)
}

fn value<T: DeserializeOwned>(value: &Value, param: &'static str) -> Result<T, Refusal> {
    serde_json::from_value(value.clone()).map_err(|error| Refusal::new(param, error.to_string()))
}

fn request(
    shared: &Shared,
    wanted: &RequestWanted,
    blueprint: &Blueprint,
    networks: &ModelRequest,
) -> Result<Request, Refusal> {
    let mut request = blueprint.request(&wanted.prompt, networks);
    request.negative_prompt.clone_from(&wanted.negative_prompt);
    request.width = wanted.width.unwrap_or(request.width);
    request.height = wanted.height.unwrap_or(request.height);
    request.steps = wanted.steps.unwrap_or(request.steps);
    request.guidance_scale = wanted.guidance_scale.unwrap_or(request.guidance_scale);
    request.scheduler.clone_from(&wanted.scheduler);
    request.clip_skip = wanted.clip_skip.unwrap_or(0);
    if let Some(spacing) = &wanted.timestep_spacing {
        request.timestep_spacing = Some(value(&json!(spacing), "request.timestep_spacing")?);
    }
    if let Some(savings) = &wanted.savings {
        request.savings = value(savings, "request.savings")?;
    }
    for relation in &wanted.relations {
        let relation = relation
            .parse::<GivenRelation>()
            .map_err(|error| Refusal::new("request.relations", error.to_string()))?;
        request.relations.push(relation);
    }
    for given in &wanted.boxes {
        request.boxes.push(value(given, "request.boxes")?);
    }
    for given in &wanted.regions {
        request.regions.push(value(given, "request.regions")?);
    }
    request.ground = wanted
        .ground
        .as_ref()
        .map(|ground| value(ground, "request.ground"))
        .transpose()?;
    let guide = wanted
        .guide
        .as_ref()
        .map(|guide| value::<GuidanceConfig>(guide, "request.guide"));
    request.guide = guide.transpose()?;
    // Files are the server's affair.
    if (request.guide.as_ref()).is_some_and(|guide| guide.classifier.is_some()) {
        return Err(Refusal::new(
            "request.guide.classifier",
            "classifiers are those that the server's checkpoints come with; leave it out",
        ));
    }
    if let Some(noise) = &wanted.noise {
        request.noise = value(&json!(noise), "request.noise")?;
    }
    if let Some(init) = &wanted.init {
        let hash = init
            .image
            .strip_prefix("sha256:")
            .filter(|hash| hash.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let hash =
            hash.ok_or_else(|| Refusal::new("request.init.image", "the picture was not taken in"))?;
        request.init = Some(InitImage {
            path: shared.inbox.path().join(format!("{hash}.png")),
            strength: init.strength,
            sha256: None,
        });
    }
    Ok(request)
}

fn search_of(wanted: &SearchWanted) -> Result<SearchConfig, Refusal> {
    let reward = match &wanted.reward {
        Some(reward) => value(&json!(reward), "search.reward")?,
        None => RewardKind::default(),
    };
    if reward == RewardKind::Judge {
        return Err(Refusal::new(
            "search.reward",
            "the server has no judge; rewards are attention, checker, pse and relations",
        ));
    }
    let pruning = match &wanted.pruning {
        None | Some(Value::Null) => None,
        Some(Value::String(auto)) if auto == "auto" => Some(Pruning::Auto),
        Some(steps) => Some(Pruning::After(value(steps, "search.pruning")?)),
    };
    Ok(SearchConfig {
        best_of: wanted.best_of,
        reward,
        pruning,
    })
}

/// The message of an error, without the folders of this machine.
pub fn told(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let text = prepose_untrusted::message(causes.map(ToString::to_string));
    let words = text.split(' ').map(|word| {
        let path = PathBuf::from(
            word.trim_matches(|letter| matches!(letter, '"' | ',' | ';' | ':' | ')' | '(')),
        );
        match (path.is_absolute(), path.file_name()) {
            (true, Some(name)) => name.to_string_lossy().into_owned(),
            _ => word.to_owned(),
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

fn refused_make(error: &MakeError) -> Refusal {
    match error {
        MakeError::Engine(error) => refused(error, "request.prompt"),
        MakeError::Reward { .. } => Refusal::new("search.reward", told(error)),
        error => Refusal::new(None, told(error)),
    }
}

fn refused(error: &EngineError, otherwise: &'static str) -> Refusal {
    let param = match error {
        EngineError::Request(RequestError::Size { .. }) => "request.width",
        EngineError::Request(RequestError::Range { name, .. }) => match *name {
            "steps" => "request.steps",
            "guidance scale" => "request.guidance_scale",
            "strength" => "request.init.strength",
            "deep cache" | "tgate" | "token merging" => "request.savings",
            _ => otherwise,
        },
        EngineError::Request(RequestError::ClipSkip { .. }) => "request.clip_skip",
        EngineError::Request(
            RequestError::Gate { .. }
            | RequestError::Branch { .. }
            | RequestError::DeepCacheGuided { .. }
            | RequestError::GatedPrompt { .. }
            | RequestError::GatedComposition
            | RequestError::GatedGuidance { .. },
        ) => "request.savings",
        EngineError::Scheduler(SchedulerError::NoSpacing(_)) => "request.timestep_spacing",
        EngineError::Request(RequestError::Region { .. } | RequestError::SmallRegion { .. }) => {
            "request.regions"
        }
        EngineError::Prompt {
            which: "negative prompt",
            ..
        } => "request.negative_prompt",
        EngineError::Scheduler(_) => "request.scheduler",
        EngineError::Guidance(_) => "request.guide",
        EngineError::Search(_) => "search",
        EngineError::Scene { .. } => "request.relations",
        EngineError::Picture { .. } => "request.init.image",
        _ => otherwise,
    };
    Refusal::new(param, told(error))
}
