//! One server, asked with patience.

use crate::ask::Payload;
use crate::meaning::{Tried, text};
use crate::retry::{Asked, chance};
use crate::trouble::Trouble;
use crate::{Address, Answer, Ask, Key, RemoteError, Settings, Turn};
use prepose_untrusted::{printable, redact};
use serde_json::Value;
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use ureq::http::{HeaderMap, Response, header};
use ureq::{Agent, Body};

/// A server, for any number of threads. Waits that it asks for hold for all of them.
#[derive(Debug)]
pub struct Client {
    agent: Agent,
    base: Address,
    pub(super) key: Option<Key>,
    pub(super) settings: Settings,
    /// Nobody asks before.
    not_before: Mutex<Option<Instant>>,
    /// Whether the server has asked to wait, and has answered nobody since.
    busy: AtomicBool,
}

/// Connections that are kept open while nothing goes through them: more than anybody asks with at a time.
const MOST_OPEN: usize = 1024;

impl Client {
    /// A server at `base`; nothing is asked yet.
    ///
    /// # Errors
    /// [`RemoteError::Address`].
    pub fn new(base: &str, key: Option<Key>, settings: Settings) -> Result<Self, RemoteError> {
        let base = Address::parse(base)?;
        let times = settings.timeouts;
        let config = Agent::config_builder()
            // A redirect could carry a key, or what is asked for, to another server.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            // A number needs no looking up, and waiting for it would take a thread each time.
            .timeout_resolve((!base.is_number()).then_some(times.connect))
            .timeout_connect(Some(times.connect))
            .timeout_send_request(Some(times.idle))
            .timeout_recv_response(Some(times.answer))
            .timeout_per_read(Some(times.idle.max(times.answer)))
            .timeout_recv_body(Some(times.answer))
            .timeout_per_write(Some(times.idle))
            // Without that a few are kept, and all others made anew for each request.
            .max_idle_connections(MOST_OPEN)
            .max_idle_connections_per_host(MOST_OPEN)
            .user_agent(concat!("prepose/", env!("CARGO_PKG_VERSION")));
        Ok(Self {
            agent: config.build().into(),
            base,
            key,
            settings,
            not_before: Mutex::new(None),
            busy: AtomicBool::new(false),
        })
    }

    /// Where it is; shown without secrets.
    pub fn address(&self) -> &Address {
        &self.base
    }

    /// How it is asked.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Asks, and reads the answer as JSON.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub fn json(&self, ask: &Ask) -> Result<(Value, Answer), RemoteError> {
        let address = self.base.below(ask.path);
        self.tries(&address, |attempt| {
            self.attempt_json(&address, ask, attempt)
        })
    }

    /// As [`json`](Self::json), once, after so many tries that failed: for whoever has something better to do than to wait.
    ///
    /// # Errors
    /// [`RemoteError`]: what cannot be helped by another try, or the last of all tries.
    pub fn json_turn(&self, ask: &Ask, failed: u32) -> Result<Turn<(Value, Answer)>, RemoteError> {
        let address = self.base.below(ask.path);
        self.turn(&address, failed, |attempt| {
            self.attempt_json(&address, ask, attempt)
        })
    }

    /// One try at an answer that is JSON.
    fn attempt_json(&self, address: &Address, ask: &Ask, attempts: u32) -> Tried<(Value, Answer)> {
        let answer = match self.attempt(address, ask, attempts) {
            Tried::Done(answer) => answer,
            Tried::Again(error, after) => return Tried::Again(error, after),
            Tried::Failed(error) => return Tried::Failed(error),
        };
        let Ok(json) = serde_json::from_slice::<Value>(&answer.body) else {
            return Tried::Failed(self.no_json(address, ask, &answer));
        };
        match Trouble::despite_success(&json) {
            Some((status, said)) => self.refused(address, status, Asked::default(), said, attempts),
            None => Tried::Done((json, answer)),
        }
    }

    fn no_json(&self, address: &Address, ask: &Ask, answer: &Answer) -> RemoteError {
        let said = Trouble::read(&answer.body);
        let found = match answer.kind.as_str() {
            "" => format!("{:?}", said.message),
            kind => format!("{} with {:?}", printable(kind), said.message),
        };
        RemoteError::Strange {
            address: address.to_string(),
            expected: ask.expected.into(),
            found: self.clean(&found),
        }
    }

    /// Asks, again and again if that can help.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub fn ask(&self, ask: &Ask) -> Result<Answer, RemoteError> {
        let address = self.base.below(ask.path);
        self.tries(&address, |attempt| self.attempt(&address, ask, attempt))
    }

    /// Reads a file that the server named by an address of its own, such as a picture's. The key goes along only if it
    /// is this server's.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub fn download(&self, url: &str) -> Result<Answer, RemoteError> {
        let address = Address::parse(url)?;
        let ask = Ask::get("").of("a server of files");
        self.tries(&address, |attempt| self.attempt(&address, &ask, attempt))
    }

    fn tries<T>(
        &self,
        address: &Address,
        attempt: impl Fn(u32) -> Tried<T>,
    ) -> Result<T, RemoteError> {
        let mut failed = 0;
        loop {
            match self.turn(address, failed, &attempt)? {
                Turn::Done(answer) => return Ok(answer),
                Turn::Later(_, wait) => {
                    failed += 1;
                    self.pause(Instant::now() + wait)?;
                }
            }
        }
    }

    /// One try after so many that failed.
    fn turn<T>(
        &self,
        address: &Address,
        failed: u32,
        attempt: impl Fn(u32) -> Tried<T>,
    ) -> Result<Turn<T>, RemoteError> {
        let retry = self.settings.retry;
        self.wait_for_turn()?;
        let failed = failed.saturating_add(1);
        let (error, after) = match attempt(failed) {
            Tried::Done(answer) => {
                self.busy.store(false, Ordering::Relaxed);
                return Ok(Turn::Done(answer));
            }
            Tried::Failed(error) => return Err(error),
            Tried::Again(error, after) => (error, after),
        };
        if failed >= retry.attempts.max(1) {
            return Err(error);
        }
        let usual = retry.wait(failed, chance());
        let wait = match after {
            Some(after) => {
                // Once may be bad luck, while others get their answers; twice without an answer is a limit for all.
                if self.busy.swap(true, Ordering::Relaxed) {
                    self.hold_all(after);
                }
                // Not a moment sooner than asked for, and not all at once; nor sooner than without a word, for some ask for
                // no wait at all, or for one until a time that is past by the clock here.
                usual.max(after + retry.first.mul_f64(chance() / 2.0))
            }
            None => usual,
        };
        tracing::info!(%address, failed, "{error}; trying again in {:.1} s", wait.as_secs_f64());
        Ok(Turn::Later(error, wait))
    }

    /// Keeps all threads from asking for a while.
    fn hold_all(&self, wait: Duration) {
        let until = Instant::now() + wait;
        let mut not_before = self
            .not_before
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if not_before.is_none_or(|before| before < until) {
            *not_before = Some(until);
        }
    }

    fn wait_for_turn(&self) -> Result<(), RemoteError> {
        let until = *self
            .not_before
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        self.pause(until.unwrap_or_else(Instant::now))
    }

    /// Waits, unless the program is asked to stop.
    pub(crate) fn pause_for(&self, time: Duration) -> Result<(), RemoteError> {
        self.pause(Instant::now() + time)
    }

    fn pause(&self, until: Instant) -> Result<(), RemoteError> {
        /// How long a request to stop may go unheard.
        const LOOK_UP: Duration = Duration::from_millis(100);
        loop {
            if self.settings.stop.load(Ordering::Relaxed) {
                return Err(RemoteError::Stopped);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(LOOK_UP));
        }
    }

    /// One try.
    fn attempt(&self, address: &Address, ask: &Ask, attempts: u32) -> Tried<Answer> {
        let response = match self.send(address, ask) {
            Ok(response) => response,
            Err(error) => return self.no_answer(address, &error, attempts),
        };
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        // Of an error a few words are enough.
        let limit = match status {
            200..300 => self.settings.longest,
            _ => 64 << 10,
        };
        let mut body = Vec::new();
        let mut reader = response.into_body().into_reader().take(limit + 1);
        let read = reader.read_to_end(&mut body);
        match (status, read) {
            (200..300, Err(error)) => match inner(&error) {
                Some(ureq::Error::Timeout(_)) => self.silent(address, attempts),
                _ => Tried::Again(
                    RemoteError::NoAnswer {
                        address: address.to_string(),
                        attempts,
                        why: format!("it broke off: {}", self.clean(&error.to_string())),
                    },
                    None,
                ),
            },
            (200..300, Ok(_)) if body.len() as u64 > limit => Tried::Failed(RemoteError::TooLong {
                address: address.to_string(),
                limit,
            }),
            (200..300, Ok(_)) => Tried::Done(Answer {
                body,
                kind: kind(&headers),
                request_id: text(&headers, "x-request-id").map(|id| printable(id).to_string()),
                attempts,
            }),
            (300..400, _) => Tried::Failed(self.redirect(address, &headers)),
            // What was read of it is what it says.
            _ => {
                let asked = Asked::of(&headers, SystemTime::now());
                self.refused(address, status, asked, Trouble::read(&body), attempts)
            }
        }
    }

    fn send(&self, address: &Address, ask: &Ask) -> Result<Response<Body>, ureq::Error> {
        let url = address.url();
        let own = address.same_origin(&self.base);
        let (authorization, key_header) = self.authorization(address, own);
        let mut headers: Vec<(&str, String)> =
            vec![("accept", "application/json, image/*, */*".into())];
        headers.extend(authorization.map(|value| (key_header, value)));
        headers.extend(ask.once.map(|name| ("idempotency-key", name.to_owned())));
        let post = |kind: &str, body: &[u8]| {
            let mut request = self.agent.post(&url).header(header::CONTENT_TYPE, kind);
            for (name, value) in &headers {
                request = request.header(*name, value);
            }
            request.send(body)
        };
        match ask.body {
            Payload::None => {
                let mut request = self.agent.get(&url);
                for (name, value) in &headers {
                    request = request.header(*name, value);
                }
                request.call()
            }
            Payload::Json(body) => post("application/json", body.to_string().as_bytes()),
            Payload::Written(body) => post("application/json", body.as_bytes()),
            Payload::Form(form) => {
                let (kind, body) = form.encode();
                post(&kind, &body)
            }
        }
    }

    /// The value and the name of the header with the secret, if this server may have one.
    fn authorization(&self, address: &Address, own: bool) -> (Option<String>, &str) {
        let name = self.settings.key_header.as_deref();
        match &self.key {
            Some(key) if own => match name {
                Some(name) => (Some(key.secret().into()), name),
                None => (Some(format!("Bearer {}", key.secret())), "authorization"),
            },
            _ if own => (self.base.authorization(), "authorization"),
            _ => (address.authorization(), "authorization"),
        }
    }

    fn no_answer<T>(&self, address: &Address, error: &ureq::Error, attempts: u32) -> Tried<T> {
        match error {
            ureq::Error::Timeout(ureq::Timeout::Connect | ureq::Timeout::Resolve) => Tried::Again(
                RemoteError::NoAnswer {
                    address: address.to_string(),
                    attempts,
                    why: format!(
                        "no connection within {} s",
                        self.settings.timeouts.connect.as_secs_f64()
                    ),
                },
                None,
            ),
            ureq::Error::Timeout(_) => self.silent(address, attempts),
            error => {
                let again = matches!(
                    error,
                    ureq::Error::Io(_) | ureq::Error::ConnectionFailed | ureq::Error::Protocol(_)
                );
                let error = RemoteError::NoAnswer {
                    address: address.to_string(),
                    attempts,
                    why: self.clean(&error.to_string()),
                };
                match again {
                    true => Tried::Again(error, None),
                    false => Tried::Failed(error),
                }
            }
        }
    }

    fn silent<T>(&self, address: &Address, attempts: u32) -> Tried<T> {
        let error = RemoteError::Silent {
            address: address.to_string(),
            attempts,
            seconds: self.settings.timeouts.answer,
        };
        Tried::Again(error, None)
    }

    /// Foreign text without the key and without addresses' secrets.
    pub(super) fn clean(&self, text: &str) -> String {
        let text = redact(text);
        match &self.key {
            Some(key) => key.cut_from(&text),
            None => text,
        }
    }
}

fn kind(headers: &HeaderMap) -> String {
    let kind = text(headers, "content-type").unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default();
    kind.trim().to_ascii_lowercase()
}

/// What the HTTP library says in an error of reading.
fn inner(error: &std::io::Error) -> Option<&ureq::Error> {
    error.get_ref()?.downcast_ref()
}
