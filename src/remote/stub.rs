//! A server for tests, on this machine, that answers as it is told to and fails in every way.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use serde_json::{Value, json};

/// What was asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// `GET` or `POST`.
    pub method: String,
    /// With the query.
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// As it came.
    pub body: Vec<u8>,
    /// How many came before.
    pub before: usize,
}

/// What is answered.
#[derive(Clone, Debug)]
pub enum Reply {
    /// JSON with a status.
    Json(u16, Value),
    /// JSON with a status and headers.
    Headers(u16, Vec<(&'static str, String)>, Value),
    /// Any bytes, with a status and a type.
    Bytes(u16, &'static str, Vec<u8>),
    /// The first bytes of another answer, headers included, and then the end of the connection.
    Cut(usize, Box<Reply>),
    /// The end of the connection.
    Close,
    /// Nothing, until the other side gives up.
    Hang,
    /// Another answer, once [`Stub::release`] was called.
    Held(Box<Reply>),
}

/// An address on this machine at which nobody answers as long as this lives: its port is that of a connection, so that no
/// other program can get it.
pub struct Nobody {
    /// `http://127.0.0.1:PORT`.
    pub address: String,
    _ends: (TcpListener, TcpStream),
}

impl Nobody {
    /// Such an address.
    ///
    /// # Errors
    /// No port can be had.
    pub fn new() -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let stream = TcpStream::connect(listener.local_addr()?)?;
        Ok(Self {
            address: format!("http://{}", stream.local_addr()?),
            _ends: (listener, stream),
        })
    }
}

/// The server. It ends with the program.
pub struct Stub {
    /// `http://127.0.0.1:PORT`.
    pub address: String,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    asked: Mutex<Vec<Asked>>,
    at_once: AtomicUsize,
    most_at_once: AtomicUsize,
    released: Mutex<bool>,
    release: Condvar,
    down: AtomicBool,
    /// Whether connections stay open after an answer.
    keeps: bool,
    connections: AtomicUsize,
}

impl Asked {
    /// A header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers
            .find(|(one, _)| one == name)
            .map(|(_, value)| value.as_str())
    }

    /// The body as JSON; null if it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The value of a field of a form.
    pub fn field(&self, name: &str) -> Option<Vec<u8>> {
        let kind = self.header("content-type")?;
        let boundary = format!("--{}", kind.split_once("boundary=")?.1);
        let start = find(&self.body, format!("name=\"{name}\"").as_bytes())?;
        let rest = &self.body[start..];
        let value = &rest[find(rest, b"\r\n\r\n")? + 4..];
        Some(value[..find(value, format!("\r\n{boundary}").as_bytes())?].to_vec())
    }
}

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

impl Reply {
    /// A chat completion with this text.
    pub fn chat(text: &str) -> Self {
        let message = json!({"role": "assistant", "content": text});
        Self::Json(
            200,
            json!({
                "id": "chatcmpl-1", "object": "chat.completion", "model": "stub",
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
            }),
        )
    }

    /// An error as OpenAI has them.
    pub fn error(status: u16, code: &str, message: &str) -> Self {
        let error = json!({"message": message, "type": "stub", "param": null, "code": code});
        Self::Json(status, json!({"error": error}))
    }

    /// 429 with `retry-after-ms`.
    pub fn busy(milliseconds: u64) -> Self {
        let error =
            json!({"message": "too many", "type": "rate_limit", "code": "rate_limit_exceeded"});
        let header = ("retry-after-ms", milliseconds.to_string());
        Self::Headers(429, vec![header], json!({"error": error}))
    }

    /// What goes over the line.
    fn encode(&self, keeps: bool) -> Vec<u8> {
        let whole = |status: u16, kind: &str, more: &[(&str, String)], body: &[u8]| {
            let connection = if keeps { "keep-alive" } else { "close" };
            let mut head = format!(
                "HTTP/1.1 {status} Stub\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: {connection}\r\n",
                body.len()
            );
            for (name, value) in more {
                head += &format!("{name}: {value}\r\n");
            }
            let mut bytes = (head + "\r\n").into_bytes();
            bytes.extend_from_slice(body);
            bytes
        };
        match self {
            Self::Json(status, json) => whole(
                *status,
                "application/json",
                &[],
                json.to_string().as_bytes(),
            ),
            Self::Headers(status, headers, json) => whole(
                *status,
                "application/json",
                headers,
                json.to_string().as_bytes(),
            ),
            Self::Bytes(status, kind, bytes) => whole(*status, kind, &[], bytes),
            Self::Cut(length, reply) => {
                let mut bytes = reply.encode(keeps);
                bytes.truncate(*length);
                bytes
            }
            Self::Held(reply) => reply.encode(keeps),
            Self::Close | Self::Hang => Vec::new(),
        }
    }

    /// Whether it is the end of its connection.
    fn ends(&self) -> bool {
        match self {
            Self::Cut(..) | Self::Close | Self::Hang => true,
            Self::Held(reply) => reply.ends(),
            Self::Json(..) | Self::Headers(..) | Self::Bytes(..) => false,
        }
    }

    fn is_held(&self) -> bool {
        matches!(self, Self::Held(_))
    }
}

impl Stub {
    /// Serves on a free port; `answer` is called for each request, from several threads.
    ///
    /// # Errors
    /// No port can be had.
    pub fn start(
        answer: impl Fn(&Asked) -> Reply + Send + Sync + 'static,
    ) -> std::io::Result<Self> {
        Self::serving(answer, false)
    }

    /// The same with connections that stay open, as servers have them.
    ///
    /// # Errors
    /// No port can be had.
    pub fn keeping(
        answer: impl Fn(&Asked) -> Reply + Send + Sync + 'static,
    ) -> std::io::Result<Self> {
        Self::serving(answer, true)
    }

    fn serving(
        answer: impl Fn(&Asked) -> Reply + Send + Sync + 'static,
        keeps: bool,
    ) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = format!("http://{}", listener.local_addr()?);
        let state = Arc::new(State {
            keeps,
            ..State::default()
        });
        let (shared, answer) = (state.clone(), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if shared.down.load(Ordering::SeqCst) {
                    continue;
                }
                let (state, answer) = (shared.clone(), answer.clone());
                state.connections.fetch_add(1, Ordering::SeqCst);
                std::thread::spawn(move || serve(stream, &state, &*answer));
            }
        });
        Ok(Self { address, state })
    }

    /// All requests so far.
    pub fn asked(&self) -> Vec<Asked> {
        locked(&self.state.asked).clone()
    }

    /// How many requests there were so far.
    pub fn count(&self) -> usize {
        locked(&self.state.asked).len()
    }

    /// How many connections there were so far.
    pub fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }

    /// The most requests that were under way together.
    pub fn most_at_once(&self) -> usize {
        self.state.most_at_once.load(Ordering::SeqCst)
    }

    /// Lets held answers go, also later ones.
    pub fn release(&self) {
        *locked(&self.state.released) = true;
        self.state.release.notify_all();
    }

    /// From now on connections are closed at once (or no longer).
    pub fn set_down(&self, down: bool) {
        self.state.down.store(down, Ordering::SeqCst);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(mut stream: TcpStream, state: &State, answer: &dyn Fn(&Asked) -> Reply) {
    while let Some(asked) = read(&stream) {
        let reply = one(&mut stream, state, answer, asked);
        // A client that went away is none of the server's business.
        let sent = stream.write_all(&reply.encode(state.keeps));
        if !state.keeps || reply.ends() || sent.is_err() {
            break;
        }
    }
    let _ = stream.flush();
    let _ = stream.shutdown(Shutdown::Write);
    // Closing with unread bytes would reset the connection and could take the answer along.
    let _ = stream.read(&mut [0; 1]);
}

/// What is answered to a request, once it is time.
fn one(
    stream: &mut TcpStream,
    state: &State,
    answer: &dyn Fn(&Asked) -> Reply,
    mut asked: Asked,
) -> Reply {
    let now = state.at_once.fetch_add(1, Ordering::SeqCst) + 1;
    state.most_at_once.fetch_max(now, Ordering::SeqCst);
    {
        let mut all = locked(&state.asked);
        asked.before = all.len();
        all.push(asked.clone());
    }
    let reply = answer(&asked);
    if matches!(reply, Reply::Hang) {
        // Until the other side has closed the connection.
        let _ = stream.read(&mut [0; 1]);
    }
    if reply.is_held() {
        let mut released = locked(&state.released);
        while !*released {
            released = state
                .release
                .wait(released)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
    state.at_once.fetch_sub(1, Ordering::SeqCst);
    reply
}

fn read(stream: &TcpStream) -> Option<Asked> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split_whitespace();
    let mut asked = Asked {
        method: words.next()?.into(),
        path: words.next()?.into(),
        ..Asked::default()
    };
    loop {
        line.clear();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        let header = (name.to_ascii_lowercase(), value.trim().to_owned());
        asked.headers.push(header);
    }
    let length = asked
        .header("content-length")
        .map_or(Ok(0), str::parse::<usize>);
    asked.body = vec![0; length.ok()?];
    reader.read_exact(&mut asked.body).ok()?;
    Some(asked)
}
