//! `prepose run` with pictures from elsewhere: folders, servers on this machine, and programs.

mod edits;
mod endpoint;
mod maker;
mod pictures;
#[cfg(feature = "object-store")]
mod stores;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;

use crate::run::{files, finish, prepose};

/// A run of pictures that the engine made: prompts, seeds, and the run's folder.
pub struct Engine {
    _folder: tempfile::TempDir,
    pub run: PathBuf,
    /// `prompt_id`, prompt, seed and the picture's file.
    pub pictures: Vec<(String, String, u64, PathBuf)>,
}

/// What all runs here have in common: four prompts.
pub const FOUR: [&str; 4] = ["run", "spatialbench-uc", "--every", "50"];

/// The engine's own run of four prompts and two seeds, made once.
pub fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().join("engine");
        let mut command = prepose(&FOUR);
        command
            .args(["--seeds", "0-1", "--steps", "8", "--batch", "4", "--out"])
            .arg(&run);
        finish(command);
        let manifest = fs::read_to_string(run.join("prompt-only/manifest.jsonl")).unwrap();
        let picture = |line: &str| {
            let line: Value = serde_json::from_str(line).unwrap();
            let text = |key: &str| line[key].as_str().unwrap().to_owned();
            let seed = line["gen_params"]["seed"].as_u64().unwrap();
            let path = run.join("prompt-only").join(text("image_path"));
            (text("prompt_id"), text("prompt"), seed, path)
        };
        let pictures: Vec<_> = manifest.lines().map(picture).collect();
        assert_eq!(pictures.len(), 8);
        Engine {
            _folder: folder,
            run,
            pictures,
        }
    })
}

/// A run of the same prompts and seeds into `out`.
pub fn four(out: &Path, more: &[&str]) -> Command {
    let mut command = prepose(&FOUR);
    command
        .args(["--seeds", "0-1", "--batch", "4", "--out"])
        .arg(out)
        .args(more);
    command
}

/// A run's files but for its settings and manifest, without what tells where pictures come from and what they cost.
pub fn results(run: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = files(run);
    all.retain(|name, _| {
        let name = name.to_string_lossy();
        let about = ["run.json", "manifest.jsonl", "growing.json"]
            .iter()
            .any(|end| name.ends_with(end));
        !about && !name.contains("/origin/") && !name.contains("/received/")
    });
    for (name, bytes) in &mut all {
        if name.ends_with("scores.jsonl") {
            let text = String::from_utf8(bytes.clone()).unwrap();
            let lines = text.lines().map(|line| {
                let mut line: Value = serde_json::from_str(line).unwrap();
                line["unet_calls"] = 0.into();
                line["seconds"] = 0.into();
                format!("{line}\n")
            });
            *bytes = lines.collect::<String>().into_bytes();
        }
    }
    all
}

/// The tables of a report but for those of costs and of who made the pictures.
pub fn tables(run: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("report");
    let mut command = crate::program::prepose();
    command.arg("report").arg(run).arg("--out").arg(&out);
    finish(command);
    let mut all = files(&out);
    all.retain(|name, _| {
        let ending = name
            .extension()
            .and_then(|ending| ending.to_str())
            .unwrap_or_default();
        let name = name.to_string_lossy();
        matches!(ending, "csv" | "svg") && !name.contains("cost") && !name.contains("settings")
    });
    assert!(all.len() > 3, "{:?}", all.keys());
    all
}

/// Makes sure that two runs came to the same, byte for byte.
pub fn same(run: &Path, engine: &Path) {
    for (ours, theirs) in [
        (results(run), results(engine)),
        (tables(run), tables(engine)),
    ] {
        let names = |files: &BTreeMap<PathBuf, _>| files.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&ours), names(&theirs));
        for (name, bytes) in ours {
            let same = bytes == theirs[&name];
            let (a, b) = (
                String::from_utf8_lossy(&bytes),
                String::from_utf8_lossy(&theirs[&name]),
            );
            assert!(same, "{}:\n{a:.2000}\n{b:.2000}", name.display());
        }
    }
}
