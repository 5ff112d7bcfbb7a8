//! The page's files, and the description of the interfaces.

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Response, StatusCode, header};
use axum::response::IntoResponse;
use sha2::{Digest, Sha256};

use super::Shared;
use crate::app::App;
use crate::page::{FILES, File};
use crate::problem::Problem;

/// Nothing but this server's own files; no code in the page itself.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; \
                      connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'self'";

fn serve(app: &App, file: &File, headers: &HeaderMap) -> Response<Body> {
    let edited = app
        .page
        .as_ref()
        .map(|folder| std::fs::read_to_string(folder.join(file.name)));
    let text = match edited {
        Some(Ok(text)) => text,
        _ => file.text.to_owned(),
    };
    let tag = format!("\"{:x}\"", Sha256::digest(text.as_bytes()));
    let known = headers
        .get(header::IF_NONE_MATCH)
        .and_then(|value| value.to_str().ok());
    let same = known.is_some_and(|known| {
        known
            .split(',')
            .any(|one| one.trim().trim_start_matches("W/") == tag)
    });
    let about = [
        (header::CONTENT_TYPE, file.kind.to_owned()),
        (header::CACHE_CONTROL, "no-cache".to_owned()),
        (header::CONTENT_SECURITY_POLICY, POLICY.to_owned()),
        (header::ETAG, tag),
    ];
    match same {
        true => (StatusCode::NOT_MODIFIED, about).into_response(),
        false => (about, text).into_response(),
    }
}

fn named(name: &str) -> Option<&'static File> {
    FILES.iter().find(|file| file.name == name)
}

pub async fn index(State(app): Shared, headers: HeaderMap) -> Result<Response<Body>, Problem> {
    let page = named("page.html")
        .ok_or_else(|| Problem::not_found("this program was built without its page"))?;
    Ok(serve(&app, page, &headers))
}

pub async fn file(
    State(app): Shared,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let found = named(&name).filter(|file| file.name != "page.html");
    let found = found.ok_or_else(|| Problem::not_found("the page has no such file"))?;
    Ok(serve(&app, found, &headers))
}

pub async fn openapi() -> Response<Body> {
    let kind = [(header::CONTENT_TYPE, "application/json")];
    (kind, include_str!("openapi.json")).into_response()
}
