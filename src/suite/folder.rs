//! A run's files: what is done, what is missing, and how a finished picture is written down.
//!
//! A picture counts as made when its file in `samples/` is there, which is written after the picture itself, whole or
//! not at all, and seals it with digests. So a run may be killed at any instant, and two copies of it may run at once:
//! what is made twice is the same picture under the same name. When all pictures of a method are there, their samples
//! are folded into the files of the released bundle, listed in the [ledger](crate::store::ledger), and removed.

mod claim;
mod damage;
mod error;
mod fold;
mod received;
mod refused;
mod said;
mod sealed;
mod state;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use super::plan::{Job, Plan};
use super::sample::Sample;
use crate::check::seal::{Sealed, SealedFile};
use crate::store::Store;
use crate::store::ledger::{Ledger, Listed, Look};

pub use claim::News;
pub use error::FolderError;
pub(in crate::suite) use fold::provenance_of;
pub(in crate::suite) use received::RECEIVED;
pub(in crate::suite) use state::Finished;

/// The settings of a run.
pub const CONFIG: &str = "run.json";
/// Its prompts.
pub const PROMPTS: &str = "prompts.jsonl";

/// A file's name within the method's folder, and what is in it.
pub type NamedFile = (String, Vec<u8>);

/// A run in a store.
pub struct RunFolder {
    store: Arc<dyn Store>,
    plan: Plan,
    wanted: Wanted,
    /// Listed pictures whose lines are as they were written but not their files: what was listed of the files.
    kept: Mutex<HashMap<String, Vec<(String, Listed)>>>,
    /// Listed pictures whose lines are lost: what is listed of the pictures.
    lost: Mutex<HashMap<String, Listed>>,
    news: News,
}

/// Which of a run's pictures are to be made.
enum Wanted {
    All,
    /// Those of another plan, by name, `prompt_id` and seed.
    Of {
        methods: HashSet<String>,
        prompts: HashSet<String>,
        seeds: HashSet<u64>,
    },
    /// Those that were finished once.
    Once,
}

impl RunFolder {
    /// What the run is to do.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// What the run had before it was taken up, and what is new.
    pub fn news(&self) -> &News {
        &self.news
    }

    /// Where its files are.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The folder of a method.
    pub fn method_folder(&self, method: usize) -> &str {
        &self.plan.config.methods[method].name
    }

    /// The name of a job's picture in the store.
    pub fn picture_name(&self, job: Job) -> String {
        format!("{}/{}", self.method_folder(job.method), self.picture(job))
    }

    /// The name of a job's picture within the method's folder.
    fn picture(&self, job: Job) -> String {
        format!("images/{}.png", self.plan.sample_id(job))
    }

    fn sample_name(&self, job: Job) -> String {
        let folder = self.method_folder(job.method);
        format!("{folder}/samples/{}.json", self.plan.sample_id(job))
    }

    fn manifest_name(&self, method: usize) -> String {
        format!("{}/manifest.jsonl", self.method_folder(method))
    }

    fn eval(&self, method: usize, file: &str) -> String {
        format!("{}/eval/{file}", self.method_folder(method))
    }

    /// The jobs of a method that are still to be done and were asked for: those of which not everything is there as it
    /// was written.
    ///
    /// # Errors
    /// The store's.
    pub fn pending(&self, method: usize) -> Result<Vec<Job>, FolderError> {
        self.pending_by(method, Look::Quick)
    }

    /// The same, looking as closely as asked for.
    ///
    /// # Errors
    /// The store's.
    pub fn pending_by(&self, method: usize, look: Look) -> Result<Vec<Job>, FolderError> {
        let state = self.state(method, look)?;
        let done = self.done(&state)?;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        for (id, files) in self.broken_pictures(&state, &done.lines) {
            kept.insert(id, files);
        }
        let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        lost.extend(self.lost_lines(&state, &done.lines));
        let once = match self.wanted {
            Wanted::Once => self.made_once(&state),
            _ => HashSet::new(),
        };
        let wanted = |job: &Job| match self.wanted {
            Wanted::Once => once.contains(&self.plan.sample_id(*job)),
            _ => self.is_asked_for(*job),
        };
        let refused = self.refused_in(&state);
        let lacks = |job: &Job| {
            let id = self.plan.sample_id(*job);
            !done.ids.contains(&id) && !refused.contains(&id)
        };
        let jobs = self.plan.jobs(method);
        Ok(jobs.filter(|job| wanted(job) && lacks(job)).collect())
    }

    /// Whether a picture is one of those that were asked for; of a run that is mended, all are.
    fn is_asked_for(&self, job: Job) -> bool {
        match &self.wanted {
            Wanted::All | Wanted::Once => true,
            Wanted::Of {
                methods,
                prompts,
                seeds,
            } => {
                methods.contains(&self.plan.config.methods[job.method].name)
                    && prompts.contains(&self.plan.prompts[job.prompt].prompt_id)
                    && seeds.contains(&job.seed)
            }
        }
    }

    /// How many pictures by a method were asked for.
    pub fn asked_for(&self, method: usize) -> usize {
        let jobs = self.plan.jobs(method);
        jobs.filter(|job| self.is_asked_for(*job)).count()
    }

    /// Writes a finished picture down, `files` first (names within the method's folder: the picture, its attention
    /// maps). False if another copy of the run has done so already.
    ///
    /// # Errors
    /// The store's; the picture counts as not made then.
    pub fn commit(
        &self,
        job: Job,
        files: &[NamedFile],
        sample: &Sample,
    ) -> Result<bool, FolderError> {
        let folder = self.method_folder(job.method);
        let id = self.plan.sample_id(job);
        let digests: Vec<(String, Listed)> = (files.iter())
            .map(|(name, bytes)| (format!("{folder}/{name}"), Listed::of(bytes)))
            .collect();
        let put = || {
            (files.iter())
                .try_for_each(|(name, bytes)| self.store.put(&format!("{folder}/{name}"), bytes))
        };
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = kept.get(&id) {
            let as_listed = kept.iter().all(|(name, listed)| {
                let new = digests.iter().find(|(new, _)| new == name);
                new.is_some_and(|(_, new)| new.sha256 == listed.sha256)
            });
            if as_listed {
                // Its lines are there already, and as old as they were.
                put()?;
                return Ok(true);
            }
            self.change_ledger(|ledger| {
                for (name, _) in kept {
                    ledger.remove(name);
                }
            })?;
        }
        drop(kept);
        put()?;
        let lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        let before = lost
            .get(&id)
            .and_then(|listed| fold::as_noted(sample, listed));
        drop(lost);
        self.seal(job, &digests, before.as_ref().unwrap_or(sample))
    }

    /// Writes down what is known of a picture whose files are there.
    fn seal(
        &self,
        job: Job,
        files: &[(String, Listed)],
        sample: &Sample,
    ) -> Result<bool, FolderError> {
        let own = |name: &str| {
            let folder = format!("{}/", self.method_folder(job.method));
            name.strip_prefix(&folder).unwrap_or(name).to_string()
        };
        let sealed = Sealed {
            sample: sample.clone(),
            files: (files.iter())
                .map(|(name, listed)| SealedFile {
                    name: own(name),
                    bytes: listed.bytes,
                    sha256: listed.sha256.clone(),
                })
                .collect(),
        };
        let name = self.sample_name(job);
        let text = sealed.to_text()?;
        if self.store.put_new(&name, text.as_bytes())? {
            return Ok(true);
        }
        // Another copy of the run was faster; or it is broken, or of a picture that was lost.
        let there = self.store.get(&name)?;
        let there = there.and_then(|bytes| Sealed::read(&bytes));
        if there.is_some_and(|there| {
            there.files == sealed.files
                && there.sample.manifest.sample_id == sample.manifest.sample_id
        }) {
            return Ok(false);
        }
        self.store.put(&name, text.as_bytes())?;
        Ok(true)
    }

    /// The ledger as it is now.
    fn ledger(&self) -> Result<Ledger, FolderError> {
        Ok(Ledger::read(&*self.store, "")?)
    }

    /// Changes the ledger, and writes it if it is another then.
    fn change_ledger(&self, change: impl FnOnce(&mut Ledger)) -> Result<(), FolderError> {
        let mut ledger = self.ledger()?;
        let before = ledger.clone();
        change(&mut ledger);
        if ledger != before {
            ledger.write(&*self.store)?;
        }
        Ok(())
    }

    /// Lists a file that was just written.
    ///
    /// # Errors
    /// The store's.
    pub fn enlist(&self, name: &str, bytes: &[u8]) -> Result<(), FolderError> {
        let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
        let there = self.store.list(folder)?;
        let mut listed = Listed::of(bytes);
        listed.modified =
            (there.iter().find(|entry| entry.name == name)).and_then(|entry| entry.modified);
        self.change_ledger(|ledger| ledger.insert(name, listed))
    }
}
