//! A run's files: what is done, what is missing, and how a finished picture is written down.
//!
//! A picture counts as made when its `samples/%06d.json` is there, which is written after the picture itself, whole or
//! not at all. So a run may be killed at any instant, and two copies of it may run at once: what is made twice is the
//! same picture under the same name. When all pictures of a method are there, their samples are folded into the files
//! of the released bundle (`manifest.jsonl` last), and removed.

mod error;
mod fold;

use std::collections::HashSet;
use std::sync::Arc;

use super::plan::{Job, Plan, differences, prompts_file};
use super::sample::Sample;
use crate::check::json;
use crate::output::manifest::ManifestLine;
use crate::store::Store;

pub use error::FolderError;

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
}

impl RunFolder {
    /// Begins the run of `plan` in `store`, or goes on with it.
    ///
    /// # Errors
    /// The run there has other settings; the store cannot be used.
    pub fn claim(store: Arc<dyn Store>, plan: Plan) -> Result<Self, FolderError> {
        if store.get(CONFIG)?.is_none() {
            // A run counts as begun once its settings are there.
            let prompts = prompts_file(&plan.prompts)?;
            store.put(PROMPTS, prompts.as_bytes())?;
            let mut config = serde_json::to_string_pretty(&plan.config)?;
            config.push('\n');
            store.put_new(CONFIG, config.as_bytes())?;
        }
        // Another process may have been faster, with other settings.
        let there = Self::open(store.clone())?.plan;
        if there != plan {
            let value = |plan: &Plan| serde_json::to_value(&plan.config);
            return Err(FolderError::OtherSettings {
                location: store.location(),
                differences: differences(&value(&there)?, &value(&plan)?),
            });
        }
        Ok(Self { store, plan })
    }

    /// The run in `store`, as far as it is.
    ///
    /// # Errors
    /// There is none, or its settings are broken.
    pub fn open(store: Arc<dyn Store>) -> Result<Self, FolderError> {
        let location = store.location();
        let text = |name: &str| {
            let bytes = store.get(name)?.ok_or_else(|| FolderError::NoRun {
                location: location.clone(),
            })?;
            Ok::<_, FolderError>(String::from_utf8_lossy(&bytes).into_owned())
        };
        let plan = Plan::read(&text(CONFIG)?, &text(PROMPTS)?);
        let plan = plan.map_err(|source| FolderError::Plan {
            location: location.clone(),
            source,
        })?;
        Ok(Self { store, plan })
    }

    /// What the run is to do.
    pub fn plan(&self) -> &Plan {
        &self.plan
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
        format!(
            "{}/samples/{:06}.json",
            self.method_folder(job.method),
            job.index
        )
    }

    /// Whether the files of a method are complete.
    ///
    /// # Errors
    /// The store's.
    pub fn is_folded(&self, method: usize) -> Result<bool, FolderError> {
        Ok(self.store.get(&self.manifest_name(method))?.is_some())
    }

    fn manifest_name(&self, method: usize) -> String {
        format!("{}/manifest.jsonl", self.method_folder(method))
    }

    fn eval(&self, method: usize, file: &str) -> String {
        format!("{}/eval/{file}", self.method_folder(method))
    }

    /// The jobs of a method that are still to be done: those without a sample, and those whose picture is gone or
    /// empty.
    ///
    /// # Errors
    /// The store's; a broken manifest.
    pub fn pending(&self, method: usize) -> Result<Vec<Job>, FolderError> {
        let folder = self.method_folder(method);
        let pictures: HashSet<String> = (self.store.list(&format!("{folder}/images"))?)
            .into_iter()
            .filter(|entry| entry.bytes > 0)
            .map(|entry| entry.name)
            .collect();
        let samples: HashSet<String> = (self.store.list(&format!("{folder}/samples"))?)
            .into_iter()
            .filter(|entry| entry.bytes > 0)
            .map(|entry| entry.name)
            .collect();
        let folded: HashSet<String> = (self.folded_manifest(method)?.into_iter())
            .map(|line| line.sample_id)
            .collect();
        let done = |job: &Job| {
            let known = samples.contains(&self.sample_name(*job))
                || (!folded.is_empty() && folded.contains(&self.plan.sample_id(*job)));
            known && pictures.contains(&self.picture_name(*job))
        };
        Ok(self.plan.jobs(method).filter(|job| !done(job)).collect())
    }

    fn folded_manifest(&self, method: usize) -> Result<Vec<ManifestLine>, FolderError> {
        self.lines(&self.manifest_name(method))
    }

    /// The lines of a file; none if it is not there.
    fn lines<T: serde::de::DeserializeOwned>(&self, name: &str) -> Result<Vec<T>, FolderError> {
        let Some(text) = self.text(name)? else {
            return Ok(Vec::new());
        };
        let lines = text.lines().zip(1..);
        let read = |(line, number): (&str, usize)| {
            json::from_str(line).map_err(|source| {
                let why = format!("line {number}: {source}");
                self.broken(name, why.into())
            })
        };
        lines.map(read).collect()
    }

    fn text(&self, name: &str) -> Result<Option<String>, FolderError> {
        let Some(bytes) = self.store.get(name)? else {
            return Ok(None);
        };
        let text = String::from_utf8(bytes).map_err(|error| self.broken(name, error.into()))?;
        Ok(Some(text))
    }

    fn broken(&self, name: &str, source: Box<dyn std::error::Error + Send + Sync>) -> FolderError {
        FolderError::Broken {
            name: name.into(),
            location: self.store.location(),
            source,
        }
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
        for (name, bytes) in files {
            self.store.put(&format!("{folder}/{name}"), bytes)?;
        }
        let name = self.sample_name(job);
        let line = sample.to_line()?;
        let new = self.store.put_new(&name, line.as_bytes())?;
        if !new && self.store.get(&name)?.is_none_or(|there| there.is_empty()) {
            // What a power cut leaves.
            self.store.put(&name, line.as_bytes())?;
            return Ok(true);
        }
        Ok(new)
    }
}
