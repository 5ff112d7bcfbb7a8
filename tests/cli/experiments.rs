//! The papers' experiments on the toybox, as small as they can be.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Output;

use crate::program;

fn prepose(folder: &Path, args: &str) -> Output {
    program::prepose()
        .args(args.split(' '))
        .args(["--device", "flex", "--out", "run"])
        .current_dir(folder)
        .output()
        .unwrap()
}

/// Runs it twice; the second time nothing is left to do, and the results are the same. They are returned, as shown.
#[track_caller]
fn twice(folder: &Path, args: &str) -> String {
    let first = prepose(folder, args);
    assert!(
        first.status.success(),
        "{args}: {}",
        String::from_utf8_lossy(&first.stderr)
    );
    let again = prepose(folder, args);
    assert_eq!(first.stdout, again.stdout, "{args}");
    String::from_utf8(first.stdout).unwrap()
}

fn files(folder: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder.join("run/results")).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

fn csv(folder: &Path, name: &str) -> Vec<csv::StringRecord> {
    let path = folder.join("run/results").join(name);
    let mut reader = csv::Reader::from_path(path).unwrap();
    let rows: Result<Vec<_>, _> = reader.records().collect();
    rows.unwrap()
}

#[test]
fn order_to_space() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let shown = twice(
        folder,
        "ots switch --switch-at 0..2 --every 300 --steps 3 --batch 8",
    );
    assert!(
        shown.contains("| A2B | 0 |") && shown.contains("run/results"),
        "{shown}"
    );
    let rows = csv(folder, "switch.csv");
    let settings: Vec<(&str, &str)> = rows.iter().map(|row| (&row[0], &row[1])).collect();
    let expected =
        ["A2B", "B2A", "N2A", "N2B"].map(|name| ["0", "1", "2"].map(|step| (name, step)));
    assert_eq!(settings, expected.concat());
    // Two pairs, each order.
    assert!(rows[6..].iter().all(|row| &row[3] == "2"), "{rows:?}");
    assert_eq!(&rows[7][11], "28.80");
    assert_eq!(
        files(folder),
        [
            "switch-homogenization.svg",
            "switch-success.svg",
            "switch.csv",
            "switch.md"
        ]
        .map(String::from)
        .into()
    );
    // Another experiment on the same pictures makes none.
    let other = prepose(folder, "ots homogenization --every 300 --steps 3");
    assert!(other.status.success());
    assert!(!String::from_utf8_lossy(&other.stdout).contains("swapped"));
    // With other settings it is another run.
    let other = prepose(folder, "ots homogenization --every 300 --steps 4");
    let message = String::from_utf8_lossy(&other.stderr).into_owned();
    assert_eq!(other.status.code(), Some(2), "{message}");
    assert!(message.contains("other settings"), "{message}");

    let folder = tempfile::tempdir().unwrap();
    let shown = twice(
        folder.path(),
        "ots homogenization --vertical --every 300 --steps 3",
    );
    assert!(shown.contains("| prompt-only | all | 4 |"), "{shown}");
    assert!(
        shown.contains("above") && shown.contains("28.60"),
        "{shown}"
    );
}

#[test]
fn relations() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let table = "psg table --suite spatialbench-uc+and --every 40 --seeds 0 --steps 3 --method prompt-only,psg";
    let shown = twice(folder, table);
    assert!(shown.contains("| prompt-only | 6 | 6 | 6 |"), "{shown}");
    assert!(shown.contains("published: SDXL + PSG (2)"), "{shown}");
    assert_eq!(&csv(folder, "visor_by_relation.csv")[0][1], "left_of");
    let prompts = std::fs::read_to_string(folder.join("run/prompts.jsonl")).unwrap();
    assert!(
        prompts.contains("A photo of a cake and a bed."),
        "{prompts}"
    );

    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let shown = twice(
        folder,
        "psg scaling --noises 2 --every 100 --seeds 0 --steps 3",
    );
    assert!(shown.contains("psg+best-of-2-pse"), "{shown}");
    let rows = csv(folder, "scaling.csv");
    // Three steps of each noise.
    let calls: Vec<&str> = rows.iter().take(2).map(|row| &row[4]).collect();
    assert_eq!(calls, ["3.0000", "6.0000"]);
    assert_eq!(files(folder).len(), 6);
}

#[test]
fn wrong_ones() {
    let folder = tempfile::tempdir().unwrap();
    for (args, part) in [
        ("ots switch --switch-at 5..1", "5..1"),
        ("ots switch --switch-at 9 --steps 3 --every 300", "9"),
        ("ots homogenization --checker none", "checker"),
        (
            "ots homogenization --suite ots-bench --every 100",
            "--known-objects",
        ),
        ("psg scaling --noises 1", "1"),
        ("psg table --suite no-such-set", "prepose suites"),
        ("psg table --suite psg-three+and", "psg3_000"),
    ] {
        let output = prepose(folder.path(), args);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args}: {message}");
        assert!(
            message.contains(part) && !message.contains("panicked"),
            "{args}: {message}"
        );
        assert!(!folder.path().join("run").exists(), "{args}");
    }
}
