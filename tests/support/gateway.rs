//! A gateway that speaks enough of S3's protocol to fail in every way.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// What the gateway is asked.
pub struct Request {
    /// How many came before it.
    pub number: usize,
    pub method: String,
    /// Without the query.
    pub path: String,
    query: String,
    /// Whether it is to write only what is not there.
    pub create: bool,
    body: Vec<u8>,
}

/// How it fails.
pub enum Answer {
    /// A status and a code.
    Error(u16, &'static str),
    /// The connection is closed; nothing was done.
    Hangup,
    /// The connection is closed; all was done.
    DoneThenHangup,
    /// The connection is closed in the middle of the answer.
    Half,
    /// Nothing, for a long time.
    Silence,
}

type Fails = dyn Fn(&Request) -> Option<Answer> + Send + Sync;

pub struct Gateway {
    pub url: String,
    state: Arc<State>,
}

struct State {
    fails: Box<Fails>,
    files: Mutex<BTreeMap<String, Vec<u8>>>,
    requests: AtomicUsize,
    overwrites: AtomicBool,
}

impl Gateway {
    pub fn start(fails: impl Fn(&Request) -> Option<Answer> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(State {
            fails: Box::new(fails),
            files: Mutex::default(),
            requests: AtomicUsize::new(0),
            overwrites: AtomicBool::new(false),
        });
        let shared = state.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (state, Ok(stream)) = (shared.clone(), stream) else {
                    return;
                };
                std::thread::spawn(move || while state.serve(&stream).is_some() {});
            }
        });
        Self { url, state }
    }

    /// From now on it writes whatever it is told, as some servers do.
    pub fn overwrite(&self) {
        self.state.overwrites.store(true, Ordering::Relaxed);
    }

    pub fn names(&self) -> Vec<String> {
        self.state.files.lock().unwrap().keys().cloned().collect()
    }

    /// Its files by their names, `/bucket/…`.
    pub fn files(&self) -> BTreeMap<String, Vec<u8>> {
        self.state.files.lock().unwrap().clone()
    }
}

impl State {
    /// Answers one request; none once the connection is over.
    fn serve(&self, stream: &TcpStream) -> Option<()> {
        let request = self.read(stream)?;
        let mut writer = stream;
        match (self.fails)(&request) {
            None => {
                let answer = self.answer(&request);
                writer.write_all(&answer).ok()
            }
            Some(Answer::Error(status, code)) => {
                let body = match request.method.as_str() {
                    "HEAD" => String::new(),
                    _ => format!("<Error><Code>{code}</Code><Message>so it is</Message></Error>"),
                };
                writer.write_all(&reply(status, "", body.as_bytes())).ok()
            }
            Some(Answer::Hangup) => None,
            Some(Answer::DoneThenHangup) => {
                self.answer(&request);
                None
            }
            Some(Answer::Half) => {
                let answer = self.answer(&request);
                writer.write_all(&answer[..answer.len() / 2]).ok()?;
                None
            }
            Some(Answer::Silence) => {
                std::thread::sleep(std::time::Duration::from_secs(60));
                None
            }
        }
    }

    fn read(&self, stream: &TcpStream) -> Option<Request> {
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        let mut parts = line.split(' ');
        let (method, target) = (parts.next()?.to_string(), parts.next()?.to_string());
        let (mut create, mut length) = (false, 0);
        loop {
            let mut header = String::new();
            reader.read_line(&mut header).ok()?;
            let Some((name, value)) = header.trim_end().split_once(": ") else {
                break;
            };
            match name.to_ascii_lowercase().as_str() {
                "if-none-match" => create = value == "*",
                "content-length" => length = value.parse().ok()?,
                _ => {}
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        Some(Request {
            number: self.requests.fetch_add(1, Ordering::Relaxed),
            method,
            path: path.into(),
            query: query.into(),
            create,
            body,
        })
    }

    fn answer(&self, request: &Request) -> Vec<u8> {
        let mut files = self.files.lock().unwrap();
        let name = decoded(&request.path);
        let about = "ETag: \"1\"\r\nLast-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n";
        match request.method.as_str() {
            "PUT" => {
                let keeps = request.create && !self.overwrites.load(Ordering::Relaxed);
                if keeps && files.contains_key(&name) {
                    return reply(412, "", b"<Error><Code>PreconditionFailed</Code></Error>");
                }
                files.insert(name, request.body.clone());
                reply(200, about, b"")
            }
            "DELETE" => {
                files.remove(&name);
                reply(204, "", b"")
            }
            "GET" if request.query.contains("list-type=2") => {
                let prefix = request
                    .query
                    .split('&')
                    .find_map(|part| part.strip_prefix("prefix="));
                let prefix = format!("/bucket/{}", decoded(prefix.unwrap_or_default()));
                let mut body = String::from("<ListBucketResult>");
                for (name, bytes) in files.iter().filter(|(name, _)| name.starts_with(&prefix)) {
                    let key = name.strip_prefix("/bucket/").unwrap_or(name);
                    body += &format!(
                        "<Contents><Key>{key}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>\
                         <ETag>1</ETag><Size>{}</Size></Contents>",
                        bytes.len()
                    );
                }
                body += "</ListBucketResult>";
                reply(200, "", body.as_bytes())
            }
            method => match files.get(&name) {
                Some(bytes) if method == "HEAD" => {
                    let length = bytes.len();
                    format!("HTTP/1.1 200 OK\r\n{about}Content-Length: {length}\r\n\r\n")
                        .into_bytes()
                }
                Some(bytes) => reply(200, about, bytes),
                None if method == "HEAD" => reply(404, "", b""),
                None => reply(404, "", b"<Error><Code>NoSuchKey</Code></Error>"),
            },
        }
    }
}

fn reply(status: u16, headers: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!("HTTP/1.1 {status} Said\r\n{headers}Content-Length: {length}\r\n\r\n");
    [head.as_bytes(), body].concat()
}

/// `%20` and the like as what they stand for.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let code = std::str::from_utf8(tail.get(..2).unwrap_or_default()).ok();
        let code = code.and_then(|code| u8::from_str_radix(code, 16).ok());
        match (first, code) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8(bytes).unwrap()
}
