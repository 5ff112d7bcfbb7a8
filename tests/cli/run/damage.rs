//! Runs of which files were damaged: all of it is named, and remade to the byte.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::{finish, prepose};
use crate::program;

/// Every file of a run with what is in it.
fn contents(run: &Path) -> BTreeMap<String, Vec<u8>> {
    fn walk(root: &Path, folder: &Path, found: &mut BTreeMap<String, Vec<u8>>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(root, &path, found);
            } else {
                let name = path
                    .strip_prefix(root)
                    .unwrap()
                    .to_str()
                    .unwrap()
                    .replace('\\', "/");
                found.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(run, run, &mut found);
    found
}

fn copy(files: &BTreeMap<String, Vec<u8>>, run: &Path) {
    let _ = fs::remove_dir_all(run);
    for (name, bytes) in files {
        let path = run.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

/// Ways to damage a file, and what `verify` calls the result.
const WAYS: [(&str, &str); 7] = [
    ("flip", "changed"),
    ("half", "cut"),
    ("empty", "emptied"),
    ("append", "longer"),
    ("zeros", "changed"),
    ("delete", "deleted"),
    ("dir", "replaced by a folder"),
];

fn spoil(file: &Path, way: &str) {
    let mut bytes = fs::read(file).unwrap();
    let half = bytes.len() / 2;
    match way {
        "flip" => bytes[half] ^= 1,
        "half" => bytes.truncate(half),
        "empty" => bytes.clear(),
        "append" => bytes.extend(b"junk\n"),
        "zeros" => bytes.fill(0),
        _ => {}
    }
    match way {
        "delete" => fs::remove_file(file).unwrap(),
        "dir" => {
            fs::remove_file(file).unwrap();
            fs::create_dir(file).unwrap();
        }
        _ => fs::write(file, bytes).unwrap(),
    }
}

/// What a command says on both channels, and its exit code.
fn said(arguments: &[&str]) -> (String, Option<i32>) {
    let output = program::prepose().args(arguments).output().unwrap();
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text += &String::from_utf8_lossy(&output.stderr);
    assert!(!text.contains("panicked"), "{arguments:?}: {text}");
    (text, output.status.code())
}

/// Two prompts by two methods.
fn arguments(out: &str) -> Vec<&str> {
    let mut arguments = vec!["run", "spatialbench-uc", "--every", "50", "--limit", "2"];
    arguments.extend([
        "--seeds", "0", "--steps", "2", "--device", "flex", "--method",
    ]);
    arguments.extend(["prompt-only,psg", "--out", out]);
    arguments
}

/// Every file, each in some of the ways.
#[test]
fn all_damage_is_named_and_mended_to_the_byte() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let out = run.to_str().unwrap();
    let (text, code) = said(&arguments(out));
    assert_eq!(code, Some(0), "{text}");
    let whole = contents(&run);
    assert!(whole.len() > 25, "{:?}", whole.keys());
    let (text, code) = said(&["verify", out]);
    assert_eq!(code, Some(0), "{text}");
    for (number, name) in whole.keys().enumerate() {
        for (way, called) in [WAYS[number % 7], WAYS[(number + 3) % 7]] {
            copy(&whole, &run);
            spoil(&run.join(name), way);
            let (text, code) = said(&["verify", out]);
            assert_eq!(code, Some(1), "{name} {way}: {text}");
            let wanted = format!("{out}/{name}: ");
            let named = text.lines().any(|line| line.starts_with(&wanted));
            assert!(named, "{name} {way}: {text}");
            if name != "digests.jsonl" {
                assert!(
                    text.contains(&format!("{wanted}{called}")),
                    "{name} {way}: {text}"
                );
                assert!(
                    text.contains("1 file is not as it was"),
                    "{name} {way}: {text}"
                );
            }
            let (text, code) = said(&["verify", out, "--mend", "--device", "flex"]);
            assert!(!text.contains(": 1 files"), "{name} {way}: {text}");
            if name.starts_with("provenance/") {
                assert!(text.contains("cannot be remade"), "{name} {way}: {text}");
                assert_eq!(code, Some(1), "{name} {way}: {text}");
                continue;
            }
            assert_eq!(code, Some(0), "{name} {way}: {text}");
            let mended = contents(&run);
            for (other, bytes) in &whole {
                // The ledger has the times of the new files.
                let same = other == "digests.jsonl" || mended.get(other) == Some(bytes);
                assert!(same, "{other} after {name} {way}");
            }
        }
    }
}

/// The same command, the report and merging notice it too.
#[test]
fn commands_that_use_a_run_notice_damage() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let out = run.to_str().unwrap();
    let (text, code) = said(&arguments(out));
    assert_eq!(code, Some(0), "{text}");
    let whole = contents(&run);
    let files = [
        ("run.json", true),
        ("prompts.jsonl", true),
        ("psg/manifest.jsonl", true),
        ("psg/eval/scores.jsonl", true),
        ("psg/eval/per_sample.jsonl", true),
        ("psg/eval/metrics.json", true),
        ("psg/eval/tables/main_results.csv", true),
        ("psg/images/psg_v1_000000_seed0000.png", false),
    ];
    for (number, (name, in_results)) in files.into_iter().enumerate() {
        let (way, _) = WAYS[number % 7];
        copy(&whole, &run);
        spoil(&run.join(name), way);
        let (text, code) = said(&["report", out]);
        assert!(text.contains(name), "{name} {way}: {text}");
        assert_eq!(
            code,
            Some(if in_results { 2 } else { 0 }),
            "{name} {way}: {text}"
        );
        let _ = fs::remove_dir_all(run.join("report"));
        let (text, code) = said(&arguments(out));
        assert!(text.contains(name), "{name} {way}: {text}");
        assert_eq!(code, Some(0), "{name} {way}: {text}");
        let (text, code) = said(&["verify", out]);
        assert_eq!(code, Some(0), "{name} {way}: {text}");
        let now = contents(&run);
        assert!(now[name] == whole[name], "{name} {way}");
    }
    // Without digests nothing is known of the rest, which is told and hinders nothing.
    copy(&whole, &run);
    fs::remove_file(run.join("digests.jsonl")).unwrap();
    let (text, code) = said(&["report", out]);
    assert!(text.contains("digests.jsonl"), "{text}");
    assert_eq!(code, Some(0), "{text}");
}

/// A program gets a line for each file.
#[test]
fn verify_speaks_json_and_names_what_it_cannot_use() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let out = run.to_str().unwrap();
    let (text, code) = said(&["verify", out]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("there is no run in"), "{text}");
    finish({
        let mut command = prepose(&["run", "spatialbench-uc", "--every", "100", "--limit", "1"]);
        command
            .args(["--seeds", "0", "--steps", "1", "--checker", "none", "--out"])
            .arg(&run);
        command
    });
    assert_eq!(said(&["verify", out, "--json"]), (String::new(), Some(0)));
    let picture = "prompt-only/images/prompt-only_v1_000000_seed0000.png";
    fs::write(run.join(picture), "x").unwrap();
    let (text, code) = said(&["verify", out, "--json", "--quick"]);
    let line: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(code, Some(1));
    assert_eq!(line["path"], format!("{out}/{picture}"));
    assert_eq!(
        (&line["fault"], &line["mended"]),
        (&"cut".into(), &false.into())
    );
    // Without the checkpoint it cannot be remade, and that is said.
    let config = fs::read_to_string(run.join("run.json")).unwrap();
    assert!(config.contains("toybox"));
    let (text, code) = said(&["verify", out, "--mend", "--checkpoint", "nowhere"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.contains("nowhere") && text.contains("cannot be remade"),
        "{text}"
    );
    let (text, code) = said(&["verify", out, "--mend"]);
    assert_eq!(code, Some(0), "{text}");
}

/// A folder of the run that leads to somebody's own files.
#[cfg(unix)]
#[test]
fn files_behind_a_link_are_not_touched() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let out = run.to_str().unwrap();
    let victim = folder.path().join("victim");
    fs::create_dir_all(victim.join("deep")).unwrap();
    fs::write(victim.join("thesis.txt"), "years of work").unwrap();
    fs::write(victim.join("deep/000000.json"), "data").unwrap();
    let before = contents(&victim);
    for part in [
        "prompt-only",
        "prompt-only/samples",
        "prompt-only/images",
        "psg/eval",
    ] {
        let _ = fs::remove_dir_all(&run);
        let link: PathBuf = run.join(part);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(&victim, &link).unwrap();
        let (text, code) = said(&arguments(out));
        assert_eq!(code, Some(2), "{part}: {text}");
        assert!(
            text.contains(&format!("{part} is a link")),
            "{part}: {text}"
        );
        assert_eq!(contents(&victim), before, "{part}");
    }
    // Files of the user's own in a folder of the run stay.
    let _ = fs::remove_dir_all(&run);
    fs::create_dir_all(run.join("prompt-only/samples")).unwrap();
    fs::write(run.join("prompt-only/samples/notes.txt"), "mine").unwrap();
    fs::write(run.join("prompt-only/samples/000011.json"), "{}").unwrap();
    let (text, code) = said(&arguments(out));
    assert_eq!(code, Some(0), "{text}");
    let now = contents(&run);
    assert_eq!(now["prompt-only/samples/notes.txt"], b"mine");
    assert_eq!(now["prompt-only/samples/000011.json"], b"{}");
}
