//! A checker that cannot be loaded.

use std::fs::{self, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use serde_json::{Value, json};

use super::Server;
use super::native::{job, of};
use crate::support::fixture;

/// Puts `bytes` where they were in a file: the server has it open, and reads of it what is there then.
fn put(file: &Path, at: usize, bytes: &[u8]) {
    let mut file = OpenOptions::new().write(true).open(file).unwrap();
    file.seek(SeekFrom::Start(at as u64)).unwrap();
    file.write_all(bytes).unwrap();
}

/// It takes verdicts away, and searches that go by them, and nothing else; and it is tried again.
#[test]
fn a_checker_that_cannot_be_loaded_fails_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let detector = folder.path().join("detector");
    fs::create_dir(&detector).unwrap();
    let original = fixture("eyes/rt-detr/basic");
    for file in [
        "config.json",
        "preprocessor_config.json",
        "model.safetensors",
    ] {
        fs::copy(original.join(file), detector.join(file)).unwrap();
    }
    let server = Server::start(
        folder.path(),
        &["--no-token", "--checker", detector.to_str().unwrap()],
    );
    let weights = detector.join("model.safetensors");
    let bytes = fs::read(&weights).unwrap();
    // Behind the header, whose length is in the first eight bytes, no number is finite.
    let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize + 8;
    put(&weights, header, &vec![0xff; bytes.len() - header]);
    let made = |more: Value| {
        let mut body = json!({"request": {"prompt": "a cat to the left of a fire hydrant", "steps": 1, "width": 64, "height": 64},
                              "maps": false, "previews": 0});
        for (name, value) in more.as_object().unwrap() {
            body[name] = value.clone();
        }
        job(&server, &body)
    };
    let verdict = |check: bool| {
        let state = made(json!({"check": check}));
        assert_eq!(state["status"], "done", "{state}");
        let id = of(&state, "picture")[0]["id"].as_str().unwrap();
        let facts = server.get(&format!("/api/pictures/{id}")).json();
        facts["verdict"].clone()
    };
    assert_eq!(verdict(true), Value::Null);
    assert_eq!(verdict(false), Value::Null);
    let search = |reward: &str| {
        let search = json!({"best_of": 2, "reward": reward});
        made(json!({"search": search, "check": false}))
    };
    let state = search("checker");
    assert_eq!(state["status"], "failed", "{state}");
    let state = search("attention");
    assert_eq!(state["status"], "done", "{state}");
    put(&weights, header, &bytes[header..]);
    assert!(verdict(true)["status"].is_string());
    assert_eq!(search("checker")["status"], "done");
}
