//! The configuration as YAML: read strictly, written as the released runs have it.

use std::fmt::Write as _;

use saphyr::{LoadableYamlNode, Scalar, Yaml};
use serde_json::Value;

use super::config::{CheckerConfig, ConfigError, DetectorConfig};
use crate::json::float;
use crate::perturb::Perturbation;

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
    use super::super::config::Thresholds;
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
