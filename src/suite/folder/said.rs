//! What is said of pictures that are there: read from the method's files, found lost, and written down again.

use std::collections::HashMap;

use super::state::State;
use super::{FolderError, RunFolder};
use crate::check::json;
use crate::check::seal;
use crate::check::spatialbench::{Record, read_records};
use crate::output::manifest::ManifestLine;
use crate::store::ledger::Look;
use crate::suite::plan::Job;
use crate::suite::sample::{Sample, Scores, sample_of};

impl RunFolder {
    /// The samples in a method's files whose lines are as they were written, by their ids.
    pub(super) fn folded(&self, state: &State) -> Result<HashMap<String, Sample>, FolderError> {
        let method = state.method;
        let folder = self.method_folder(method);
        let mut read = self.read_lines(method)?;
        let listed = state.ledger.get(&self.manifest_name(method)).is_some();
        let whole = |id: &String, sample: &mut Sample| {
            let picture = format!("{folder}/images/{id}.png");
            let known = state
                .ledger
                .get(&picture)
                .and_then(|listed| listed.lines.as_ref());
            match known {
                Some(known) => seal::digest(sample).is_ok_and(|digest| digest == *known),
                // A run of which nothing is listed yet.
                None => !listed && !sample.scores.sample_id.is_empty(),
            }
        };
        read.retain(whole);
        Ok(read)
    }

    /// The samples in a method's files, by their ids; what one of the files lacks is empty, and lines that cannot be
    /// read are passed over.
    pub(super) fn read_lines(&self, method: usize) -> Result<HashMap<String, Sample>, FolderError> {
        let manifest: Vec<ManifestLine> = self.lines(&self.manifest_name(method))?;
        if manifest.is_empty() {
            return Ok(HashMap::new());
        }
        let mut records: HashMap<String, Vec<Record>> = HashMap::new();
        for line in self.text(&self.eval(method, "per_sample.jsonl"))?.lines() {
            for record in read_records(line).unwrap_or_default() {
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

    /// Pictures of a method that are as they were written while what is said of them is not, with what is left of their
    /// lines. Those whose records alone were lost can be completed without being made again.
    pub(in crate::suite) fn unsaid(&self, jobs: &[Job]) -> Result<Vec<(Job, Sample)>, FolderError> {
        let Some(first) = jobs.first() else {
            return Ok(Vec::new());
        };
        let records = self.eval(first.method, "per_sample.jsonl");
        let state = self.state(first.method, Look::Quick)?;
        if state.is_whole(&records) || state.ledger.get(&records).is_none() {
            return Ok(Vec::new());
        }
        let mut left = self.read_lines(first.method)?;
        let mut found = Vec::new();
        for &job in jobs {
            let id = self.plan.sample_id(job);
            if self.has_picture(&state, &id)
                && let Some(sample) = left.remove(&id)
                && !sample.scores.sample_id.is_empty()
            {
                found.push((job, sample));
            }
        }
        Ok(found)
    }

    /// Writes down what is known of a picture that is there and listed, if that is what was known of it once.
    pub(in crate::suite) fn say_again(
        &self,
        job: Job,
        sample: &Sample,
    ) -> Result<bool, FolderError> {
        let ledger = self.ledger()?;
        let picture = ledger.get(&self.picture_name(job));
        let known = picture.and_then(|listed| listed.lines.as_ref());
        if known.is_none_or(|known| !seal::digest(sample).is_ok_and(|digest| digest == *known)) {
            return Ok(false);
        }
        let files = self.listed_in(&ledger, job.method, &self.plan.sample_id(job));
        self.seal(job, &files, sample)?;
        Ok(true)
    }

    /// The lines of a file that can be read; none if it is not there.
    pub(super) fn lines<T: serde::de::DeserializeOwned>(
        &self,
        name: &str,
    ) -> Result<Vec<T>, FolderError> {
        let text = self.text(name)?;
        Ok(text
            .lines()
            .filter_map(|line| json::from_str(line).ok())
            .collect())
    }

    /// A file's text; empty if it is not there.
    fn text(&self, name: &str) -> Result<String, FolderError> {
        let bytes = self.store.get(name)?.unwrap_or_default();
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}
