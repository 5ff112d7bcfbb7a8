//! Bodies: limited in bytes and time, and read as JSON with a message for each way in which they can be wrong.

use std::error::Error;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, header};
use prepose_untrusted::printable;
use serde::de::DeserializeOwned;
use serde_json::error::Category;

use crate::app::Limits;
use crate::problem::Problem;
use crate::wire::Object;

/// Whether JSON must say that it is JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Typed {
    /// Browsers send other types to other sites without asking.
    Always,
    /// An empty body is an empty object.
    UnlessEmpty,
}

/// The bytes of a body.
pub async fn bytes(body: Body, limits: &Limits) -> Result<Vec<u8>, Problem> {
    let read = axum::body::to_bytes(body, limits.bytes);
    let read = tokio::time::timeout(Duration::from_secs(limits.patience), read).await;
    let read = read.map_err(|_| {
        let message = format!(
            "the request's body did not arrive within {} s",
            limits.patience
        );
        Problem::new(StatusCode::REQUEST_TIMEOUT, message)
    })?;
    read.map(|bytes| bytes.to_vec()).map_err(|error| {
        let mut cause: Option<&(dyn Error + 'static)> = Some(&error);
        let mut long = false;
        while let Some(error) = cause {
            long |= error.to_string().contains("length limit");
            cause = error.source();
        }
        match long {
            true => too_large(limits),
            false => Problem::bad("the request's body ended before it was whole"),
        }
    })
}

/// A body that is too large.
pub fn too_large(limits: &Limits) -> Problem {
    let message = format!("the request's body is larger than {} bytes", limits.bytes);
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, message)
}

/// The media type, without what is said of it.
pub fn media_type(headers: &HeaderMap) -> String {
    let given = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let given = given
        .unwrap_or_default()
        .split(';')
        .next()
        .unwrap_or_default();
    given.trim().to_ascii_lowercase()
}

/// A body of JSON.
pub async fn json<T: DeserializeOwned>(
    request: Request,
    limits: &Limits,
    typed: Typed,
) -> Result<T, Problem> {
    let (parts, body) = request.into_parts();
    let kind = media_type(&parts.headers);
    let bytes = bytes(body, limits).await?;
    let empty = typed == Typed::UnlessEmpty && bytes.is_empty();
    if kind != "application/json" && !empty {
        let message = format!(
            "the body must be application/json, not {:?}",
            printable(&kind).to_string()
        );
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
    }
    let bytes = if empty { b"{}".to_vec() } else { bytes };
    let mut reader = serde_json::Deserializer::from_slice(&bytes);
    let Object(value) = serde_path_to_error::deserialize(&mut reader).map_err(wrong)?;
    reader.end().map_err(|error| no_json(&error))?;
    Ok(value)
}

fn no_json(error: &serde_json::Error) -> Problem {
    Problem::bad(format!(
        "the body is not JSON: {}",
        printable(&error.to_string())
    ))
}

/// What is wrong with a body, and in which field.
fn wrong(error: serde_path_to_error::Error<serde_json::Error>) -> Problem {
    let path = printable(&error.path().to_string()).to_string();
    let error = error.into_inner();
    if error.classify() != Category::Data {
        return no_json(&error);
    }
    let message = printable(&error.to_string()).to_string();
    let problem = |place: String| {
        let message = format!("the body is not what is asked for here: {place}{message}");
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, message)
    };
    // A dot stands for the body as a whole.
    match &*path {
        "." => problem(String::new()),
        _ => problem(format!("{path}: ")).at(path),
    }
}
