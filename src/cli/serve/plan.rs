//! From what is wanted to requests of the engine.

mod refusal;
mod request;
mod second;

use std::sync::PoisonError;

use prepose::engine::Blueprint;
use prepose::make::check;
use prepose::request::{ModelRequest, Request, RewardKind, SearchConfig};
use prepose::search::AttentionScorer;
use prepose_serve::{Kind, Plan, Refusal, RequestWanted, Unit, Wanted};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::studio::{Model, Shared};
pub use refusal::told;
use refusal::{refused, refused_make};
use request::{model_of, networks, request, search_of};
pub use second::Second;

/// Checkpoints that are kept open to check requests.
const OPENED: usize = 8;

/// What is to be made.
///
/// # Errors
/// What is wrong with it.
pub fn plan(shared: &Shared, wanted: &Wanted) -> Result<Plan, Refusal> {
    let model = model_of(shared, &wanted.request)?;
    let networks = networks(shared, model, &wanted.request)?;
    let mut opened = shared.opened.lock().unwrap_or_else(PoisonError::into_inner);
    let blueprint = blueprint_of(&mut opened, &networks)?;
    let request = request(shared, &wanted.request, blueprint, &networks)?;
    let search = wanted.search.as_ref().map(search_of).transpose()?;
    if let Some(search) = &search {
        refuse_search(shared, wanted, search)?;
    }
    let kinds = match (&search, &request.guide) {
        (Some(_), _) => vec![Kind::Candidate],
        (None, Some(_)) if wanted.plain => vec![Kind::Plain, Kind::Guided],
        (None, Some(_)) => vec![Kind::Guided],
        (None, None) => vec![Kind::Plain],
    };
    let planning = Planning {
        shared,
        wanted,
        model,
        blueprint,
        search,
    };
    let mut units: Vec<Unit> = Vec::new();
    let mut lane = 0;
    let mut size = [request.width, request.height];
    for seed in wanted.seeds() {
        for &kind in &kinds {
            let one = Request {
                seed,
                ..request.clone()
            };
            let (unit, made) = planning.unit(one, kind, lane)?;
            lane += unit.candidates;
            size = made;
            units.push(unit);
        }
    }
    Ok(Plan {
        steps: units.last().map_or(0, |unit| unit.steps),
        units,
        size,
    })
}

/// Refuses a search that the server cannot make.
fn refuse_search(shared: &Shared, wanted: &Wanted, search: &SearchConfig) -> Result<(), Refusal> {
    if search.reward != RewardKind::Attention && shared.detector.is_none() {
        return Err(Refusal::new(
            "search.reward",
            "that reward needs a detector, and the server has none (--checker)",
        ));
    }
    if wanted.second_pass.is_some() {
        let message = "a search has no second pass; make one from the picture that it finds";
        return Err(Refusal::new("second_pass", message));
    }
    Ok(())
}

/// What all units of a job have in common.
struct Planning<'a> {
    shared: &'a Shared,
    wanted: &'a Wanted,
    model: &'a Model,
    blueprint: &'a Blueprint,
    search: Option<SearchConfig>,
}

impl Planning<'_> {
    /// The unit of a request, and the size of its picture.
    fn unit(
        &self,
        mut one: Request,
        kind: Kind,
        lane: usize,
    ) -> Result<(Unit, [usize; 2]), Refusal> {
        let (shared, wanted, blueprint) = (self.shared, self.wanted, self.blueprint);
        let search = self.search.as_ref();
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
        let pass = wanted.second_pass.as_ref();
        let second = pass.map(|pass| Second::over(blueprint, &mut one, pass));
        let mut second = second.transpose()?;
        let vocabulary = shared.vocabulary.as_deref();
        check(blueprint, &mut one, search, vocabulary).map_err(|error| refused_make(&error))?;
        let mut steps = blueprint
            .steps(&one)
            .map_err(|error| refused(&error, "request.steps"))?;
        let mut size = [one.width, one.height];
        let mut cost = one.width * one.height * steps;
        if let (Some(second), Some(pass)) = (&mut second, pass) {
            second.check(blueprint, &one, pass)?;
            size = [second.request.width, second.request.height];
            steps += second.steps;
            cost += size[0] * size[1] * second.steps;
        }
        let candidates = search.map_or(1, |search| search.best_of);
        let unit = Unit {
            key: key(blueprint, &one, second.as_ref(), wanted)?,
            seed: one.seed,
            kind,
            candidates,
            lane,
            steps,
            check: wanted.check && shared.detector.is_some(),
            previews: wanted.previews,
            maps: wanted.maps,
            request: said(&wire, &one, wanted, self.model),
            sent: Vec::new(),
            cost: (cost * candidates) as u64,
            order: json!({"request": one, "search": search, "second": second}),
        };
        Ok((unit, size))
    }
}

/// The checkpoint with its LoRAs, opened once; the last one used stands last.
fn blueprint_of<'a>(
    opened: &'a mut Vec<(ModelRequest, Blueprint)>,
    networks: &ModelRequest,
) -> Result<&'a Blueprint, Refusal> {
    let used = match opened.iter().position(|(known, _)| known == networks) {
        Some(at) => opened.remove(at),
        None => {
            let blueprint = Blueprint::open(networks);
            let blueprint = blueprint.map_err(|error| refused(&error, "request.loras"))?;
            if opened.len() == OPENED {
                opened.remove(0);
            }
            (networks.clone(), blueprint)
        }
    };
    opened.push(used);
    Ok(&opened[opened.len() - 1].1)
}

/// What units must agree in to be made together.
fn key(
    blueprint: &Blueprint,
    request: &Request,
    second: Option<&Second>,
    wanted: &Wanted,
) -> Result<String, Refusal> {
    let shape = |request: &Request| {
        let shape = blueprint.batch_shape(request);
        shape.map_err(|error| refused(&error, "request.prompt"))
    };
    let larger = second.map(|second| shape(&second.request)).transpose()?;
    let shape = shape(request)?;
    // Layers whose maps are read take another path through the kernels.
    let scored =
        wanted.maps && AttentionScorer::for_batch(blueprint, std::slice::from_ref(request)).is_ok();
    let text = format!("{shape:?} {larger:?} {} {scored}", wanted.maps);
    Ok(format!("{:x}", Sha256::digest(text)))
}

/// The request as it is told: in the words of the wire, with what was left to the checkpoint.
fn said(wire: &RequestWanted, request: &Request, wanted: &Wanted, model: &Model) -> Value {
    let mut said = json!(wire);
    said["width"] = json!(request.width);
    said["height"] = json!(request.height);
    said["steps"] = json!(request.steps);
    said["guidance_scale"] = json!(request.guidance_scale);
    said["checkpoint"] = json!(model.name);
    if let Some(second) = &wanted.second_pass {
        said["second_pass"] = json!(second);
    }
    said
}
