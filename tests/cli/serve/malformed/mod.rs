//! Requests that are wrong in every way that could be thought of: a proper status and a message each, and the server goes on.

mod foreign;
mod native;

use serde_json::{Value, json};

use super::Server;
use foreign::{foreign, strangers};
use native::natives;

/// A request that is wrong: how it is sent, the status, and what the message must say.
struct Case {
    method: &'static str,
    path: &'static str,
    headers: &'static str,
    body: Vec<u8>,
    status: u16,
    says: &'static str,
}

const JSON: &str = "Content-Type: application/json\n";
const FORM: &str = "Content-Type: multipart/form-data; boundary=b\n";

fn sent(
    path: &'static str,
    headers: &'static str,
    body: impl Into<Vec<u8>>,
    status: u16,
    says: &'static str,
) -> Case {
    Case {
        method: "POST",
        path,
        headers,
        body: body.into(),
        status,
        says,
    }
}

fn wanted(request: Value, status: u16, says: &'static str) -> Case {
    sent(
        "/api/jobs",
        JSON,
        json!({"request": request}).to_string(),
        status,
        says,
    )
}

fn asked(
    method: &'static str,
    path: &'static str,
    headers: &'static str,
    status: u16,
    says: &'static str,
) -> Case {
    Case {
        method,
        path,
        headers,
        body: Vec::new(),
        status,
        says,
    }
}

/// A PNG that says to be as large as that.
fn bomb(side: u32) -> Vec<u8> {
    let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
    png.extend(side.to_be_bytes());
    png.extend(side.to_be_bytes());
    png.extend([8, 2, 0, 0, 0]);
    let crc = png[12..].iter().fold(!0u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg())
        })
    });
    png.extend((!crc).to_be_bytes());
    png.extend(b"\0\0\0\x0cIDATx\x9c\x03\0\0\0\0\x01");
    png
}

#[test]
fn wrong_requests_get_a_status_and_a_message() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--no-token"]);
    let cases: Vec<Case> = [natives(), foreign(), strangers()]
        .into_iter()
        .flatten()
        .collect();
    assert!(cases.len() >= 60, "{}", cases.len());
    let mut wrong = Vec::new();
    for case in &cases {
        let answer = server.ask(case.method, case.path, case.headers, &case.body);
        let text = answer.text();
        let message = serde_json::from_slice::<Value>(&answer.body)
            .ok()
            .and_then(|json| {
                let message = json["error"]["message"]
                    .as_str()
                    .or(json["detail"].as_str());
                message.map(str::to_owned)
            });
        let said = message
            .as_ref()
            .is_some_and(|message| message.contains(case.says) && !message.contains("/tmp/"));
        if answer.status != case.status || !said {
            let body = String::from_utf8_lossy(&case.body);
            wrong.push(format!(
                "{} {} {:.120}: {} (not {}), {text:.300} (says {:?})",
                case.method, case.path, body, answer.status, case.status, case.says
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n")
    );
    assert_eq!(server.get("/health").status, 200);
}

#[test]
fn broken_connections_end() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--no-token", "--patience", "1"]);
    let head = |more: &str| {
        format!(
            "POST /api/jobs HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n{more}\r\n",
            server.address
        )
    };
    // The rest of the body never comes.
    assert_eq!(
        server
            .raw(format!("{}{{", head("Content-Length: 100\r\nConnection: close\r\n")).as_bytes())
            .status,
        408
    );
    // Nor does the rest of the head.
    assert!(matches!(
        server.raw(b"GET / HTTP/1.1\r\nHost: loc").status,
        0 | 400 | 408
    ));
    assert_eq!(server.raw(b"nonsense\r\n\r\n").status, 400);
    let long = format!(
        "GET /{} HTTP/1.1\r\nHost: {}\r\n\r\n",
        "x".repeat(100_000),
        server.address
    );
    assert!(matches!(
        server.raw(long.as_bytes()).status,
        0 | 400 | 414 | 431
    ));
    let large = format!(
        "{}{}",
        head("Content-Length: 30000000\r\nConnection: close\r\n"),
        " ".repeat(30_000_000)
    );
    assert!(matches!(server.raw(large.as_bytes()).status, 0 | 413));
    assert_eq!(server.get("/health").status, 200);
}
