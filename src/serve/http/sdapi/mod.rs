//! AUTOMATIC1111's interface: pictures, progress, interrupting. Its clients send `null` everywhere, numbers as floats, and
//! names for samplers that have changed over the years.

mod fields;
mod hires;
mod info;
mod progress;
mod settings;
mod start;
mod wanted;

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
use super::{Asking, Shared, openai, sdlists};
use crate::app::App;
use crate::guard::Caller;
use crate::jobs::{Api, Note, Status};
use crate::problem::{Problem, Refusal};
use crate::studio::Finished;
pub(super) use fields::Fields;
use info::info;
use progress::{internal_progress, progress};
pub(super) use settings::refuse_standing;
use wanted::wanted;

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

async fn make(app: Arc<App>, caller: Caller, fields: Map<String, Value>, edits: bool) -> Told {
    let fields = Arc::new(Fields(fields));
    let task = fields.text("force_task_id")?.map(str::to_owned);
    // Before anything is made: what is wrong with them is said at once.
    let sends = fields.flag("send_images", true)?;
    let echoes = fields.flag("include_init_images", false)?;
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
    let info = info(&app, &fields, &wanted, &pictures, awaited.size);
    let images: Vec<String> = match sends {
        true => pictures
            .iter()
            .map(|(_, picture)| STANDARD.encode(&picture.png))
            .collect(),
        false => Vec::new(),
    };
    let mut echo = fields.0.clone();
    if !echoes {
        echo.remove("init_images");
        echo.remove("mask");
    }
    Ok(answer(
        &json!({"images": images, "parameters": echo, "info": info.to_string()}),
    ))
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
