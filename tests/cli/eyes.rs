//! `run`, `check` and `generate` with networks that look at pictures besides the detector.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::program::{prepose_in, refuses, stdout, works};
use crate::support::fixture;

/// A tiny network of random weights.
fn eye(name: &str) -> String {
    fixture(&format!("eyes/{name}"))
        .to_string_lossy()
        .into_owned()
}

fn lines(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap();
    let line = |line: &str| serde_json::from_str(line).unwrap();
    text.lines().map(line).collect()
}

#[test]
fn masks_and_depth_are_of_the_networks_that_were_named() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let prompts = "a dog to the left of a cat\na dog in front of a cat\n";
    fs::write(folder.join("p.txt"), prompts).unwrap();
    let (masks, depth) = (eye("sam"), eye("depth"));
    let run = [
        "run", "p.txt", "--device", "flex", "--steps", "6", "--seeds", "0", "--masks", &masks,
        "--out", "run",
    ];
    let told = prepose_in(folder, &[&run[..], &["--depth", &depth]].concat());
    let text = format!("{}{}", stdout(&told), String::from_utf8_lossy(&told.stderr));
    assert_eq!(told.status.code(), Some(0), "{text}");
    assert!(text.contains("no verdict on 1: "), "{text}");
    assert!(text.contains("in depth, 1 picture: PSE "), "{text}");
    assert!(!text.contains("--depth does"), "{text}");

    let eval = folder.join("run/prompt-only/eval");
    let records = lines(&eval.join("per_sample.jsonl"));
    let [record] = &records[..] else {
        panic!("{records:?}");
    };
    let seen = &record["detectors"]["primary"];
    assert_eq!(seen["type"], "toybox+sam");
    let detections = seen["detections"].as_array().unwrap();
    assert!(!detections.is_empty());
    assert!(
        detections
            .iter()
            .all(|one| one["segmentation"]["counts"].is_string())
    );
    let scores = lines(&eval.join("scores.jsonl"));
    let depth_of = |line: &Value| line.get("pse_3d").and_then(Value::as_f64);
    assert_eq!(depth_of(&scores[0]), None);
    assert!((0.0..=1.0).contains(&depth_of(&scores[1]).unwrap()));
    let settings = fs::read_to_string(folder.join("run/run.json")).unwrap();
    let settings: Value = serde_json::from_str(&settings).unwrap();
    for hash in ["masks_sha256", "depth_sha256"] {
        assert_eq!(
            settings["checker"][hash].as_str().unwrap().len(),
            64,
            "{hash}"
        );
    }

    // What was looked at by other networks is another run.
    refuses(folder, &run, &["other settings", "checker.depth_sha256"]);

    let picture = "run/prompt-only/images/prompt-only_line-00001_seed0000.png";
    let check = ["check", picture, "--json", "--device", "flex"];
    let plain: Value = serde_json::from_str(&works(folder, &check)).unwrap();
    let masked = works(
        folder,
        &[&check[..], &["--masks", &masks, "--depth", &depth]].concat(),
    );
    let masked: Value = serde_json::from_str(&masked).unwrap();
    assert_eq!(plain["detectors"]["primary"]["type"], "toybox");
    assert_eq!(masked["detectors"]["primary"]["type"], "toybox+sam");
    assert_eq!(plain["verdict"], masked["verdict"]);
}

/// The masks of PSE's released script in depth, and its depths: what a run says of its pictures is what `score` says of them.
#[test]
fn a_run_scores_masks_and_depths_as_score_does() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let prompts = "a dog to the left of a cat\na dog in front of a cat\na cat behind a bus\n";
    fs::write(folder.join("p.txt"), prompts).unwrap();
    let (masks, depth) = (eye("sam"), eye("depth"));
    let eyes = [
        "--device",
        "flex",
        "--masks",
        &masks,
        "--mask-choice",
        "largest",
        "--depth",
        &depth,
        "--published",
    ];
    let run = [
        "run", "p.txt", "--steps", "8", "--seeds", "2", "--batch", "1", "--out", "run",
    ];
    works(folder, &[&run[..], &eyes].concat());
    let settings = fs::read_to_string(folder.join("run/run.json")).unwrap();
    let settings: Value = serde_json::from_str(&settings).unwrap();
    assert_eq!(settings["checker"]["mask_choice"], "largest");

    let mut compared = Vec::new();
    for line in lines(&folder.join("run/prompt-only/eval/scores.jsonl")) {
        let id = line["sample_id"].as_str().unwrap();
        let picture = format!("run/prompt-only/images/{id}.png");
        let detect = [
            "detect",
            &picture,
            "--min-score",
            "0.5",
            "--device",
            "flex",
            "-o",
            "found.jsonl",
        ];
        works(folder, &detect);
        let (rule, own) = match id.contains("line-00001") {
            true => ("pse", &line["pse"]),
            false => ("pse-3d", &line["pse_3d"]),
        };
        let score = [&["score", rule, "found.jsonl", "--json"][..], &eyes].concat();
        let scored: Value = serde_json::from_str(&works(folder, &score)).unwrap();
        let scored = &scored["pictures"][0]["score"];
        assert_eq!(own, scored, "{rule} of {id}");
        compared.push((rule, scored.as_f64()));
    }
    assert_eq!(compared.len(), 3);
    for rule in ["pse", "pse-3d"] {
        let mut own = compared.iter().filter(|(of, _)| *of == rule);
        assert!(own.any(|(_, score)| score.is_some()), "{compared:?}");
    }
}

#[test]
fn a_search_goes_by_each_relations_own_rule() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let depth = eye("depth");
    let search = |prompt: &'static str| {
        [
            "generate",
            prompt,
            "--best-of",
            "2",
            "--steps",
            "4",
            "--reward",
            "relations",
            "--device",
            "flex",
            "-o",
            "best.png",
        ]
    };
    refuses(
        folder,
        &search("a dog in front of a cat"),
        &["a dog in front of a cat", "about depth", "--depth"],
    );
    for (prompt, more) in [
        ("a dog near a cat", &[][..]),
        ("a dog in front of a cat", &["--depth", &depth][..]),
    ] {
        works(folder, &[&search(prompt)[..], more].concat());
        let told = works(folder, &["info", "best.png", "--json"]);
        let told: Value = serde_json::from_str(&told).unwrap();
        let found = &told["request"]["found"];
        assert_eq!(found["search"]["reward"], "relations", "{told}");
        assert!(found["score"].is_f64(), "{told}");
    }
}
