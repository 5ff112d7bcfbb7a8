//! OpenAI's images interface.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::{FromRequest, Multipart, Path, Request, State};
use axum::http::{Response, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::stream;
use serde_json::{Map, Value, json};

use super::body::{self, Typed};
use super::native::{answer, aside};
use super::{Asking, Shared, options, stream as events};
use crate::app::{App, Awaited};
use crate::guard::Caller;
use crate::jobs::{Api, Note, now};
use crate::picture;
use crate::problem::{Problem, Refusal};
use crate::studio::Finished;
use crate::wire::{RequestWanted, Wanted};

/// Of a text field in a form.
const MOST_TEXT: usize = 64 << 10;
/// Of a form.
const MOST_PARTS: usize = 64;

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

pub async fn edits(
    State(app): Shared,
    Extension(Asking(caller)): Extension<Asking>,
    request: Request,
) -> Result<Response<Body>, Problem> {
    if body::media_type(request.headers()) != "multipart/form-data" {
        let message =
            "pictures are edited by a form: multipart/form-data with the parts image and prompt";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
    }
    let (parts, whole) = request.into_parts();
    let bytes = body::bytes(whole, &app.limits).await?;
    let request = Request::from_parts(parts, Body::from(bytes));
    let wrong = |message: String| Problem::bad(format!("the form cannot be read: {message}"));
    let form = Multipart::from_request(request, &()).await;
    let mut form = form.map_err(|error| wrong(error.body_text()))?;
    let mut fields = Map::new();
    let mut image = None;
    for _ in 0..=MOST_PARTS {
        let Some(part) = form
            .next_field()
            .await
            .map_err(|error| wrong(error.body_text()))?
        else {
            let image = image
                .ok_or_else(|| Problem::bad("the form has no part called image").at("image"))?;
            return make(app, caller, fields, Some(image)).await;
        };
        // File names and types are the client's word; the bytes say what it is.
        let name = part
            .name()
            .unwrap_or_default()
            .trim_end_matches("[]")
            .to_owned();
        let bytes = part
            .bytes()
            .await
            .map_err(|error| wrong(error.body_text()))?;
        match &*name {
            "image" if image.is_none() => image = Some(bytes.to_vec()),
            "image" => {
                return Err(Problem::bad("one picture can be begun with, not several").at("image"));
            }
            "mask" => {
                let message = "masks are not supported: the whole picture is made anew from the one that is sent, as far as strength says";
                return Err(Problem::bad(message).at("mask"));
            }
            _ if bytes.len() > MOST_TEXT => {
                return Err(Problem::bad(format!(
                    "a field has more than {MOST_TEXT} bytes"
                )));
            }
            _ => {
                let text = std::str::from_utf8(&bytes);
                let text = text.map_err(|_| Problem::bad("a field of the form is not UTF-8"))?;
                // Text fields of forms hold numbers, flags and objects as JSON.
                let texts =
                    ["prompt", "negative_prompt", "model", "size", "user"].contains(&&*name);
                let value = serde_json::from_str(text).ok().filter(|_| !texts);
                fields.insert(name, value.unwrap_or_else(|| json!(text)));
            }
        }
    }
    Err(Problem::bad(format!(
        "the form has more than {MOST_PARTS} parts"
    )))
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

/// What is wanted, in our words.
fn wanted(
    app: &App,
    fields: &Map<String, Value>,
    image: Option<Vec<u8>>,
) -> Result<Wanted, Problem> {
    let given = |name: &str| fields.get(name).filter(|value| !value.is_null());
    let refuse = |name: &'static str, message: String| Problem::from(Refusal::new(name, message));
    let prompt = given("prompt").ok_or_else(|| refuse("prompt", "there is no prompt".into()))?;
    let prompt = prompt
        .as_str()
        .ok_or_else(|| refuse("prompt", "the prompt is a text".into()))?;
    let mut wanted = Wanted::of(RequestWanted {
        prompt: prompt.into(),
        ..RequestWanted::default()
    });
    // Fields of ours stand beside OpenAI's, or in an object of their own, where nothing is ignored.
    options::ours(fields, &mut wanted)?;
    if let Some(own) = given("prepose") {
        let own = own
            .as_object()
            .ok_or_else(|| refuse("prepose", "prepose is an object".into()))?;
        let known = json!({"request": {"prompt": ""}, "search": null, "check": true});
        for name in own.keys() {
            let mut probe = json!({"prompt": ""});
            probe[name.as_str()] = own[name].clone();
            let beside = known.get(name.as_str()).is_some() && name != "request";
            if !beside && let Err(error) = serde_json::from_value::<RequestWanted>(probe) {
                return Err(refuse("prepose", format!("prepose: {error}")));
            }
        }
        options::ours(own, &mut wanted)?;
    }
    if let Some(size) = given("size").filter(|size| *size != "auto") {
        let sides = size
            .as_str()
            .and_then(|size| size.split_once(['x', 'X', '×']));
        let sides = sides.and_then(|(width, height)| {
            Some((width.trim().parse().ok()?, height.trim().parse().ok()?))
        });
        let (width, height) = sides.ok_or_else(|| {
            refuse(
                "size",
                "size is WIDTHxHEIGHT in pixels, as 512x512, or auto".into(),
            )
        })?;
        (wanted.request.width, wanted.request.height) = (Some(width), Some(height));
    }
    if let Some(model) = given("model") {
        let model = model
            .as_str()
            .ok_or_else(|| refuse("model", "model is a name".into()))?;
        match names(app).iter().any(|name| name == model) {
            true => wanted.request.checkpoint = Some(model.into()),
            false if app.any_model => {}
            false => return Err(no_model(app, model)),
        }
    }
    let pictures = match given("n") {
        None => 1,
        Some(n) => {
            let n = n.as_u64().filter(|n| (1..=10).contains(n));
            n.ok_or_else(|| refuse("n", "n is a whole number from 1 to 10".into()))? as usize
        }
    };
    let streams = given("stream").is_some_and(|stream| stream == true);
    if streams && pictures > 1 {
        return Err(refuse(
            "n",
            "streams are of one picture: their events do not say which one they are of".into(),
        ));
    }
    let seed = wanted
        .request
        .seed
        .map_or_else(options::any_seed, |seed| seed.0);
    wanted.seeds = options::seeds(seed, pictures);
    wanted.previews =
        usize::from(streams && given("partial_images").is_some_and(|partial| *partial != json!(0)));
    if let Some(bytes) = image {
        let strength = match given("strength") {
            None => 0.75,
            Some(strength) => strength.as_f64().ok_or_else(|| {
                refuse(
                    "strength",
                    "strength is a number above 0 and at most 1".into(),
                )
            })?,
        };
        wanted.request.init = Some(options::init(&bytes, strength));
    }
    Ok(wanted)
}

/// The events of one picture.
fn streamed(awaited: Awaited, form: Form) -> Response<Body> {
    let state = (awaited, form, 0usize, false);
    let events = stream::unfold(
        state,
        |(mut awaited, form, mut shown, mut ended)| async move {
            loop {
                if ended {
                    return None;
                }
                let text = match awaited.notes.recv().await? {
                    Note::Preview(png) if due(&awaited, shown, form.partial) => {
                        let about = about(&awaited, &form);
                        let Ok(picture) = encoded(&png, &form) else {
                            continue;
                        };
                        let kind = kind(&form, "partial_image");
                        shown += 1;
                        let mut event = json!({"type": kind, "b64_json": picture, "partial_image_index": shown - 1});
                        merge(&mut event, about);
                        events::event(None, &kind, &event.to_string())
                    }
                    Note::Picture(_, picture) => {
                        let about = about(&awaited, &form);
                        let kind = kind(&form, "completed");
                        ended = true;
                        let event = encoded(&picture.png, &form).map(|encoded| {
                        let mut event = json!({"type": kind, "b64_json": encoded, "usage": usage(), "seed": crate::wire::Seed(picture.seed)});
                        merge(&mut event, about);
                        event
                    });
                        match event {
                            Ok(event) => events::event(None, &kind, &event.to_string()),
                            Err(problem) => {
                                events::event(None, "error", &problem.body().to_string())
                            }
                        }
                    }
                    Note::Failed(message) => {
                        ended = true;
                        let problem = Problem::new(StatusCode::INTERNAL_SERVER_ERROR, message);
                        events::event(None, "error", &problem.body().to_string())
                    }
                    Note::Done | Note::Cancelled => return None,
                    Note::Preview(_) => continue,
                };
                return Some((Ok::<_, Infallible>(text), (awaited, form, shown, ended)));
            }
        },
    );
    events::answer(Body::from_stream(events))
}

/// Whether the next of `partial` pictures is due: they come evenly over the steps.
fn due(awaited: &Awaited, shown: usize, partial: usize) -> bool {
    let state = awaited.job.state();
    shown < partial && state.step * (partial + 1) >= state.of.max(1) * (shown + 1)
}

fn kind(form: &Form, what: &str) -> String {
    let family = if form.edits {
        "image_edit"
    } else {
        "image_generation"
    };
    format!("{family}.{what}")
}

fn about(awaited: &Awaited, form: &Form) -> Value {
    json!({"created_at": now(), "size": said(awaited.size), "quality": "auto", "background": "opaque", "output_format": form.format})
}

fn merge(event: &mut Value, more: Value) {
    if let (Value::Object(event), Value::Object(more)) = (event, more) {
        event.extend(more);
    }
}
