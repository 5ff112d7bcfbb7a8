//! A hub on this machine.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

pub const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// A file as the hub has it.
#[derive(Clone, Default)]
pub struct Served {
    pub content: Vec<u8>,
    pub etag: String,
    /// Sent instead of the content's bytes, once for each entry: break off after so many.
    pub breaks: Vec<usize>,
    /// Sent instead of the content.
    pub lie: Option<Vec<u8>>,
}

pub struct Hub {
    pub endpoint: String,
    pub files: Arc<Mutex<HashMap<String, Served>>>,
    /// Every request: path, range, authorization.
    pub log: Arc<Mutex<Vec<(String, String, String)>>>,
}

impl Hub {
    /// Serves `files` by path in every repository; with `token`, only to those who have it.
    pub fn start(files: &[(&str, Served)], token: Option<&'static str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let files: HashMap<_, _> = files
            .iter()
            .map(|(name, file)| (name.to_string(), file.clone()))
            .collect();
        let files = Arc::new(Mutex::new(files));
        let log = Arc::new(Mutex::new(Vec::new()));
        let (shared, logged) = (files.clone(), log.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (files, log) = (shared.clone(), logged.clone());
                std::thread::spawn(move || answer(stream, &files, &log, token));
            }
        });
        Self {
            endpoint,
            files,
            log,
        }
    }

    pub fn ranges(&self, file: &str) -> Vec<String> {
        let log = self.log.lock().unwrap();
        log.iter()
            .filter(|(path, ..)| path.ends_with(file))
            .map(|(_, range, _)| range.clone())
            .collect()
    }
}

fn answer(
    mut stream: TcpStream,
    files: &Mutex<HashMap<String, Served>>,
    log: &Mutex<Vec<(String, String, String)>>,
    token: Option<&str>,
) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    let Some(Ok(request)) = lines.next() else {
        return;
    };
    let path = request.split(' ').nth(1).unwrap_or_default().to_string();
    let (mut range, mut authorization) = (String::new(), String::new());
    for line in lines
        .map_while(Result::ok)
        .take_while(|line| !line.is_empty())
    {
        let (name, value) = line.split_once(": ").unwrap_or_default();
        match name.to_ascii_lowercase().as_str() {
            "range" => range = value.to_string(),
            "authorization" => authorization = value.to_string(),
            _ => {}
        }
    }
    log.lock()
        .unwrap()
        .push((path.clone(), range.clone(), authorization.clone()));
    let mut plain = |status: &str, body: &str| {
        let _ = write!(
            stream,
            "HTTP/1.1 {status}\r\nContent-Length: {}\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
    };
    if token.is_some_and(|token| authorization != format!("Bearer {token}")) {
        return plain("401 Unauthorized", "");
    }
    let mut files = files.lock().unwrap();
    if path.starts_with("/api/models/me/model/revision/") {
        let names: Vec<_> = files
            .keys()
            .map(|name| serde_json::json!({ "rfilename": name }))
            .collect();
        return plain(
            "200 OK",
            &serde_json::json!({ "sha": COMMIT, "siblings": names }).to_string(),
        );
    }
    let name = path
        .split_once("/resolve/")
        .and_then(|(_, rest)| rest.split_once('/'));
    let Some(file) = name.and_then(|(_, name)| files.get_mut(name)) else {
        return plain("404 Not Found", "");
    };

    let content = file.lie.as_ref().unwrap_or(&file.content);
    let (start, end) = range.trim_start_matches("bytes=").split_once('-').unwrap();
    let start: usize = start.parse().unwrap();
    let end = end
        .parse()
        .map_or(content.len(), |end: usize| (end + 1).min(content.len()));
    if start >= content.len() {
        return plain("416 Range Not Satisfiable", "");
    }
    let mut body = &content[start..end];
    let _ = write!(
        stream,
        "HTTP/1.1 206 Partial Content\r\nContent-Length: {}\r\nContent-Range: bytes {start}-{}/{}\r\n\
         ETag: \"{}\"\r\nX-Repo-Commit: {COMMIT}\r\nConnection: close\r\n\r\n",
        body.len(),
        end - 1,
        content.len(),
        file.etag,
    );
    let whole = range != "bytes=0-0";
    if whole && !file.breaks.is_empty() {
        body = &body[..file.breaks.remove(0).min(body.len())];
    }
    let _ = stream.write_all(body);
}
