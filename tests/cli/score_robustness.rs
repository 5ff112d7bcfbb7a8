//! `prepose score pse-corruptions` and `pse-detectors`.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::program::{prepose_in, refuses, stdout, works};

/// A picture of 200 × 100 pixels with a dog and a cat 40 pixels wide at these columns.
fn line(id: &str, prompt_id: &str, dog: f64, cat: f64) -> String {
    let found = |label: &str, x: f64| json!({"label": label, "score": 0.9, "box_xyxy": [x, 30.0, x + 40.0, 70.0]});
    json!({
        "id": id, "prompt_id": prompt_id, "prompt": "a dog to the left of a cat", "width": 200, "height": 100,
        "detections": [found("dog", dog), found("cat", cat)],
    })
    .to_string()
}

fn put(folder: &Path, name: &str, lines: &[String]) {
    fs::write(folder.join(name), lines.join("\n")).unwrap();
}

fn said(folder: &Path, args: &[&str]) -> Value {
    serde_json::from_str(&works(folder, args)).unwrap()
}

#[test]
fn masks_are_made_worse_as_in_table_10() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // One right, one wrong by far, one in which the objects overlap.
    let lines = [
        line("a", "p", 10.0, 150.0),
        line("b", "p", 150.0, 10.0),
        line("c", "p", 80.0, 100.0),
    ];
    put(folder, "d.jsonl", &lines);
    let args = ["score", "pse-corruptions", "d.jsonl", "--json"];
    let told = said(folder, &args);
    assert_eq!(
        (&told["pictures"], &told["with_boxes_for_masks"]),
        (&json!(3), &json!(3))
    );
    let rows = told["corruptions"].as_array().unwrap();
    assert_eq!(rows.len(), 13);
    let plain = rows[0]["pse"].as_f64().unwrap();
    let rule = said(folder, &["score", "pse", "d.jsonl", "--json"]);
    let mean = rule["figures"]["PSE"].as_f64().unwrap();
    assert!((plain - 100.0 * mean).abs() < 1e-9, "{plain} {mean}");
    let of = |name: &str| {
        let row = rows.iter().find(|row| row["corruption"] == name);
        row.unwrap_or_else(|| panic!("{name}"))["pse"]
            .as_f64()
            .unwrap()
    };
    // Boxes are larger than the opening's square, so that it gives them back.
    assert!((of("opening 10 times") - plain).abs() < 1e-9);
    // Few pixels less change little; a mask that moves by half the picture changes what is where.
    assert!((of("dropout 80 %") - plain).abs() < 5.0);
    assert_ne!(of("jitter 100 px"), plain);
    assert_eq!(told, said(folder, &args), "the same seed draws the same");
    assert_ne!(told, said(folder, &[&args[..], &["--seed", "1"]].concat()));
    let text = works(folder, &["score", "pse-corruptions", "d.jsonl"]);
    assert!(text.contains("jitter 100 px"), "{text}");
    assert!(
        text.contains("3 pictures, 3 with boxes for masks"),
        "{text}"
    );
}

#[test]
fn the_best_by_each_detector_is_measured_by_each() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (left, right) = ((10.0, 150.0), (150.0, 10.0));
    let at = |id: &str, prompt: &str, (dog, cat): (f64, f64)| line(id, prompt, dog, cat);
    put(
        folder,
        "one.jsonl",
        &[at("a", "p", right), at("b", "p", left), at("c", "q", left)],
    );
    // The same pictures in another order.
    put(
        folder,
        "two.jsonl",
        &[at("c", "q", left), at("a", "p", left), at("b", "p", right)],
    );
    let args = ["score", "pse-detectors", "one.jsonl", "two.jsonl"];
    let told = said(folder, &[&args[..], &["--json"]].concat());
    assert_eq!(
        (&told["prompts"], &told["pictures"]),
        (&json!(2), &json!(3))
    );
    let rows = told["detectors"].as_array().unwrap();
    assert_eq!(rows[0]["pse"], 0.75);
    assert_eq!(rows[0]["pse_of_best_by"], json!({"one": 1.0, "two": 0.5}));
    assert_eq!(
        rows[1]["centre_of_best_by"],
        json!({"one": 0.5, "two": 1.0})
    );
    assert!(works(folder, &args).contains("2 prompts, 3 pictures"));

    refuses(folder, &args[..3], &["one file for each"]);
    put(
        folder,
        "fewer.jsonl",
        &[at("c", "q", left), at("a", "p", left)],
    );
    refuses(
        folder,
        &["score", "pse-detectors", "one.jsonl", "fewer.jsonl"],
        &["fewer.jsonl", "no picture \"b\"", "one.jsonl"],
    );
    refuses(
        folder,
        &["score", "pse-detectors", "fewer.jsonl", "one.jsonl"],
        &["one.jsonl", "pictures that fewer.jsonl does not have"],
    );
    put(folder, "single.jsonl", &[at("a", "p", left)]);
    refuses(
        folder,
        &["score", "pse-detectors", "single.jsonl", "single.jsonl"],
        &["nothing to choose"],
    );
    let near =
        json!({"id": "a", "prompt": "a dog near a cat", "width": 9, "height": 9, "detections": []});
    put(folder, "near.jsonl", &[near.to_string()]);
    let told = prepose_in(folder, &["score", "pse-corruptions", "near.jsonl"]);
    assert_eq!(
        (told.status.code(), stdout(&told)),
        (Some(2), String::new())
    );
}
