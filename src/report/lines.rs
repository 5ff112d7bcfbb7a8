//! Lines of a run's files, as far as a report needs them: other programs write manifests too.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use prepose_check::json;

/// Which pixels a detection covers, in COCO's run-length encoding as `pycocotools` writes it.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Segmentation {
    /// Height and width in pixels.
    pub size: [u32; 2],
    /// Runs down the columns, of pixels that are not covered and of covered ones in turn: as text, or as a list of numbers.
    pub counts: Value,
}

/// The masks in a line of `per_sample.jsonl`, which the benchmark's records do not have.
#[derive(Debug, Deserialize)]
pub struct MaskedRow {
    /// Names the record.
    pub sample_id: String,
    detectors: MaskedDetectors,
}

#[derive(Debug, Deserialize)]
struct MaskedDetectors {
    primary: MaskedDetector,
}

#[derive(Debug, Deserialize)]
struct MaskedDetector {
    detections: Vec<Masked>,
}

#[derive(Debug, Deserialize)]
struct Masked {
    #[serde(default)]
    segmentation: Option<Segmentation>,
}

impl MaskedRow {
    /// In the order of the detections.
    pub fn masks(self) -> Vec<Option<Segmentation>> {
        let detections = self.detectors.primary.detections.into_iter();
        detections.map(|masked| masked.segmentation).collect()
    }
}

/// Whether it is worth to look for masks in a text.
pub fn may_have_masks(text: &str) -> bool {
    text.contains("\"segmentation\"")
}

/// The lines of a file; empty ones are passed over. An error says which line it is of.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<Vec<T>, String> {
    let lines = text.lines().enumerate();
    lines
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(i, line)| json::from_str(line).map_err(|error| format!("line {}: {error}", i + 1)))
        .collect()
}
