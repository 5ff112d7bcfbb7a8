//! What people say of the pictures, and how far the checker agrees with them.

use std::path::Path;

use super::error::SourceError;
use super::model::Report;
use prepose_check::audit::curve::{Point, ZeroCoverage, curve, every_threshold};
use prepose_check::audit::join::Audit;
use prepose_check::audit::labels::{self, Label};
use prepose_check::spatialbench::Record;
use prepose_store::{self as store, Store};

/// What the labelling page calls its export.
const FILE: &str = "labels_filled.json";

/// The folders that audits lie in.
const FOLDERS: [&str; 2] = ["audit", "audits"];

/// Adds the labels in the `audit` or `audits` in a run, or beside it or a method's folder. The first label of a picture counts.
pub fn add_beside(location: &str, all: &mut Vec<Label>) -> Result<(), SourceError> {
    add_from(store::open(location)?.as_ref(), all)?;
    let beside = Path::new(location).canonicalize().ok();
    let parent = beside
        .as_deref()
        .and_then(Path::parent)
        .filter(|_| !location.contains("://"));
    match parent {
        Some(parent) if FOLDERS.iter().any(|name| parent.join(name).is_dir()) => {
            add_from(store::open(&parent.to_string_lossy())?.as_ref(), all)
        }
        _ => Ok(()),
    }
}

fn add_from(store: &dyn Store, all: &mut Vec<Label>) -> Result<(), SourceError> {
    for folder in FOLDERS {
        for entry in store.list(folder)? {
            if entry.name.rsplit('/').next() != Some(FILE) {
                continue;
            }
            let Some(bytes) = store.get(&entry.name)? else {
                continue;
            };
            let read = labels::read(&String::from_utf8_lossy(&bytes));
            add(
                read.map_err(|error| super::error::broken(store, &entry.name, error.to_string()))?,
                all,
            );
        }
    }
    Ok(())
}

/// Adds labels of pictures that have none.
pub fn add(labels: Vec<Label>, all: &mut Vec<Label>) {
    let known: std::collections::HashSet<String> =
        all.iter().map(|label| label.sample_id.clone()).collect();
    all.extend(
        labels
            .into_iter()
            .filter(|label| !known.contains(&label.sample_id)),
    );
}

/// Risk–coverage curves, one for each margin that the labelled pictures' records were decided with: a name and its points. Empty if no
/// picture of the report has a label.
///
/// # Errors
/// Why labels and records do not go together.
pub fn curves(report: &Report) -> Result<Vec<(String, Vec<Point>)>, String> {
    let labelled: std::collections::HashSet<&str> = report
        .labels
        .iter()
        .map(|label| label.sample_id.as_str())
        .collect();
    let records: Vec<Record> = report
        .methods
        .iter()
        .flat_map(|method| {
            let others = method.others.iter().flat_map(|(_, records)| records);
            method.records.iter().chain(others)
        })
        .filter(|record| labelled.contains(record.sample_id.as_str()))
        .cloned()
        .collect();
    if records.is_empty() {
        return Ok(Vec::new());
    }
    let audit =
        Audit::new(records, &report.labels, None, true).map_err(|error| error.to_string())?;
    let margins = audit.margins();
    let curve_of = |margin: &f64| {
        let judgements = audit.judgements(*margin);
        let thresholds = every_threshold(&judgements);
        let points = curve(
            &judgements,
            audit.pictures.len(),
            &thresholds,
            ZeroCoverage::Safe,
        );
        (format!("margin {margin}"), points)
    };
    // The larger margin first: it is the calibrated one.
    Ok(margins.iter().rev().map(curve_of).collect())
}
