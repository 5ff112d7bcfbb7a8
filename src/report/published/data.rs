//! What is published, from the file that `scripts/report/published_spatialbench_uc.py` makes of the authors' repository.

use std::collections::BTreeMap;

use serde::Deserialize;

const FILE: &str = include_str!("../data/spatialbench-uc/published.json");

/// The whole file.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Published {
    pub source: String,
    pub commit: String,
    pub paper: String,
    pub author: String,
    pub licence: String,
    pub methods: Vec<Method>,
}

/// One of the paper's methods.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Method {
    /// Its folder in the release.
    pub run: String,
    pub name: String,
    pub model: String,
    pub scheduler: String,
    pub steps: u64,
    pub guidance_scale: f64,
    pub width: u64,
    pub height: u64,
    pub seeds: Vec<u64>,
    pub calibrated: Checked,
    pub uncalibrated: Checked,
}

/// What the checker says of it with one setting; shares in 0..=1.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Checked {
    pub margin: f64,
    pub detection_score: f64,
    pub detector: String,
    pub secondary: String,
    pub samples: usize,
    pub prompts: usize,
    pub pass_rate: f64,
    pub coverage: f64,
    pub pass_rate_cond: f64,
    pub mean_conf: f64,
    pub best_of_k: f64,
    pub all_of_k: f64,
    pub abstentions: BTreeMap<String, f64>,
    pub by_relation: BTreeMap<String, f64>,
    pub pairs: usize,
    pub both_pass: f64,
    pub one_sided: f64,
    pub both_fail: f64,
    pub undecidable: f64,
}

/// None only if the file in the source tree is broken, which a test rules out.
pub(super) fn published() -> Option<Published> {
    serde_json::from_str(FILE).ok()
}
