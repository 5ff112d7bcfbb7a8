//! `run.json`: the settings of a run.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::SourceId;
use crate::check::spatialbench::CheckerConfig;
use crate::eyes::MaskChoice;
use crate::request::{ModelRequest, PicturePrompt, Savings};
use crate::sampling::StepRange;
use crate::sampling::noise::NoiseKind;
use crate::sampling::schedulers::Spacing;
use crate::suite::method::Method;
use crate::suite::shard::Shard;

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
    /// Who scores the candidates of searches by a judge; nobody if no method has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge: Option<JudgeId>,
    /// Whether attention maps are drawn.
    #[serde(default)]
    pub attention_maps: bool,
    /// Which part of the whole this is; all of it if none.
    #[serde(default)]
    pub shard: Option<Shard>,
}

impl RunConfig {
    /// Whether a method has its candidates scored by a judge.
    pub fn asks_judge(&self) -> bool {
        self.methods.iter().any(Method::asks_judge)
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
    /// Whether SpatialBench-UC's released code decides where its paper says something else, and depth is scored as released
    /// scripts do.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub published: bool,
    /// SHA-256 of the segmenter's weights, if there is one besides the detector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub masks_sha256: Option<String>,
    /// SHA-256 of the depth network's weights, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth_sha256: Option<String>,
    /// Which of the masks that a box may mean are the segmenter's.
    #[serde(default, skip_serializing_if = "is_default")]
    pub mask_choice: MaskChoice,
}

/// A judge of candidates, and how it is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JudgeId {
    /// The model's name, or `oracle`.
    pub model: String,
    /// Its server and all of a request but its messages, as the book of answers has them; null for the oracle, who sees what the
    /// checker's detector sees.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub settings: Value,
}

fn is_default(choice: &MaskChoice) -> bool {
    *choice == MaskChoice::default()
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
            mask_choice: MaskChoice::default(),
        }
    }

    /// The text of `checker_config.yaml`.
    pub fn config_file(&self) -> String {
        self.config.iter().map(|line| format!("{line}\n")).collect()
    }
}
