//! What came from a source and is of no use any more.

use std::collections::HashSet;

use super::{FolderError, RunFolder};
use crate::store::ledger::Look;
use crate::suite::elsewhere;
use crate::suite::plan::Job;

/// The folder, within a method's, of what came and is not written down yet.
pub(in crate::suite) const RECEIVED: &str = "received";

impl RunFolder {
    /// Removes what was received for pictures of a method that are there or were refused: a run may be killed when a picture is
    /// written down and what it was made from is not yet removed. What belongs to a picture that is still to be made stays.
    ///
    /// # Errors
    /// The store's.
    pub fn tidy_received(&self, method: usize) -> Result<(), FolderError> {
        let Some(source) = self.plan.config.source.as_ref().filter(|s| s.is_dear()) else {
            return Ok(());
        };
        let folder = format!("{}/{RECEIVED}", self.method_folder(method));
        let own = format!("{folder}/");
        let mut names: Vec<String> = (self.store.list(&folder)?.into_iter())
            .map(|entry| entry.name)
            .filter(|name| name.strip_prefix(&own).is_some_and(is_name))
            .collect();
        if names.is_empty() {
            return Ok(());
        }
        // Looked at after the list: what another copy of the run receives meanwhile is not in it.
        let mut wanted = HashSet::new();
        for job in self.lacking_jobs(method)? {
            match elsewhere::names(&self.plan, source, job) {
                Some(names) => wanted.extend(names),
                // Nobody can tell what is its.
                None => return Ok(()),
            }
        }
        names.retain(|name| !wanted.contains(&name[own.len()..]));
        Ok(self.store.remove_all(&names)?)
    }

    /// The jobs of a method whose pictures are neither there nor refused, whether or not they were asked for.
    fn lacking_jobs(&self, method: usize) -> Result<Vec<Job>, FolderError> {
        let state = self.state(method, Look::Quick)?;
        let mut done = self.done(&state)?.ids;
        done.extend(self.refused_in(&state));
        let jobs = self.plan.jobs(method);
        Ok(jobs
            .filter(|job| !done.contains(&self.plan.sample_id(*job)))
            .collect())
    }

    /// How many pictures by a method are not there, whether or not they were asked for.
    pub(super) fn lacking(&self, method: usize) -> Result<usize, FolderError> {
        Ok(self.lacking_jobs(method)?.len())
    }
}

/// Whether a file may be one of ours: named by a SHA-256.
fn is_name(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}
