//! Server-sent events, written by hand: a line for the number, one for the name, one of data.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Response, header};
use axum::response::IntoResponse;
use futures_util::stream;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;

use super::{Asking, Shared};
use crate::guard::Caller;
use crate::jobs::{Event, Listening};

/// How often a comment is sent, so that nothing on the way takes the connection for dead.
const BEAT: Duration = Duration::from_secs(15);

/// An answer that is a stream of events.
pub fn answer(body: Body) -> Response<Body> {
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store"),
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (headers, body).into_response()
}

/// The bytes of an event.
pub fn event(id: Option<u64>, kind: &str, data: &str) -> Bytes {
    let id = id.map_or(String::new(), |id| format!("id: {id}\n"));
    format!("{id}event: {kind}\ndata: {data}\n\n").into()
}

struct Reader {
    caller: Caller,
    missed: std::vec::IntoIter<Event>,
    live: Receiver<Event>,
    closing: watch::Receiver<bool>,
    opened: bool,
    _listening: Listening,
}

impl Reader {
    /// What comes next; none where the stream ends: the server does, or the reader is too slow.
    async fn next(&mut self) -> Option<Bytes> {
        if !self.opened {
            self.opened = true;
            return Some(Bytes::from_static(b": prepose\n\n"));
        }
        if let Some(event) = self.missed.find(|event| event.caller == self.caller) {
            return Some(self::event(Some(event.seq), event.kind, &event.data));
        }
        loop {
            if *self.closing.borrow() {
                return None;
            }
            tokio::select! {
                heard = self.live.recv() => match heard {
                    Ok(event) if event.caller == self.caller => {
                        return Some(self::event(Some(event.seq), event.kind, &event.data));
                    }
                    Ok(_) => {}
                    Err(RecvError::Lagged(_) | RecvError::Closed) => return None,
                },
                _ = self.closing.changed() => return None,
                () = tokio::time::sleep(BEAT) => return Some(Bytes::from_static(b": beat\n\n")),
            }
        }
    }
}

/// All events of the caller's jobs.
pub async fn events(
    State(app): Shared,
    Extension(Asking(caller)): Extension<Asking>,
    headers: HeaderMap,
) -> Response<Body> {
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let (missed, live) = app.jobs.listen(last.and_then(|id| id.parse().ok()));
    let reader = Reader {
        caller,
        missed: missed.into_iter(),
        live,
        closing: app.closing.subscribe(),
        opened: false,
        _listening: Arc::clone(&app.jobs).count(caller),
    };
    let events = stream::unfold(reader, |mut reader| async {
        let next = reader.next().await?;
        Some((Ok::<_, Infallible>(next), reader))
    });
    answer(Body::from_stream(events))
}
