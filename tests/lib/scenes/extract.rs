//! Relations from a language model, against a server with scripted answers.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Command, Output};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use prepose::prompt::scene::{ExtractError, Extractor};
use serde_json::{Value, json};

use super::summary;

/// What the server does with its one request.
enum Script {
    /// Status and body.
    Answer(u16, String),
    /// Takes the request and says nothing.
    Hang,
    /// Closes the connection at once.
    Close,
    /// Promises more than it sends.
    Cut,
}

/// A server for one request, which it hands over; its address.
fn serve(script: Script) -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let (send, receive) = channel();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        if matches!(script, Script::Close) {
            return;
        }
        let mut request = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            let n = stream.read(&mut buffer).unwrap_or(0);
            request.extend_from_slice(&buffer[..n]);
            let text = String::from_utf8_lossy(&request).into_owned();
            let complete = text.split_once("\r\n\r\n").is_some_and(|(head, body)| {
                let length = head.lines().find_map(|line| {
                    line.to_lowercase()
                        .strip_prefix("content-length: ")
                        .map(str::to_owned)
                });
                body.len() >= length.and_then(|length| length.parse().ok()).unwrap_or(0)
            });
            if complete || n == 0 {
                let _ = send.send(text);
                break;
            }
        }
        let (status, body, length) = match script {
            Script::Answer(status, body) => (status, body.clone(), body.len()),
            Script::Cut => (200, "{\"choices\":".to_owned(), 1000),
            _ => {
                std::thread::sleep(Duration::from_secs(20));
                return;
            }
        };
        let _ = write!(
            stream,
            "HTTP/1.1 {status} X\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        );
    });
    (url, receive)
}

fn extractor(url: String) -> Extractor {
    Extractor {
        url,
        model: "some-model".to_owned(),
        key: Some("secret".to_owned()),
        timeout: Duration::from_secs(5),
    }
}

/// The completion with this text.
fn says(text: &str) -> Script {
    Script::Answer(
        200,
        json!({"choices": [{"message": {"role": "assistant", "content": text}}]}).to_string(),
    )
}

fn extract(prompt: &str, script: Script) -> Result<String, ExtractError> {
    let (url, _request) = serve(script);
    extractor(url).extract(prompt).map(|scene| summary(&scene))
}

const PROMPT: &str =
    "The man is reading a book while sitting. A dog is sitting to the right of his chair.";

#[test]
fn answers_become_relations() {
    let (url, request) = serve(says(
        "Let us see.\n\n(man, chair, top)\n- **(dog, chair, right)**\n",
    ));
    let scene = extractor(url).extract(PROMPT).unwrap();
    let relations: Vec<String> = scene
        .relations
        .iter()
        .map(|stated| scene.describe(stated))
        .collect();
    assert_eq!(relations, ["man above chair", "dog right of chair"]);
    let request = request.recv().unwrap();
    assert!(
        request.starts_with("POST /v1/chat/completions ")
            && request
                .to_lowercase()
                .contains("authorization: bearer secret")
    );
    let body: Value = serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(body["model"], "some-model");
    assert!(
        body["messages"][1]["content"]
            .as_str()
            .unwrap()
            .contains(PROMPT)
    );

    let found = |prompt, answer| extract(prompt, says(answer)).unwrap();
    assert_eq!(
        found("a dog and a cat", "(dog, cat, in front)"),
        "dog, cat: dog in front of cat"
    );
    assert_eq!(
        found("a dog, a cat", "(a dog, the cat, left)."),
        "dog, cat: dog left of cat"
    );
    assert_eq!(found("a dog and a cat", "(none)"), "dog, cat");
}

#[test]
fn wrong_answers_are_refused() {
    let refused = |answer: &str| {
        extract("a dog and a cat", says(answer))
            .unwrap_err()
            .to_string()
    };
    for (answer, part) in [
        ("", "empty"),
        (" \n ", "empty"),
        ("the dog is left of the cat", "format"),
        ("(dog, cat)", "format"),
        ("(dog, cat, left", "format"),
        ("(dog, , left)", "format"),
        ("(dog, bird, left)", "\"bird\" is not in the prompt"),
        ("(dog, cat, sideways)", "\"sideways\" is not a relation"),
        ("(dog, dog, left)", "itself"),
        ("(dog, cat, left)\n(cat, dog, left)", "contradict"),
        ("(dog | cat, cat, left)", "format"),
    ] {
        let message = refused(answer);
        assert!(message.contains(part), "{answer:?}: {message}");
    }
}

#[test]
fn faults_of_the_server() {
    let fails = |script| extract("a dog and a cat", script).unwrap_err();
    let shows = |script, part: &str| {
        let message = fails(script).to_string();
        assert!(message.contains(part), "{message}");
    };
    shows(
        Script::Answer(500, "out of memory".into()),
        "status 500: out of memory",
    );
    shows(
        Script::Answer(401, "{\"error\":\"key\"}".into()),
        "status 401",
    );
    shows(
        Script::Answer(200, "<html>".into()),
        "not a chat completion",
    );
    shows(
        Script::Answer(200, "{\"choices\":[]}".into()),
        "no choices[0].message.content",
    );
    shows(
        Script::Answer(
            200,
            "{\"choices\":[{\"message\":{\"content\":null}}]}".into(),
        ),
        "empty",
    );
    assert!(matches!(fails(Script::Hang), ExtractError::Http { .. }));
    assert!(matches!(fails(Script::Close), ExtractError::Http { .. }));
    assert!(matches!(fails(Script::Cut), ExtractError::Http { .. }));
    let nobody = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    assert!(matches!(
        extractor(format!("http://{nobody}"))
            .extract("a dog")
            .unwrap_err(),
        ExtractError::Http { .. }
    ));
    assert!(matches!(
        extractor("localhost".into()).extract("a dog").unwrap_err(),
        ExtractError::Address(_)
    ));
}

#[test]
fn none_is_an_answer_too() {
    let relations = |prompt, answer| {
        let (url, _request) = serve(says(answer));
        extractor(url).relations(prompt)
    };
    let none = relations("a dog left of a cat", "(none)");
    assert!(none.unwrap().is_empty());
    // Without objects, though, there is nothing to speak of.
    assert!(relations("left", "(none)").is_err());
    let found = relations("a dog and a cat", "(cat, dog, top)\n(dog, cat, bottom)");
    let found = found
        .unwrap()
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>();
    assert_eq!(found, ["cat | above | dog", "dog | below | cat"]);
}

/// The rules refuse it: a side of the picture with nothing opposite.
const UNREADABLE: &str = "a dog facing left, with a cat";

/// `prepose generate` on the small checkpoint, asking the server at `url`, in a folder of its own.
fn generate(url: &str, args: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    Command::new(env!("CARGO_BIN_EXE_prepose"))
        .args(["generate", "--steps", "2", "--json", "--device", "flex"])
        .args(["--extract-with", url, "--extract-model", "some-model"])
        .args(args)
        .current_dir(folder.path())
        .env_remove("RUST_LOG")
        .env_remove("PREPOSE_EXTRACT_KEY")
        .output()
        .unwrap()
}

/// The JSON of each picture, and what was said on the side.
#[track_caller]
fn made(output: &Output) -> (Vec<Value>, String) {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    let lines = std::str::from_utf8(&output.stdout).unwrap().lines();
    let pictures = lines.map(|line| serde_json::from_str(line).unwrap());
    (pictures.collect(), said)
}

/// The message of a command that made nothing.
#[track_caller]
fn refused(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_guided_picture_goes_by_the_model() {
    assert!(prepose::prompt::scene::Scene::parse(UNREADABLE).is_err());
    // The server answers once: of two seeds and two prompts that end alike only the first is asked about.
    let (url, request) = serve(says("(dog, cat, left)"));
    let again = "a [red:blue:0] bird";
    let prompts = [UNREADABLE, "a bird", again];
    let args = ["--guide", "pos", "--guide-steps", "1", "--seeds", "1,2"];
    let switch = ["--switch-to", UNREADABLE, "--switch-at", "1"];
    let args = [&prompts[..], &args, &switch].concat();
    let (pictures, said) = made(&generate(&url, &args));
    assert_eq!(said, "");
    assert_eq!(pictures.len(), 6);
    for picture in &pictures {
        assert_eq!(picture["relations"], json!(["dog | left of | cat"]));
    }
    assert!(request.recv().unwrap().contains(UNREADABLE));
}

#[test]
fn a_search_and_maps_go_by_the_model() {
    for what in [["--best-of", "2"], ["--attention-maps", "maps"]] {
        let (url, _request) = serve(says("(dog, cat, left)"));
        let args = [&[UNREADABLE, "--seed", "1"][..], &what].concat();
        let (pictures, said) = made(&generate(&url, &args));
        assert_eq!(said, "");
        assert_eq!(pictures[0]["relations"], json!(["dog | left of | cat"]));
    }
}

#[test]
fn the_rules_step_in() {
    let guide = ["--guide", "pos", "--guide-steps", "1", "--seeds", "1,2"];
    let args = [&["a dog left of a cat"], &guide[..]].concat();
    let (url, _request) = serve(Script::Answer(503, "busy".into()));
    let (pictures, said) = made(&generate(&url, &args));
    assert_eq!(pictures.len(), 2);
    assert_eq!(pictures[0].get("relations"), None);
    assert_eq!(said.matches("status 503: busy").count(), 1, "{said}");
    assert!(said.contains("is read by rules instead"), "{said}");

    let (url, _request) = serve(says("(none)"));
    let (_, said) = made(&generate(&url, &args));
    assert!(said.contains("the model finds no relation"), "{said}");

    // What neither can read is refused, with both reasons.
    let (url, _request) = serve(says("(dog, bird, left)"));
    let args = [&[UNREADABLE], &guide[..]].concat();
    let message = refused(&generate(&url, &args));
    for part in ["\"bird\" is not in the prompt", "\"left\""] {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn nobody_is_asked_for_nothing() {
    let url = "http://127.0.0.1:9/v1";
    for (args, part) in [
        (&["a dog"][..], "--extract-with is for"),
        (
            &[
                "a dog",
                "--attention-maps",
                "maps",
                "--attention-words",
                "dog",
            ],
            "--extract-with is for",
        ),
        (
            &[
                "a dog",
                "--relation",
                "dog | left of | cat",
                "--guide",
                "pos",
            ],
            "cannot be used with",
        ),
        (
            &["a dog left of a cat", "--guide", "pos", "--size", "100x64"],
            "104x64",
        ),
        (&[" ", "--guide", "pos"], "empty"),
    ] {
        let message = refused(&generate(url, args));
        assert!(message.contains(part), "{message}");
        // Else there would be a warning: nobody listens there.
        assert!(!message.contains("no answer"), "{message}");
    }
}
