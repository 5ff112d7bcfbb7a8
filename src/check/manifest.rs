//! `manifest.jsonl`: one line a picture, in the schema of SpatialBench-UC's released runs.

use serde::{Deserialize, Serialize};

/// One line of a manifest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ManifestLine {
    /// `{run_id}_{prompt_id}_seed%04d`.
    pub sample_id: String,
    /// Names the run.
    pub run_id: String,
    /// Names the prompt within its set.
    pub prompt_id: String,
    /// The picture, relative to the manifest where possible.
    pub image_path: String,
    /// The networks.
    pub model: ModelLine,
    /// How it was sampled.
    pub gen_params: GenParams,
    /// The prompt.
    pub prompt: String,
    /// The relation the prompt states, where one is known.
    pub relation: Option<String>,
    /// The relation's subject.
    pub object_a: Option<String>,
    /// The relation's object.
    pub object_b: Option<String>,
    /// When the picture was finished, RFC 3339.
    pub timestamp_utc: String,
    /// The software.
    pub code_version: CodeVersion,
}

/// The networks of a manifest line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelLine {
    /// The method.
    pub pipeline: String,
    /// The checkpoint.
    pub model_id: String,
    /// SHA-256 of the checkpoint, where known.
    pub revision: Option<String>,
}

/// The sampling of a manifest line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GenParams {
    /// The picture's seed.
    pub seed: u64,
    /// In pixels.
    pub height: usize,
    /// In pixels.
    pub width: usize,
    /// Denoising steps.
    pub num_inference_steps: usize,
    /// Classifier-free guidance.
    pub guidance_scale: f64,
    /// The scheduler's name.
    pub scheduler: String,
    /// What the picture should not be.
    pub negative_prompt: Option<String>,
}

/// The software of a manifest line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CodeVersion {
    /// This crate.
    pub prepose: String,
    /// The tensor library.
    pub burn: String,
    /// The device and the type of the weights.
    pub device: String,
    /// The commit this binary was built from, where it was built from one.
    pub git_commit: Option<String>,
}
