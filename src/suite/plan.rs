//! What a run will do: every picture in a fixed order, and the settings that decide all of them.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use thiserror::Error;

use super::method::Method;
use super::shard::Shard;
use super::{Suite, SuitePrompt};
use crate::check::spatialbench::CheckerConfig;
use crate::request::{ModelRequest, PicturePrompt, Savings};
use crate::sampling::StepRange;
use crate::sampling::noise::NoiseKind;
use crate::sampling::schedulers::Spacing;
use crate::sources::Wishes;
use crate::sources::folder::Layout;

/// What decides the pictures and verdicts of a run: `run.json`. Two runs with equal settings make the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunConfig {
    /// The prompts.
    pub suite: SuiteId,
    /// How many of them.
    pub prompts: usize,
    /// One picture of each prompt by each method for each of these.
    pub seeds: Vec<u64>,
    /// What is compared.
    pub methods: Vec<Method>,
    /// The networks, with the hash of their files; none if the pictures come from elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelRequest>,
    /// What is the same for all methods; none if the pictures come from elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampling: Option<Sampling>,
    /// Where the pictures come from, if they are not made here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceId>,
    /// Who looks at the pictures; nobody if none.
    pub checker: Option<CheckerId>,
    /// Whether attention maps are drawn.
    #[serde(default)]
    pub attention_maps: bool,
    /// Which part of the whole this is; all of it if none.
    #[serde(default)]
    pub shard: Option<Shard>,
}

/// Where pictures come from that are not made here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum SourceId {
    /// They are there already.
    Pictures {
        /// What made them.
        name: String,
        /// How their files are named.
        layout: Layout,
    },
    /// A server makes them.
    Endpoint {
        /// The model.
        name: String,
        /// The server's interface.
        interface: Interface,
        /// Without secrets.
        address: String,
        /// What is asked of it besides the prompt.
        wishes: Wishes,
        /// Further fields, as the server has them.
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        fields: Map<String, Value>,
        /// SHA-256 of ComfyUI's graph.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        workflow: Option<String>,
    },
    /// A program makes them.
    Maker {
        /// What it makes them with, as it says or as it was called.
        name: String,
        /// The version of that, if it says so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        version: Option<String>,
        /// What is asked of it besides the prompt.
        wishes: Wishes,
    },
}

/// How a server of pictures is spoken to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Interface {
    /// OpenAI's `images/generations`.
    #[default]
    OpenAi,
    /// ComfyUI's.
    ComfyUi,
    /// AUTOMATIC1111's `sdapi`.
    WebUi,
}

impl SourceId {
    /// What makes the pictures.
    pub fn name(&self) -> &str {
        match self {
            Self::Pictures { name, .. }
            | Self::Endpoint { name, .. }
            | Self::Maker { name, .. } => name,
        }
    }

    /// What is asked of it besides the prompt.
    pub fn wishes(&self) -> Wishes {
        match self {
            Self::Pictures { .. } => Wishes::default(),
            Self::Endpoint { wishes, .. } | Self::Maker { wishes, .. } => wishes.clone(),
        }
    }

    /// Whether what it gives costs time or money, so that it is kept at once.
    pub fn is_dear(&self) -> bool {
        !matches!(self, Self::Pictures { .. })
    }
}

/// Which set of prompts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SuiteId {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// SHA-256 of the run's `prompts.jsonl`.
    pub sha256: String,
}

/// Sampling that is the same for all methods.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sampling {
    /// Denoising steps.
    pub steps: usize,
    /// Classifier-free guidance.
    pub guidance_scale: f64,
    /// The steps in which it acts; none are all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guidance_steps: Option<StepRange>,
    /// What is left out of the network's calls, unless a method says something else.
    #[serde(default, skip_serializing_if = "Savings::is_none")]
    pub savings: Savings,
    /// The scheduler's name.
    pub scheduler: String,
    /// Which timesteps are visited; none means as the checkpoint says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestep_spacing: Option<Spacing>,
    /// The share of fresh noise in each step of TCD.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eta: Option<f64>,
    /// In pixels.
    pub width: usize,
    /// In pixels.
    pub height: usize,
    /// What pictures should not show; empty for nothing in particular.
    pub negative_prompt: String,
    /// Whose random numbers.
    pub noise: NoiseKind,
    /// Layers of the text encoder to leave out.
    pub clip_skip: usize,
    /// Whether pictures are decoded in tiles.
    pub vae_tiling: bool,
    /// Pictures that IP-Adapters show to the network.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pictures: Vec<PicturePrompt>,
}

/// Who looks at the pictures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckerId {
    /// SHA-256 of the primary detector's weights.
    pub sha256: String,
    /// SHA-256 of the secondary detector's weights, if there is one.
    pub secondary_sha256: Option<String>,
    /// Thresholds, and the detectors by name: the lines of `checker_config.yaml`.
    pub config: Vec<String>,
    /// Whether SpatialBench-UC's released code decides where its paper says something else.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub published: bool,
    /// SHA-256 of the segmenter's weights, if there is one besides the detector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub masks_sha256: Option<String>,
    /// SHA-256 of the depth network's weights, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth_sha256: Option<String>,
}

impl CheckerId {
    /// Detectors with these hashes, and a configuration.
    pub fn new(sha256: String, secondary_sha256: Option<String>, config: &CheckerConfig) -> Self {
        Self {
            sha256,
            secondary_sha256,
            config: config.to_yaml().lines().map(Into::into).collect(),
            published: false,
            masks_sha256: None,
            depth_sha256: None,
        }
    }

    /// The text of `checker_config.yaml`.
    pub fn config_file(&self) -> String {
        self.config.iter().map(|line| format!("{line}\n")).collect()
    }
}

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
    #[error("run.json has neither a model with its sampling nor a source of pictures, or both")]
    Source,
    /// `prompts.jsonl` is broken.
    #[error("line {line} of prompts.jsonl is no prompt")]
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

/// Where two settings differ: the place, what stands there in `a`, and in `b`.
pub fn differences(a: &Value, b: &Value) -> Vec<(String, String, String)> {
    let mut found = Vec::new();
    compare(a, b, String::new(), &mut found);
    found
}

fn compare(a: &Value, b: &Value, at: String, found: &mut Vec<(String, String, String)>) {
    if a == b {
        return;
    }
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let only_b = b.keys().filter(|key| !a.contains_key(*key));
            for key in a.keys().chain(only_b) {
                let at = match at.as_str() {
                    "" => key.clone(),
                    at => format!("{at}.{key}"),
                };
                let side = |side: &serde_json::Map<_, _>| side.get(key).cloned();
                let (a, b) = (side(a).unwrap_or_default(), side(b).unwrap_or_default());
                compare(&a, &b, at, found);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                compare(a, b, format!("{at}[{index}]"), found);
            }
        }
        _ => found.push((at, short(a), short(b))),
    }
}

/// A value in a message.
fn short(value: &Value) -> String {
    let text = match value {
        Value::Null => "not given".into(),
        value => value.to_string(),
    };
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn differences_are_named() {
        let a = json!({"steps": 20, "methods": [{"name": "a"}, {"name": "b"}], "seeds": [0, 1], "shard": null});
        let b = json!({"steps": 30, "methods": [{"name": "a"}, {"name": "c", "n": 1}], "seeds": [0], "shard": null});
        let found = differences(&a, &b);
        let found: Vec<_> = found
            .iter()
            .map(|(at, a, b)| (at.as_str(), a.as_str(), b.as_str()))
            .collect();
        assert_eq!(
            found,
            [
                ("steps", "20", "30"),
                ("methods[1].name", "\"b\"", "\"c\""),
                ("methods[1].n", "not given", "1"),
                ("seeds", "[0,1]", "[0]"),
            ]
        );
        assert!(differences(&a, &a).is_empty());
    }
}
