//! Grounding DINO and RT-DETRv2 behind `--checker` and `--secondary`, on the fixtures' random networks.
#![cfg(feature = "toybox")]

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::check_pictures::{check, dog_cat, records};
use crate::program::{prepose, prepose_in, stderr};
use crate::support::fixture;

fn folder(case: &str) -> String {
    fixture(case).to_str().unwrap().to_string()
}

/// A configuration in which every box counts.
fn every_box(folder: &Path) {
    let config = "thresholds:\n  detection_score: 0.0\n  min_area_fraction: 0.0\n  ambiguity_delta: 0.0\n\
                  detector:\n  primary:\n    params:\n      box_threshold: 0.01\n      text_threshold: 0.9\n\
                  \x20 secondary:\n    params:\n      score_threshold: 0.01\n";
    fs::write(folder.join("every.yaml"), config).unwrap();
}

#[test]
fn any_two_detectors_look_and_records_name_them() {
    let place = tempfile::tempdir().unwrap();
    every_box(place.path());
    let picture = dog_cat();
    let (grounding, fast) = (
        folder("eyes/grounding-dino/model"),
        folder("eyes/rt-detr/basic"),
    );
    let args = [
        picture.to_str().unwrap(),
        "--relation",
        "corgi | left of | fire hydrant",
        "--checker",
        &grounding,
        "--secondary",
        &fast,
        "--config",
        "every.yaml",
        "--json",
        "--out",
        "seen",
    ];
    let output = check(place.path(), &args);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let records = records(&output);
    let detectors = &records[0]["detectors"];
    assert_eq!(detectors["primary"]["type"], "model");
    assert_eq!(records[0]["object_a"], "corgi");
    let found = detectors["primary"]["detections"].as_array().unwrap();
    assert!(!found.is_empty());
    if let Some(second) = detectors
        .get("secondary")
        .filter(|second| !second.is_null())
    {
        assert_eq!(second["type"], "basic");
    }
    let config = fs::read_to_string(place.path().join("seen/checker_config.yaml")).unwrap();
    for line in [
        "box_threshold: 0.01",
        "text_threshold: 0.9",
        "type: model",
        "type: basic",
    ] {
        assert!(config.contains(line), "{line}: {config}");
    }
}

#[test]
fn what_a_detector_cannot_do_is_said() {
    let place = tempfile::tempdir().unwrap();
    let picture = dog_cat();
    let picture = picture.to_str().unwrap();
    let (grounding, fast) = (
        folder("eyes/grounding-dino/model"),
        folder("eyes/rt-detr/basic"),
    );
    let long = format!("{} | above | cat", "very ".repeat(300));
    for (args, part) in [
        (
            &["--relation", &long, "--checker", &grounding][..],
            "tokens",
        ),
        (
            &["--relation", "dog | above | cat", "--checker", &fast],
            "dog",
        ),
        (
            &["--relation", "a | above | b", "--checker", "rtdetr-v2-r999"],
            "rtdetr-v2-r18",
        ),
    ] {
        let output = check(place.path(), &[&[picture], args].concat());
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
        assert!(
            message.contains(part),
            "{args:?}: {message:?} lacks {part:?}"
        );
    }
}

/// `prepose pull PekingU/rtdetr_v2_r18vd --revision COMMIT` notes no branch.
#[test]
fn what_was_pulled_at_a_commit_is_found_by_its_name() {
    let place = tempfile::tempdir().unwrap();
    let hub = place.path().join("hub");
    let snapshot = hub.join("models--PekingU--rtdetr_v2_r18vd/snapshots");
    let snapshot = snapshot.join("0a".repeat(20));
    fs::create_dir_all(&snapshot).unwrap();
    let picture = dog_cat();
    let look = |checker: &str| {
        let relation = "cat | left of | fire hydrant";
        let mut command = prepose();
        command.args(["check", "--device", "flex", "--json", "--checker", checker]);
        command.args(["--relation", relation]).arg(&picture);
        command.env("HF_HUB_CACHE", &hub).current_dir(place.path());
        command.output().unwrap()
    };
    let original = fixture("eyes/rt-detr/basic");
    let name = "rtdetr-v2-r18";
    for file in [
        "config.json",
        "preprocessor_config.json",
        "model.safetensors",
    ] {
        // The beginning of a download is none.
        let output = look(name);
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{message}");
        let hint = "`prepose pull PekingU/rtdetr_v2_r18vd --revision main`";
        assert!(message.contains(hint), "{message}");
        fs::copy(original.join(file), snapshot.join(file)).unwrap();
    }
    for (checker, recorded) in [
        (name, name),
        // The folder that `pull` prints is called by a commit.
        (snapshot.to_str().unwrap(), "rtdetr_v2_r18vd"),
    ] {
        let output = look(checker);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let primary = &records(&output)[0]["detectors"]["primary"];
        assert_eq!(primary["type"], recorded);
    }
}

#[test]
fn a_run_takes_them_and_goes_on_with_the_same_only() {
    let place = tempfile::tempdir().unwrap();
    let fast = folder("eyes/rt-detr/basic");
    let grounding = folder("eyes/grounding-dino/model");
    fs::write(
        place.path().join("prompts.txt"),
        "a corgi to the left of a cat\n",
    )
    .unwrap();
    let run = |checker: &str, more: &[&str]| {
        let args = [
            "run",
            "prompts.txt",
            "--seeds",
            "0",
            "--steps",
            "2",
            "--device",
            "flex",
            "--out",
            "made",
            "--checker",
            checker,
            "--secondary",
            &fast,
        ];
        prepose_in(place.path(), &[&args, more].concat())
    };
    let output = run(&grounding, &[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let first = fs::read_to_string(place.path().join("made/run.json")).unwrap();
    let first: serde_json::Value = serde_json::from_str(&first).unwrap();
    assert!(first.to_string().contains("box_threshold: 0.35"), "{first}");
    assert_eq!(run(&grounding, &[]).status.code(), Some(0));
    // Other decisions are another run.
    let output = run(&grounding, &["--published"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    let output = run("toybox", &[]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
}

#[test]
fn the_papers_preset_is_its_sampling_and_decisions() {
    let place = tempfile::tempdir().unwrap();
    let args = [
        "run",
        "spatialbench-uc",
        "--preset",
        "paper",
        "--checker",
        "toybox",
        "--secondary",
        "none",
        "--known-objects",
        "--limit",
        "1",
        "--seeds",
        "0",
        "--steps",
        "2",
        "--device",
        "flex",
        "--out",
        "made",
    ];
    let output = prepose_in(place.path(), &args);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let run = fs::read_to_string(place.path().join("made/run.json")).unwrap();
    let run: serde_json::Value = serde_json::from_str(&run).unwrap();
    let config = run.get("config").unwrap_or(&run);
    assert_eq!(config["checker"]["published"], json!(true), "{run}");
    let sampling = &config["sampling"];
    assert_eq!(
        (&sampling["steps"], &sampling["guidance_scale"]),
        (&json!(2), &json!(7.5))
    );
    assert_eq!(sampling["scheduler"], "unipc", "{run}");
    // How pictures from elsewhere are made is not the preset's to say.
    let there = [
        "run",
        "spatialbench-uc",
        "--preset",
        "paper",
        "--checker",
        "toybox",
        "--secondary",
        "none",
        "--known-objects",
        "--limit",
        "1",
        "--seeds",
        "0",
        "--pictures",
        "made/prompt-only",
        "--device",
        "flex",
        "--out",
        "measured",
    ];
    let output = prepose_in(place.path(), &there);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let other = ["run", "visor", "--preset", "paper", "--out", "other"];
    let output = prepose_in(place.path(), &other);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("spatialbench-uc"),
        "{}",
        stderr(&output)
    );
}
