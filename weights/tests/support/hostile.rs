//! A server that answers whatever a test wants, byte for byte.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use super::server::COMMIT;

/// A request's path and headers, names in lower case.
#[derive(Clone, Debug)]
pub struct Asked {
    pub path: String,
    pub headers: Vec<(String, String)>,
}

impl Asked {
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(n, _)| n == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The first byte asked for, none if only the head is wanted.
    pub fn start(&self) -> Option<usize> {
        let range = self.header("range").unwrap_or("bytes=0-");
        let (start, end) = range.trim_start_matches("bytes=").split_once('-')?;
        end.is_empty().then(|| start.parse().ok())?
    }
}

/// What is sent, and whether the connection then stays open in silence until the client gives up.
pub struct Reply {
    pub bytes: Vec<u8>,
    pub hang: bool,
}

/// An answer with this status line, these headers and this body.
pub fn reply(status: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
    let mut head = format!("HTTP/1.1 {status}\r\nConnection: close\r\n");
    if !headers.iter().any(|(name, _)| *name == "Content-Length") {
        head.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    Reply {
        bytes: [head.as_bytes(), body].concat(),
        hang: false,
    }
}

/// As an honest hub answers for a file.
pub fn file(asked: &Asked, content: &[u8], etag: &str) -> Reply {
    let (start, end) = match asked.start() {
        Some(start) => (start, content.len()),
        None => (0, 1),
    };
    let range = format!("bytes {start}-{}/{}", end - 1, content.len());
    let headers = [
        ("Content-Range", range.as_str()),
        ("ETag", etag),
        ("X-Repo-Commit", COMMIT),
    ];
    reply("206 Partial Content", &headers, &content[start..end])
}

pub fn redirect(location: &str, etag: &str) -> Reply {
    let headers = [
        ("Location", location),
        ("X-Linked-ETag", etag),
        ("X-Repo-Commit", COMMIT),
    ];
    reply("302 Found", &headers, b"")
}

pub struct Hostile {
    pub endpoint: String,
    log: Arc<Mutex<Vec<Asked>>>,
}

impl Hostile {
    pub fn start(answer: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let log = Arc::new(Mutex::new(Vec::new()));
        let (logged, answer) = (log.clone(), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (log, answer) = (logged.clone(), answer.clone());
                std::thread::spawn(move || {
                    if let Some(asked) = read(&stream) {
                        log.lock().unwrap().push(asked.clone());
                        send(stream, &answer(&asked));
                    }
                });
            }
        });
        Self { endpoint, log }
    }

    /// All requests so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.log.lock().unwrap().clone()
    }

    /// The secrets that came with requests.
    pub fn secrets(&self) -> Vec<String> {
        let asked = self.asked();
        let secret = |asked: &Asked| asked.header("authorization").map(str::to_string);
        asked.iter().filter_map(secret).collect()
    }
}

fn read(stream: &TcpStream) -> Option<Asked> {
    let mut lines = BufReader::new(stream).lines();
    let request = lines.next()?.ok()?;
    let path = request.split(' ').nth(1)?.to_string();
    let mut headers = Vec::new();
    for line in lines.map_while(Result::ok) {
        let Some((name, value)) = line.split_once(": ") else {
            break;
        };
        headers.push((name.to_ascii_lowercase(), value.to_string()));
    }
    Some(Asked { path, headers })
}

fn send(mut stream: TcpStream, reply: &Reply) {
    let _ = stream.write_all(&reply.bytes);
    if reply.hang {
        // Until the other side closes.
        let _ = stream.read(&mut [0]);
    }
}
