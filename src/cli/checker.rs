//! Choosing a detector.

use anyhow::Context;
use burn::tensor::Device;
use prepose::check::spatialbench::config::{DetectorConfig, DetectorParams};
use prepose::detect::{
    Detector, GroundingDinoDetector, OpenDetector, OpenError, Thresholds, registry,
};

/// Opens the detector that `--checker` or `--secondary` names: its weights are not read yet.
pub fn open(name: &str) -> anyhow::Result<OpenDetector> {
    let opened = OpenDetector::open(name);
    let known = registry::names().any(|known| known == name);
    opened.map_err(|error| match (known, error) {
        (_, error @ OpenError::NotHere { .. }) | (true, error) => {
            anyhow::Error::new(error).context(format!("cannot use --checker {name}"))
        }
        (false, error) => {
            let names: Vec<_> = registry::names().collect();
            let names = names.join(", ");
            anyhow::Error::new(error).context(format!(
                "cannot use --checker {name} (give toybox, {names}, or a path)"
            ))
        }
    })
}

/// Loads what was opened, with the thresholds in `params` or those of its kind.
pub fn load(
    weights: &OpenDetector,
    device: &Device,
    params: &DetectorParams,
) -> anyhow::Result<Box<dyn Detector + Send>> {
    load_with(weights, device, thresholds(weights, params))
}

/// Loads what was opened, with these thresholds or those of its kind.
pub fn load_with(
    weights: &OpenDetector,
    device: &Device,
    thresholds: Thresholds,
) -> anyhow::Result<Box<dyn Detector + Send>> {
    weights
        .load(device, thresholds)
        .with_context(|| format!("cannot load the detector {}", weights.name()))
}

fn thresholds(weights: &OpenDetector, params: &DetectorParams) -> Thresholds {
    match weights {
        OpenDetector::GroundingDino(_) => Thresholds {
            score: params.box_threshold,
            text: params.text_threshold,
            ..Thresholds::default()
        },
        _ => Thresholds {
            score: params.score_threshold,
            ..Thresholds::default()
        },
    }
}

/// Writes into a checker's configuration who looks: what [`load`] would load with it.
pub fn name_in(config: &mut DetectorConfig, weights: &OpenDetector) {
    let Thresholds { score, text, .. } = thresholds(weights, &config.params);
    let score = Some(score.unwrap_or(weights.default_threshold()));
    *config = DetectorConfig {
        kind: weights.name().to_string(),
        ..DetectorConfig::default()
    };
    match weights {
        OpenDetector::GroundingDino(_) => {
            config.params.box_threshold = score;
            let text = text.unwrap_or(GroundingDinoDetector::TEXT_THRESHOLD);
            config.params.text_threshold = Some(text);
            config.params.score_threshold = None;
        }
        _ => config.params.score_threshold = score,
    }
}
