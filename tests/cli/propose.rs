//! `prepose ots propose`, with a server of language models inside the test.

use std::fs;
use std::path::Path;
use std::process::Output;

use prepose::remote::stub::{Asked, Reply, Stub};
use serde_json::{Value, json};

use crate::program::{prepose, stderr, stdout, works};

fn propose(folder: &Path, stub: &Stub, more: &[&str]) -> Output {
    let url = format!("{}/v1", stub.address);
    prepose()
        .args([
            "ots",
            "propose",
            "--chat",
            &url,
            "--chat-model",
            "m",
            "-o",
            "pairs.jsonl",
        ])
        .args(more)
        .current_dir(folder)
        .output()
        .unwrap()
}

fn pair(a: &str, b: &str, domain: &str, prompt: &str) -> Value {
    json!({
        "domain": domain, "a": a, "b": b, "context": "somewhere", "constraint_type": "left_right",
        "semantic_basis": "layout", "difficulty": "subtle", "spatial_reality": {"left": a, "right": b},
        "rationale": "a standard", "failure": "swapped", "prompt": prompt, "status": "new"
    })
}

/// Which agent is asked, by the name of a list in the schema of its answer.
fn agent(asked: &Asked) -> &'static str {
    let body = asked.json();
    let schema = &body["response_format"]["json_schema"]["schema"]["properties"];
    match (schema.get("candidates"), schema.get("directives")) {
        (Some(_), _) => "scout",
        (_, Some(_)) => "critic",
        _ => "curator",
    }
}

#[test]
fn pairs_are_proposed_checked_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let stub = Stub::start(|asked| {
        Reply::chat(&match agent(asked) {
            "scout" => json!({"candidates": [], "notes": ""}).to_string(),
            "critic" => json!({"directives": ["1. no"], "scores": {"diversity": 3}}).to_string(),
            _ => json!({"pairs": [
                pair("Q key", "P key", "keyboard", "The Q key and the P key on a keyboard."),
                pair("dog", "cat", "pets", "A dog and a cat, the dog on the left."),
                pair("liver", "spleen", "anatomy", "The liver and the spleen in a body."),
            ]})
            .to_string(),
        })
    })
    .unwrap();
    let output = propose(folder, &stub, &["--pairs", "2", "--rounds", "3"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(
        stdout(&output).contains("2 pairs of 2 domains"),
        "{}",
        stdout(&output)
    );
    assert!(
        stderr(&output).contains("\"left\", which is the answer"),
        "{}",
        stderr(&output)
    );
    // A round was enough; what is there is not asked for again.
    assert_eq!(stub.asked().len(), 3);
    let before = fs::read(folder.join("pairs.jsonl")).unwrap();
    let output = propose(folder, &stub, &["--pairs", "2"]);
    assert_eq!((output.status.code(), stub.asked().len()), (Some(0), 3));
    assert_eq!(fs::read(folder.join("pairs.jsonl")).unwrap(), before);
    // A set of prompts as any other.
    let suite = works(folder, &["suites", "pairs.jsonl"]);
    let first: Value = serde_json::from_str(suite.lines().next().unwrap()).unwrap();
    assert_eq!(first["prompt_id"], "proposed_0000_aligned");
    assert_eq!(first["counterpart"], "proposed_0000_reverse");
    assert_eq!(suite.lines().count(), 4);
}

#[test]
fn what_is_there_and_came_of_no_notes_stays() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let stub = Stub::start(|asked| {
        Reply::chat(&match agent(asked) {
            "scout" => json!({"candidates": [], "notes": ""}).to_string(),
            "critic" => json!({"directives": [], "scores": {}}).to_string(),
            _ => json!({"pairs": [
                pair("Q key", "P key", "keyboard", "The Q key and the P key on a keyboard."),
                pair("liver", "spleen", "anatomy", "The liver and the spleen in a body."),
            ]})
            .to_string(),
        })
    })
    .unwrap();
    let [out, notes] = ["pairs.jsonl", "pairs.pairs.jsonl"].map(|name| folder.join(name));
    let refused = |text: &str, fragment: &str| {
        fs::write(&out, text).unwrap();
        let asked = stub.asked().len();
        let output = propose(folder, &stub, &["--pairs", "2"]);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        let told = stderr(&output);
        assert!(
            told.contains(fragment) && told.contains("move it away"),
            "{told}"
        );
        assert_eq!(stub.asked().len(), asked);
        assert_eq!(fs::read_to_string(&out).unwrap(), text);
    };
    // A set of somebody's own.
    let own = "{\"prompt\": \"a dog left of a cat\"}\n";
    refused(own, "no pairs in pairs.pairs.jsonl");
    assert!(!notes.exists());
    fs::remove_file(&out).unwrap();
    let output = propose(folder, &stub, &["--pairs", "2"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let whole = fs::read_to_string(&out).unwrap();
    // A person's own choice of the pairs.
    let (first, rest) = whole.split_at(whole.match_indices('\n').nth(1).unwrap().0 + 1);
    refused(rest, "not what comes of the pairs in pairs.pairs.jsonl");
    refused(own, "not what comes of the pairs in pairs.pairs.jsonl");
    // A kill between the two files leaves fewer pairs in --out than in the notes, or none of them.
    for left in [first, ""] {
        fs::write(&out, left).unwrap();
        let output = propose(folder, &stub, &["--pairs", "2"]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert_eq!(fs::read_to_string(&out).unwrap(), whole);
    }
}

#[test]
fn what_a_server_says_instead_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let talks = Stub::start(|_| Reply::chat("I would be glad to help!")).unwrap();
    let output = propose(folder, &talks, &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("the scout") && stderr(&output).contains("glad"));
    let locked = Stub::start(|_| Reply::error(401, "invalid_api_key", "no such key")).unwrap();
    let output = propose(folder, &locked, &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("asks for a key"),
        "{}",
        stderr(&output)
    );
    let output = propose(folder, &locked, &["--chat-key", "PREPOSE_NO_SUCH_VARIABLE"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("PREPOSE_NO_SUCH_VARIABLE"),
        "{}",
        stderr(&output)
    );
    fs::write(folder.join("pairs.pairs.jsonl"), "{}").unwrap();
    let output = propose(folder, &talks, &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("line 1 of pairs.pairs.jsonl"),
        "{}",
        stderr(&output)
    );
}
