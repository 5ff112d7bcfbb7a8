//! `prepose check` on pictures, with the toybox's detector.
#![cfg(feature = "toybox")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use prepose::output::png;
use prepose::picture::Picture;
use serde_json::{Value, json};

use crate::program::{prepose, prepose_in, stderr};
use crate::support::root;

/// A picture of the docs with a dog on the left of a cat.
pub fn dog_cat() -> PathBuf {
    root().join("docs/dog-cat.png")
}

pub fn check(folder: &Path, args: &[&str]) -> Output {
    prepose_in(folder, &[&["check", "--device", "flex"], args].concat())
}

pub fn records(output: &Output) -> Vec<Value> {
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = text.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().unwrap()
}

#[test]
fn a_picture_by_prepose_knows_what_it_should_show() {
    let folder = tempfile::tempdir().unwrap();
    let picture = dog_cat();
    let picture = picture.to_str().unwrap();
    let output = check(folder.path(), &[picture, "--json", "--out", "seen"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let records = records(&output);
    let [record] = records.as_slice() else {
        panic!("{records:?}");
    };
    assert_eq!(record["verdict_raw"], "PASS", "{record}");
    assert_eq!(
        (&record["object_a"], &record["object_b"]),
        (&json!("dog"), &json!("cat"))
    );
    assert_eq!(record["image_size"], json!([128, 128]));
    assert!(record["conf"].as_f64().unwrap() > 0.5);
    let overlay = folder
        .path()
        .join("seen")
        .join(record["overlay_path"].as_str().unwrap());
    let overlay = image::open(overlay).unwrap();
    assert!(overlay.width() >= 384 && overlay.height() > overlay.width());
    // What was written can be decided again, to the same records.
    let seen = folder.path().join("seen");
    for file in ["per_sample.jsonl", "metrics.json", "checker_config.yaml"] {
        assert!(seen.join(file).exists(), "{file}");
    }
    let again = prepose()
        .args([
            "check",
            "--records",
            "seen/per_sample.jsonl",
            "--published=no",
            "--out",
            "again",
            "--json",
        ])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert_eq!(again.status.code(), Some(0), "{}", stderr(&again));
    let read = |folder_name: &str| {
        fs::read_to_string(folder.path().join(folder_name).join("per_sample.jsonl")).unwrap()
    };
    assert_eq!(read("seen"), read("again"));
}

#[test]
fn the_answer_can_be_no() {
    let folder = tempfile::tempdir().unwrap();
    let picture = dog_cat();
    let picture = picture.to_str().unwrap();
    let prompt = |prompt| {
        let output = check(
            folder.path(),
            &[picture, "--prompt", prompt, "--strict", "--json"],
        );
        let record = records(&output).remove(0);
        let code = output.status.code().unwrap();
        (
            code,
            record["verdict_raw"].clone(),
            record["verdict_reason"].clone(),
        )
    };
    assert_eq!(prompt("a dog to the left of a cat").0, 0);
    let (code, verdict, _) = prompt("a cat to the left of a dog");
    assert_eq!((code, verdict), (1, json!("FAIL")));
    let (code, verdict, reason) = prompt("a dog to the left of a pizza");
    assert_eq!(
        (code, verdict, reason),
        (1, json!("UNDECIDABLE"), json!("missing: pizza"))
    );
    // Several relations, each with a record of its own.
    let prompt = "a dog to the left of a cat and above a pizza";
    let output = check(folder.path(), &[picture, "--prompt", prompt, "--json"]);
    let ids: Vec<_> = records(&output)
        .into_iter()
        .map(|record| record["sample_id"].clone())
        .collect();
    assert_eq!(ids, ["dog-cat_relation1", "dog-cat_relation2"]);
}

/// The toybox's detector knows only the toybox's pictures: of another checkpoint's it must be asked for by name.
#[test]
fn pictures_of_another_checkpoint_need_a_detector_that_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other.png");
    let picture = Picture::decode(&fs::read(dog_cat()).unwrap()).unwrap();
    let mut request = png::read_request(&dog_cat()).unwrap();
    request.model.checkpoint = "sd15".to_owned();
    png::save(&path, &picture, &request, "euler", "flex").unwrap();
    let path = path.to_str().unwrap();

    let output = check(folder.path(), &[path, "--json"]);
    assert_eq!(output.status.code(), Some(2));
    let message = stderr(&output);
    for part in [
        "other.png",
        "sd15 made it",
        "--checker (such as frcnn-v2)",
        "--checker toybox",
    ] {
        assert!(message.contains(part), "{message:?} lacks {part:?}");
    }
    assert!(records(&output).is_empty());

    let output = check(folder.path(), &[path, "--json", "--checker", "toybox"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(records(&output)[0]["verdict_raw"], "PASS");
}

#[test]
fn batches_do_not_change_verdicts() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = fs::read(dog_cat()).unwrap();
    let names: Vec<String> = (0..3).map(|n| format!("{n}.png")).collect();
    for name in &names {
        fs::write(folder.path().join(name), &bytes).unwrap();
    }
    let run = |batch| {
        let mut args: Vec<&str> = names.iter().map(String::as_str).collect();
        args.extend(["--json", "--batch", batch]);
        let output = check(folder.path(), &args);
        let of = |record: &Value| record["conf"].as_f64().unwrap();
        records(&output).iter().map(of).collect::<Vec<_>>()
    };
    // Another folder's picture of a name that is taken, and one with the name that it would get.
    fs::create_dir(folder.path().join("more")).unwrap();
    for name in ["0-2.png", "more/0.png"] {
        fs::write(folder.path().join(name), &bytes).unwrap();
    }
    let args = ["0.png", "0-2.png", "more/0.png", "--json"];
    let ids: Vec<_> = (records(&check(folder.path(), &args)).iter())
        .map(|record| record["sample_id"].clone())
        .collect();
    assert_eq!(ids, ["0", "0-2", "0-3"]);
    let (one, all) = (run("1"), run("3"));
    assert_eq!(one.len(), 3);
    for (one, all) in one.iter().zip(all) {
        assert!((one - all).abs() < 1e-4, "{one} and {all}");
    }
}

#[test]
fn what_cannot_be_read_does_not_stop_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
    let good = fs::read(dog_cat()).unwrap();
    put("good.png", &good);
    put("truncated.png", &good[..good.len() / 2]);
    put("text.png", b"hello");
    put("empty.png", b"");
    // A header that claims 60,000 × 60,000 pixels.
    let mut bomb = good.clone();
    bomb[16..24].copy_from_slice(&[0, 0, 0xEA, 0x60, 0, 0, 0xEA, 0x60]);
    put("bomb.png", &bomb);
    let names = [
        "truncated.png",
        "text.png",
        "missing.png",
        "empty.png",
        "bomb.png",
        "good.png",
    ];
    let args: Vec<&str> = ["--prompt", "a dog to the left of a cat", "--json"].into();
    let output = check(folder.path(), &[&names[..], &args[..]].concat());
    assert_eq!(output.status.code(), Some(2));
    let message = stderr(&output);
    for name in &names[..5] {
        assert!(message.contains(name), "{message} lacks {name}");
    }
    assert_eq!(message.lines().count(), 5, "{message}");
    let records = records(&output);
    assert_eq!(records.len(), 1);
    assert_eq!(records[0]["verdict_raw"], "PASS");
}

#[test]
fn nonsense_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let picture = dog_cat();
    let picture = picture.to_str().unwrap();
    for (args, part) in [
        (&["--prompt", "a dog"][..], "required"),
        (&[picture, "--checker", "yolo"], "frcnn-v2"),
        (&[picture, "--checker", "."], "model.safetensors"),
        (&[picture, "--prompt", "a dog"], "--relation"),
        (&[picture, "--prompt", "a unicorn above a cat"], "unicorn"),
        (&[picture, "--batch", "0"], "--batch is 0"),
        (&[picture, "--config", "missing.yaml"], "missing.yaml"),
        (&["--manifest", "missing.jsonl"], "missing.jsonl"),
        (&["out/*.png"], "as a pattern it matches none"),
        (&["missing.png"], "there is no such file"),
        (&["."], "the folder has no picture in it"),
    ] {
        let output = check(folder.path(), args);
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
        assert!(
            message.contains(part),
            "{args:?}: {message:?} lacks {part:?}"
        );
    }
    assert!(fs::read_dir(folder.path()).unwrap().next().is_none());
}

#[test]
fn a_search_can_ask_the_checker() {
    let folder = tempfile::tempdir().unwrap();
    for reward in ["checker", "pse"] {
        let output = prepose()
            .args([
                "generate",
                "a photo of a dog to the left of a cat.",
                "--device",
                "flex",
                "--seed",
                "1",
                "--steps",
                "8",
            ])
            .args([
                "--best-of",
                "4",
                "--batch",
                "4",
                "--keep-all",
                "--reward",
                reward,
                "--json",
                "-o",
            ])
            .arg(folder.path().join(reward))
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let made = records(&output);
        let scores: Vec<f64> = made
            .iter()
            .map(|line| line["score"].as_f64().unwrap())
            .collect();
        assert!(
            scores.windows(2).all(|pair| pair[0] >= pair[1]),
            "{reward}: {scores:?}"
        );
        assert!(scores[0] > scores[3], "{reward}: {scores:?}");
    }
    let refused = prepose()
        .args([
            "generate",
            "a dog near a cat",
            "--best-of",
            "2",
            "--reward",
            "checker",
        ])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("near"));
}
