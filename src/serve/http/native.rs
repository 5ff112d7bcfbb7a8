//! The page's own interface, for scripts as well.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, Query, Request, State};
use axum::http::{Response, StatusCode, header};
use axum::response::IntoResponse;
use serde::Deserialize;
use serde_json::{Value, json};

use super::body::{self, Typed};
use super::{Asking, Shared};
use crate::app::App;
use crate::gallery::Gallery;
use crate::guard::COOKIE;
use crate::jobs::{Api, Status};
use crate::problem::Problem;
use crate::wire::{RegionWanted, Wanted};

/// A page of the history has at most so many pictures.
const MOST_LISTED: usize = 500;

/// An answer of JSON.
pub(super) fn answer(value: &Value) -> Response<Body> {
    let headers = [
        (header::CONTENT_TYPE, "application/json"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    (headers, value.to_string()).into_response()
}

/// Does what takes a while on another thread: plans read prompts and pictures.
pub(super) async fn aside<T: Send + 'static>(
    app: &Arc<App>,
    act: impl FnOnce(&Arc<App>) -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let app = app.clone();
    let done = tokio::task::spawn_blocking(move || act(&app)).await;
    done.unwrap_or_else(|_| {
        Err(Problem::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the server failed; its log says where",
        ))
    })
}

pub async fn about(State(app): Shared) -> Response<Body> {
    let mut about = app.studio.about();
    let limits = &app.limits;
    about["limits"] = json!({
        "pictures": limits.pictures, "steps": limits.steps, "pixels": limits.pixels, "best_of": limits.pictures,
    });
    about["runs"] = json!(app.runs.is_some());
    answer(&about)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Session {
    token: String,
}

/// A token for a cookie.
pub async fn session(State(app): Shared, request: Request) -> Result<Response<Body>, Problem> {
    let Session { token } = body::json(request, &app.limits, Typed::Always).await?;
    let caller = app.guard.caller(token.trim());
    let caller = caller.ok_or_else(|| {
        Problem::new(
            StatusCode::UNAUTHORIZED,
            "that is not the token of this server",
        )
    })?;
    let value = app.guard.open_session(caller);
    let cookie = format!("{COOKIE}={value}; Path=/; HttpOnly; SameSite=Strict");
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Prompt {
    prompt: String,
}

pub async fn read(State(app): Shared, request: Request) -> Result<Response<Body>, Problem> {
    let Prompt { prompt } = body::json(request, &app.limits, Typed::Always).await?;
    let read = aside(&app, move |app| Ok(app.studio.read(&prompt))).await?;
    Ok(answer(&read))
}

pub async fn spell(State(app): Shared, request: Request) -> Result<Response<Body>, Problem> {
    let host = request
        .headers()
        .get(header::HOST)
        .and_then(|host| host.to_str().ok());
    let host = host.unwrap_or("127.0.0.1").to_owned();
    let mut wanted: Wanted = body::json(request, &app.limits, Typed::Always).await?;
    let (mut wanted, [command, python]) = aside(&app, move |app| {
        app.plan(&mut wanted)?;
        name_files(&mut wanted);
        let spelt = app.studio.spell(&wanted)?;
        Ok((wanted, spelt))
    })
    .await?;
    let text = serde_json::to_string_pretty(&wanted).unwrap_or_default();
    let curl = curl(&host, &mut wanted);
    Ok(answer(
        &json!({"command": command, "python": python, "json": text, "curl": curl}),
    ))
}

/// Puts names of files where pictures are, in a request that is spelt: base64 would be too long to be read or pasted.
fn name_files(wanted: &mut Wanted) {
    if let Some(init) = &mut wanted.request.init {
        init.image = "start.png".into();
    }
    for (shown, number) in wanted.request.pictures.iter_mut().zip(1..) {
        shown.image = format!("picture-{number}.png");
        if let Some(RegionWanted::Mask(mask)) = &mut shown.region {
            *mask = format!("mask-{number}.png");
        }
    }
}

fn curl(host: &str, wanted: &mut Wanted) -> String {
    let quoted = json!(wanted).to_string().replace('\'', r"'\''");
    let asked = format!(
        "curl http://{host}/api/jobs -H \"Authorization: Bearer $PREPOSE_TOKEN\" -H 'Content-Type: application/json' -d"
    );
    let files: Vec<String> = (wanted.images().into_iter())
        .map(|(_, file)| file.clone())
        .collect();
    if files.is_empty() {
        return format!("{asked} '{quoted}'");
    }
    // Pictures are longer than an argument may be. No text of the client's holds such a place: its quotes are escaped.
    let mut places = Vec::new();
    for file in &files {
        let key = if file.starts_with("mask") {
            "mask"
        } else {
            "image"
        };
        places.push((quoted.find(&format!("\"{key}\":\"{file}\"")), key, file));
    }
    places.sort();
    let (mut printed, mut from) = (String::new(), 0);
    for (at, key, file) in places {
        let Some(at) = at else { continue };
        let start = at + key.len() + 4;
        printed += &format!(
            "printf %s '{}'; base64 < {file} | tr -d '\\n'; ",
            &quoted[from..start]
        );
        from = start + file.len();
    }
    let rest = &quoted[from..];
    format!("{{ {printed}printf %s '{rest}'; }} | {asked} @-")
}

pub async fn submit(
    State(app): Shared,
    Extension(Asking(caller)): Extension<Asking>,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let wanted: Wanted = body::json(request, &app.limits, Typed::Always).await?;
    if app.gallery.is_none() {
        let message =
            "this server keeps no pictures (--out none), so this interface cannot hand them out";
        return Err(Problem::new(StatusCode::CONFLICT, message));
    }
    let (job, position) = aside(&app, move |app| app.submit(caller, wanted)).await?;
    let told = json!({"id": job.id, "status": "queued", "position": position});
    let mut accepted = answer(&told);
    *accepted.status_mut() = StatusCode::ACCEPTED;
    Ok(accepted)
}

pub async fn jobs(
    State(app): Shared,
    Extension(Asking(caller)): Extension<Asking>,
) -> Response<Body> {
    let jobs: Vec<Value> = (app.jobs.of(caller, Api::Native).iter())
        .map(|job| {
            let status = job.state().status.as_str();
            json!({"id": job.id, "status": status, "prompt": job.body["request"]["prompt"], "made": job.made})
        })
        .collect();
    answer(&json!({"jobs": jobs}))
}

fn no_job() -> Problem {
    Problem::not_found(
        "there is no such job; ended ones are forgotten after a while, their pictures are not",
    )
}

pub async fn job(
    State(app): Shared,
    Extension(Asking(caller)): Extension<Asking>,
    Path(id): Path<String>,
) -> Result<Response<Body>, Problem> {
    let job = app.jobs.find(caller, &id).ok_or_else(no_job)?;
    Ok(answer(&job.whole()))
}

pub async fn cancel(
    State(app): Shared,
    Extension(Asking(caller)): Extension<Asking>,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    let job = app.jobs.find(caller, &id).ok_or_else(no_job)?;
    app.jobs.end(&job, Status::Cancelled);
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Deserialize)]
pub struct Listed {
    before: Option<String>,
    limit: Option<usize>,
    #[serde(default)]
    q: String,
    #[serde(default)]
    verdict: String,
}

pub async fn pictures(
    State(app): Shared,
    Extension(Asking(caller)): Extension<Asking>,
    listed: Result<Query<Listed>, axum::extract::rejection::QueryRejection>,
) -> Result<Response<Body>, Problem> {
    let Query(listed) = listed.map_err(|error| Problem::bad(error.body_text()))?;
    let limit = listed.limit.unwrap_or(60).clamp(1, MOST_LISTED);
    let page = aside(&app, move |app| {
        let Listed {
            before, q, verdict, ..
        } = &listed;
        let page = |gallery: &Gallery| gallery.page(caller, before.as_deref(), limit, q, verdict);
        Ok(app.gallery.as_ref().map(page))
    });
    let Some(page) = page.await? else {
        return Ok(answer(&json!({"pictures": [], "total": 0, "next": null})));
    };
    Ok(answer(
        &json!({"pictures": page.pictures, "total": page.total, "next": page.next}),
    ))
}

fn no_picture() -> Problem {
    Problem::not_found("there is no such picture")
}

/// `ID` is what is known of a picture, `ID.png` the picture.
pub async fn picture(
    State(app): Shared,
    Extension(Asking(caller)): Extension<Asking>,
    Path(name): Path<String>,
) -> Result<Response<Body>, Problem> {
    let Some(id) = name.strip_suffix(".png").map(str::to_owned) else {
        let id = name.clone();
        let facts = aside(&app, move |app| {
            let gallery = app.gallery.as_ref().ok_or_else(no_picture)?;
            gallery.facts(caller, &id).ok_or_else(no_picture)
        })
        .await?;
        let told = json!({
            "id": name, "request": facts.request, "verdict": facts.verdict, "cost": facts.cost, "made": facts.made,
            "kind": facts.kind, "job": facts.job,
        });
        return Ok(answer(&told));
    };
    let file = format!(
        "inline; filename=\"prepose-{}\"",
        if id.len() < 40 { &*name } else { "picture.png" }
    );
    let bytes = aside(&app, move |app| {
        let gallery = app.gallery.as_ref().ok_or_else(no_picture)?;
        gallery.read(caller, &id).ok_or_else(no_picture)
    })
    .await?;
    let headers = [
        (header::CONTENT_TYPE, "image/png".to_owned()),
        (
            header::CACHE_CONTROL,
            "private, max-age=31536000, immutable".to_owned(),
        ),
        (header::CONTENT_DISPOSITION, file),
    ];
    Ok((headers, bytes).into_response())
}

pub async fn remove(
    State(app): Shared,
    Extension(Asking(caller)): Extension<Asking>,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    let removed = app
        .gallery
        .as_ref()
        .is_some_and(|gallery| gallery.remove(caller, &id));
    removed
        .then_some(StatusCode::NO_CONTENT)
        .ok_or_else(no_picture)
}

pub async fn runs(State(app): Shared) -> Response<Body> {
    let none = || json!({"runs": []});
    answer(&app.runs.as_ref().map_or_else(none, |runs| runs.list()))
}

pub async fn report_page(
    state: Shared,
    Path(name): Path<String>,
) -> Result<Response<Body>, Problem> {
    report(state, Path((name, String::new()))).await
}

/// The report of a run: a page with its own script inside, which therefore has its own rules and no way to ask for anything.
pub async fn report(
    State(app): Shared,
    Path((name, path)): Path<(String, String)>,
) -> Result<Response<Body>, Problem> {
    let found = aside(&app, move |app| {
        let found = app.runs.as_ref().and_then(|runs| runs.file(&name, &path));
        found.ok_or_else(|| {
            Problem::not_found(
                "there is no such run, or it has no report; prepose report FOLDER --html makes one",
            )
        })
    });
    let (bytes, kind) = found.await?;
    const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src 'self' data: blob:; \
                          base-uri 'none'; form-action 'none'; frame-ancestors 'self'";
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
    ];
    Ok((headers, bytes).into_response())
}
