//! `prepose detect`: what a detector sees, in the lines that `score` reads.
#![cfg(feature = "toybox")]

use std::fs;
use std::path::Path;
use std::process::Output;

use prepose::picture::Picture;
use serde_json::Value;

use crate::check_pictures::dog_cat;
use crate::program::{prepose_in, refuses, stderr, stdout, works};
use crate::support::fixture;

fn detect(folder: &Path, args: &[&str]) -> Output {
    prepose_in(folder, &[&["detect", "--device", "flex"], args].concat())
}

fn lines(text: &str) -> Vec<Value> {
    let lines = text.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().unwrap()
}

/// A picture of the toybox with a dog on the left of a cat, under any name, also as one of another program.
fn put(folder: &Path) {
    fs::create_dir(folder.join("pictures")).unwrap();
    fs::copy(dog_cat(), folder.join("pictures/käse 7.PNG")).unwrap();
    let picture = Picture::decode(&fs::read(dog_cat()).unwrap()).unwrap();
    let pixels = image::RgbImage::from_raw(
        picture.width as u32,
        picture.height as u32,
        picture.rgb.clone(),
    );
    let pixels = pixels.unwrap();
    pixels.save(folder.join("pictures/plain.webp")).unwrap();
}

#[test]
fn what_is_seen_can_be_scored() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    put(folder);
    let args = ["pictures", "--checker", "toybox", "-o", "new/seen.jsonl"];
    let output = detect(folder, &args);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(
        stdout(&output).contains("in 2 pictures"),
        "{}",
        stdout(&output)
    );
    let text = fs::read_to_string(folder.join("new/seen.jsonl")).unwrap();
    let seen = lines(&text);
    assert_eq!(seen.len(), 2);
    assert_eq!(
        (&seen[0]["id"], &seen[0]["width"]),
        (&"käse 7".into(), &128.into())
    );
    assert_eq!(seen[0]["relations"][0], "dog | left of | cat");
    assert!(seen[1].get("prompt").is_none() && seen[1].get("relations").is_none());
    // The same pixels are seen the same way; weaker detections are there for the rules that count them.
    let found = |line: &Value| line["detections"].as_array().unwrap().clone();
    assert_eq!(found(&seen[0]), found(&seen[1]));
    assert!(
        found(&seen[0])
            .iter()
            .all(|one| one.get("segmentation").is_none())
    );
    // One has no prompt, and is told so; the other is scored.
    let scored = prepose_in(folder, &["score", "pse", "new/seen.jsonl", "--json"]);
    assert_eq!(scored.status.code(), Some(2));
    assert!(
        stderr(&scored).contains("seen.jsonl:2"),
        "{}",
        stderr(&scored)
    );
    let said: Value = serde_json::from_str(&stdout(&scored)).unwrap();
    assert!(
        said["pictures"][0]["score"].as_f64().unwrap() > 0.5,
        "{said}"
    );
    // With a prompt for all of them, and the result does not depend on the batch.
    let prompt = ["--prompt", "a cat to the left of a dog", "--batch", "1"];
    let output = detect(folder, &[&args[..], &prompt].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let again = lines(&fs::read_to_string(folder.join("new/seen.jsonl")).unwrap());
    assert_eq!(found(&again[1]), found(&seen[1]));
    let said: Value = serde_json::from_str(&works(
        folder,
        &["score", "pse", "new/seen.jsonl", "--json"],
    ))
    .unwrap();
    assert_eq!(said["pictures"][1]["score"], 0.0, "{said}");
}

#[test]
fn lines_go_where_they_are_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    put(folder);
    // A composed prompt asks for its first part.
    let composed = detect(
        folder,
        &[
            "pictures/plain.webp",
            "--checker",
            "toybox",
            "--json",
            "--prompt",
            "a dog left of a cat AND a bird :0.5",
        ],
    );
    let seen = lines(&stdout(&composed));
    assert_eq!(seen[0]["objects"], serde_json::json!(["dog", "cat"]));
    assert_eq!(seen[0]["relations"][0], "dog | left of | cat");
    let told = detect(
        folder,
        &["pictures", "--checker", "toybox", "--min-score", "0.5"],
    );
    let text = stdout(&told);
    assert!(
        text.contains("plain.webp: ") && text.contains("dog "),
        "{text}"
    );
    let json = detect(
        folder,
        &[
            "pictures/plain.webp",
            "--checker",
            "toybox",
            "--json",
            "--masks",
        ],
    );
    let seen = lines(&stdout(&json));
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0]["detector"], "toybox");
}

/// What a prompt asks for is in the line as the detector calls it: as often as the prompt says, and not at all where it has no
/// word for something. What `score` makes of it.
#[test]
fn lines_ask_for_what_the_prompt_says() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    put(folder);
    let seen = |prompt: &str, code: i32| {
        let args = ["pictures/plain.webp", "--checker", "toybox"];
        let output = detect(
            folder,
            &[&args[..], &["--prompt", prompt, "-o", "seen.jsonl"]].concat(),
        );
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
        let text = fs::read_to_string(folder.join("seen.jsonl")).unwrap();
        (lines(&text).remove(0), stderr(&output))
    };
    let scored = |rule: &str| {
        let output = prepose_in(folder, &["score", rule, "seen.jsonl", "--json"]);
        (output.status.code(), stdout(&output), stderr(&output))
    };
    let (line, told) = seen("a dog to the left of a unicorn", 2);
    let part = "plain.webp: the checker does not know \"unicorn\"";
    assert!(told.contains(part), "{told}");
    assert_eq!(line["unknown_objects"], serde_json::json!(["unicorn"]));
    assert!(line.get("objects").is_none() && line.get("relations").is_none());
    assert!(!line["detections"].as_array().unwrap().is_empty());
    for rule in ["visor", "geneval", "t2i-compbench"] {
        let (code, said, told) = scored(rule);
        assert_eq!(code, Some(2), "{rule}: {said}");
        assert!(told.contains("does not know unicorn"), "{rule}: {told}");
    }
    // What no relation needs leaves out only where all objects must be there.
    let (line, told) = seen("a dog to the left of a cat, and a unicorn", 0);
    let part = "\"unicorn\"";
    assert!(told.starts_with("note: ") && told.contains(part), "{told}");
    assert_eq!(
        line["objects"],
        serde_json::json!(["dog", "cat", "unicorn"])
    );
    assert_eq!(
        line["relations"],
        serde_json::json!(["dog | left of | cat"])
    );
    for (rule, code) in [("visor", 0), ("t2i-compbench", 0), ("geneval", 2)] {
        let (scored, said, told) = scored(rule);
        assert_eq!(scored, Some(code), "{rule}: {said} {told}");
    }
    // One word for both: what must tell them apart says so.
    let (line, _) = seen("a cat to the left of a kitten", 0);
    assert_eq!(line["objects"], serde_json::json!(["cat", "cat"]));
    assert_eq!(line["relations"][0], "cat | left of | cat#2");
    for rule in ["visor", "geneval", "pse"] {
        let (code, said, told) = scored(rule);
        assert_eq!(code, Some(2), "{rule}: {said}");
        assert!(told.contains("cannot tell them apart"), "{rule}: {told}");
    }
    // There is one dog.
    for (prompt, count, right) in [
        (
            "two dogs",
            serde_json::json!({"name": "dog", "count": 2}),
            0.0,
        ),
        ("a dog", serde_json::json!("dog"), 1.0),
    ] {
        let (line, _) = seen(prompt, 0);
        assert_eq!(line["objects"], serde_json::json!([count]));
        let (code, said, told) = scored("geneval");
        assert_eq!(code, Some(0), "{told}");
        let said: Value = serde_json::from_str(&said).unwrap();
        assert_eq!(said["pictures"][0]["score"], right, "{prompt}: {said}");
    }
}

#[test]
fn what_cannot_be_looked_at_is_told_and_the_rest_is_done() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    put(folder);
    fs::write(folder.join("pictures/broken.png"), b"\x89PNG\r\n\x1a\nno").unwrap();
    let output = detect(
        folder,
        &[
            "pictures",
            "nowhere.png",
            "--checker",
            "toybox",
            "-o",
            "seen.jsonl",
        ],
    );
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(
        message.contains("broken.png") && message.contains("nowhere.png"),
        "{message}"
    );
    let seen = fs::read_to_string(folder.join("seen.jsonl")).unwrap();
    assert_eq!(lines(&seen).len(), 2);
    // Unless it is asked for by name, the toybox's detector keeps to the toybox's pictures.
    let output = detect(folder, &["pictures", "--json"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("plain.webp") && stderr(&output).contains("--checker"));
    assert_eq!(lines(&stdout(&output)).len(), 1);
    fs::create_dir(folder.join("empty")).unwrap();
    for (args, part) in [
        (&["detect", "empty"][..], "no picture in it"),
        (&["detect", "pictures", "--batch", "0"], "--batch"),
        (&["detect", "pictures", "--min-score", "7"], "--min-score"),
        (&["detect", "pictures", "--checker", "nothing"], "nothing"),
    ] {
        refuses(folder, args, &[part]);
    }
}

/// Boxes of low scores have the words that they have their scores from as labels; the labels of others are as without them.
#[test]
fn each_box_of_a_phrase_has_a_name() {
    let folder = tempfile::tempdir().unwrap();
    let (picture, grounding) = (
        fixture("toybox/6.png"),
        fixture("eyes/grounding-dino/model"),
    );
    let args = [
        picture.to_str().unwrap(),
        "--checker",
        grounding.to_str().unwrap(),
        "--prompt",
        "a cat to the left of a fire hydrant",
        "--json",
    ];
    let output = detect(folder.path(), &args);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let seen = lines(&stdout(&output));
    let found = seen[0]["detections"].as_array().unwrap();
    assert!(found.iter().any(|one| one["score"].as_f64() < Some(0.25)));
    assert!(found.iter().all(|one| one["label"] != ""), "{found:?}");
    let output = detect(
        folder.path(),
        &[&args[..], &["--min-score", "0.3"]].concat(),
    );
    let seen = lines(&stdout(&output));
    let strong = seen[0]["detections"].as_array().unwrap();
    assert!(!strong.is_empty());
    // The best come first.
    assert_eq!(found[..strong.len()], strong[..]);
}

/// A detector that takes any phrase is asked for what the prompt names, also twice; without a prompt it would find nothing.
#[test]
fn what_finds_only_what_it_is_asked_for_is_asked() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    put(folder);
    let grounding = fixture("eyes/grounding-dino/model");
    let with = |more: &[&str]| {
        let args = [
            "pictures/plain.webp",
            "--checker",
            grounding.to_str().unwrap(),
            "--min-score",
            "0.01",
            "--json",
        ];
        detect(folder, &[&args, more].concat())
    };
    let one = with(&["--prompt", "a corgi"]);
    assert_eq!(one.status.code(), Some(0), "{}", stderr(&one));
    let one = lines(&stdout(&one));
    assert_eq!(one[0]["objects"], serde_json::json!(["corgi"]));
    assert!(!one[0]["detections"].as_array().unwrap().is_empty());
    // Names cannot tell two of them apart, which is for the rules to say, but they are looked for.
    let two = with(&["--prompt", "a corgi to the left of a corgi"]);
    assert_eq!(two.status.code(), Some(0), "{}", stderr(&two));
    let two = lines(&stdout(&two));
    assert_eq!(two[0]["objects"], serde_json::json!(["corgi", "corgi"]));
    assert_eq!(two[0]["relations"][0], "corgi | left of | corgi#2");
    assert_eq!(two[0]["detections"], one[0]["detections"]);
    // Nothing says what to look for.
    for (more, part) in [
        (&[][..], "plain.webp: nothing says what to look for"),
        (&["--prompt", ""], "names nothing to look for"),
    ] {
        let none = with(more);
        let message = stderr(&none);
        assert_eq!(none.status.code(), Some(2), "{message}");
        assert!(
            message.contains(part) && message.contains("--prompt \"a dog and a cat\""),
            "{message}"
        );
        assert_eq!(stdout(&none), "");
    }
}
