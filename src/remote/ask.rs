//! What is asked of a server, how, and what it answers.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde_json::Value;

use crate::Retry;
use crate::multipart::Form;

/// How long the parts of an exchange may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Finding the host and connecting.
    pub connect: Duration,
    /// From the request to the beginning of the answer: a picture or a long text may take minutes.
    pub answer: Duration,
    /// Between two pieces of the answer.
    pub idle: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            answer: Duration::from_secs(600),
            idle: Duration::from_secs(60),
        }
    }
}

/// How a server is asked.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long is waited.
    pub timeouts: Timeouts,
    /// How often it is asked.
    pub retry: Retry,
    /// The longest answer that is read, in bytes.
    pub longest: u64,
    /// Ends waits between tries when it becomes true.
    pub stop: Arc<AtomicBool>,
    /// The header for the key: `Authorization` with `Bearer`, or the name of one that has the key alone, such as Azure's
    /// `api-key`.
    pub key_header: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            timeouts: Timeouts::default(),
            retry: Retry::default(),
            longest: 64 << 20,
            stop: Arc::default(),
            key_header: None,
        }
    }
}

/// One request.
#[derive(Clone, Debug)]
pub struct Ask<'a> {
    pub(crate) path: &'a str,
    pub(crate) body: Payload<'a>,
    pub(crate) expected: &'a str,
    pub(crate) once: Option<&'a str>,
}

#[derive(Clone, Debug)]
pub(crate) enum Payload<'a> {
    None,
    Json(&'a Value),
    /// JSON as it is sent.
    Written(&'a str),
    Form(&'a Form),
}

/// What a server answered.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// All of it.
    pub body: Vec<u8>,
    /// HTTP's type, in lower case, without parameters.
    pub kind: String,
    /// The server's name for the exchange (`x-request-id`).
    pub request_id: Option<String>,
    /// How often it was asked.
    pub attempts: u32,
}

impl<'a> Ask<'a> {
    /// Reads something.
    pub fn get(path: &'a str) -> Self {
        Self::new(path, Payload::None)
    }

    /// Sends JSON.
    pub fn json(path: &'a str, body: &'a Value) -> Self {
        Self::new(path, Payload::Json(body))
    }

    /// Sends JSON that is written already.
    pub fn written(path: &'a str, body: &'a str) -> Self {
        Self::new(path, Payload::Written(body))
    }

    /// Sends a form.
    pub fn form(path: &'a str, form: &'a Form) -> Self {
        Self::new(path, Payload::Form(form))
    }

    fn new(path: &'a str, body: Payload<'a>) -> Self {
        Self {
            path,
            body,
            expected: "a server of this kind",
            once: None,
        }
    }

    /// What the server should be, for messages: "an OpenAI server".
    #[must_use]
    pub fn of(self, expected: &'a str) -> Self {
        Self { expected, ..self }
    }

    /// Names the request (`Idempotency-Key`), so that a server that knows such names does the work once, however often
    /// it is asked.
    #[must_use]
    pub fn once(self, name: &'a str) -> Self {
        Self {
            once: Some(name),
            ..self
        }
    }
}
