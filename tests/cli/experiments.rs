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
    assert_eq!(&rows[7][15], "28.80");
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
    let other = String::from_utf8_lossy(&other.stdout).into_owned();
    assert!(
        !other.contains("swapped") && other.contains("published: Nanobanana 1"),
        "{other}"
    );
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

/// A switch is said as steps, a share of them, or a noise level.
#[test]
fn a_switch_in_other_words() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let shown = twice(
        folder,
        "ots switch --with neutral --switch-at 0.5,sigma1 --every 300 --steps 4 --batch 8",
    );
    assert!(shown.contains("| N2A | 0.5 | 0.5000 |"), "{shown}");
    assert!(
        shown.contains("| N2A | sigma1 |  |") && !shown.contains("| A2B | 0.5"),
        "{shown}"
    );
    let prompts = folder.join("run/delayed-order-0.5");
    assert!(prompts.is_dir());
}

/// Sides that the world has settled, and that the texts do not say.
#[test]
fn correctness_of_ones_own() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let line = |id: &str, other: &str, prompt: &str, [a, b]: [usize; 2], objects: [&str; 2]| {
        serde_json::json!({
            "prompt_id": id, "prompt": prompt, "objects": objects, "counterpart": other, "tags": [id],
            "relations": [{"relation": "left_of", "a": a, "b": b}]
        })
        .to_string()
    };
    let lines = [
        line(
            "aligned",
            "reverse",
            "a photo of a dog and a cat.",
            [0, 1],
            ["dog", "cat"],
        ),
        line(
            "reverse",
            "aligned",
            "a photo of a cat and a dog.",
            [1, 0],
            ["cat", "dog"],
        ),
    ];
    std::fs::write(folder.join("mine.jsonl"), lines.join("\n")).unwrap();
    let shown = twice(
        folder,
        "ots correctness --suite mine.jsonl --seeds 0-1 --steps 4 --batch 4",
    );
    assert!(shown.contains("| prompt-only | aligned | 2 |"), "{shown}");
    assert!(
        shown.contains("| published: GPT-Image | reverse |") && shown.contains("64.20"),
        "{shown}"
    );
    let rows = csv(folder, "correctness.csv");
    assert_eq!(rows.len(), 2 + 2 * 9);
}

/// Seed pictures, the same pictures changed, and what a judge says of them.
#[test]
fn pictures_are_edited() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let seed = "a dog on the left and a cat on the right";
    let lines = [
        serde_json::json!({"prompt_id": "under", "prompt": "One animal is sleeping.", "edit": {"seed": seed}}),
        serde_json::json!({"prompt_id": "named", "prompt": "The dog is sleeping and the cat is jumping.",
            "edit": {"seed": seed}, "objects": ["dog", "cat"], "relations": [], "tags": ["aligned"]}),
    ];
    let lines = lines.map(|line| line.to_string());
    std::fs::write(folder.join("mine.jsonl"), lines.join("\n")).unwrap();
    let args = "ots edit --suite mine.jsonl --seeds 0-1 --steps 4 --strength 0.5 --batch 4";
    let shown = twice(folder, args);
    assert!(shown.contains("| prompt-only | 4 |"), "{shown}");
    assert!(
        shown.contains("published: Kling-v2 |") && !shown.contains("published: DALL-E 3"),
        "{shown}"
    );
    // One seed picture for both, and its edits begin with it.
    let seeds = folder.join("run/seeds/prompts.jsonl");
    assert_eq!(std::fs::read_to_string(seeds).unwrap().lines().count(), 1);
    let picture = folder.join("run/prompt-only/images/prompt-only_under_seed0001.png");
    let request = prepose::output::png::read_request(&picture).unwrap();
    let init = request.init.unwrap();
    assert!(
        init.path
            .ends_with("seeds/prompt-only/images/prompt-only_seed_0000_seed0001.png")
    );
    assert_eq!(
        (init.strength, request.prompt.as_str()),
        (0.5, "One animal is sleeping.")
    );
    // A judge's codes: of correctness 2 is aligned.
    let labels = [
        ("prompt-only_under_seed0000", 1),
        ("prompt-only_under_seed0001", 3),
        ("prompt-only_named_seed0000", 2),
        ("prompt-only_named_seed0001", 1),
    ];
    let labels =
        labels.map(|(id, label)| serde_json::json!({"sample_id": id, "label": label}).to_string());
    std::fs::write(folder.join("labels.jsonl"), labels.join("\n")).unwrap();
    let judged = twice(folder, &format!("{args} --labels labels.jsonl"));
    assert!(
        judged.contains("| prompt-only | 2 | 1 | 0 | 1 | 50.00 | 100.00 |"),
        "{judged}"
    );
    assert!(
        judged.contains("| prompt-only | aligned | 2 | 1 | 1 | 0 | 0.00 | 50.00 |"),
        "{judged}"
    );
    std::fs::write(
        folder.join("labels.jsonl"),
        "{\"sample_id\": \"prompt-only_under_seed0000\", \"label\": 7}",
    )
    .unwrap();
    let wrong = prepose(folder, &format!("{args} --labels labels.jsonl"));
    let message = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert_eq!(wrong.status.code(), Some(2), "{message}");
    assert!(message.contains("7 is not a judge's label"), "{message}");
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
        ("ots switch --switch-at 1.5", "1.5"),
        ("ots switch --switch-at sigma", "sigma5.5"),
        (
            "ots switch --switch-at sigma1000 --steps 3 --every 300",
            "change at step 0",
        ),
        ("ots edit --suite ots-objects", "does not change pictures"),
        ("ots edit --strength 0", "--strength"),
        ("ots edit --shard 0/2", "--shard"),
        (
            "ots edit --checker none --labels nowhere.jsonl",
            "nowhere.jsonl",
        ),
        ("run ots-edit --checker none", "prepose ots edit"),
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
