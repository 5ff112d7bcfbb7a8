//! A method's samples, and the files of the released bundle that they are folded into.

use std::collections::{HashMap, HashSet};

use super::{FolderError, RunFolder};
use crate::check::json;
use crate::check::spatialbench::results::summary_files;
use crate::check::spatialbench::{Buckets, Provenance, Record, RecordError, read_records};
use crate::suite::plan::Job;
use crate::suite::sample::{Sample, Scores, sample_of};

impl RunFolder {
    /// The samples of a method that are there, in the order of the plan, one at a time: from the run's files where they
    /// are folded, else from `samples/`.
    ///
    /// # Errors
    /// The store's; a broken file.
    pub fn samples(
        &self,
        method: usize,
        mut each: impl FnMut(Sample) -> Result<(), FolderError>,
    ) -> Result<(), FolderError> {
        let mut folded = self.folded(method)?;
        let there: HashSet<String> = (self.store)
            .list(&format!("{}/samples", self.method_folder(method)))?
            .into_iter()
            .map(|entry| entry.name)
            .collect();
        // Some at a time: stores read several files at once.
        let jobs: Vec<Job> = self.plan.jobs(method).collect();
        for jobs in jobs.chunks(256) {
            let names: Vec<String> = (jobs.iter().map(|job| self.sample_name(*job)))
                .filter(|name| there.contains(name))
                .collect();
            let mut read: HashMap<String, Vec<u8>> = (names.iter().cloned())
                .zip(self.store.get_all(&names)?)
                .filter_map(|(name, bytes)| Some((name, bytes?)))
                .collect();
            for job in jobs {
                let name = self.sample_name(*job);
                let sample = match read.remove(&name).filter(|bytes| !bytes.is_empty()) {
                    Some(bytes) => {
                        let text = String::from_utf8_lossy(&bytes);
                        let sample = Sample::from_line(&text);
                        Some(sample.map_err(|error| self.broken(&name, error.into()))?)
                    }
                    None => folded
                        .remove(&self.plan.sample_id(*job))
                        .map(|sample| Sample {
                            index: job.index,
                            ..sample
                        }),
                };
                if let Some(sample) = sample {
                    each(sample)?;
                }
            }
        }
        Ok(())
    }

    /// The samples in a method's files, by their ids.
    fn folded(&self, method: usize) -> Result<HashMap<String, Sample>, FolderError> {
        let manifest = self.folded_manifest(method)?;
        if manifest.is_empty() {
            return Ok(HashMap::new());
        }
        let mut records: HashMap<String, Vec<Record>> = HashMap::new();
        let name = self.eval(method, "per_sample.jsonl");
        if let Some(text) = self.text(&name)? {
            let read = match read_records(&text) {
                Err(RecordError::Empty) => Vec::new(),
                read => read.map_err(|error| self.broken(&name, error.into()))?,
            };
            for record in read {
                let id = sample_of(&record.sample_id).to_string();
                records.entry(id).or_default().push(record);
            }
        }
        let scores: Vec<Scores> = self.lines(&self.eval(method, "scores.jsonl"))?;
        let mut scores: HashMap<String, Scores> = (scores.into_iter())
            .map(|scores| (scores.sample_id.clone(), scores))
            .collect();
        let samples = manifest.into_iter().map(|manifest| {
            let id = manifest.sample_id.clone();
            let sample = Sample {
                index: 0,
                records: records.remove(&id).unwrap_or_default(),
                scores: scores.remove(&id).unwrap_or_default(),
                manifest,
            };
            (id, sample)
        });
        Ok(samples.collect())
    }

    /// Folds a method's samples, all of which must be there, into the files of the released bundle, and removes them.
    ///
    /// # Errors
    /// The store's; a broken sample. Nothing is removed then.
    pub fn fold(&self, method: usize) -> Result<(), FolderError> {
        let mut tries = 0..8;
        loop {
            match self.write(method, |each| self.samples(method, each)) {
                // Another copy of the run folded them and removed them while they were read here.
                Err(FolderError::Incomplete { .. })
                    if tries.next().is_some() && self.pending(method)?.is_empty() => {}
                written => break written?,
            }
        }
        self.tidy(method)
    }

    /// Writes a method's files of the released bundle, from the samples that `give` hands over in the order of the
    /// plan.
    pub(in crate::suite) fn write<E: From<FolderError>>(
        &self,
        method: usize,
        give: impl FnOnce(&mut dyn FnMut(Sample) -> Result<(), FolderError>) -> Result<(), E>,
    ) -> Result<(), E> {
        let (mut manifest, mut lines, mut scores) = (String::new(), String::new(), String::new());
        let mut records = Vec::new();
        let mut missing = self.plan.jobs(method).count();
        give(&mut |sample| {
            missing = missing.saturating_sub(1);
            manifest += &json::to_line(&sample.manifest)?;
            manifest.push('\n');
            scores += &json::to_line(&sample.scores)?;
            scores.push('\n');
            for mut record in sample.records {
                lines += &json::to_line(&record)?;
                lines.push('\n');
                // The tables do not need what was found, and it is most of what a record holds.
                record.detectors.primary.detections = Vec::new();
                record.detectors.secondary = None;
                records.push(record);
            }
            Ok(())
        })?;
        if missing > 0 {
            let incomplete = FolderError::Incomplete {
                method: self.method_folder(method).into(),
                missing,
                location: self.store.location(),
            };
            return Err(incomplete.into());
        }
        let put = |name: &str, text: String| {
            self.store
                .put(&self.eval(method, name), text.as_bytes())
                .map_err(FolderError::from)
        };
        put("scores.jsonl", scores)?;
        if let Some(checker) = &self.plan.config.checker {
            put("per_sample.jsonl", lines)?;
            put("checker_config.yaml", checker.config_file())?;
            let provenance = Provenance::now(
                Some("../manifest.jsonl".into()),
                None,
                option_env!("PREPOSE_GIT_COMMIT"),
            );
            let files = summary_files(&records, Buckets::default(), &provenance, "metrics.json");
            for (name, text) in files.map_err(FolderError::from)? {
                put(&name, text)?;
            }
        }
        let name = self.manifest_name(method);
        let put = self.store.put(&name, manifest.as_bytes());
        Ok(put.map_err(FolderError::from)?)
    }

    /// Whether every picture of this run is there.
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

    /// Folds what is complete and not yet folded; a run may have been killed before it could.
    ///
    /// # Errors
    /// As [`fold`](Self::fold).
    pub fn finish(&self) -> Result<(), FolderError> {
        for method in 0..self.plan.config.methods.len() {
            if !self.pending(method)?.is_empty() {
                continue;
            }
            match self.is_folded(method)? {
                true => self.tidy(method)?,
                false => self.fold(method)?,
            }
        }
        Ok(())
    }

    /// Removes the samples that are folded.
    ///
    /// # Errors
    /// The store's.
    pub fn tidy(&self, method: usize) -> Result<(), FolderError> {
        let folder = format!("{}/samples", self.method_folder(method));
        let names: Vec<_> = (self.store.list(&folder)?.into_iter())
            .map(|entry| entry.name)
            .collect();
        Ok(self.store.remove_all(&names)?)
    }
}
