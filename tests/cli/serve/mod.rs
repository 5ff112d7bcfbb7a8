//! `prepose serve`, asked over real connections.

mod checker;
mod foreign;
mod malformed;
mod native;
mod second;
mod shown;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::run::prepose;

/// A server of the toybox, which ends with the test.
pub struct Server {
    child: Child,
    /// `127.0.0.1:PORT`
    pub address: String,
    /// The token that it made up, if it did.
    pub token: Option<String>,
    _out: BufReader<ChildStdout>,
}

impl Server {
    /// Starts one that keeps its pictures in `folder`.
    pub fn start(folder: &Path, more: &[&str]) -> Self {
        let mut command = prepose(&["serve", "--port", "0", "--out"]);
        command.arg(folder.join("served")).args(more);
        command.env_remove("PREPOSE_TOKEN");
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let address = line
            .trim()
            .strip_prefix("http://")
            .unwrap_or_else(|| panic!("it printed {line:?}"));
        let token = address.split_once("#token=");
        let token = token.map(|(_, token)| token.to_owned());
        let address = address.split('/').next().unwrap().to_owned();
        Self {
            child,
            address,
            token,
            _out: out,
        }
    }

    /// Kills it at once.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks it to end, and waits until it has.
    #[cfg(unix)]
    pub fn terminate(mut self) -> Option<i32> {
        let pid = self.child.id().to_string();
        let kill = std::process::Command::new("kill")
            .args(["-TERM", &pid])
            .status()
            .unwrap();
        assert!(kill.success());
        self.child.wait().unwrap().code()
    }

    /// Sends bytes as they are.
    pub fn raw(&self, bytes: &[u8]) -> Answer {
        let mut stream = self.connect();
        // It may answer and close before all is sent.
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        Answer::of(&answer)
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(300)))
            .unwrap();
        stream
    }

    /// A whole request; `headers` end with a line feed each.
    pub fn ask(&self, method: &str, path: &str, headers: &str, body: &[u8]) -> Answer {
        let host = if headers.to_lowercase().contains("host:") {
            String::new()
        } else {
            format!("Host: {}\r\n", self.address)
        };
        let head = format!(
            "{method} {path} HTTP/1.1\r\n{host}Connection: close\r\nContent-Length: {}\r\n{}\r\n",
            body.len(),
            headers.replace('\n', "\r\n")
        );
        self.raw(&[head.as_bytes(), body].concat())
    }

    pub fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, "", b"")
    }

    pub fn post(&self, path: &str, body: &Value) -> Answer {
        self.ask(
            "POST",
            path,
            "Content-Type: application/json\n",
            body.to_string().as_bytes(),
        )
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a server said.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    fn of(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
        let Some(end) = end else {
            return Self {
                status: 0,
                head: String::new(),
                body: bytes.to_vec(),
            };
        };
        let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
        let status = head
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok())
            .unwrap_or(0);
        let body = match head.contains("transfer-encoding: chunked") {
            true => unchunked(&bytes[end + 4..]),
            false => bytes[end + 4..].to_vec(),
        };
        Self { status, head, body }
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }
}

fn unchunked(mut rest: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    while let Some(end) = rest.windows(2).position(|window| window == b"\r\n") {
        let size = std::str::from_utf8(&rest[..end])
            .ok()
            .and_then(|size| usize::from_str_radix(size, 16).ok());
        let Some(chunk) = size.and_then(|size| rest.get(end + 2..end + 2 + size)) else {
            break;
        };
        whole.extend_from_slice(chunk);
        rest = rest.get(end + 4 + chunk.len()..).unwrap_or_default();
    }
    whole
}
