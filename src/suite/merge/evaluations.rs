//! A checker's records of pictures that it looked at again, in folders beside the run's own.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use super::beside::{Evaluation, OVERLAYS, Why};
use super::{Found, MergeError};
use crate::check::spatialbench::results::{TABLES, summary_files};
use crate::check::spatialbench::{Buckets, RecordError, read_records};
use crate::store::Store;
use crate::suite::folder::{FolderError, RunFolder, provenance_of};
use crate::suite::plan::Plan;
use crate::suite::sample::sample_of;

const RECORDS: &str = "per_sample.jsonl";
const SETTINGS: &str = "checker_config.yaml";
const METRICS: &str = "metrics.json";

/// Whether a file of an evaluation's folder is joined, or made anew of what is.
pub(super) fn is_joined(file: &str) -> bool {
    let folder = file.split_once('/').map(|(folder, _)| folder);
    [RECORDS, SETTINGS, METRICS].contains(&file) || [Some(TABLES), Some(OVERLAYS)].contains(&folder)
}

/// The records of all shards.
pub(super) struct Joined {
    /// The lines, in the order of the plan.
    records: String,
    /// The checker's configuration, if it lies beside them.
    settings: Option<Vec<u8>>,
}

/// The lines of an evaluation, by the pictures that they are about.
type Lines = HashMap<String, Vec<String>>;

/// The records of all shards together, or why they are not those of the whole run's pictures. `samples` are the
/// method's pictures.
pub(super) fn joined(
    shards: &[RunFolder],
    plan: &Plan,
    samples: &[Found],
    evaluation: &Evaluation,
) -> Result<Result<Joined, Why>, MergeError> {
    let mut all = Lines::new();
    let mut is_there = vec![false; shards.len()];
    let mut settings: Option<Option<Vec<u8>>> = None;
    for &place in &evaluation.places {
        let store = shards[place].store();
        let get = |file: &str| store.get(&format!("{}/{file}", evaluation.folder));
        let Some(bytes) = get(RECORDS)? else { continue };
        is_there[place] = true;
        let Some(lines) = std::str::from_utf8(&bytes).ok().and_then(by_picture) else {
            return Ok(Err(Why::Broken(store.location())));
        };
        for (id, lines) in lines {
            match all.entry(id) {
                Entry::Vacant(new) => {
                    new.insert(lines);
                }
                // The same shard twice, from two machines.
                Entry::Occupied(there) if *there.get() == lines => {}
                Entry::Occupied(there) => return Ok(Err(Why::Differing(there.key().clone()))),
            }
        }
        let own = get(SETTINGS)?;
        match &settings {
            Some(settings) if *settings != own => return Ok(Err(Why::Settings)),
            Some(_) => {}
            None => settings = Some(own),
        }
    }
    Ok(
        in_order(shards, plan, samples, all, &is_there).map(|records| Joined {
            records,
            settings: settings.flatten(),
        }),
    )
}

/// The lines in the order of the method's pictures. `is_there` says which shards have a file of records.
fn in_order(
    shards: &[RunFolder],
    plan: &Plan,
    samples: &[Found],
    mut lines: Lines,
    is_there: &[bool],
) -> Result<String, Why> {
    let location = |place: usize| shards[place].store().location();
    // A detector with fewer words says nothing of a prompt's pictures, but then of none of them.
    let told: HashSet<usize> = (samples.iter())
        .filter(|(_, _, finished)| lines.contains_key(&finished.sample.manifest.sample_id))
        .map(|(_, job, _)| job.prompt)
        .collect();
    let mut text = String::new();
    for (place, job, finished) in samples {
        let sample = &finished.sample;
        let id = &sample.manifest.sample_id;
        // Where the run's own checker has something to say, so has another.
        let is_checked = plan.config.checker.is_some();
        let is_due = !is_checked || !sample.records.is_empty();
        match lines.remove(id) {
            Some(lines) => {
                for line in lines {
                    text.push_str(&line);
                    text.push('\n');
                }
            }
            None if is_due && !is_there[*place] => return Err(Why::Lacking(location(*place))),
            None if is_due && is_checked && told.contains(&job.prompt) => {
                return Err(Why::Silent(id.clone()));
            }
            None => {}
        }
    }
    match lines.into_keys().min() {
        Some(id) => Err(Why::Strange(id)),
        None if text.is_empty() => Err(Why::Lacking(location(0))),
        None => Ok(text),
    }
}

/// The lines of a file of records; none if it is no such file.
fn by_picture(text: &str) -> Option<Lines> {
    let records = match read_records(text) {
        Ok(records) => records,
        // Of prompts without relations.
        Err(RecordError::Empty) => Vec::new(),
        Err(_) => return None,
    };
    let mut all = Lines::new();
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    for (record, line) in records.iter().zip(lines) {
        let id = sample_of(&record.sample_id).to_owned();
        all.entry(id).or_default().push(line.to_owned());
    }
    Some(all)
}

impl Joined {
    /// Writes the records into a folder of the joined run, with the metrics and tables that follow from them.
    pub fn write(self, out: &dyn Store, folder: &str, samples: &[Found]) -> Result<(), MergeError> {
        let records = read_records(&self.records).unwrap_or_default();
        let newest = (samples.iter())
            .map(|(_, _, finished)| &finished.sample.manifest)
            .max_by(|a, b| a.timestamp_utc.cmp(&b.timestamp_utc));
        let provenance = provenance_of(newest);
        let summary = summary_files(&records, Buckets::default(), &provenance, METRICS);
        let summary = summary.map_err(FolderError::from)?.into_iter();
        let settings = self.settings.map(|bytes| (SETTINGS.to_owned(), bytes));
        let files = settings
            .into_iter()
            .chain([(RECORDS.to_owned(), self.records.into_bytes())])
            .chain(summary.map(|(name, text)| (name, text.into_bytes())));
        for (name, bytes) in files {
            out.put(&format!("{folder}/{name}"), &bytes)?;
        }
        Ok(())
    }
}
