//! OpenAI's images interface.

mod edits;
mod events;
mod wanted;

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::{Response, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::body::{self, Typed};
use super::native::{answer, aside};
use super::{Asking, Shared};
use crate::app::App;
use crate::guard::Caller;
use crate::jobs::{Api, Note, now};
use crate::picture;
use crate::problem::Problem;
use crate::studio::Finished;
pub use edits::edits;
use events::streamed;
use wanted::wanted;

pub async fn models(State(app): Shared) -> Response<Body> {
    let models: Vec<Value> = names(&app).iter().map(|name| of_model(name)).collect();
    answer(&json!({"object": "list", "data": models}))
}

pub async fn model(State(app): Shared, Path(id): Path<String>) -> Result<Response<Body>, Problem> {
    match names(&app).contains(&id) {
        true => Ok(answer(&of_model(&id))),
        false => Err(no_model(&app, &id)),
    }
}

fn of_model(name: &str) -> Value {
    json!({"id": name, "object": "model", "created": 0, "owned_by": "prepose"})
}

/// The names of the checkpoints; the default one first.
pub(super) fn names(app: &App) -> Vec<String> {
    let about = app.studio.about();
    let all = about["checkpoints"].as_array().cloned().unwrap_or_default();
    all.iter()
        .filter_map(|one| one["name"].as_str().map(str::to_owned))
        .collect()
}

fn no_model(app: &App, name: &str) -> Problem {
    let name = prepose_untrusted::printable(name).to_string();
    let known = names(app).join(", ");
    Problem::not_found(format!("there is no model {name:?}; there are {known}"))
        .at("model")
        .code("model_not_found")
}

/// How pictures are handed out.
#[derive(Clone, Debug)]
struct Form {
    format: String,
    quality: u8,
    stream: bool,
    partial: usize,
    edits: bool,
}

pub async fn generations(
    State(app): Shared,
    Extension(Asking(caller)): Extension<Asking>,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let fields: Map<String, Value> = body::json(request, &app.limits, Typed::Always).await?;
    make(app, caller, fields, None).await
}

async fn make(
    app: Arc<App>,
    caller: Caller,
    fields: Map<String, Value>,
    image: Option<Vec<u8>>,
) -> Result<Response<Body>, Problem> {
    let form = form(&fields, image.is_some())?;
    let mut awaited = aside(&app, move |app| {
        let wanted = wanted(app, &fields, image)?;
        app.await_job(caller, Api::OpenAi, wanted, None)
    })
    .await?;
    if form.stream {
        return Ok(streamed(awaited, form));
    }
    let mut pictures: Vec<(usize, Arc<Finished>)> = Vec::new();
    while let Some(note) = awaited.notes.recv().await {
        match note {
            Note::Preview(_) => {}
            Note::Picture(lane, picture) => pictures.push((lane, picture)),
            Note::Done => break,
            Note::Failed(message) => return Err(failed(&app, message)),
            Note::Cancelled => {
                return Err(Problem::new(StatusCode::CONFLICT, "the job was cancelled"));
            }
        }
    }
    pictures.sort_by_key(|(lane, _)| *lane);
    let size = awaited.size;
    let data = aside(&app, move |_| {
        let each = pictures
            .iter()
            .map(|(_, picture)| of_picture(picture, &form));
        Ok((each.collect::<Result<Vec<Value>, Problem>>()?, form))
    });
    let (data, form) = data.await?;
    Ok(answer(&json!({
        "created": now(), "data": data, "size": said(size), "quality": "auto", "output_format": form.format,
        "background": "opaque", "usage": usage(),
    })))
}

fn said([width, height]: [usize; 2]) -> String {
    format!("{width}x{height}")
}

/// Tokens mean nothing here.
fn usage() -> Value {
    json!({"input_tokens": 0, "output_tokens": 0, "total_tokens": 0,
           "input_tokens_details": {"text_tokens": 0, "image_tokens": 0}})
}

/// Why a job failed: 503 where the server ends, 500 otherwise.
pub(super) fn failed(app: &App, message: String) -> Problem {
    let status = match *app.closing.borrow() {
        true => StatusCode::SERVICE_UNAVAILABLE,
        false => StatusCode::INTERNAL_SERVER_ERROR,
    };
    Problem::new(status, message)
}

fn of_picture(picture: &Finished, form: &Form) -> Result<Value, Problem> {
    Ok(json!({
        "b64_json": encoded(&picture.png, form)?, "seed": crate::wire::Seed(picture.seed),
        "prepose": {"verdict": picture.verdict, "cost": picture.cost, "score": picture.score},
    }))
}

fn encoded(png: &[u8], form: &Form) -> Result<String, Problem> {
    let bytes = picture::convert(png, &form.format, form.quality);
    let bytes = bytes
        .map_err(|error| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    Ok(STANDARD.encode(bytes))
}

/// How pictures are to be handed out.
fn form(fields: &Map<String, Value>, edits: bool) -> Result<Form, Problem> {
    let given = |name: &str| fields.get(name).filter(|value| !value.is_null());
    let bad = |name: &'static str, message: &str| Problem::bad(message).at(name);
    let format = match given("output_format") {
        None => "png",
        Some(value) => {
            let known = value
                .as_str()
                .filter(|name| matches!(*name, "png" | "jpeg" | "webp"));
            known.ok_or_else(|| bad("output_format", "output_format is png, jpeg or webp"))?
        }
    };
    if let Some(value) = given("response_format")
        && value != "b64_json"
    {
        return Err(bad(
            "response_format",
            "pictures come as b64_json; addresses (url) are not given out",
        ));
    }
    if given("background").is_some_and(|value| value == "transparent") {
        return Err(bad(
            "background",
            "pictures have no transparent background; leave it out",
        ));
    }
    let stream = match given("stream") {
        None => false,
        Some(value) => value
            .as_bool()
            .ok_or_else(|| bad("stream", "stream is true or false"))?,
    };
    let whole = |name: &'static str, most: u64, otherwise: u64| match given(name) {
        None => Ok(otherwise),
        Some(value) => {
            let number = value.as_u64().filter(|number| *number <= most);
            number.ok_or_else(|| bad(name, &format!("{name} is a whole number from 0 to {most}")))
        }
    };
    Ok(Form {
        format: format.to_owned(),
        quality: whole("output_compression", 100, 95)? as u8,
        stream,
        partial: whole("partial_images", 3, 0)? as usize,
        edits,
    })
}
