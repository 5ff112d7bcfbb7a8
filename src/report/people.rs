//! What people say of the pictures, and how far the checker agrees with them.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use super::error::SourceError;
use super::model::Report;
use prepose_check::audit::curve::{Point, ZeroCoverage, curve, every_threshold};
use prepose_check::audit::join::{Audit, JoinError};
use prepose_check::audit::labels::{self, Label};
use prepose_check::spatialbench::Record;
use prepose_store::{self as store, Store};

/// What the labelling page calls its export.
const FILE: &str = "labels_filled.json";

/// The folders that audits lie in.
const FOLDERS: [&str; 2] = ["audit", "audits"];

/// The labels of one file, or those that are given, and the runs whose pictures they may be of.
pub(crate) struct Export {
    /// Where it lies; empty of those that are given.
    file: String,
    /// In [`Report::runs`].
    runs: Vec<usize>,
    labels: Vec<Label>,
}

impl Export {
    /// Labels that may be of the pictures of all `runs`.
    pub fn given(labels: Vec<Label>, runs: usize) -> Self {
        Self {
            file: String::new(),
            runs: (0..runs).collect(),
            labels,
        }
    }
}

/// Adds the labels in the `audit` or `audits` in a run, or beside it or a method's folder.
pub(crate) fn add_beside(
    store: &dyn Store,
    run: usize,
    all: &mut Vec<Export>,
) -> Result<(), SourceError> {
    add_from(store, run, all)?;
    let location = store.location();
    let beside = Path::new(&location).canonicalize().ok();
    let parent = beside
        .as_deref()
        .and_then(Path::parent)
        .filter(|_| !location.contains("://"));
    match parent {
        Some(parent) if FOLDERS.iter().any(|name| parent.join(name).is_dir()) => {
            add_from(store::open(&parent.to_string_lossy())?.as_ref(), run, all)
        }
        _ => Ok(()),
    }
}

fn add_from(store: &dyn Store, run: usize, all: &mut Vec<Export>) -> Result<(), SourceError> {
    let location = store.location();
    let whole = Path::new(&location).canonicalize();
    let whole = whole.map_or(location, |path| path.to_string_lossy().into_owned());
    for folder in FOLDERS {
        for entry in store.list(folder)? {
            if entry.name.rsplit('/').next() != Some(FILE) {
                continue;
            }
            let file = format!("{whole}/{}", entry.name);
            if let Some(known) = all.iter_mut().find(|known| known.file == file) {
                known.runs.push(run);
                continue;
            }
            let Some(bytes) = store.get(&entry.name)? else {
                continue;
            };
            let read = labels::read(&String::from_utf8_lossy(&bytes));
            all.push(Export {
                file,
                runs: vec![run],
                labels: read
                    .map_err(|error| super::error::broken(store, &entry.name, error.to_string()))?,
            });
        }
    }
    Ok(())
}

/// Gives each label to its picture: the one in the file's runs that has its name, or a record of its name. Where several have
/// it, nobody knows which of them people saw. The first label of a name counts.
pub(crate) fn attach(report: &mut Report, exports: &[Export]) {
    let names = exports.iter().flat_map(|export| &export.labels);
    let mut places: HashMap<&str, Vec<[usize; 3]>> = names
        .map(|label| (label.sample_id.as_str(), Vec::new()))
        .collect();
    for (at, method) in report.methods.iter().enumerate() {
        for (place, picture) in method.pictures.iter().enumerate() {
            let records = picture
                .records
                .iter()
                .map(|&i| &method.records[i].sample_id);
            let own: HashSet<&String> = records.chain([&picture.sample_id]).collect();
            for name in own {
                if let Some(there) = places.get_mut(name.as_str()) {
                    there.push([method.run, at, place]);
                }
            }
        }
    }
    for Export { runs, labels, .. } in exports {
        for label in labels {
            let there = places.get(label.sample_id.as_str()).into_iter().flatten();
            let there: Vec<[usize; 3]> = there
                .filter(|[run, ..]| runs.contains(run))
                .copied()
                .collect();
            match there[..] {
                [] => {}
                [[_, method, place]] => {
                    let known = &mut report.methods[method].pictures[place].labels;
                    if known.iter().all(|one| one.sample_id != label.sample_id) {
                        known.push(label.clone());
                    }
                }
                _ => report.ambiguous_labels += 1,
            }
        }
    }
}

/// Adds labels of pictures that have none.
pub fn add(labels: Vec<Label>, all: &mut Vec<Label>) {
    let known: HashSet<String> = all.iter().map(|label| label.sample_id.clone()).collect();
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
    let mut audit = Audit {
        pictures: Vec::new(),
        left_out: 0,
    };
    // Run by run, as pictures of several runs may have the same name.
    for run in 0..report.runs.len() {
        let of_run = audit_of(report, run).map_err(|error| error.to_string())?;
        if let Some(Audit { pictures, left_out }) = of_run {
            audit.pictures.extend(pictures);
            audit.left_out += left_out;
        }
    }
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

/// The labelled pictures of a run; none if no record is of one.
fn audit_of(report: &Report, run: usize) -> Result<Option<Audit>, JoinError> {
    let methods = || {
        report
            .methods
            .iter()
            .filter(move |method| method.run == run)
    };
    let labels: Vec<Label> = methods()
        .flat_map(|method| &method.pictures)
        .flat_map(|picture| &picture.labels)
        .cloned()
        .collect();
    let labelled: HashSet<&str> = (labels.iter())
        .map(|label| label.sample_id.as_str())
        .collect();
    let records: Vec<Record> = methods()
        .flat_map(|method| {
            let others = method.others.iter().flat_map(|(_, records)| records);
            method.records.iter().chain(others)
        })
        .filter(|record| labelled.contains(record.sample_id.as_str()))
        .cloned()
        .collect();
    if records.is_empty() {
        return Ok(None);
    }
    Audit::new(records, &labels, None, true).map(Some)
}
