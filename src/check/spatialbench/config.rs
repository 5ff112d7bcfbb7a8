//! The checker's configuration: `checker_config.yaml`, as the released runs have it.

use std::fmt::Write as _;

use saphyr::{LoadableYamlNode, Scalar, Yaml};
use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

use crate::check::json::float;
use crate::check::perturb::Perturbation;

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
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConfidenceConfig {
    /// How far beyond the margin, as a fraction of the picture, geometry is certain; more than 0.
    pub geom_slope: f64,
    /// The exponents of the four parts.
    pub weights: Weights,
}

/// The exponents of the confidence's four parts, each at least 0.
#[derive(Clone, Debug, PartialEq, Deserialize)]
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
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DetectorsConfig {
    /// Decides the verdict.
    pub primary: DetectorConfig,
    /// Agrees or not, where there is one.
    pub secondary: Option<DetectorConfig>,
}

/// One detector.
#[derive(Clone, Debug, PartialEq, Deserialize)]
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
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GeometryConfig {
    /// How far the centres have to be apart to decide, as a fraction of the picture; 0 to 1.
    pub margin: f64,
}

/// The section `output`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Deserialize)]
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
    /// Reads a `checker_config.yaml`. A key that is not known is an error that names it: a misspelt threshold would
    /// otherwise be the default one.
    pub fn from_yaml(text: &str) -> Result<Self, ConfigError> {
        let fail = |error: &dyn std::fmt::Display| ConfigError::Yaml(error.to_string());
        let documents = Yaml::load_from_str(text).map_err(|error| fail(&error))?;
        let config = match &documents[..] {
            // An empty file, or one with nothing but comments, leaves everything out.
            [] | [Yaml::Value(Scalar::Null)] => Self::default(),
            [document] => serde_json::from_value(value(document)?).map_err(|error| fail(&error))?,
            _ => return Err(fail(&"there is more than one document in it")),
        };
        config.validate()?;
        Ok(config)
    }

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
        for perturbation in &self.stability.perturbations {
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
            within(key, value, wanted, |value| value > 0.0 && value <= most)?;
        }
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

    /// The file as the released runs have it: every key, sorted, in block style.
    pub fn to_yaml(&self) -> String {
        let mut yaml = Lines::default();
        yaml.section(0, "confidence");
        yaml.value(1, "geom_slope", float(self.confidence.geom_slope));
        yaml.section(1, "weights");
        let weights = &self.confidence.weights;
        yaml.value(2, "agreement", float(weights.agreement));
        yaml.value(2, "detection", float(weights.detection));
        yaml.value(2, "geometry", float(weights.geometry));
        yaml.value(2, "stability", float(weights.stability));
        yaml.section(0, "detector");
        yaml.detector("primary", &self.detector.primary);
        if let Some(secondary) = &self.detector.secondary {
            yaml.detector("secondary", secondary);
        }
        yaml.section(0, "geometry");
        yaml.value(1, "margin", float(self.geometry.margin));
        let output = &self.output;
        yaml.section(0, "output");
        yaml.value(1, "generate_overlays", output.generate_overlays.to_string());
        yaml.value(1, "metrics_file", scalar(&output.metrics_file));
        yaml.section(1, "overlay_style");
        yaml.colour("box_a_color", output.overlay_style.box_a_color);
        yaml.colour("box_b_color", output.overlay_style.box_b_color);
        yaml.value(2, "font_size", output.overlay_style.font_size.to_string());
        yaml.colour("text_color", output.overlay_style.text_color);
        yaml.value(1, "overlays_dir", scalar(&output.overlays_dir));
        yaml.value(1, "results_file", scalar(&output.results_file));
        let stability = &self.stability;
        yaml.section(0, "stability");
        let threshold = float(stability.consistency_threshold);
        yaml.value(1, "consistency_threshold", threshold);
        yaml.value(1, "enabled", stability.enabled.to_string());
        if stability.perturbations.is_empty() {
            yaml.value(1, "perturbations", "[]".into());
        } else {
            yaml.section(1, "perturbations");
        }
        for perturbation in &stability.perturbations {
            let (key, value) = match *perturbation {
                Perturbation::Brightness { factor } => ("factor", factor),
                Perturbation::GaussianBlur { sigma } => ("sigma", sigma),
                Perturbation::Resize { scale } => ("scale", scale),
            };
            yaml.value(1, &format!("- {key}"), float(value));
            yaml.value(2, "type", perturbation.name().into());
        }
        let thresholds = &self.thresholds;
        yaml.section(0, "thresholds");
        yaml.value(1, "ambiguity_delta", float(thresholds.ambiguity_delta));
        yaml.value(1, "detection_score", float(thresholds.detection_score));
        yaml.value(1, "max_overlap_iou", float(thresholds.max_overlap_iou));
        yaml.value(1, "min_area_fraction", float(thresholds.min_area_fraction));
        yaml.0
    }
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

/// A YAML node as what serde reads; the configuration's kinds of values are JSON's.
fn value(node: &Yaml) -> Result<Value, ConfigError> {
    Ok(match node {
        Yaml::Value(Scalar::Null) => Value::Null,
        Yaml::Value(Scalar::Boolean(value)) => Value::from(*value),
        Yaml::Value(Scalar::Integer(value)) => Value::from(*value),
        // Not every number is one of JSON's; infinity and NaN are no use here.
        Yaml::Value(Scalar::FloatingPoint(value)) if !value.is_finite() => {
            return Err(ConfigError::Yaml(format!("{value} is no finite number")));
        }
        Yaml::Value(Scalar::FloatingPoint(value)) => Value::from(value.into_inner()),
        Yaml::Value(Scalar::String(value)) => Value::from(value.as_ref()),
        Yaml::Sequence(items) => items.iter().map(value).collect::<Result<_, _>>()?,
        Yaml::Mapping(fields) => {
            let field = |(key, node): (&Yaml, &Yaml)| match key.as_str() {
                Some(key) => Ok((key.to_owned(), value(node)?)),
                None => Err(ConfigError::Yaml(format!("the key {key:?} is no text"))),
            };
            Value::Object(fields.iter().map(field).collect::<Result<_, _>>()?)
        }
        Yaml::Representation(..) | Yaml::Tagged(..) | Yaml::Alias(_) | Yaml::BadValue => {
            return Err(ConfigError::Yaml(format!(
                "tags and aliases are not read: {node:?}"
            )));
        }
    })
}

/// Lines of YAML as PyYAML's `dump` puts them.
#[derive(Default)]
struct Lines(String);

impl Lines {
    fn section(&mut self, depth: usize, key: &str) {
        // Writing into a string cannot fail.
        let _ = writeln!(self.0, "{}{key}:", "  ".repeat(depth));
    }

    fn value(&mut self, depth: usize, key: &str, value: String) {
        let _ = writeln!(self.0, "{}{key}: {value}", "  ".repeat(depth));
    }

    fn colour(&mut self, key: &str, colour: [u8; 3]) {
        self.section(2, key);
        for channel in colour {
            let _ = writeln!(self.0, "    - {channel}");
        }
    }

    fn detector(&mut self, key: &str, detector: &DetectorConfig) {
        self.section(1, key);
        if let Some(model_id) = &detector.model_id {
            self.value(2, "model_id", scalar(model_id));
        }
        let params = &detector.params;
        let params = [
            ("box_threshold", params.box_threshold.map(float)),
            ("device", params.device.as_deref().map(scalar)),
            ("score_threshold", params.score_threshold.map(float)),
            ("text_threshold", params.text_threshold.map(float)),
        ];
        if params.iter().any(|(_, value)| value.is_some()) {
            self.section(2, "params");
        }
        for (key, value) in params {
            if let Some(value) = value {
                self.value(3, key, value);
            }
        }
        if let Some(revision) = &detector.revision {
            self.value(2, "revision", scalar(revision));
        }
        self.value(2, "type", scalar(&detector.kind));
    }
}

/// A string, in quotation marks where it would be read as something else without them.
fn scalar(text: &str) -> String {
    let plain = text
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"_-./".contains(&byte))
        && text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '/' || c == '_')
        && text.parse::<f64>().is_err()
        && !["true", "false", "yes", "no", "on", "off", "null", "y", "n"]
            .contains(&text.to_lowercase().as_str());
    if plain {
        text.into()
    } else {
        // JSON's strings are YAML's.
        serde_json::Value::from(text).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_the_calibrated_one() {
        let config = CheckerConfig::default();
        assert_eq!(config.geometry.margin, 0.1);
        assert_eq!(config.thresholds.detection_score, 0.2);
        assert_eq!(CheckerConfig::from_yaml("# nothing\n").unwrap(), config);
        assert_eq!(CheckerConfig::from_yaml("").unwrap(), config);
        assert_eq!(CheckerConfig::from_yaml(&config.to_yaml()).unwrap(), config);
    }

    #[test]
    fn what_is_left_out_is_the_default() {
        let config = CheckerConfig::from_yaml("geometry:\n  margin: 0.05\n").unwrap();
        assert_eq!(config.geometry.margin, 0.05);
        assert_eq!(config.thresholds, Thresholds::default());
        let secondary =
            "detector:\n  secondary:\n    type: \"a: b\"\n    params: {box_threshold: 1}\n";
        let config = CheckerConfig::from_yaml(secondary).unwrap();
        assert_eq!(CheckerConfig::from_yaml(&config.to_yaml()).unwrap(), config);
    }

    #[test]
    fn unknown_keys_are_refused_by_name() {
        for (yaml, name) in [
            ("thresholds:\n  detection_scor: 0.2\n", "detection_scor"),
            ("margin: 0.1\n", "margin"),
            (
                "stability:\n  perturbations:\n  - type: rotate\n    angle: 3\n",
                "rotate",
            ),
            (
                "stability:\n  perturbations:\n  - type: resize\n    scale: 0.9\n    sigma: 1\n",
                "sigma",
            ),
            ("geometry:\n  margin: wide\n", "wide"),
            ("geometry:\n  margin: 0.1\n  margin: 0.2\n", "line 3"),
        ] {
            let error = CheckerConfig::from_yaml(yaml).unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
        }
    }

    #[test]
    fn values_out_of_range_are_refused_by_name() {
        for (yaml, name) in [
            ("geometry:\n  margin: 1.5\n", "geometry.margin is 1.5"),
            ("confidence:\n  geom_slope: 0\n", "confidence.geom_slope"),
            ("thresholds:\n  detection_score: .nan\n", "no finite number"),
            ("output:\n  results_file: ../x\n", "output.results_file"),
            (
                "stability:\n  perturbations: [{type: resize, scale: 90}]\n",
                "the scale of a resize is 90.0",
            ),
        ] {
            let error = CheckerConfig::from_yaml(yaml).unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
        }
    }
}
