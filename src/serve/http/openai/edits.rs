//! The form by which pictures are edited.

use axum::Extension;
use axum::body::Body;
use axum::extract::{FromRequest, Multipart, Request, State};
use axum::http::{Response, StatusCode};
use serde_json::{Map, json};

use super::super::body;
use super::super::{Asking, Shared};
use super::make;
use crate::problem::Problem;

/// Of a text field in a form.
const MOST_TEXT: usize = 64 << 10;
/// Of a form.
const MOST_PARTS: usize = 64;

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
                let message = "masks are not supported: the whole picture is redrawn from the one that is sent, by as much as strength says";
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
