//! What a run will do: every picture in a fixed order, and the settings that decide all of them.

mod config;
mod differences;
mod source;

use sha2::{Digest, Sha256};
use thiserror::Error;

use super::shard::Shard;
use super::{Suite, SuitePrompt};
pub use config::{CheckerId, JudgeId, RunConfig, Sampling, SuiteId};
pub use differences::differences;
pub use source::{Interface, SourceId};

/// One picture to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its place in the whole plan: methods, within them prompts, within them seeds.
    pub index: usize,
    /// Index of the method.
    pub method: usize,
    /// Index of the prompt.
    pub prompt: usize,
    /// Of the noise.
    pub seed: u64,
}

/// A run's settings with its prompts.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The settings.
    pub config: RunConfig,
    /// The prompts, in their order.
    pub prompts: Vec<SuitePrompt>,
}

/// Why a plan cannot be read.
#[derive(Debug, Error)]
pub enum PlanError {
    /// `run.json` is broken.
    #[error("run.json is not what prepose writes")]
    Config(#[source] serde_json::Error),
    /// Nothing in `run.json` says where the pictures come from.
    #[error(
        "run.json has neither a model with its sampling nor a source of pictures, or it has both"
    )]
    Source,
    /// `prompts.jsonl` is broken.
    #[error("line {line} of prompts.jsonl is not a prompt")]
    Prompt {
        /// From 1.
        line: usize,
        /// Why not.
        source: serde_json::Error,
    },
    /// `prompts.jsonl` is not the one that the run was begun with.
    #[error("prompts.jsonl was changed: its SHA-256 is {found}, but run.json says {expected}")]
    Changed {
        /// Of the file.
        found: String,
        /// In `run.json`.
        expected: String,
    },
}

impl Suite {
    /// Which set this is.
    pub fn id(&self) -> serde_json::Result<SuiteId> {
        Ok(SuiteId {
            name: self.name.clone(),
            version: self.version.clone(),
            sha256: prompts_id(&self.prompts)?,
        })
    }
}

/// The text of a run's `prompts.jsonl`.
pub fn prompts_file(prompts: &[SuitePrompt]) -> serde_json::Result<String> {
    let lines: Result<Vec<_>, _> = prompts.iter().map(serde_json::to_string).collect();
    Ok(lines?.into_iter().map(|line| line + "\n").collect())
}

/// SHA-256 of a run's `prompts.jsonl`.
pub fn prompts_id(prompts: &[SuitePrompt]) -> serde_json::Result<String> {
    Ok(hash(&prompts_file(prompts)?))
}

fn hash(text: &str) -> String {
    format!("{:x}", Sha256::digest(text))
}

impl Plan {
    /// The plan in the texts of a run's `run.json` and `prompts.jsonl`.
    ///
    /// # Errors
    /// They are broken, or do not belong together.
    pub fn read(config: &str, prompts: &str) -> Result<Self, PlanError> {
        let config: RunConfig = serde_json::from_str(config).map_err(PlanError::Config)?;
        let engine = config.model.is_some() && config.sampling.is_some();
        let elsewhere = config.model.is_none() && config.sampling.is_none();
        let whole = match config.source {
            Some(_) => elsewhere,
            None => engine,
        };
        if !whole {
            return Err(PlanError::Source);
        }
        let found = hash(prompts);
        if found != config.suite.sha256 {
            return Err(PlanError::Changed {
                found,
                expected: config.suite.sha256,
            });
        }
        let lines = prompts.lines().zip(1..);
        let prompts = lines.map(|(text, line)| {
            serde_json::from_str(text).map_err(|source| PlanError::Prompt { line, source })
        });
        Ok(Self {
            prompts: prompts.collect::<Result<_, _>>()?,
            config,
        })
    }

    /// Pictures of the whole plan, not only of its shard.
    pub fn len(&self) -> usize {
        self.config.methods.len() * self.per_method()
    }

    /// Whether there is nothing to make.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Pictures of each method in the whole plan.
    fn per_method(&self) -> usize {
        self.prompts.len() * self.config.seeds.len()
    }

    /// The job at a place in the whole plan.
    ///
    /// # Panics
    /// If there is no such place.
    pub fn job(&self, index: usize) -> Job {
        let seeds = self.config.seeds.len();
        Job {
            index,
            method: index / self.per_method(),
            prompt: index % self.per_method() / seeds,
            seed: self.config.seeds[index % seeds],
        }
    }

    /// The jobs of one method that belong to this run's shard, in their order.
    pub fn jobs(&self, method: usize) -> impl Iterator<Item = Job> {
        let first = method * self.per_method();
        let seeds = self.config.seeds.len();
        let name = &self.config.methods[method].name;
        let shard = self.config.shard;
        (self.prompts.iter().enumerate()).flat_map(
            move |(prompt, SuitePrompt { prompt_id, .. })| {
                let turn = shard.map(|shard| (shard, Shard::turn(name, prompt_id)));
                let job = move |seed: usize| self.job(first + prompt * seeds + seed);
                let here =
                    move |job: &Job| turn.is_none_or(|(shard, turn)| shard.has(turn, job.seed));
                (0..seeds).map(job).filter(here)
            },
        )
    }

    /// The first job of each prompt by one method, whichever shard it belongs to.
    pub fn first_jobs(&self, method: usize) -> impl Iterator<Item = Job> {
        let first = method * self.per_method();
        let seeds = self.config.seeds.len();
        (0..self.prompts.len()).map(move |prompt| self.job(first + prompt * seeds))
    }

    /// What the picture of a job is called: `{method}_{prompt_id}_seed%04d`.
    pub fn sample_id(&self, job: Job) -> String {
        format!(
            "{}_{}_seed{:04}",
            self.config.methods[job.method].name, self.prompts[job.prompt].prompt_id, job.seed
        )
    }
}
