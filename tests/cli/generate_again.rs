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

/// What a picture was made with and does nothing beside what is asked for is no obstacle; what is asked for itself is.
#[test]
fn settings_that_do_nothing_any_more_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let tcd = ["--scheduler", "tcd", "--eta", "0.5"];
    draw(folder, "a.png", &tcd);
    draw(folder, "b.png", &["--timestep-spacing", "trailing"]);
    draw(folder, "c.png", &["--guidance-steps", "0-1"]);
    let again = |from: &str, more: &[&str]| {
        let args = ["-q", "generate", "--again", from, "-o", "again.png"];
        works(folder, &[&args[..], more].concat());
        request(folder, "again.png")
    };
    assert_eq!(again("a.png", &[]), request(folder, "a.png"));
    for (from, key, more) in [
        ("a.png", "eta", ["--scheduler", "ddim"]),
        ("b.png", "timestep_spacing", ["--scheduler", "lcm"]),
        (
            "b.png",
            "timestep_spacing",
            ["--scheduler", "dpmpp_2m_karras"],
        ),
        ("c.png", "guidance_steps", ["--guidance-scale", "1"]),
    ] {
        assert!(request(folder, from).get(key).is_some());
        assert_eq!(again(from, &more).get(key), None, "{more:?}");
    }
    // Also where the steps are counted for something else.
    let delayed = ["--scheduler", "ddim", "--delay-order", "1"];
    assert_eq!(again("a.png", &delayed).get("eta"), None);
    let ddim = ["generate", "--again", "a.png", "--scheduler", "ddim"];
    refuses(folder, &[&ddim[..], &["--eta", "0.5"]].concat(), &["--eta"]);
    let unguided = ["generate", PROMPT, "--guidance-scale", "1"];
    refuses(
        folder,
        &[&unguided[..], &["--guidance-steps", "0-1"]].concat(),
        &["--guidance-steps", "above 1"],
    );

    // On a sheet they are those of the cells in which they act.
    let sheet = |axis| {
        [
            "generate", PROMPT, "--steps", "2", "--seed", "1", "--eta", "0.5", "--x", axis,
            "--grid", "s.png",
        ]
    };
    works(
        folder,
        &[&sheet("scheduler=tcd,ddim")[..], &["-q", "-o", "cells"]].concat(),
    );
    let eta = |name: &str| request(&folder.join("cells"), name).get("eta").is_some();
    let made = fs::read_dir(folder.join("cells")).unwrap();
    let names = made.map(|file| file.unwrap().file_name().into_string().unwrap());
    let pictures = names.filter(|name| name.ends_with(".png"));
    assert_eq!(pictures.filter(|name| eta(name)).count(), 1);
    refuses(folder, &sheet("scheduler=euler,ddim"), &["--eta"]);
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
fn recorded_limits_of_repeated_steps_are_left_out_where_none_is_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let guide = ["--guide", "steer", "--guide-steps", "1"];
    let limits = ["--guide-updates", "1", "--guide-threshold", "0"];
    draw(folder, "a.png", &[guide, limits].concat());
    let again = ["-q", "generate", "--again", "a.png", "-o", "b.png"];
    works(folder, &[&again[..], &["--guide-refine", "false"]].concat());
    let made = request(folder, "b.png");
    let guide = &made["guide"];
    assert_eq!(guide["refine"], false);
    assert!(guide["updates"].is_null() && guide["threshold"].is_null());
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

/// As if it had been typed.
#[test]
fn what_a_file_says_of_a_prompt_counts() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let asked = |more: &[&str]| {
        let args = [
            "-q", "generate", "--steps", "3", "--json", "-o", "out", "--seed", "1",
        ];
        let made = works(folder, &[&args[..], more].concat());
        let request = |line: &str| serde_json::from_str::<Value>(line).unwrap()["request"].clone();
        made.lines().map(request).collect::<Vec<_>>()
    };
    let put = |line: Value| fs::write(folder.join("p.jsonl"), line.to_string()).unwrap();
    let (prompt, boxes) = (
        "a dog and a cat",
        ["dog: 0.05,0.25,0.35,0.75", "cat: 0.65,0.25,0.95,0.75"],
    );
    put(serde_json::json!({
        "prompt": prompt, "relation": "left of", "object_a": "dog", "object_b": "cat", "neutral": "two pets",
        "boxes": boxes,
    }));
    let from_file = ["--prompts", "p.jsonl"];
    let guided = ["--guide", "boxdiff", "--delay-order", "1"];
    let typed = |relation: &str, neutral: &str, boxes: [&str; 2]| {
        let [a, b] = boxes;
        let said = ["--relation", relation, "--neutral-prompt", neutral];
        let said = [&said[..], &["--box", a, "--box", b]].concat();
        let request = asked(&[&[prompt][..], &guided, &said[..]].concat());
        let over = asked(&[&from_file[..], &guided, &said[..]].concat());
        assert_eq!(over, request);
        request
    };
    let told = typed("dog | left of | cat", "two pets", boxes);
    assert_eq!(asked(&[&from_file[..], &guided].concat()), told);
    let moved = [boxes[0], "cat: 0.5,0.25,0.95,0.75"];
    assert_ne!(typed("cat | left of | dog", "two animals", moved), told);
    // Boxes are for what goes by them, relations also for whoever judges the picture.
    let plain = asked(&from_file);
    let relations = serde_json::json!(["dog | left of | cat"]);
    assert_eq!(
        (plain[0].get("boxes"), plain[0].get("relations")),
        (None, Some(&relations))
    );
    let axes = ["--x", "guide=none,pos,boxdiff", "--grid", "s.png"];
    let cells = asked(&[&from_file[..], &axes].concat());
    let boxed = cells.iter().map(|cell| cell.get("boxes").is_some());
    assert!(boxed.eq([false, false, true]));
    // The form to begin with is that of what the run ends with.
    let begins = |prompt: &str| {
        let asked = asked(&[prompt, "--delay-order", "1"]);
        asked[0]["delay_order"]["neutral_prompt"].clone()
    };
    assert_eq!(begins("a [red:blue:2] car and a dog"), "two things");
    let composed = begins("a dog and a cat AND grass :0.5");
    assert_eq!(composed, "two animals AND grass :0.5");
    // Where the text itself says the relation, it need not be given.
    put(
        serde_json::json!({"prompt": PROMPT, "relation": "left of", "object_a": "dog", "object_b": "cat"}),
    );
    assert_eq!(asked(&from_file)[0].get("relations"), None);
}

#[test]
fn the_picture_that_a_files_prompt_changes_is_its_start() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for name in ["start-0001.png", "start-0002.png"] {
        fs::copy(root().join("docs/dog-cat.png"), folder.join(name)).unwrap();
    }
    let put = |edit: Value| {
        let line = serde_json::json!({"prompt": "a dog", "edit": edit}).to_string();
        fs::write(folder.join("p.jsonl"), line).unwrap();
    };
    let args = [
        "-q",
        "generate",
        "--prompts",
        "p.jsonl",
        "--steps",
        "4",
        "--json",
        "-o",
        "out",
        "--seeds",
        "1-2",
    ];
    let starts = |more: &[&str]| {
        let made = works(folder, &[&args[..], more].concat());
        let start = |line: &str| {
            let line: Value = serde_json::from_str(line).unwrap();
            let init = &line["request"]["init"];
            let path = init["path"].as_str().unwrap().to_owned();
            (path, init["strength"].as_f64().unwrap())
        };
        made.lines().map(start).collect::<Vec<_>>()
    };
    let expected = |all: [(&str, f64); 2]| all.map(|(path, share)| (path.to_owned(), share));
    put(serde_json::json!({"picture": "start-{seed}.png", "strength": 0.5}));
    let both = ["start-0001.png", "start-0002.png"];
    assert_eq!(starts(&[]), expected(both.map(|path| (path, 0.5))));
    let more = ["--strength", "0.25"];
    assert_eq!(starts(&more), expected(both.map(|path| (path, 0.25))));
    let other = ["--init-image", "start-0002.png"];
    assert_eq!(starts(&other), expected([(both[1], 0.8); 2]));
    let sheet = ["--grid", "s.png"];
    refuses(
        folder,
        &[&args[..], &sheet].concat(),
        &["for each seed", "--grid"],
    );
    put(serde_json::json!({"seed": "a dog on the left and a cat on the right"}));
    refuses(folder, &args, &["still to be made"]);
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
