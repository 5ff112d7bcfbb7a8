//! Routes, and what happens to every request before its handler sees it.

mod body;
mod native;
mod openai;
mod options;
mod sdapi;
mod sdlists;
mod statics;
mod stream;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, Response, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::IntoResponse;
use axum::routing::{get, post};

use crate::app::App;
use crate::guard::Caller;
use crate::metrics;
use crate::problem::Problem;
use crate::random;

/// All that handlers share.
pub(crate) type Shared = State<Arc<App>>;

/// Who asks, put into the request by [`guarded`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asking(pub Caller);

/// The routes.
pub fn router(app: &Arc<App>) -> Router {
    let native = Router::new()
        .route("/api/about", get(native::about))
        .route("/api/session", post(native::session))
        .route("/api/read", post(native::read))
        .route("/api/spell", post(native::spell))
        .route("/api/jobs", post(native::submit).get(native::jobs))
        .route("/api/jobs/{id}", get(native::job).delete(native::cancel))
        .route("/api/jobs/{id}/cancel", post(native::cancel))
        .route("/api/events", get(stream::events))
        .route("/api/pictures", get(native::pictures))
        .route(
            "/api/pictures/{id}",
            get(native::picture).delete(native::remove),
        )
        .route("/api/runs", get(native::runs))
        .route("/runs/{name}/report/", get(native::report_page))
        .route("/runs/{name}/{*path}", get(native::report));
    let openai = Router::new()
        .route("/v1/models", get(openai::models))
        .route("/v1/models/{id}", get(openai::model))
        .route("/v1/images/generations", post(openai::generations))
        .route("/v1/images/edits", post(openai::edits));
    Router::new()
        .route("/", get(statics::index))
        .route("/page/{name}", get(statics::file))
        .route("/health", get(health))
        .route("/ready", get(ready))
        .route("/metrics", get(prometheus))
        .route("/openapi.json", get(statics::openapi))
        .merge(native)
        .merge(openai)
        .merge(sdapi::routes())
        .fallback(nothing)
        .method_not_allowed_fallback(not_so)
        .layer(middleware::from_fn_with_state(app.clone(), guarded))
        .with_state(app.clone())
}

async fn nothing() -> Problem {
    Problem::not_found("there is nothing at this address; /openapi.json lists what there is")
}

async fn not_so() -> Problem {
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "this address is not asked in that way; /openapi.json says how",
    )
}

async fn health() -> &'static str {
    "ok\n"
}

async fn ready(State(app): Shared) -> Response<Body> {
    match app.ready.load(Ordering::Relaxed) {
        true => "ready\n".into_response(),
        false => (StatusCode::SERVICE_UNAVAILABLE, "not ready\n").into_response(),
    }
}

async fn prometheus(State(app): Shared) -> Response<Body> {
    let text = app.metrics.text(&[
        ("prepose_queue_depth", app.queue.len() as u64),
        (
            "prepose_event_streams",
            app.jobs.open.load(Ordering::Relaxed) as u64,
        ),
        (
            "process_resident_memory_bytes",
            metrics::resident().unwrap_or(0),
        ),
    ]);
    (
        [(
            header::CONTENT_TYPE,
            "text/plain; version=0.0.4; charset=utf-8",
        )],
        text,
    )
        .into_response()
}

/// Whether anybody may read it: the page itself, and whether the server lives.
fn is_open(path: &str) -> bool {
    matches!(
        path,
        "/" | "/health" | "/ready" | "/openapi.json" | "/api/session"
    ) || path.starts_with("/page/")
}

/// Which interface a path belongs to, in metrics.
fn family(path: &str) -> &'static str {
    match path.split('/').nth(1) {
        Some("v1") => "openai",
        Some("sdapi" | "internal") => "sdapi",
        Some("api" | "runs") => "native",
        _ => "other",
    }
}

/// Looks at every request before its handler, and at every answer after it.
async fn guarded(State(app): Shared, mut request: Request, next: Next) -> Response<Body> {
    let path = request.uri().path().to_owned();
    let family = family(&path);
    let webui = family == "sdapi";
    let origin = request.headers().get(header::ORIGIN).cloned();
    let allowed =
        origin.filter(|origin| origin.to_str().is_ok_and(|origin| app.guard.allows(origin)));
    let checked = app.guard.check_names(request.method(), request.headers());
    let mut answer = match checked {
        Err(problem) => Err(problem),
        Ok(()) if request.method() == Method::OPTIONS => Ok(StatusCode::NO_CONTENT.into_response()),
        Ok(()) => match app.guard.identify(request.headers()) {
            Ok(caller) => {
                request.extensions_mut().insert(Asking(caller));
                Ok(next.run(request).await)
            }
            Err(_) if is_open(&path) => Ok(next.run(request).await),
            Err(problem) => Err(problem),
        },
    }
    .unwrap_or_else(|problem| match webui {
        true => problem.webui().into_response(),
        false => problem.into_response(),
    });
    let headers = answer.headers_mut();
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    headers.insert(
        header::REFERRER_POLICY,
        HeaderValue::from_static("no-referrer"),
    );
    if let Ok(id) = HeaderValue::from_str(&random::hex(8)) {
        headers.insert("x-request-id", id);
    }
    if let Some(origin) = allowed {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::VARY, HeaderValue::from_static("Origin"));
        let allow = HeaderValue::from_static("authorization, content-type, last-event-id");
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, allow);
        let methods = HeaderValue::from_static("GET, POST, DELETE");
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
    }
    let status = answer.status().as_u16();
    app.metrics.count(
        "prepose_requests_total",
        format!("api=\"{family}\",status=\"{status}\""),
    );
    answer
}
