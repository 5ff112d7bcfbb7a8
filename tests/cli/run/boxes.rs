//! Boxes of a file of prompts, for methods that go by boxes.

use std::fs;

use serde_json::{Value, json};

use crate::program::{refuses, works};

#[test]
fn boxes_of_prompts_are_for_methods_that_go_by_boxes() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let boxes = ["dog: 0.6,0.2,0.95,0.8", "cat: 0.05,0.2,0.4,0.8"];
    let line = |boxes: &[&str]| {
        json!({"prompt_id": "p", "prompt": "a dog to the left of a cat", "boxes": boxes})
            .to_string()
    };
    fs::write(folder.join("p.jsonl"), line(&boxes)).unwrap();
    let run = |file: &'static str| {
        [
            "-q",
            "run",
            file,
            "--method",
            "prompt-only,boxdiff",
            "--seeds",
            "1",
            "--steps",
            "2",
            "--checker",
            "none",
            "--out",
            "run",
        ]
    };
    works(folder, &run("p.jsonl"));
    let boxes_of = |method: &str| {
        let manifest = fs::read_to_string(folder.join("run").join(method).join("manifest.jsonl"));
        let line: Value = serde_json::from_str(manifest.unwrap().lines().next().unwrap()).unwrap();
        let picture = format!("run/{method}/{}", line["image_path"].as_str().unwrap());
        let told: Value =
            serde_json::from_str(&works(folder, &["info", &picture, "--json"])).unwrap();
        told["request"].get("boxes").cloned()
    };
    assert_eq!(boxes_of("prompt-only"), None);
    let found = boxes_of("boxdiff").unwrap();
    assert_eq!(found[0]["object"], "dog");
    assert_eq!(found[1]["box"], json!([0.05, 0.2, 0.4, 0.8]));
    fs::write(folder.join("wrong.jsonl"), line(&["dog: 0.6,0.2,0.95"])).unwrap();
    refuses(
        folder,
        &run("wrong.jsonl"),
        &["line 1", "is not a box", "0.05,0.25,0.35,0.75"],
    );
    fs::write(folder.join("far.jsonl"), line(&["dog: 0,0,512,512"])).unwrap();
    refuses(
        folder,
        &run("far.jsonl"),
        &["line 1", "not within the picture"],
    );
}
