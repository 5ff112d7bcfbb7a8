//! AUTOMATIC1111's interface: pictures, progress, interrupting. Its clients send `null` everywhere, numbers as floats, and
//! names for samplers that have changed over the years.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::Response;
use axum::response::IntoResponse;
use axum::routing::{get, post};
use axum::{Extension, Router};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::body::{self, Typed};
use super::native::{answer, aside};
use super::{Asking, Shared, openai, options, sdlists};
use crate::app::App;
use crate::guard::Caller;
use crate::jobs::{Api, Note, Status};
use crate::picture;
use crate::problem::{Problem, Refusal};
use crate::studio::Finished;
use crate::wire::{RequestWanted, Wanted};

/// The routes.
pub fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/sdapi/v1/txt2img", post(txt2img))
        .route("/sdapi/v1/img2img", post(img2img))
        .route("/sdapi/v1/progress", get(progress))
        .route("/sdapi/v1/interrupt", post(interrupt))
        .route("/sdapi/v1/skip", post(interrupt))
        .route("/internal/progress", post(internal_progress))
        .merge(sdlists::routes())
}

/// An answer, or a problem in this interface's form.
pub(super) type Told = Result<Response<Body>, Wrong>;

/// A problem in AUTOMATIC1111's form.
pub(super) struct Wrong(Problem);

impl<P: Into<Problem>> From<P> for Wrong {
    fn from(problem: P) -> Self {
        Self(problem.into().webui())
    }
}

impl IntoResponse for Wrong {
    fn into_response(self) -> Response<Body> {
        self.0.into_response()
    }
}

async fn txt2img(
    State(app): Shared,
    Extension(Asking(caller)): Extension<Asking>,
    request: Request,
) -> Told {
    let fields = body::json(request, &app.limits, Typed::UnlessEmpty).await?;
    make(app, caller, fields, false).await
}

async fn img2img(
    State(app): Shared,
    Extension(Asking(caller)): Extension<Asking>,
    request: Request,
) -> Told {
    let fields = body::json(request, &app.limits, Typed::UnlessEmpty).await?;
    make(app, caller, fields, true).await
}

/// The fields of a request; `null` is as good as none.
struct Fields(Map<String, Value>);

impl Fields {
    fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    fn text(&self, name: &'static str) -> Result<Option<&str>, Refusal> {
        let text = |value: &'_ Value| value.is_string();
        match self.get(name) {
            Some(value) if !text(value) => Err(Refusal::new(name, format!("{name} is a text"))),
            value => Ok(value.and_then(Value::as_str)),
        }
    }

    fn number(&self, name: &'static str) -> Result<Option<f64>, Refusal> {
        let Some(value) = self.get(name) else {
            return Ok(None);
        };
        let number = value.as_f64().filter(|number| number.is_finite());
        number
            .map(Some)
            .ok_or_else(|| Refusal::new(name, format!("{name} is a number")))
    }

    /// A whole number, also as `20.0`.
    fn whole(&self, name: &'static str) -> Result<Option<i64>, Refusal> {
        if let Some(whole) = self.get(name).and_then(Value::as_i64) {
            return Ok(Some(whole));
        }
        let number = self.number(name)?;
        let whole = number
            .map(|number| (number.fract() == 0.0 && number.abs() < 9e15).then_some(number as i64));
        match whole {
            Some(None) => Err(Refusal::new(name, format!("{name} is a whole number"))),
            Some(whole) => Ok(whole),
            None => Ok(None),
        }
    }

    fn at_least_one(&self, name: &'static str) -> Result<Option<usize>, Refusal> {
        let number = self.whole(name)?;
        match number {
            Some(number) if number < 1 => Err(Refusal::new(name, format!("{name} is at least 1"))),
            number => Ok(number.map(|number| number as usize)),
        }
    }

    fn flag(&self, name: &'static str, otherwise: bool) -> bool {
        self.get(name).and_then(Value::as_bool).unwrap_or(otherwise)
    }
}

async fn make(app: Arc<App>, caller: Caller, fields: Map<String, Value>, edits: bool) -> Told {
    let fields = Arc::new(Fields(fields));
    let task = fields.text("force_task_id")?.map(str::to_owned);
    let mine = fields.clone();
    let planned = aside(&app, move |app| {
        let wanted = wanted(app, &mine, edits)?;
        let awaited = app.await_job(caller, Api::WebUi, wanted.clone(), task)?;
        Ok((wanted, awaited))
    });
    let (wanted, mut awaited) = planned.await?;
    let mut pictures: Vec<(usize, Arc<Finished>)> = Vec::new();
    while let Some(note) = awaited.notes.recv().await {
        match note {
            Note::Preview(_) => {}
            Note::Picture(lane, picture) => pictures.push((lane, picture)),
            // What is done is answered.
            Note::Done | Note::Cancelled => break,
            Note::Failed(message) => return Err(openai::failed(&app, message).into()),
        }
    }
    pictures.sort_by_key(|(lane, _)| *lane);
    let info = info(&app, &wanted, &pictures, awaited.size);
    let images: Vec<String> = match fields.flag("send_images", true) {
        true => pictures
            .iter()
            .map(|(_, picture)| STANDARD.encode(&picture.png))
            .collect(),
        false => Vec::new(),
    };
    let mut echo = fields.0.clone();
    if !fields.flag("include_init_images", false) {
        echo.remove("init_images");
        echo.remove("mask");
    }
    Ok(answer(
        &json!({"images": images, "parameters": echo, "info": info.to_string()}),
    ))
}

/// A side as this engine can make it: clients send whatever they like.
fn side(asked: usize, factor: usize) -> usize {
    let factor = factor.max(1);
    ((asked + factor / 2) / factor * factor).max(64)
}

/// What is wanted, in our words.
fn wanted(app: &App, fields: &Fields, edits: bool) -> Result<Wanted, Refusal> {
    let (prompt, loras) = options::loras(fields.text("prompt")?.unwrap_or_default());
    let mut request = RequestWanted {
        prompt,
        loras,
        negative_prompt: fields.text("negative_prompt")?.unwrap_or_default().into(),
        steps: Some(fields.at_least_one("steps")?.unwrap_or(50)),
        guidance_scale: Some(fields.number("cfg_scale")?.unwrap_or(7.0)),
        ..RequestWanted::default()
    };
    for (name, way) in [
        ("enable_hr", "a second pass at a higher resolution"),
        ("tiling", "pictures that tile"),
        ("restore_faces", "mending faces"),
    ] {
        if fields.flag(name, false) {
            return Err(Refusal::new(
                name,
                format!("{name}: {way} is not supported; leave it out"),
            ));
        }
    }
    if let Some(script) = fields.text("script_name")?.filter(|name| !name.is_empty()) {
        let script = prepose_untrusted::printable(script).to_string();
        return Err(Refusal::new(
            "script_name",
            format!("there is no script {script:?}; leave it out"),
        ));
    }
    let overrides = fields.get("override_settings").cloned().unwrap_or_default();
    if let Some(model) = overrides["sd_model_checkpoint"]
        .as_str()
        .filter(|name| !name.is_empty())
    {
        request.checkpoint = Some(model_named(app, model)?);
    }
    let skip = overrides["CLIP_stop_at_last_layers"].as_u64().unwrap_or(1);
    request.clip_skip = (skip > 1).then(|| skip as usize - 1);
    let sampler = fields
        .text("sampler_name")?
        .or(fields.text("sampler_index")?);
    let sampler = sampler
        .filter(|name| !name.eq_ignore_ascii_case("automatic"))
        .unwrap_or_default();
    request.scheduler = options::scheduler(sampler, fields.text("scheduler")?.unwrap_or_default())?;

    let about = app.studio.about();
    let checkpoints = about["checkpoints"].as_array().cloned().unwrap_or_default();
    let chosen = checkpoints
        .iter()
        .find(|one| request.checkpoint.as_deref() == one["name"].as_str());
    let facts = chosen
        .or_else(|| checkpoints.first())
        .cloned()
        .unwrap_or_default();
    let factor = facts["factor"].as_u64().unwrap_or(8) as usize;
    for (name, into) in [
        ("width", &mut request.width),
        ("height", &mut request.height),
    ] {
        let asked = fields.at_least_one(name)?;
        *into = asked.map(|asked| side(asked.min(1 << 20), factor));
    }
    if edits {
        request.init = Some(begin_with(fields)?);
    }
    let seed = fields.whole("seed")?.filter(|seed| *seed >= 0);
    let seed = seed.map_or_else(options::any_seed, |seed| seed as u64);
    let pictures = fields.at_least_one("batch_size")?.unwrap_or(1);
    let pictures = pictures.saturating_mul(fields.at_least_one("n_iter")?.unwrap_or(1));
    if pictures > app.limits.pictures {
        let message = format!(
            "that is {pictures} pictures; one request may ask for {}",
            app.limits.pictures
        );
        return Err(Refusal::new("batch_size", message));
    }
    let mut wanted = Wanted::of(request);
    own(fields, &mut wanted)?;
    wanted.seeds = options::seeds(seed, pictures);
    // Clients ask for the current picture while they wait.
    wanted.previews = 5;
    Ok(wanted)
}

/// The fields of ours: as this interface's extensions take their arguments.
fn own(fields: &Fields, wanted: &mut Wanted) -> Result<(), Refusal> {
    let scripts = fields.get("alwayson_scripts").and_then(Value::as_object);
    let Some(scripts) = scripts else {
        return Ok(());
    };
    let Some((_, ours)) = scripts
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case("prepose"))
    else {
        return Ok(());
    };
    let args = ours["args"]
        .as_array()
        .and_then(|args| args.first())
        .and_then(Value::as_object);
    let args = args.ok_or_else(|| {
        Refusal::new(
            "alwayson_scripts",
            "prepose takes its fields as alwayson_scripts: {\"prepose\": {\"args\": [{…}]}}",
        )
    })?;
    options::ours(args, wanted)
}

fn begin_with(fields: &Fields) -> Result<crate::wire::Init, Refusal> {
    if fields.get("mask").is_some() {
        return Err(Refusal::new(
            "mask",
            "masks are not supported; leave it out",
        ));
    }
    let images = fields.get("init_images").and_then(Value::as_array);
    let first = images
        .and_then(|images| images.first())
        .and_then(Value::as_str);
    let first = first.ok_or_else(|| {
        Refusal::new(
            "init_images",
            "init_images has no picture: give one in base64",
        )
    })?;
    let bytes = picture::from_base64(first, "init_images")?;
    let strength = fields.number("denoising_strength")?.unwrap_or(0.75);
    Ok(options::init(&bytes, strength))
}

/// The checkpoint with that title or name.
pub(super) fn model_named(app: &App, asked: &str) -> Result<String, Refusal> {
    let all = openai::names(app);
    let bare = asked.split(" [").next().unwrap_or(asked).trim();
    let is = |name: &&String| *name == bare || format!("{name}.safetensors") == bare;
    let found = all.iter().find(is).cloned();
    found.ok_or_else(|| Refusal {
        missing: true,
        ..Refusal::new(
            "sd_model_checkpoint",
            format!(
                "there is no checkpoint {:?}; there are {}",
                prepose_untrusted::printable(asked).to_string(),
                all.join(", ")
            ),
        )
    })
}

/// What the interface's clients read as a string of JSON.
fn info(
    app: &App,
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
        "denoising_strength": request.init.as_ref().map(|init| init.strength),
        "extra_generation_params": {"prepose": verdicts}, "index_of_first_image": 0, "infotexts": texts, "styles": [],
        "job_timestamp": "0", "clip_skip": request.clip_skip.unwrap_or(0) + 1, "is_using_inpainting_conditioning": false,
        "version": format!("prepose {}", env!("CARGO_PKG_VERSION")),
    })
}

async fn progress(
    State(app): Shared,
    Extension(Asking(caller)): Extension<Asking>,
) -> Response<Body> {
    let jobs = app.jobs.of(caller, Api::WebUi);
    let job = jobs
        .iter()
        .find(|job| job.state().status == Status::Running);
    let Some(job) = job.or(jobs.first()) else {
        let state = json!({"skipped": false, "interrupted": false, "stopping_generation": false, "job": "", "job_count": 0,
                           "job_timestamp": "0", "job_no": 0, "sampling_step": 0, "sampling_steps": 0});
        return answer(
            &json!({"progress": 0.0, "eta_relative": 0.0, "state": state, "current_image": null, "textinfo": null,
                              "current_task": null}),
        );
    };
    let (step, of, preview) = {
        let state = job.state();
        (state.step, state.of, state.preview.clone())
    };
    let each = app.metrics.mean("prepose_step_seconds").unwrap_or(0.0);
    let state = json!({"skipped": false, "interrupted": false, "stopping_generation": false, "job": job.id, "job_count": jobs.len(),
                       "job_timestamp": job.made.to_string(), "job_no": 0, "sampling_step": step, "sampling_steps": of});
    answer(&json!({
        // 0 means that nothing is made.
        "progress": (step as f64 / of.max(1) as f64).clamp(0.01, 0.99), "eta_relative": each * of.saturating_sub(step) as f64,
        "state": state, "current_image": preview.map(|png| STANDARD.encode(&png)), "textinfo": null, "current_task": job.task,
    }))
}

async fn internal_progress(
    State(app): Shared,
    Extension(Asking(caller)): Extension<Asking>,
    request: Request,
) -> Told {
    let fields = Fields(body::json(request, &app.limits, Typed::UnlessEmpty).await?);
    let task = fields.text("id_task")?;
    let jobs = app.jobs.of(caller, Api::WebUi);
    let job = jobs.iter().find(|job| job.task.as_deref() == task);
    let state = job.map(|job| {
        let state = job.state();
        (
            state.status.clone(),
            state.step,
            state.of,
            state.preview.clone(),
        )
    });
    let (status, step, of, preview) = state.unwrap_or((Status::Done, 1, 1, None));
    let preview = preview.filter(|_| fields.flag("live_preview", true));
    Ok(answer(&json!({
        "active": status == Status::Running, "queued": status == Status::Queued, "completed": status.is_final(),
        "progress": step as f64 / of.max(1) as f64, "eta": null,
        "live_preview": preview.map(|png| format!("data:image/png;base64,{}", STANDARD.encode(&png))),
        "id_live_preview": step, "textinfo": null,
    })))
}

/// Ends what came over this interface with the same token.
async fn interrupt(
    State(app): Shared,
    Extension(Asking(caller)): Extension<Asking>,
) -> Response<Body> {
    for job in app.jobs.of(caller, Api::WebUi) {
        app.jobs.end(&job, Status::Cancelled);
    }
    answer(&json!({}))
}
