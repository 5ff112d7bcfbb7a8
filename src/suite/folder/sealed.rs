//! Finished pictures that no other file of the method tells of yet: their samples, sealed with what lies beside them.

use std::collections::HashMap;

use super::state::{Finished, State};
use super::{FolderError, RunFolder};
use crate::check::seal::Sealed;
use crate::store::ledger::{Listed, Look};
use crate::suite::plan::Job;
use crate::suite::sample::Sample;

impl RunFolder {
    /// Those of some jobs whose files in `samples/` are there, and they and theirs as they were written, by the jobs'
    /// indices.
    pub(super) fn sealed(
        &self,
        state: &State,
        jobs: &[Job],
    ) -> Result<HashMap<usize, Finished>, FolderError> {
        let named = jobs.iter().map(|job| (job, self.sample_name(*job)));
        let there: Vec<(&Job, String)> = named
            .filter(|(_, name)| state.entries.contains_key(name))
            .collect();
        let names: Vec<String> = there.iter().map(|(_, name)| name.clone()).collect();
        let mut found = HashMap::new();
        for ((job, name), bytes) in there.iter().zip(self.store.get_all(&names)?) {
            let Some(sealed) = bytes.and_then(|bytes| Sealed::read(&bytes)) else {
                continue;
            };
            let written = state.entries[name].modified;
            if sealed.sample.manifest.sample_id == self.plan.sample_id(**job)
                && let Some(files) = self.sealed_files(state, **job, &sealed, written)?
            {
                let sample = Sample {
                    index: job.index,
                    ..sealed.sample
                };
                found.insert(job.index, Finished { sample, files });
            }
        }
        Ok(found)
    }

    /// The files that a seal names, if they are as they were when it was `written`.
    fn sealed_files(
        &self,
        state: &State,
        job: Job,
        sealed: &Sealed,
        written: Option<i64>,
    ) -> Result<Option<Vec<(String, Listed)>>, FolderError> {
        let folder = self.method_folder(job.method);
        let mut files = Vec::with_capacity(sealed.files.len());
        for file in &sealed.files {
            let name = format!("{folder}/{}", file.name);
            let Some(entry) = state
                .entries
                .get(&name)
                .filter(|entry| entry.bytes == file.bytes)
            else {
                return Ok(None);
            };
            let listed = Listed {
                bytes: file.bytes,
                sha256: file.sha256.clone(),
                modified: entry.modified,
                lines: None,
                note: None,
                text: None,
            };
            // The files are written before the seal.
            let older = entry
                .modified
                .zip(written)
                .is_some_and(|(file, seal)| file <= seal);
            if (state.look == Look::Whole || !older)
                && !self
                    .store
                    .get(&name)?
                    .is_some_and(|bytes| listed.is(&bytes))
            {
                return Ok(None);
            }
            files.push((name, listed));
        }
        let picture = self.picture_name(job);
        Ok(files
            .iter()
            .any(|(name, _)| *name == picture)
            .then_some(files))
    }
}
