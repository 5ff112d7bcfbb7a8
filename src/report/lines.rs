//! Lines of a run's files, as far as a report needs them: other programs and other versions write them too.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::check::json;

/// A line of `manifest.jsonl`.
#[derive(Clone, Debug, Deserialize)]
pub struct ManifestRow {
    /// Names the picture.
    pub sample_id: String,
    /// Names the prompt.
    pub prompt_id: String,
    /// The picture, relative to the manifest.
    pub image_path: String,
    /// The sampling.
    pub gen_params: SamplingRow,
    /// The prompt.
    pub prompt: String,
    /// The relation it states, where one is known.
    #[serde(default)]
    pub relation: Option<String>,
    /// The relation's subject.
    #[serde(default)]
    pub object_a: Option<String>,
    /// The relation's object.
    #[serde(default)]
    pub object_b: Option<String>,
}

/// The sampling of a line.
#[derive(Clone, Debug, Deserialize)]
pub struct SamplingRow {
    /// Of the noise.
    pub seed: u64,
    /// In pixels.
    #[serde(default)]
    pub height: Option<u32>,
    /// In pixels.
    #[serde(default)]
    pub width: Option<u32>,
}

/// A line of `scores.jsonl`: what the published rules say of a picture, and what it cost.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Scored {
    /// Names the picture.
    pub sample_id: String,
    /// Rows through the whole UNet.
    pub unet_calls: usize,
    /// Recorded passes of guidance.
    pub guided_calls: usize,
    /// Noises that were tried.
    pub candidates: usize,
    /// The picture's share of the time of its batch.
    pub seconds: f64,
    /// How many of the prompt's objects were found; none if nobody looked.
    pub found: Option<usize>,
    /// How many there are.
    pub objects: usize,
    /// VISOR: whether all relations hold; none if an object is missing.
    pub centre: Option<bool>,
    /// GenEval's rule.
    pub geneval: Option<bool>,
    /// T2I-CompBench's score.
    pub t2i: Option<f64>,
    /// HRS-Bench's rule.
    pub hrs: Option<bool>,
    /// Probability of superiority.
    pub pse: Option<f64>,
    /// Neutral pairs: where the first-mentioned object is.
    pub side: Option<String>,
    /// Neutral pairs: where the first-mentioned object is.
    pub level: Option<String>,
}

/// The lines of a file; empty ones are passed over. An error says which line it is of.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<Vec<T>, String> {
    let lines = text.lines().enumerate();
    lines
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(i, line)| json::from_str(line).map_err(|error| format!("line {}: {error}", i + 1)))
        .collect()
}
