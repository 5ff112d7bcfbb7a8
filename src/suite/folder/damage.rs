//! What of a run is not as it was written.

use super::{FolderError, RunFolder};
use crate::check::seal::Sealed;
use crate::store::Entry;
use crate::store::ledger::{Damage, Fault, LEDGER, Listed, Look, is_folder};
use crate::suite::shard::Shard;

impl RunFolder {
    /// Every finished file that is not as it was written, or of which that is not known.
    ///
    /// # Errors
    /// The store's.
    pub fn damage(&self, look: Look) -> Result<Vec<Damage>, FolderError> {
        let ledger = self.ledger()?;
        let entries = self.own_entries()?;
        let mut found = ledger.faults(&*self.store, "", &entries, look, |_| true)?;
        // Of a grown run, what is being replaced is in no ledger, and these were found to be other than it said.
        found.extend(self.news.settings.iter().cloned());
        for method in 0..self.plan.config.methods.len() {
            found.extend(self.damaged_samples(method, look)?);
            if !ledger.is_empty() {
                found.extend(self.unlisted(method)?);
            }
        }
        found.extend(ledger.damaged());
        if ledger.is_empty() && ledger.damaged().is_none() {
            found.push(Damage {
                name: LEDGER.into(),
                fault: match is_folder(&*self.store, LEDGER) {
                    true => Fault::Folder,
                    false => Fault::Deleted,
                },
            });
        }
        found.sort();
        found.dedup_by(|a, b| a.name == b.name);
        Ok(found)
    }

    /// The files in the run's folder but for those of shards in it.
    fn own_entries(&self) -> Result<Vec<Entry>, FolderError> {
        let mut entries = self.store.list("")?;
        entries.retain(|entry| {
            let folder = entry.name.split('/').next().unwrap_or_default();
            Shard::of_folder(folder).is_none()
        });
        Ok(entries)
    }

    /// Files in `samples/` that are not as they were written, and files that they seal and that are not.
    fn damaged_samples(&self, method: usize, look: Look) -> Result<Vec<Damage>, FolderError> {
        let state = self.state(method, look)?;
        let done = self.done(&state)?.ids;
        let mut found = Vec::new();
        for job in self.plan.jobs(method) {
            let name = self.sample_name(job);
            let Some(entry) = state.entries.get(&name) else {
                continue;
            };
            if done.contains(&self.plan.sample_id(job)) {
                continue;
            }
            let fault = |name: String, fault| Damage { name, fault };
            let bytes = self.store.get(&name)?.unwrap_or_default();
            let Some(sealed) = Sealed::read(&bytes) else {
                found.push(fault(
                    name,
                    match entry.bytes {
                        0 => Fault::Emptied,
                        _ => Fault::Changed,
                    },
                ));
                continue;
            };
            let before = found.len();
            for file in sealed.files {
                let file_name = format!("{}/{}", self.method_folder(method), file.name);
                let listed = Listed {
                    sha256: file.sha256,
                    bytes: file.bytes,
                    ..Listed::of(b"")
                };
                let became = match self.store.get(&file_name)? {
                    None => Fault::Deleted,
                    Some(bytes) if listed.is(&bytes) => continue,
                    Some(bytes) => {
                        let size = listed.fault_of_size(bytes.len() as u64);
                        size.unwrap_or(Fault::Changed)
                    }
                };
                found.push(fault(file_name, became));
            }
            if found.len() == before {
                // It seals another picture.
                found.push(fault(name, Fault::Changed));
            }
        }
        Ok(found)
    }

    /// Files of a method that a finished run lists and that this one does not.
    fn unlisted(&self, method: usize) -> Result<Vec<Damage>, FolderError> {
        let state = self.state(method, Look::Quick)?;
        let unlisted = |name: String| {
            let new = state.ledger.get(&name).is_none() && state.entries.contains_key(&name);
            new.then_some(Damage {
                name,
                fault: Fault::Unlisted,
            })
        };
        let mut found: Vec<Damage> = self
            .line_files(method)
            .into_iter()
            .filter_map(unlisted)
            .collect();
        if found.is_empty() {
            let lines = self.done(&state)?.lines;
            let pictures = self
                .plan
                .jobs(method)
                .filter(|job| lines.contains(&self.plan.sample_id(*job)));
            found.extend(pictures.filter_map(|job| unlisted(self.picture_name(job))));
        }
        Ok(found)
    }
}
