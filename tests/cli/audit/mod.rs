//! The audit against what Python makes of the same records (`scripts/reference/cases/audit.py`), against SpatialBench-UC's
//! released audit, and as a user meets it, wrong input first.
//!
//! `fixtures/audit` has the audited pictures of one released run. The whole runs are in the benchmark's released data.

mod commands;
mod figures;
mod people;
mod released;

use std::fs;
use std::path::PathBuf;

use prepose::check::json;
use prepose::check::spatialbench::{Record, read_records};
use serde_json::Value;

/// The lists of records, and the margins they were decided at.
const MARGINS: [(&str, f64); 2] = [("calibrated", 0.1), ("uncalibrated", 0.05)];

fn fixture(name: &str) -> PathBuf {
    crate::support::fixture("audit").join(name)
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
