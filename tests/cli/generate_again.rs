//! `prepose generate` from prompts elsewhere, and once more from its own pictures, as they are and changed.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use prepose::output::png;
use prepose::picture::Picture;
use serde_json::Value;

use crate::program::{prepose, prepose_in, refuses, stderr, stdout, works};
use crate::support::root;

const PROMPT: &str = "a dog to the left of a cat";

/// The request inside the picture of that name.
fn request(folder: &Path, name: &str) -> Value {
    let info: Value = serde_json::from_str(&works(folder, &["info", name, "--json"])).unwrap();
    info["request"].clone()
}

/// A picture of [`PROMPT`] with a few steps.
fn draw(folder: &Path, name: &str, more: &[&str]) {
    let args = ["-q", "generate", PROMPT, "--steps", "3", "-o", name];
    works(folder, &[&args[..], more].concat());
}

#[test]
fn a_picture_is_made_again_and_changed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    draw(folder, "a.png", &["--seed", "7", "--guide", "pos"]);
    let again = |name: &str, more: &[&str]| {
        let args = ["-q", "generate", "--again", "a.png", "-o", name];
        works(folder, &[&args[..], more].concat());
        request(folder, name)
    };
    let first = request(folder, "a.png");
    assert_eq!(again("same.png", &[]), first);
    let bytes = |name: &str| fs::read(folder.join(name)).unwrap();
    assert_eq!(bytes("a.png"), bytes("same.png"));

    // What is given is changed, and nothing else.
    let changed = |key: &str, value: Value, more: &[&str]| {
        let mut expected = first.clone();
        expected[key] = value;
        assert_eq!(again("changed.png", more), expected, "{more:?}");
    };
    changed("steps", 4.into(), &["--steps", "4"]);
    changed("seed", 8.into(), &["--seed", "8"]);
    changed("guidance_scale", 2.0.into(), &["--guidance-scale", "2"]);
    changed(
        "prompt",
        "a car to the left of a bus".into(),
        &["a car to the left of a bus"],
    );
    let guide = serde_json::json!({"method": "pos", "preset": "default", "scale": 5.0});
    changed("guide", guide, &["--guide-scale", "5"]);
    let guide = serde_json::json!({"method": "attend-and-excite", "preset": "default"});
    changed("guide", guide, &["--guide", "attend-and-excite"]);
    let plain = again("plain.png", &["--no-guide"]);
    assert_eq!(plain.get("guide"), None);
    // The paper's name of the method does as well.
    draw(folder, "paper.png", &["--guide", "psg", "--seed", "7"]);
    assert_eq!(request(folder, "paper.png"), first);

    let seeds = works(
        folder,
        &[
            "-q", "generate", "--again", "a.png", "--seeds", "1..2", "-o", "more",
        ],
    );
    assert_eq!(seeds.lines().count(), 2);
    // Constants need a method.
    draw(folder, "plain.png", &["--seed", "7"]);
    refuses(
        folder,
        &["generate", "--again", "plain.png", "--guide-scale", "3"],
        &["not guided", "--guide"],
    );
}

/// What was recorded of the classifier of one checkpoint does not count for another, which has its own.
#[test]
fn another_checkpoint_has_a_classifier_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let constants = ["--guide-steps", "1", "--guide-updates", "1"];
    draw(
        folder,
        "a.png",
        &[&["--guide", "steer"][..], &constants].concat(),
    );
    // As if a run had made it with a file.
    let mut made = png::read_request(&folder.join("a.png")).unwrap();
    made.model.checkpoint = "elsewhere".to_owned();
    made.guide.as_mut().unwrap().classifier_sha256 = Some("0".repeat(64));
    let picture = Picture::decode(&fs::read(folder.join("a.png")).unwrap()).unwrap();
    png::save(&folder.join("b.png"), &picture, &made, "euler", "flex").unwrap();
    let toybox = root().join("weights/toybox");
    let checkpoint = ["--checkpoint", toybox.to_str().unwrap()];
    let again = ["-q", "generate", "--again", "b.png", "-o", "c.png"];
    works(folder, &[&again[..], &checkpoint].concat());
    let made = request(folder, "c.png");
    let guide = &made["guide"];
    assert_eq!(
        (&guide["method"], guide.get("classifier_sha256")),
        (&"steer".into(), None)
    );
}

#[test]
fn the_picture_that_a_search_found_is_not_the_searchs_once_it_is_changed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    draw(folder, "a.png", &["--best-of", "2", "--seed", "1"]);
    assert_eq!(request(folder, "a.png")["found"]["search"]["best_of"], 2);
    works(
        folder,
        &["-q", "generate", "--again", "a.png", "-o", "same.png"],
    );
    assert_eq!(request(folder, "same.png"), request(folder, "a.png"));
    works(
        folder,
        &[
            "-q", "generate", "--again", "a.png", "--steps", "2", "-o", "b.png",
        ],
    );
    assert_eq!(request(folder, "b.png").get("found"), None);
    // Of a sheet's cells only the one that changes nothing is the search's.
    let cells = works(
        folder,
        &[
            "-q",
            "generate",
            "--again",
            "a.png",
            "--x",
            "steps=2,3",
            "--grid",
            "s.png",
            "--json",
            "-o",
            "cells",
        ],
    );
    let lines = cells.lines();
    let found = lines
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["request"]["found"].is_object());
    assert_eq!(found.collect::<Vec<_>>(), [false, true]);
}

#[test]
fn a_start_picture_is_found_beside_the_picture_or_named() {
    let folder = tempfile::tempdir().unwrap();
    let there = folder.path().join("there");
    fs::create_dir(&there).unwrap();
    draw(&there, "start.png", &["--seed", "1"]);
    draw(
        &there,
        "a.png",
        &[
            "--init-image",
            "start.png",
            "--strength",
            "0.7",
            "--seed",
            "2",
        ],
    );
    let again = |args: &[&str]| {
        let first = [
            "-q",
            "generate",
            "--again",
            "there/a.png",
            "-o",
            "again.png",
        ];
        prepose_in(folder.path(), &[&first[..], args].concat())
    };
    assert!(again(&[]).status.success());
    let pixels = |path: &Path| image::open(path).unwrap().into_rgb8();
    assert_eq!(
        pixels(&there.join("a.png")),
        pixels(&folder.path().join("again.png"))
    );
    fs::rename(there.join("start.png"), folder.path().join("moved.png")).unwrap();
    let lost = again(&[]);
    assert_eq!(lost.status.code(), Some(2));
    assert!(stderr(&lost).contains("--init-image"), "{}", stderr(&lost));
    let moved = again(&["--init-image", "moved.png"]);
    assert!(moved.status.success(), "{}", stderr(&moved));
    let request = request(folder.path(), "again.png");
    assert_eq!(request["init"]["strength"], 0.7);
    assert_eq!(
        pixels(&there.join("a.png")),
        pixels(&folder.path().join("again.png"))
    );
}

#[test]
fn prompts_come_from_files_and_standard_input() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("p.txt"), "a dog\na cat\n").unwrap();
    fs::write(folder.join("p.jsonl"), "{\"prompt\": \"a bus\"}\n").unwrap();
    let made = works(
        folder,
        &[
            "-q",
            "generate",
            "a car",
            "--prompts",
            "p.txt",
            "--prompts",
            "p.jsonl",
            "--steps",
            "2",
            "--seed",
            "1",
            "-o",
            "out",
            "--json",
        ],
    );
    let prompts: Vec<Value> = made
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["prompt"].clone())
        .collect();
    assert_eq!(prompts, ["a car", "a dog", "a cat", "a bus"]);

    let typed = |input: &str| {
        let mut child = prepose()
            .args([
                "-q", "generate", "-", "--steps", "2", "--seed", "1", "-o", "typed",
            ])
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(input.as_bytes()).unwrap();
        drop(stdin);
        child.wait_with_output().unwrap()
    };
    let output = typed("a dog\n\n  a cat\n");
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stdout(&output).lines().count(), 2);
    let output = typed("\n");
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("standard input"),
        "{}",
        stderr(&output)
    );
    refuses(
        folder,
        &["generate", "--prompts", "none.txt"],
        &["none.txt", "no such file"],
    );
}

#[test]
fn a_reader_that_goes_away_ends_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = prepose()
        .args(["generate", "a dog", "--seeds", "0-500", "--steps", "2"])
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(141));
}

#[test]
fn seeds_may_be_random_and_unknown_things_draw_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for seed in ["-1", "random"] {
        works(
            folder,
            &[
                "-q", "generate", "a dog", "--steps", "2", "--seed", seed, "-o", "x.png",
            ],
        );
    }
    refuses(
        folder,
        &["generate", "a dog", "--seed", "-2"],
        &["random", "--seeds"],
    );
    let output = prepose_in(
        folder,
        &["generate", "a castle", "--steps", "2", "-o", "x.png"],
    );
    let text = stderr(&output);
    assert!(
        output.status.success() && text.contains("35 objects: cat, dog"),
        "{text}"
    );
    let info = works(folder, &["info", "toybox", "--json"]);
    let info: Value = serde_json::from_str(&info).unwrap();
    assert_eq!(info["objects"].as_array().unwrap().len(), 35);
}
