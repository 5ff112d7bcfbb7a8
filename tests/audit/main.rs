//! The audit against what Python makes of the same records (`scripts/reference/cases/audit.py`), against SpatialBench-UC's
//! released audit where that is at hand, and as a user meets it, wrong input first.
//!
//! `fixtures/audit` has the audited pictures of one released run. The whole runs are read from `$PREPOSE_SPATIALBENCH_UC`, or else
//! from `../shared/data/spatialbench-uc`.

mod commands;
mod figures;
mod released;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use prepose::check::json;
use prepose::check::spatialbench::{Record, read_records};
use serde_json::Value;

/// The lists of records, and the margins they were decided at.
const MARGINS: [(&str, f64); 2] = [("calibrated", 0.1), ("uncalibrated", 0.05)];

fn fixture(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/audit");
    folder.join(name)
}

fn text(name: &str) -> String {
    fs::read_to_string(fixture(name)).unwrap()
}

fn path(name: &str) -> String {
    fixture(name).to_str().unwrap().to_owned()
}

fn records(name: &str) -> Vec<Record> {
    read_records(&text(&format!("{name}.jsonl"))).unwrap()
}

fn expected() -> Value {
    json::from_str(&text("expected.json")).unwrap()
}

fn float(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

fn prepose(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_prepose"))
        .args(args)
        .current_dir(folder)
        .env_remove("RUST_LOG")
        .output()
        .unwrap()
}

#[track_caller]
fn works(folder: &Path, args: &[&str]) -> String {
    let output = prepose(folder, args);
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {message}");
    String::from_utf8(output.stdout).unwrap()
}

/// The command fails with code 2 and one message that contains each of `parts`, and writes nothing.
#[track_caller]
fn refuses(folder: &Path, args: &[&str], parts: &[&str]) {
    let before = fs::read_dir(folder).unwrap().count();
    let output = prepose(folder, args);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
    assert!(!message.contains("panicked"), "{message}");
    for part in parts {
        assert!(
            message.contains(part),
            "{args:?}: {message:?} lacks {part:?}"
        );
    }
    assert_eq!(
        fs::read_dir(folder).unwrap().count(),
        before,
        "{args:?} left something"
    );
}
