//! A method's samples, and the files of the released bundle that they are folded into.
//!
//! What is written follows from the samples alone, times included, so that two copies of a run, or one that is killed
//! and goes on, write the same bytes.

use std::collections::HashMap;

use serde_json::json;

use super::state::{Finished, State};
use super::{FolderError, RunFolder};
use crate::check::json;
use crate::check::seal;
use crate::check::spatialbench::results::summary_files;
use crate::check::spatialbench::{Buckets, Provenance, Record};
use crate::output::manifest::ManifestLine;
use crate::store::Entry;
use crate::store::ledger::{LEDGER, Listed, Look};
use crate::suite::plan::Job;
use crate::suite::sample::Sample;

/// What a method's samples come to.
#[derive(Default)]
struct Folded {
    manifest: String,
    scores: String,
    lines: String,
    records: Vec<Record>,
    /// The newest line of the manifest.
    newest: Option<ManifestLine>,
    /// What is listed of the pictures and of what is beside them, and the digests of their lines.
    files: Vec<(String, Listed)>,
    /// Pictures whose files are not known: their ids, the digests of their lines, and what to remember.
    unknown: HashMap<String, (String, String)>,
    jobs: usize,
}

impl Folded {
    fn add(&mut self, picture: &str, finished: Finished) -> Result<(), FolderError> {
        let Finished { sample, files } = finished;
        self.jobs += 1;
        let digest = seal::digest(&sample)?;
        if files.is_empty() {
            let id = sample.manifest.sample_id.clone();
            self.unknown.insert(id, (digest, note(&sample)));
        } else {
            for (name, mut listed) in files {
                let is_picture = name == picture;
                listed.lines = is_picture.then(|| digest.clone());
                listed.note = is_picture.then(|| note(&sample));
                self.files.push((name, listed));
            }
        }
        self.manifest += &json::to_line(&sample.manifest)?;
        self.manifest.push('\n');
        self.scores += &json::to_line(&sample.scores)?;
        self.scores.push('\n');
        for mut record in sample.records {
            self.lines += &json::to_line(&record)?;
            self.lines.push('\n');
            // The tables do not need what was found, and it is most of what a record holds.
            record.detectors.primary.detections = Vec::new();
            record.detectors.secondary = None;
            self.records.push(record);
        }
        let line = sample.manifest;
        if self
            .newest
            .as_ref()
            .is_none_or(|newest| newest.timestamp_utc <= line.timestamp_utc)
        {
            self.newest = Some(line);
        }
        Ok(())
    }
}

/// Where the metrics of pictures come from, of which this is the newest one's line: they are as old as that.
pub(in crate::suite) fn provenance_of(newest: Option<&ManifestLine>) -> Provenance {
    let time = newest.map_or("", |line| line.timestamp_utc.as_str());
    Provenance {
        timestamp_utc: time.replace('Z', "+00:00"),
        manifest: Some("../manifest.jsonl".into()),
        config: None,
        code_version: json!({
            "prepose": newest.map(|line| &line.code_version.prepose),
            "git_commit": newest.and_then(|line| line.code_version.git_commit.as_ref()),
        }),
    }
}

/// What was measured when a picture was made, and what making it again would not bring back: when, and how fast.
fn note(sample: &Sample) -> String {
    let Sample {
        manifest, scores, ..
    } = sample;
    format!("{} {}", manifest.timestamp_utc, scores.seconds)
}

/// The sample of a picture that was made again as it was noted, if it is the same but for that.
pub(super) fn as_noted(sample: &Sample, listed: &Listed) -> Option<Sample> {
    let (time, seconds) = listed.note.as_ref()?.split_once(' ')?;
    let mut before = sample.clone();
    before.manifest.timestamp_utc = time.into();
    before.scores.seconds = seconds.parse().ok()?;
    let digest = seal::digest(&before).ok()?;
    (listed.lines.as_ref() == Some(&digest)).then_some(before)
}

impl RunFolder {
    /// The samples of a method that are there, in the order of the plan, one at a time.
    ///
    /// # Errors
    /// The store's.
    pub fn samples(
        &self,
        method: usize,
        mut each: impl FnMut(Sample) -> Result<(), FolderError>,
    ) -> Result<(), FolderError> {
        self.finished(method, |job, finished| {
            let index = job.index;
            each(Sample {
                index,
                ..finished.sample
            })
        })
    }

    /// Folds a method's samples, all of which must be there, into the files of the released bundle, and removes them. If another
    /// command has made the run larger meanwhile, they are folded with what it has made, or left to it until it has made all.
    ///
    /// # Errors
    /// The store's. Nothing is removed then.
    pub fn fold(&self, method: usize) -> Result<(), FolderError> {
        if let Some(now) = self.grown()? {
            let name = self.method_folder(method);
            let mut methods = now.plan.config.methods.iter();
            return match methods.position(|method| method.name == name) {
                Some(method) => now.fold_if_whole(method),
                None => Ok(()),
            };
        }
        let all = self.possible(method)?;
        let mut tries = 0..8;
        loop {
            match self.write(method, all, |each| self.finished(method, each)) {
                // Another copy of the run folded them and removed them while they were read here.
                Err(FolderError::Incomplete { .. })
                    if tries.next().is_some() && self.lacking(method)? == 0 => {}
                written => break written?,
            }
        }
        self.tidy(method)
    }

    /// Writes a method's files of the released bundle, from the samples that `give` hands over in the order of the
    /// plan, at least so many; and lists them.
    pub(in crate::suite) fn write<E: From<FolderError>>(
        &self,
        method: usize,
        at_least: usize,
        give: impl FnOnce(&mut dyn FnMut(Job, Finished) -> Result<(), FolderError>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut folded = Folded::default();
        give(&mut |job, finished| folded.add(&self.picture_name(job), finished))?;
        if folded.jobs < at_least {
            let incomplete = FolderError::Incomplete {
                method: self.method_folder(method).into(),
                missing: at_least - folded.jobs,
                location: self.store.location(),
            };
            return Err(incomplete.into());
        }
        Ok(self.write_folded(method, folded)?)
    }

    fn write_folded(&self, method: usize, mut folded: Folded) -> Result<(), FolderError> {
        let files = self.bundle(method, &mut folded)?;
        // What the ledger says stays true at any instant.
        self.change_ledger(|ledger| {
            let new = files
                .iter()
                .map(|(name, text)| (name, Listed::of(text.as_bytes())));
            for (name, new) in new {
                if ledger.get(name).is_some_and(|old| old.sha256 != new.sha256) {
                    ledger.remove(name);
                }
            }
            for (name, new) in &folded.files {
                let changed = |old: &Listed| old.sha256 != new.sha256 || old.lines != new.lines;
                if ledger.get(name).is_some_and(changed) {
                    ledger.remove(name);
                }
            }
        })?;
        for (name, text) in &files {
            self.store.put(name, text.as_bytes())?;
        }
        let entries = self.store.list(self.method_folder(method))?;
        let mut listed = self.unknown(method, &folded.unknown, &entries)?;
        listed.append(&mut folded.files);
        let texts = files
            .iter()
            .map(|(name, text)| (name.clone(), Listed::of(text.as_bytes())));
        listed.extend(texts);
        self.change_ledger(|ledger| {
            for (name, listed) in listed {
                ledger.insert(name, listed);
            }
            ledger.take_times(&entries);
        })?;
        let mut names: Vec<String> = files.into_iter().map(|(name, _)| name).collect();
        names.push(LEDGER.into());
        Ok(self.store.keep(&names)?)
    }

    /// The files of the released bundle; the manifest, which makes them count, comes last.
    fn bundle(
        &self,
        method: usize,
        folded: &mut Folded,
    ) -> Result<Vec<(String, String)>, FolderError> {
        let mut files = vec![(
            "scores.jsonl".to_string(),
            std::mem::take(&mut folded.scores),
        )];
        if let Some(checker) = &self.plan.config.checker {
            files.push(("per_sample.jsonl".into(), std::mem::take(&mut folded.lines)));
            files.push(("checker_config.yaml".into(), checker.config_file()));
            let provenance = provenance_of(folded.newest.as_ref());
            let records = &folded.records;
            files.extend(summary_files(
                records,
                Buckets::default(),
                &provenance,
                "metrics.json",
            )?);
        }
        let mut files: Vec<_> = (files.into_iter())
            .map(|(name, text)| (self.eval(method, &name), text))
            .collect();
        files.push((
            self.manifest_name(method),
            std::mem::take(&mut folded.manifest),
        ));
        Ok(files)
    }

    /// The files of pictures of which nothing is listed, as they are.
    fn unknown(
        &self,
        method: usize,
        pictures: &HashMap<String, (String, String)>,
        entries: &[Entry],
    ) -> Result<Vec<(String, Listed)>, FolderError> {
        let mut listed = Vec::new();
        if pictures.is_empty() {
            return Ok(listed);
        }
        let own = format!("{}/", self.method_folder(method));
        for entry in entries {
            let of = super::state::id_of(&own, &entry.name);
            let Some((lines, note)) = of.as_ref().and_then(|id| pictures.get(id)) else {
                continue;
            };
            let is_picture = entry.name[own.len()..].starts_with("images/");
            let beside = ["maps/", "origin/"];
            if !is_picture
                && !beside
                    .iter()
                    .any(|folder| entry.name[own.len()..].starts_with(folder))
            {
                continue;
            }
            if let Some(bytes) = self.store.get(&entry.name)? {
                let mut file = Listed::of(&bytes);
                file.lines = is_picture.then(|| lines.clone());
                file.note = is_picture.then(|| note.clone());
                listed.push((entry.name.clone(), file));
            }
        }
        Ok(listed)
    }

    /// [`fold`](Self::fold), unless pictures are missing, which were not asked for.
    ///
    /// # Errors
    /// As [`fold`](Self::fold).
    pub fn fold_if_whole(&self, method: usize) -> Result<(), FolderError> {
        match self.lacking(method)? {
            0 => self.fold(method),
            _ => Ok(()),
        }
    }

    /// Whether every picture that was asked for is there.
    ///
    /// # Errors
    /// As [`pending`](Self::pending).
    pub fn is_complete(&self) -> Result<bool, FolderError> {
        for method in 0..self.plan.config.methods.len() {
            if !self.pending(method)?.is_empty() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Folds what is complete and not yet folded, and what is folded and not as it was written, and removes what was received
    /// and is of no use any more; a run may have been killed before it could.
    ///
    /// # Errors
    /// As [`fold`](Self::fold).
    pub fn finish(&self) -> Result<(), FolderError> {
        let grown = self.grown()?;
        let run = grown.as_ref().unwrap_or(self);
        let mut methods = 0..run.plan.config.methods.len();
        methods.try_for_each(|method| run.finish_method(method, grown.is_some()))
    }

    /// The same of one method. Of one that lacks pictures nothing is folded if `others` are making them.
    fn finish_method(&self, method: usize, others: bool) -> Result<(), FolderError> {
        self.tidy_received(method)?;
        let state = self.state(method, Look::Quick)?;
        let done = self.done(&state)?;
        let refused = self.refused_in(&state);
        let all = self.plan.jobs(method).all(|job| {
            let id = self.plan.sample_id(job);
            done.ids.contains(&id) || refused.contains(&id)
        });
        let folded = state.ledger.get(&self.manifest_name(method)).is_some();
        let eval = format!("{}/eval/", self.method_folder(method));
        let samples = format!("{}/samples/", self.method_folder(method));
        let as_written = self
            .line_files(method)
            .iter()
            .chain([&self.last_summary(method)])
            .all(|name| state.ledger.get(name).is_some())
            && state.damage.iter().all(|damage| {
                damage.name != self.manifest_name(method) && !damage.name.starts_with(&eval)
            });
        let in_files = || (done.ids.iter()).all(|id| done.lines.contains(id));
        if as_written && (!all || in_files()) {
            self.take_times(&state)?;
            if state.entries.keys().any(|name| name.starts_with(&samples)) {
                self.tidy(method)?;
            }
        } else if all {
            self.fold(method)?;
        } else if folded && !others {
            // Of a run that has grown since.
            self.write(method, 0, |each| self.finished(method, each))?;
        }
        Ok(())
    }

    /// Lists the times of files that were looked into because theirs were others, and found to be as they were written.
    fn take_times(&self, state: &State) -> Result<(), FolderError> {
        let other = |entry: &&Entry| {
            let listed = state.ledger.get(&entry.name);
            listed.is_some_and(|listed| listed.modified != entry.modified)
        };
        let entries: Vec<Entry> = (state.entries.values())
            .filter(|entry| other(entry) && state.is_whole(&entry.name))
            .cloned()
            .collect();
        match entries.is_empty() {
            true => Ok(()),
            false => self.change_ledger(|ledger| {
                ledger.take_times(&entries);
            }),
        }
    }

    /// The file of the released bundle that is written before the manifest.
    fn last_summary(&self, method: usize) -> String {
        match self.plan.config.checker {
            Some(_) => self.eval(method, "metrics.json"),
            None => self.eval(method, "scores.jsonl"),
        }
    }

    /// Removes the samples that are folded.
    ///
    /// # Errors
    /// The store's.
    pub fn tidy(&self, method: usize) -> Result<(), FolderError> {
        let state = self.state(method, Look::Quick)?;
        let done = self.done(&state)?.lines;
        let names: Vec<String> = (self.plan.jobs(method))
            .filter(|job| done.contains(&self.plan.sample_id(*job)))
            .map(|job| self.sample_name(job))
            .filter(|name| state.entries.contains_key(name))
            .collect();
        Ok(self.store.remove_all(&names)?)
    }
}
