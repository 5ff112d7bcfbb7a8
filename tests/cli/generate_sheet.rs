//! Sheets, kept previews, completions.

use std::fs;

use serde_json::Value;

use crate::program::{prepose_in, refuses, works};

const PROMPT: &str = "a dog to the left of a cat";

#[test]
fn pictures_stand_on_a_sheet_with_their_requests() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let args = [
        "-q",
        "generate",
        PROMPT,
        "--steps",
        "2",
        "-o",
        "out",
        "--grid",
        "sheet.png",
    ];
    let seeds = [
        "--x",
        "seed=3-4",
        "--y",
        "guide=none,pos",
        "--guide-steps",
        "1",
    ];
    let printed = works(folder, &[&args[..], &seeds].concat());
    assert_eq!(
        printed.lines().count(),
        5,
        "four pictures and the sheet: {printed}"
    );
    let sheet = image::open(folder.join("sheet.png")).unwrap();
    assert!(sheet.width() > 2 * 128 && sheet.height() > 2 * 128);
    assert!(sheet.width() < 4 * 128 && sheet.height() < 4 * 128);

    let info: Value =
        serde_json::from_str(&works(folder, &["info", "sheet.png", "--json"])).unwrap();
    let text: Value = serde_json::from_str(info["prepose-sheet"].as_str().unwrap()).unwrap();
    assert_eq!(text["columns"], serde_json::json!(["seed 3", "seed 4"]));
    assert_eq!(text["rows"], serde_json::json!(["no guidance", "pos"]));
    let request = &text["requests"][1][0];
    assert_eq!(request["seed"], 3);
    assert_eq!(request["guide"]["steps"], 1);
    assert_eq!(text["requests"][0][1].get("guide"), None);

    // Each cell is the picture that its request says.
    let first = fs::read_dir(folder.join("out")).unwrap().count();
    assert_eq!(first, 4 + 1, "the pictures and their manifest");
}

#[test]
fn without_axes_seeds_go_across_and_prompts_down() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    works(
        folder,
        &[
            "-q", "generate", "a dog", "a cat", "--seeds", "1-3", "--steps", "2", "-o", "out",
            "--grid", "all.png",
        ],
    );
    let info: Value = serde_json::from_str(&works(folder, &["info", "all.png", "--json"])).unwrap();
    let text: Value = serde_json::from_str(info["prepose-sheet"].as_str().unwrap()).unwrap();
    assert_eq!(
        text["columns"],
        serde_json::json!(["seed 1", "seed 2", "seed 3"])
    );
    assert_eq!(text["rows"], serde_json::json!(["a dog", "a cat"]));
    assert_eq!(text["requests"][1][2]["prompt"], "a cat");
    assert_eq!(text["requests"][1][2]["seed"], 3);
}

#[test]
fn impossible_sheets_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |more: &[&str], parts: &[&str]| {
        let args = ["generate", PROMPT, "--grid", "s.png"];
        refuses(folder.path(), &[&args[..], more].concat(), parts);
    };
    refused(&["--x", "sead=1"], &["sead", "seed, steps"]);
    refused(&["--x", "seed=1-2", "--y", "seed=3"], &["both change seed"]);
    refused(&["--x", "seed=1-2", "--seeds", "1-2"], &["--seeds"]);
    refused(&["--x", "guide-scale=1,2"], &["not", "--guide"]);
    refused(&["--x", "strength=0.5"], &["--init-image"]);
    refused(&["--seeds", "0-99999"], &["megapixels"]);
    refuses(
        folder.path(),
        &["generate", PROMPT, "--x", "seed=1"],
        &["--grid"],
    );
}

/// Without a sheet every prompt is a picture of its own, also one that was there before.
#[test]
fn prompts_are_not_put_together_without_a_sheet() {
    let folder = tempfile::tempdir().unwrap();
    let args = [
        "-q", "generate", "a dog", "a cat", "a dog", "--seed", "1", "--steps", "2", "-o", "out",
    ];
    let printed = works(folder.path(), &args);
    let names: Vec<&str> = printed.lines().collect();
    assert_eq!(
        names,
        ["out/a-dog-1.png", "out/a-cat-1.png", "out/a-dog-1-2.png"]
    );
}

#[test]
fn previews_can_be_kept() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let args = [
        "-q",
        "generate",
        "a dog",
        "--steps",
        "4",
        "-o",
        "x.png",
        "--preview-every",
        "2",
    ];
    works(folder, &args);
    let names = || {
        let mut names: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    assert_eq!(names(), ["manifest.jsonl", "x.png"]);
    works(folder, &[&args[..], &["--keep-previews"]].concat());
    assert_eq!(names(), ["manifest.jsonl", "x.png", "x.step-002.png"]);
}

#[test]
fn shells_get_completions_and_man_gets_pages() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = works(folder, &["completions", shell]);
        assert!(
            script.contains("spatialbench") || script.contains("best-of"),
            "{shell}"
        );
    }
    works(folder, &["completions", "--man", "man"]);
    let page = fs::read_to_string(folder.join("man/prepose-generate.1")).unwrap();
    assert!(page.contains("best"), "{page}");
    let unknown = prepose_in(folder, &["completions", "tcsh"]);
    assert_eq!(unknown.status.code(), Some(2));
}
