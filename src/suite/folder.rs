//! A run's files: what is done, what is missing, and how a finished picture is written down.
//!
//! A picture counts as made when its `samples/%06d.json` is there, which is written after the picture itself, whole or not
//! at all. So a run may be killed at any instant, and two copies of it may run at once: what is made twice is the same
//! picture under the same name. When all pictures of a method are there, their samples are folded into the files of the
//! released bundle (`manifest.jsonl` last), and removed.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use thiserror::Error;

use super::plan::{Job, Plan, PlanError, differences, prompts_file};
use super::sample::{Sample, Scores, sample_of};
use crate::check::json;
use crate::check::spatialbench::results::summary_files;
use crate::check::spatialbench::{Buckets, Provenance, Record, RecordError, read_records};
use crate::output::manifest::ManifestLine;
use crate::store::{Store, StoreError};

/// The settings of a run.
pub const CONFIG: &str = "run.json";
/// Its prompts.
pub const PROMPTS: &str = "prompts.jsonl";

/// Why a run's files cannot be used.
#[derive(Debug, Error)]
pub enum FolderError {
    /// The store's reason.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There is no run.
    #[error("there is no run in {location}: it has no {CONFIG}")]
    NoRun {
        /// Where.
        location: String,
    },
    /// The run there is another one.
    #[error(
        "{location} holds a run with other settings; choose another folder, or the same settings: {}",
        list(differences)
    )]
    OtherSettings {
        /// Where.
        location: String,
        /// Place, what stands there, what was asked for.
        differences: Vec<(String, String, String)>,
    },
    /// The run's settings are broken.
    #[error("the run in {location} cannot be read")]
    Plan {
        /// Where.
        location: String,
        /// Why not.
        source: PlanError,
    },
    /// A line of one of the run's files is broken.
    #[error("{name} in {location} is broken")]
    Broken {
        /// The file.
        name: String,
        /// Where.
        location: String,
        /// What is wrong with it.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Pictures have gone while they were counted.
    #[error(
        "{missing} pictures by {method} are missing in {location}; give the same command again"
    )]
    Incomplete {
        /// The method.
        method: String,
        /// How many.
        missing: usize,
        /// Where.
        location: String,
    },
    /// A number that JSON does not have.
    #[error("cannot be written as JSON")]
    Json(#[from] serde_json::Error),
}

/// Differences for people.
fn list(differences: &[(String, String, String)]) -> String {
    let each = differences.iter().take(5);
    let mut text: Vec<_> = each
        .map(|(at, there, asked)| format!("{at} is {there} there, and {asked} was asked for"))
        .collect();
    if differences.len() > text.len() {
        text.push(format!("{} more", differences.len() - text.len()));
    }
    text.join("; ")
}

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

    /// The jobs of a method that are still to be done: those without a sample, and those whose picture is gone or empty.
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

    /// The samples of a method that are there, in the order of the plan, one at a time: from the run's files where they are
    /// folded, else from `samples/`.
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

    /// Writes a method's files of the released bundle, from the samples that `give` hands over in the order of the plan.
    pub(super) fn write<E: From<FolderError>>(
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
