//! One picture as a stream of events.

use std::convert::Infallible;

use axum::body::Body;
use axum::http::{Response, StatusCode};
use futures_util::stream;
use serde_json::{Value, json};

use super::super::stream as events;
use super::{Form, encoded, said, usage};
use crate::app::Awaited;
use crate::jobs::{Note, now};
use crate::problem::Problem;

/// The events of one picture.
pub fn streamed(awaited: Awaited, form: Form) -> Response<Body> {
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
