//! Pictures that a source refuses to make: neither missing nor failures, and not asked for again.

use std::collections::HashSet;

use super::state::State;
use super::{FolderError, RunFolder};
use crate::sources::Refusal;
use crate::store::ledger::Look;
use crate::suite::plan::Job;

impl RunFolder {
    fn refusal_name(&self, job: Job) -> String {
        let folder = self.method_folder(job.method);
        format!("{folder}/refused/{}.json", self.plan.sample_id(job))
    }

    /// Notes that a picture was refused, and why.
    ///
    /// # Errors
    /// The store's.
    pub fn refuse(&self, job: Job, refusal: &Refusal) -> Result<(), FolderError> {
        let text = serde_json::to_string(refusal)? + "\n";
        Ok(self.store.put(&self.refusal_name(job), text.as_bytes())?)
    }

    /// The ids of a method's pictures that were refused.
    ///
    /// # Errors
    /// The store's.
    pub fn refused(&self, method: usize) -> Result<HashSet<String>, FolderError> {
        Ok(self.refused_in(&self.state(method, Look::Quick)?))
    }

    pub(super) fn refused_in(&self, state: &State) -> HashSet<String> {
        let folder = format!("{}/refused/", self.method_folder(state.method));
        let id = |name: &String| {
            Some(
                name.strip_prefix(&folder)?
                    .strip_suffix(".json")?
                    .to_owned(),
            )
        };
        state.entries.keys().filter_map(id).collect()
    }

    /// How many of a method's pictures of this run or shard can be there: all that were not refused.
    pub(in crate::suite) fn possible(&self, method: usize) -> Result<usize, FolderError> {
        let refused = self.refused(method)?;
        let jobs = self.plan.jobs(method);
        Ok(jobs
            .filter(|job| !refused.contains(&self.plan.sample_id(*job)))
            .count())
    }
}
