//! The checker's configuration: `checker_config.yaml`, as the released runs have it.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::json::float;
use crate::perturb::Perturbation;

/// Why a configuration cannot be used.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// It is not YAML, has a key that the checker does not know, or a value of the wrong kind.
    #[error("{0}")]
    Yaml(String),
    /// A value outside its range.
    #[error("{key} is {value}; it has to be {wanted}")]
    Range {
        /// The key, with the sections it is in.
        key: &'static str,
        /// What was given.
        value: String,
        /// What would do.
        wanted: &'static str,
    },
}

/// Everything that decides a verdict. The default is the calibrated configuration of SpatialBench-UC (table 3) without
/// a secondary detector; what a file leaves out is as there.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct CheckerConfig {
    /// How sure a verdict is.
    pub confidence: ConfidenceConfig,
    /// What finds the objects.
    pub detector: DetectorsConfig,
    /// When one thing is on a side of another.
    pub geometry: GeometryConfig,
    /// What is written, and where.
    pub output: OutputConfig,
    /// Whether a verdict holds under small changes of the picture.
    pub stability: StabilityConfig,
    /// Which detections count.
    pub thresholds: Thresholds,
}

/// The section `confidence`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConfidenceConfig {
    /// How far beyond the margin, as a fraction of the picture, geometry is certain; more than 0.
    pub geom_slope: f64,
    /// The exponents of the four parts.
    pub weights: Weights,
}

/// The exponents of the confidence's four parts, each at least 0.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Weights {
    /// Of the secondary detector's agreement.
    pub agreement: f64,
    /// Of the detections' scores.
    pub detection: f64,
    /// Of the distance from the margin.
    pub geometry: f64,
    /// Of the stability under perturbations.
    pub stability: f64,
}

/// The section `detector`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct DetectorsConfig {
    /// Decides the verdict.
    pub primary: DetectorConfig,
    /// Agrees or not, where there is one.
    pub secondary: Option<DetectorConfig>,
}

/// One detector.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct DetectorConfig {
    /// The checkpoint, for detectors that are read from a hub.
    pub model_id: Option<String>,
    /// The detector's own settings.
    pub params: DetectorParams,
    /// The checkpoint's revision.
    pub revision: Option<String>,
    /// Its name in records, such as `fasterrcnn`.
    #[serde(rename = "type")]
    pub kind: String,
}

/// A detector's own settings. Its own score threshold comes before [`Thresholds::detection_score`]: a lower one there
/// changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct DetectorParams {
    /// Of Grounding DINO: the lowest score of a box.
    pub box_threshold: Option<f64>,
    /// Where it ran.
    pub device: Option<String>,
    /// The lowest score of a detection.
    pub score_threshold: Option<f64>,
    /// Of Grounding DINO: the lowest score of a word of the label.
    pub text_threshold: Option<f64>,
}

/// The section `geometry`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct GeometryConfig {
    /// How far the centres have to be apart to decide, as a fraction of the picture; 0 to 1.
    pub margin: f64,
}

/// The section `output`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct OutputConfig {
    /// Whether pictures with the boxes are drawn.
    pub generate_overlays: bool,
    /// The metrics' file name.
    pub metrics_file: String,
    /// How they are drawn.
    pub overlay_style: OverlayStyle,
    /// The folder of the drawn pictures, within the output's.
    pub overlays_dir: String,
    /// The records' file name.
    pub results_file: String,
}

/// How detections are drawn.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct OverlayStyle {
    /// Of the relation's subject, RGB.
    pub box_a_color: [u8; 3],
    /// Of its object, RGB.
    pub box_b_color: [u8; 3],
    /// In pixels.
    pub font_size: u32,
    /// Of the text, RGB.
    pub text_color: [u8; 3],
}

/// The section `stability`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct StabilityConfig {
    /// Below this stability a verdict is not given; 0 to 1.
    pub consistency_threshold: f64,
    /// Whether it is tested.
    pub enabled: bool,
    /// The changes of the picture.
    pub perturbations: Vec<Perturbation>,
}

/// The section `thresholds`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Thresholds {
    /// Two detections of the same object whose scores differ by less are ambiguous.
    pub ambiguity_delta: f64,
    /// The lowest score of a detection that counts; 0 to 1.
    pub detection_score: f64,
    /// The largest overlap, as intersection over union, at which left and right are decided; 0 to 1.
    pub max_overlap_iou: f64,
    /// The smallest box that counts, as a fraction of the picture; 0 to 1.
    pub min_area_fraction: f64,
}

impl Default for ConfidenceConfig {
    fn default() -> Self {
        Self {
            geom_slope: 0.15,
            weights: Weights::default(),
        }
    }
}

impl Default for Weights {
    fn default() -> Self {
        Self {
            agreement: 0.1,
            detection: 0.4,
            geometry: 0.3,
            stability: 0.2,
        }
    }
}

impl Default for DetectorConfig {
    fn default() -> Self {
        Self {
            model_id: None,
            params: DetectorParams::default(),
            revision: None,
            kind: "fasterrcnn".into(),
        }
    }
}

impl Default for GeometryConfig {
    fn default() -> Self {
        Self { margin: 0.1 }
    }
}

impl Default for OutputConfig {
    fn default() -> Self {
        Self {
            generate_overlays: true,
            metrics_file: "metrics.json".into(),
            overlay_style: OverlayStyle::default(),
            overlays_dir: "overlays".into(),
            results_file: "per_sample.jsonl".into(),
        }
    }
}

impl Default for OverlayStyle {
    fn default() -> Self {
        Self {
            box_a_color: [255, 0, 0],
            box_b_color: [0, 0, 255],
            font_size: 16,
            text_color: [255, 255, 255],
        }
    }
}

impl Default for StabilityConfig {
    fn default() -> Self {
        Self {
            consistency_threshold: 0.5,
            enabled: true,
            perturbations: vec![
                Perturbation::Brightness { factor: 1.1 },
                Perturbation::Brightness { factor: 0.9 },
                Perturbation::GaussianBlur { sigma: 1.0 },
                Perturbation::Resize { scale: 0.9 },
            ],
        }
    }
}

impl Default for Thresholds {
    fn default() -> Self {
        Self {
            ambiguity_delta: 0.1,
            detection_score: 0.2,
            max_overlap_iou: 0.5,
            min_area_fraction: 0.005,
        }
    }
}

impl CheckerConfig {
    /// Whether every value is in its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let fraction = |key, value: f64| {
            within(key, value, "from 0 to 1", |value| {
                (0.0..=1.0).contains(&value)
            })
        };
        let positive = |key, value: f64| {
            within(key, value, "more than 0", |value| {
                value > 0.0 && value.is_finite()
            })
        };
        let weight = |key, value: f64| {
            within(key, value, "0 or more", |value| {
                value >= 0.0 && value.is_finite()
            })
        };
        let weights = &self.confidence.weights;
        weight("confidence.weights.agreement", weights.agreement)?;
        weight("confidence.weights.detection", weights.detection)?;
        weight("confidence.weights.geometry", weights.geometry)?;
        weight("confidence.weights.stability", weights.stability)?;
        positive("confidence.geom_slope", self.confidence.geom_slope)?;
        fraction("geometry.margin", self.geometry.margin)?;
        fraction(
            "stability.consistency_threshold",
            self.stability.consistency_threshold,
        )?;
        let thresholds = &self.thresholds;
        fraction("thresholds.ambiguity_delta", thresholds.ambiguity_delta)?;
        fraction("thresholds.detection_score", thresholds.detection_score)?;
        fraction("thresholds.max_overlap_iou", thresholds.max_overlap_iou)?;
        fraction("thresholds.min_area_fraction", thresholds.min_area_fraction)?;
        self.stability
            .perturbations
            .iter()
            .try_for_each(validate_perturbation)?;
        let detectors = [
            Some(&self.detector.primary),
            self.detector.secondary.as_ref(),
        ];
        detectors
            .into_iter()
            .flatten()
            .try_for_each(|detector| validate_params(&detector.params))?;
        let names = [
            ("output.metrics_file", &self.output.metrics_file),
            ("output.overlays_dir", &self.output.overlays_dir),
            ("output.results_file", &self.output.results_file),
        ];
        for (key, name) in names {
            // The output folder is the one that was asked for.
            if name.is_empty() || name.starts_with('.') || name.contains(['/', '\\', ':']) {
                return Err(ConfigError::Range {
                    key,
                    value: format!("{name:?}"),
                    wanted: "a name without a folder",
                });
            }
        }
        Ok(())
    }
}

fn validate_perturbation(perturbation: &Perturbation) -> Result<(), ConfigError> {
    // The limits keep a slip of the keyboard from blurring for hours or filling the memory.
    let (key, value, most, wanted) = match *perturbation {
        Perturbation::Brightness { factor } => (
            "the factor of a brightness",
            factor,
            1000.0,
            "more than 0, and at most 1000",
        ),
        Perturbation::GaussianBlur { sigma } => (
            "the sigma of a gaussian_blur",
            sigma,
            1000.0,
            "more than 0, and at most 1000",
        ),
        Perturbation::Resize { scale } => (
            "the scale of a resize",
            scale,
            10.0,
            "more than 0, and at most 10",
        ),
    };
    within(key, value, wanted, |value| value > 0.0 && value <= most)
}

fn validate_params(params: &DetectorParams) -> Result<(), ConfigError> {
    let thresholds = [
        ("params.box_threshold", params.box_threshold),
        ("params.score_threshold", params.score_threshold),
        ("params.text_threshold", params.text_threshold),
    ];
    for (key, value) in thresholds {
        if let Some(value) = value {
            within(key, value, "a finite number", f64::is_finite)?;
        }
    }
    Ok(())
}

fn within(
    key: &'static str,
    value: f64,
    wanted: &'static str,
    holds: impl Fn(f64) -> bool,
) -> Result<(), ConfigError> {
    if holds(value) {
        return Ok(());
    }
    Err(ConfigError::Range {
        key,
        value: float(value),
        wanted,
    })
}
