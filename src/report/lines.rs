//! Lines of a run's files, as far as a report needs them: other programs write manifests too.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::check::json;
use crate::output::manifest::ManifestLine;

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

impl From<ManifestLine> for ManifestRow {
    fn from(line: ManifestLine) -> Self {
        Self {
            sample_id: line.sample_id,
            prompt_id: line.prompt_id,
            image_path: line.image_path,
            gen_params: SamplingRow {
                seed: line.gen_params.seed,
                height: u32::try_from(line.gen_params.height).ok(),
                width: u32::try_from(line.gen_params.width).ok(),
            },
            prompt: line.prompt,
            relation: line.relation,
            object_a: line.object_a,
            object_b: line.object_b,
        }
    }
}

/// The lines of a file; empty ones are passed over. An error says which line it is of.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<Vec<T>, String> {
    let lines = text.lines().enumerate();
    lines
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(i, line)| json::from_str(line).map_err(|error| format!("line {}: {error}", i + 1)))
        .collect()
}
