//! Fields of the wire as the engine has them.

use std::path::PathBuf;

use prepose::engine::Blueprint;
use prepose::guidance::GuidanceConfig;
use prepose::prompt::scene::GivenRelation;
use prepose::request::{
    InitImage, Lora, ModelRequest, PicturePrompt, PictureRegion, Pruning, Request, RewardKind,
    SearchConfig,
};
use prepose::sampling::StepRange;
use prepose_serve::{PictureWanted, Refusal, RegionWanted, RequestWanted, SearchWanted};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::cli::serve::studio::{Model, Shared};

/// The checkpoint that is named, or the first.
pub(super) fn model_of<'a>(
    shared: &'a Shared,
    wanted: &RequestWanted,
) -> Result<&'a Model, Refusal> {
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

/// The checkpoint with LoRAs of the server's folder, by name, and with its IP-Adapters where they have something to show.
pub(super) fn networks(
    shared: &Shared,
    model: &Model,
    wanted: &RequestWanted,
) -> Result<ModelRequest, Refusal> {
    let mut networks = model.request.clone();
    if !wanted.pictures.is_empty() {
        if model.adapters.is_empty() {
            let message = format!(
                "the checkpoint {} has no IP-Adapter here, which shows pictures (--ip-adapter)",
                model.name
            );
            return Err(Refusal::new("request.pictures", message));
        }
        networks.adapters.clone_from(&model.adapters);
    }
    let files = shared.loras.files();
    for lora in &wanted.loras {
        let path = files.get(&lora.name).ok_or_else(|| {
            let known: Vec<&str> = files.keys().map(String::as_str).collect();
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

/// A field in the engine's words.
pub(super) fn value<T: DeserializeOwned>(value: &Value, param: &'static str) -> Result<T, Refusal> {
    serde_json::from_value(value.clone()).map_err(|error| Refusal::new(param, error.to_string()))
}

/// The engine's request, with what was left to the checkpoint.
pub(super) fn request(
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
    request.guidance_steps = wanted.guidance_steps.as_ref().map(steps_of).transpose()?;
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
    if let Some(guide) = &mut request.guide {
        // Files are the server's affair.
        if guide.classifier.is_some() {
            return Err(Refusal::new(
                "request.guide.classifier",
                "classifiers are those that the server's checkpoints come with; leave it out",
            ));
        }
        // It may be that of another checkpoint, by which a picture was made elsewhere.
        guide.classifier_sha256 = None;
    }
    if let Some(noise) = &wanted.noise {
        request.noise = value(&json!(noise), "request.noise")?;
    }
    if let Some(init) = &wanted.init {
        request.init = Some(InitImage {
            path: taken_in(shared, &init.image, "request.init.image")?,
            strength: init.strength,
            sha256: None,
            upscale: None,
        });
    }
    for shown in &wanted.pictures {
        request.pictures.push(picture(shared, shown)?);
    }
    Ok(request)
}

/// The file of a picture that was taken in.
fn taken_in(shared: &Shared, image: &str, param: &'static str) -> Result<PathBuf, Refusal> {
    let hash = image
        .strip_prefix("sha256:")
        .filter(|hash| hash.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let hash = hash.ok_or_else(|| Refusal::new(param, "the picture was not taken in"))?;
    Ok(shared.inbox.file(hash))
}

/// A picture that is shown.
fn picture(shared: &Shared, wanted: &PictureWanted) -> Result<PicturePrompt, Refusal> {
    const PARAM: &str = "request.pictures";
    let region = match &wanted.region {
        None => None,
        Some(RegionWanted::Box(corners)) => {
            Some(PictureRegion::Box(value(&json!(corners), PARAM)?))
        }
        Some(RegionWanted::Mask(mask)) => Some(PictureRegion::Mask {
            path: taken_in(shared, mask, PARAM)?,
            sha256: None,
        }),
    };
    Ok(PicturePrompt {
        adapter: wanted.adapter,
        scale: wanted.scale,
        first_step: wanted.first_step,
        last_step: wanted.last_step,
        region,
        ..PicturePrompt::new(taken_in(shared, &wanted.image, PARAM)?)
    })
}

/// Steps as `{first, last}`, or as `generate` takes them.
fn steps_of(given: &Value) -> Result<StepRange, Refusal> {
    const PARAM: &str = "request.guidance_steps";
    match given {
        Value::String(text) => text
            .parse()
            .map_err(|message: String| Refusal::new(PARAM, message)),
        Value::Object(_) => value(given, PARAM),
        _ => Err(Refusal::new(
            PARAM,
            "guidance_steps look like \"2-14\" or {\"first\": 2, \"last\": 14}, counted from 0",
        )),
    }
}

/// What a search is to be, of which the server has everything.
pub(super) fn search_of(wanted: &SearchWanted) -> Result<SearchConfig, Refusal> {
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
