//! Relations from a language model, against a server with scripted answers.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use prepose::prompt::scene::{ExtractError, Extractor};
use serde_json::{Value, json};

use crate::summary;

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
        timeout: Duration::from_secs(2),
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
        ("(dog, cat, sideways)", "\"sideways\" is no relation"),
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
    shows(Script::Answer(200, "<html>".into()), "no chat completion");
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
fn the_rules_step_in() {
    let (url, _request) = serve(Script::Answer(503, "busy".into()));
    let (scene, reason) = extractor(url).extract_or_parse("a dog left of a cat");
    assert_eq!(summary(&scene.unwrap()), "dog, cat: dog left of cat");
    assert!(reason.unwrap().to_string().contains("503"));
    let (url, _request) = serve(says("(cat, dog, left)"));
    let (scene, reason) = extractor(url).extract_or_parse("a dog left of a cat");
    assert_eq!(summary(&scene.unwrap()), "dog, cat: cat left of dog");
    assert!(reason.is_none());
}
