//! One request, and how far it is.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::guard::Caller;
use crate::random;
use crate::studio::Finished;

/// Bytes of previews and maps that a job keeps; of more, the oldest are forgotten.
const PICTURES: usize = 8 << 20;

/// Which interface a job came by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Api {
    /// The page's own.
    Native,
    /// OpenAI's.
    OpenAi,
    /// AUTOMATIC1111's.
    WebUi,
}

impl Api {
    /// In metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::OpenAi => "openai",
            Self::WebUi => "sdapi",
        }
    }
}

/// What somebody who waits for a job's pictures hears.
#[derive(Clone, Debug)]
pub enum Note {
    /// A preview, as PNG.
    Preview(Arc<[u8]>),
    /// A picture is done, of the job's unit with that lane.
    Picture(usize, Arc<Finished>),
    /// All is done.
    Done,
    /// It failed.
    Failed(String),
    /// Somebody cancelled it.
    Cancelled,
}

/// How far a job is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// It waits.
    Queued,
    /// It is being made.
    Running,
    /// All pictures are there.
    Done,
    /// Why there are none.
    Failed(String),
    /// Nobody wants it any more.
    Cancelled,
}

impl Status {
    /// In JSON.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed(_) => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether nothing comes any more.
    pub fn is_final(&self) -> bool {
        !matches!(self, Self::Queued | Self::Running)
    }
}

/// What is known of a job.
#[derive(Debug)]
pub struct State {
    /// How far it is.
    pub status: Status,
    /// Of the batch at hand.
    pub step: usize,
    /// Of the batch at hand.
    pub of: usize,
    /// Units that are not done.
    pub left: usize,
    /// The newest preview.
    pub preview: Option<Arc<[u8]>>,
    log: VecDeque<(&'static str, Arc<str>)>,
    pictures: usize,
}

/// Whether an event carries pictures.
pub(super) fn is_heavy(kind: &str) -> bool {
    matches!(kind, "preview" | "maps")
}

impl State {
    /// Keeps an event for those who come later.
    pub(super) fn remember(&mut self, kind: &'static str, data: Arc<str>) {
        // A step is known by its number.
        if kind == "step" {
            self.log.retain(|(kind, _)| *kind != "step");
        }
        if is_heavy(kind) {
            self.pictures += data.len();
        }
        self.log.push_back((kind, data));
        while self.pictures > PICTURES {
            let oldest = self.log.iter().position(|(kind, _)| is_heavy(kind));
            match oldest.and_then(|at| self.log.remove(at)) {
                Some((_, data)) => self.pictures -= data.len(),
                None => break,
            }
        }
    }
}

/// One request that is made, waits, or was made.
#[derive(Debug)]
pub struct Job {
    /// Nobody can guess it.
    pub id: String,
    /// Whose it is.
    pub caller: Caller,
    /// How it came.
    pub api: Api,
    /// What was asked, as it was asked.
    pub body: Value,
    /// Seconds since 1970.
    pub made: u64,
    /// What the client calls it, to ask about its progress.
    pub task: Option<String>,
    pub(super) cancelled: AtomicBool,
    /// Who waits for it; without one its events go to the page's stream.
    pub(super) waiter: Option<mpsc::UnboundedSender<Note>>,
    state: Mutex<State>,
}

impl Job {
    /// A job of `units` units.
    pub fn new(
        caller: Caller,
        api: Api,
        body: Value,
        units: usize,
        waiter: Option<mpsc::UnboundedSender<Note>>,
    ) -> Self {
        Self {
            id: random::hex(16),
            caller,
            api,
            body,
            made: now(),
            task: None,
            cancelled: AtomicBool::new(false),
            waiter,
            state: Mutex::new(State {
                status: Status::Queued,
                step: 0,
                of: 0,
                left: units,
                preview: None,
                log: VecDeque::new(),
                pictures: 0,
            }),
        }
    }

    /// What is known of it.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether anybody still wants its pictures.
    pub fn is_wanted(&self) -> bool {
        !self.cancelled.load(Ordering::Relaxed)
    }

    pub(super) fn tell(&self, note: Note) {
        if let Some(waiter) = &self.waiter {
            // Whoever has gone away has cancelled it.
            let _ = waiter.send(note);
        }
    }

    /// All that `GET api/jobs/{id}` says.
    pub fn whole(&self) -> Value {
        let state = self.state();
        let events: Vec<Value> = (state.log.iter())
            .map(|(kind, data)| {
                json!([
                    kind,
                    serde_json::from_str::<Value>(data).unwrap_or_default()
                ])
            })
            .collect();
        json!({"id": self.id, "status": state.status.as_str(), "body": self.body, "made": self.made, "events": events})
    }
}

/// Seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |passed| passed.as_secs())
}
