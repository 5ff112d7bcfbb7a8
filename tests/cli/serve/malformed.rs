//! Requests that are wrong in every way that could be thought of: a proper status and a message each, and the server goes on.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::Server;

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

fn natives() -> Vec<Case> {
    let deep = [vec![b'['; 5000], vec![b']'; 5000]].concat();
    let cat = |name: &str, value: Value| {
        let mut request = json!({"prompt": "a dog to the left of a cat", "steps": 2});
        request[name] = value;
        request
    };
    vec![
        sent("/api/jobs", JSON, "", 400, "no JSON"),
        sent("/api/jobs", JSON, "{\"request\": ", 400, "no JSON"),
        sent("/api/read", JSON, deep, 422, "not what is asked for"),
        sent(
            "/api/jobs",
            JSON,
            b"{\"request\": {\"prompt\": \"\xff\xfe\"}}".to_vec(),
            400,
            "no JSON",
        ),
        sent("/api/jobs", JSON, "[]", 422, "an object"),
        sent("/api/read", JSON, "[\"a dog\"]", 422, "an object"),
        sent(
            "/api/jobs",
            JSON,
            "{\"request\": [\"a dog\"]}",
            422,
            "request: invalid type",
        ),
        sent(
            "/api/jobs",
            JSON,
            "{\"request\": {\"prompt\": \"a dog\"}} {}",
            400,
            "no JSON",
        ),
        sent("/api/jobs", JSON, "{}", 422, "request"),
        sent(
            "/api/jobs",
            "Content-Type: text/plain\n",
            "{}",
            415,
            "application/json",
        ),
        sent("/api/jobs", "", "{}", 415, "application/json"),
        sent(
            "/api/jobs",
            "Content-Type: application/x-www-form-urlencoded\n",
            "a=b",
            415,
            "application/json",
        ),
        wanted(json!({}), 422, "prompt"),
        wanted(json!({"prompt": 7}), 422, "string"),
        wanted(json!({"prompt": "  "}), 400, "empty"),
        wanted(json!({"prompt": "()"}), 400, "empty"),
        wanted(cat("pormpt", json!(1)), 422, "pormpt"),
        wanted(cat("steps", json!(0)), 400, "steps"),
        wanted(cat("steps", json!(-1)), 422, "usize"),
        wanted(cat("steps", json!(1_000_000)), 400, "steps"),
        wanted(
            cat("steps", json!("many")),
            422,
            "request.steps: invalid type",
        ),
        wanted(
            cat("loras", json!([["a", 1.0]])),
            422,
            "request.loras[0]: invalid type",
        ),
        wanted(
            cat("init", json!(["sha256:00", 0.5])),
            422,
            "request.init: invalid type",
        ),
        wanted(cat("width", json!(130)), 400, "128x128"),
        wanted(cat("width", json!(u64::MAX)), 400, "pixels"),
        wanted(cat("height", json!(1e300)), 422, "invalid"),
        wanted(cat("guidance_scale", json!(-1)), 400, "guidance scale"),
        wanted(cat("guidance_steps", json!("late")), 400, "look like"),
        wanted(cat("guidance_steps", json!([0, 1])), 400, "look like"),
        wanted(
            cat("guidance_steps", json!("1-0")),
            400,
            "the last of the guidance steps",
        ),
        wanted(cat("guidance_steps", json!({"first": 900})), 400, "900"),
        wanted(cat("scheduler", json!("magic")), 400, "magic"),
        wanted(cat("clip_skip", json!(99)), 400, "clip skip"),
        wanted(cat("noise", json!("pink")), 400, "pink"),
        wanted(cat("seed", json!(-3)), 422, "no seed"),
        wanted(cat("seed", json!("18446744073709551616")), 422, "no seed"),
        wanted(cat("relations", json!(["dog, cat"])), 400, "not written as"),
        wanted(
            cat("relations", json!(["dog | left of | unicorn"])),
            400,
            "unicorn",
        ),
        wanted(
            cat("boxes", json!([{"object": "dog", "box": [0, 0, 2, 1]}])),
            400,
            "not within the picture",
        ),
        wanted(
            cat("regions", json!([{"part": 2, "box": [0, 0, 1, 1]}])),
            400,
            "part 2",
        ),
        wanted(
            cat("guide", json!({"method": "magic"})),
            400,
            "no guidance method",
        ),
        wanted(
            cat("guide", json!({"method": "pos", "steps": 50})),
            400,
            "cannot be guided",
        ),
        wanted(
            cat("guide", json!({"method": "pos", "extra": 1})),
            400,
            "extra",
        ),
        wanted(
            cat("ground", json!({"share": 2})),
            400,
            "share of grounded steps",
        ),
        wanted(
            cat("checkpoint", json!("../../etc/passwd")),
            404,
            "there is no checkpoint",
        ),
        wanted(
            cat("loras", json!([{"name": "../x"}])),
            400,
            "there is no LoRA",
        ),
        wanted(cat("init", json!({"image": "/etc/passwd"})), 400, "picture"),
        wanted(
            cat("init", json!({"image": "http://127.0.0.1/x.png"})),
            400,
            "not fetched",
        ),
        wanted(
            cat("init", json!({"image": STANDARD.encode(bomb(60_000))})),
            400,
            "60000x60000",
        ),
        wanted(
            cat("init", json!({"image": STANDARD.encode(bomb(64))})),
            400,
            "damaged or cut short",
        ),
        wanted(
            cat("init", json!({"image": STANDARD.encode(b"GIF89a")})),
            400,
            "not a readable",
        ),
        sent(
            "/api/jobs",
            JSON,
            json!({"request": {"prompt": "a cat"}, "seeds": vec![1; 65]}).to_string(),
            400,
            "65 pictures",
        ),
        sent(
            "/api/jobs",
            JSON,
            json!({"request": {"prompt": "a cat"}, "search": {"best_of": u64::MAX}}).to_string(),
            400,
            "pictures",
        ),
        sent(
            "/api/jobs",
            JSON,
            json!({"request": {"prompt": "a cat"}, "search": {"best_of": 0}}).to_string(),
            400,
            "best of 0",
        ),
        sent(
            "/api/jobs",
            JSON,
            json!({"request": {"prompt": "a cat"}, "search": {"best_of": 2}}).to_string(),
            400,
            "no relation",
        ),
        sent(
            "/api/jobs",
            JSON,
            json!({"request": {"prompt": "a cat"}, "search": {"best_of": 2, "reward": "judge"}})
                .to_string(),
            400,
            "no judge",
        ),
        sent("/api/read", JSON, "{\"prompt\": 3}", 422, "string"),
        asked("GET", "/api/jobs/..%2f..%2fetc", "", 404, "no such job"),
        asked(
            "GET",
            "/api/pictures/..%2f..%2fCargo.toml",
            "",
            404,
            "no such picture",
        ),
        asked(
            "GET",
            "/api/pictures/..%2fx.png",
            "",
            404,
            "no such picture",
        ),
        asked("DELETE", "/api/pictures/%2e%2e", "", 404, ""),
        asked("GET", "/api/pictures?limit=-1", "", 400, "invalid"),
        asked("GET", "/runs/..%2f/report/x", "", 404, "no such run"),
        asked("GET", "/page/..%2fmod.rs", "", 404, "no such file"),
        asked("GET", "/nothing", "", 404, "nothing at this address"),
        asked("PATCH", "/api/jobs", "", 405, "not asked in that way"),
    ]
}

fn foreign() -> Vec<Case> {
    let pictures = "/v1/images/generations";
    let image = |value: Value| sent(pictures, JSON, value.to_string(), 400, "");
    let says = |case: Case, says| Case { says, ..case };
    vec![
        says(image(json!({"n": 1})), "no prompt"),
        says(image(json!({"prompt": "a cat", "n": 11})), "1 to 10"),
        says(
            image(json!({"prompt": "a cat", "size": "big"})),
            "WIDTHxHEIGHT",
        ),
        says(
            image(json!({"prompt": "a cat", "size": "100x100"})),
            "nearest",
        ),
        says(
            image(json!({"prompt": "a cat", "response_format": "url"})),
            "b64_json",
        ),
        says(
            image(json!({"prompt": "a cat", "background": "transparent"})),
            "transparent",
        ),
        says(
            image(json!({"prompt": "a cat", "stream": true, "n": 2})),
            "one picture",
        ),
        says(
            image(json!({"prompt": "a cat", "prepose": {"pormpt": 1}})),
            "pormpt",
        ),
        Case {
            status: 404,
            says: "there is no model",
            ..image(json!({"prompt": "a cat", "model": "dall-e-3"}))
        },
        sent("/v1/images/edits", JSON, "{}", 415, "multipart"),
        sent("/v1/images/edits", FORM, "--b\r\n\r\n", 400, "form"),
        sent("/v1/images/edits", FORM, "--b--\r\n", 400, "image"),
        sent(
            "/v1/images/edits",
            FORM,
            "--b\r\nContent-Disposition: form-data; name=\"image\"; filename=\"/etc/passwd\"\r\n\r\nx\r\n--b--\r\n",
            400,
            "prompt",
        ),
        sent(
            "/v1/images/edits",
            "Content-Type: multipart/form-data\n",
            "x",
            400,
            "form",
        ),
        sent("/sdapi/v1/txt2img", JSON, "[]", 422, "an object"),
        sent(
            "/sdapi/v1/txt2img",
            JSON,
            "{\"prompt\": 3}",
            400,
            "prompt is a text",
        ),
        sent(
            "/sdapi/v1/txt2img",
            JSON,
            "{\"prompt\": \"a cat\", \"steps\": 2.5}",
            400,
            "whole number",
        ),
        sent(
            "/sdapi/v1/txt2img",
            JSON,
            "{\"prompt\": \"a cat\", \"batch_size\": 1000000, \"n_iter\": 1000000}",
            400,
            "pictures",
        ),
        sent(
            "/sdapi/v1/txt2img",
            JSON,
            "{\"prompt\": \"a cat <lora:../x:1>\"}",
            400,
            "there is no LoRA",
        ),
        sent(
            "/sdapi/v1/txt2img",
            JSON,
            "{\"prompt\": \"a cat\", \"enable_hr\": true, \"hr_upscaler\": \"R-ESRGAN 4x+\"}",
            400,
            "Latent (nearest)",
        ),
        sent(
            "/sdapi/v1/txt2img",
            JSON,
            "{\"prompt\": \"a cat\", \"enable_hr\": true, \"hr_scale\": 1e9}",
            400,
            "hr_scale is from 1 to 64",
        ),
        sent(
            "/sdapi/v1/txt2img",
            JSON,
            "{\"prompt\": \"a cat\", \"enable_hr\": true, \"denoising_strength\": 0}",
            400,
            "above 0",
        ),
        sent(
            "/sdapi/v1/txt2img",
            JSON,
            "{\"prompt\": \"a cat\", \"enable_hr\": true, \"hr_resize_x\": 900000}",
            400,
            "pixels",
        ),
        sent(
            "/sdapi/v1/img2img",
            JSON,
            "{\"prompt\": \"a cat\"}",
            400,
            "init_images",
        ),
        sent(
            "/sdapi/v1/img2img",
            JSON,
            "{\"prompt\": \"a cat\", \"init_images\": [\"file:///etc/passwd\"]}",
            400,
            "not fetched",
        ),
        sent(
            "/sdapi/v1/png-info",
            JSON,
            "{\"image\": \"eA==\"}",
            400,
            "not a readable",
        ),
    ]
}

fn strangers() -> Vec<Case> {
    let good = json!({"request": {"prompt": "a cat"}}).to_string();
    vec![
        asked(
            "GET",
            "/api/about",
            "Host: evil.example\n",
            421,
            "evil.example",
        ),
        asked(
            "GET",
            "/",
            "Host: 127.0.0.1.evil.example\n",
            421,
            "not called",
        ),
        sent(
            "/api/jobs",
            "Content-Type: application/json\nOrigin: http://evil.example\n",
            good.clone(),
            403,
            "other sites",
        ),
        sent(
            "/api/jobs",
            "Content-Type: application/json\nOrigin: null\n",
            good.clone(),
            403,
            "other sites",
        ),
        sent(
            "/api/jobs",
            "Content-Type: text/plain\nSec-Fetch-Site: cross-site\n",
            good,
            403,
            "other sites",
        ),
        sent(
            "/sdapi/v1/interrupt",
            "Sec-Fetch-Site: cross-site\n",
            "",
            403,
            "other sites",
        ),
        sent(
            "/v1/images/edits",
            "Content-Type: multipart/form-data; boundary=b\nOrigin: http://evil.example\n",
            "--b--",
            403,
            "other sites",
        ),
        asked(
            "GET",
            "/sdapi/v1/interrupt",
            "",
            405,
            "not asked in that way",
        ),
    ]
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
