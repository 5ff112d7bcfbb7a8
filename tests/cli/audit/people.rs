//! Several people, few labels, and folders in the place of files.

use std::fs;

use serde_json::Value;

use super::{fixture, float, path, text};
use crate::program::{prepose_in, refuses, stderr, works};

/// Two people: how far they agree, and what both say together.
#[test]
fn several_people_label() {
    let folder = tempfile::tempdir().unwrap();
    let labels = path("labels_filled.json");
    let mut second: Value = serde_json::from_str(&text("labels_filled.json")).unwrap();
    for label in second.as_array_mut().unwrap() {
        if label["human_verdict"] == "PASS" {
            label["human_verdict"] = "FAIL".into();
        }
    }
    fs::write(folder.path().join("second.json"), second.to_string()).unwrap();
    let records = path("calibrated.jsonl");
    let args = [
        "audit",
        "analyze",
        "--records",
        &records,
        "--labels",
        &labels,
        "second.json",
        "--out",
        "out",
    ];
    let printed = works(folder.path(), &args);
    assert!(
        printed.contains("and second.json: 66 pictures in common, agreement 0.")
            && printed.contains("in brackets 95 % intervals"),
        "{printed}"
    );
    let read = |name: &str| -> Value {
        let text = fs::read_to_string(folder.path().join(name).join("audit_metrics.json")).unwrap();
        serde_json::from_str(&text).unwrap()
    };
    let both = read("out");
    assert_eq!(
        (
            &both["annotators"][0]["pictures"],
            &both["annotators"][0]["annotators"]
        ),
        (&66.into(), &serde_json::json!([0, 1]))
    );
    assert_eq!(both["krippendorff_alpha"], Value::Null, "of two, kappa");
    let three = [
        "audit",
        "analyze",
        "--records",
        &records,
        "--labels",
        &labels,
        "second.json",
        "again.json",
        "--out",
        "three",
    ];
    fs::copy(
        fixture("labels_filled.json"),
        folder.path().join("again.json"),
    )
    .unwrap();
    let printed = works(folder.path(), &three);
    let alpha = float(&read("three")["krippendorff_alpha"]);
    assert!(
        printed.contains(&format!("Krippendorff's alpha {alpha:.4}")),
        "{printed}"
    );
    for step in ["1e-20", "0", "1.5", "nan"] {
        let args = [&three[..], &["--tau-step", step]].concat();
        let parts = ["--tau-step is", "at least 0.0001 and at most 1"];
        refuses(folder.path(), &args, &parts);
    }
    let alone = [
        "audit",
        "analyze",
        "--records",
        &records,
        "--labels",
        &labels,
        "--out",
        "alone",
    ];
    works(folder.path(), &alone);
    let matrix = &read("alone")["confusion_matrix"];
    let decided = |metrics: &Value| metrics["decided_samples"].as_u64().unwrap();
    assert!(
        decided(&both["confusion_matrix"]) < decided(matrix),
        "where they are divided nothing is decided"
    );
    // 13 of 14: Wilson's interval.
    let [low, high] = [0, 1].map(|end| float(&matrix["intervals"]["accuracy"][end]));
    assert!(
        (low - 0.6853).abs() < 1e-4 && (high - 0.9873).abs() < 1e-4,
        "{low} {high}"
    );
    let [low, high] = [0, 1].map(|end| float(&matrix["intervals"]["kappa"][end]));
    assert!(low < 0.4646 && 0.4646 < high, "{low} {high}");
}

#[test]
fn too_few_labels_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let (records, labels) = (path("calibrated.jsonl"), path("labels_filled.json"));
    let args = [
        "audit",
        "calibrate",
        "--records",
        &records,
        "--labels",
        &labels,
        "--out",
        "out",
    ];
    let output = prepose_in(folder.path(), &args);
    let message = stderr(&output);
    assert!(
        message
            .contains("warning: people say PASS of 13 pictures and FAIL of 11; among 36 settings"),
        "{message}"
    );
}

/// Folders of runs and methods stand for the records in them.
#[test]
fn folders_of_runs_are_taken() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::create_dir_all(at.join("run/psg/eval")).unwrap();
    fs::copy(
        fixture("calibrated.jsonl"),
        at.join("run/psg/eval/per_sample.jsonl"),
    )
    .unwrap();
    let labels = path("labels_filled.json");
    for folder in ["run", "run/psg", "run/psg/eval"] {
        let args = [
            "audit",
            "analyze",
            "--records",
            folder,
            "--labels",
            &labels,
            "--out",
            "out",
        ];
        assert!(works(at, &args).contains("accuracy 0.9286"));
    }
    let printed = works(
        at,
        &[
            "audit",
            "sample",
            "--records",
            "run",
            "-n",
            "12",
            "--out",
            "sample.csv",
        ],
    );
    let lines: Vec<&str> = printed.lines().skip(1).collect();
    let columns: Vec<usize> = lines
        .iter()
        .map(|line| line.find(" of ").unwrap())
        .collect();
    assert!(
        columns.windows(2).all(|pair| pair[0] == pair[1]),
        "{printed}"
    );
    fs::create_dir_all(at.join("empty")).unwrap();
    refuses(
        at,
        &[
            "audit",
            "analyze",
            "--records",
            "empty",
            "--labels",
            &labels,
            "--out",
            "x",
        ],
        &["there are no records in empty"],
    );
}
