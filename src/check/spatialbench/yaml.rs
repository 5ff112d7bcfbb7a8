//! The configuration as YAML: read strictly, written as the released runs have it.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_saphyr::{MergeKeyPolicy, Options, UserMessageFormatter};

use super::config::{CheckerConfig, ConfigError};
use crate::json::float;

impl CheckerConfig {
    /// Reads a `checker_config.yaml`. A key that is not known is an error that names it: a misspelt threshold would
    /// otherwise be the default one.
    pub fn from_yaml(text: &str) -> Result<Self, ConfigError> {
        // An empty file, or one with nothing but comments, leaves everything out.
        let config: Option<Self> = read(text)?;
        let config = config.unwrap_or_default();
        config.validate()?;
        Ok(config)
    }

    /// The file as the released runs have it: every key, sorted, in block style.
    pub fn to_yaml(&self) -> String {
        // Structures of numbers, texts and lists always have a JSON value.
        let value = serde_json::to_value(self).unwrap_or_default();
        lines(&value)
            .iter()
            .map(|line| format!("{line}\n"))
            .collect()
    }
}

/// What is wrong is told with the line that it is in, which has the key.
fn read<T: DeserializeOwned>(text: &str) -> Result<T, ConfigError> {
    serde_saphyr::from_str_with_options(text, options()).map_err(|error| {
        let message = error.render_with_formatter(&UserMessageFormatter);
        let number = error.location().map_or(0, |location| location.line());
        let line = (1..).zip(text.lines()).find(|(i, _)| *i == number);
        ConfigError::Yaml(match line {
            Some((_, line)) => {
                let line: String = line.trim().chars().take(80).collect();
                format!("{message}: {line:?}")
            }
            None => message,
        })
    })
}

/// Strict where a slip would pass silently, with limits far beyond any configuration: aliases can make much of little.
fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: 100_000,
            max_nodes: 50_000,
            max_depth: 32,
            max_anchors: 100,
            max_aliases: 1000,
            max_total_scalar_bytes: 1 << 20,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: 10_000,
            max_replay_stack_depth: 8,
        },
        merge_keys: MergeKeyPolicy::Error,
        no_schema: true,
        reject_unsupported_tags: true,
        strict_booleans: true,
        with_snippet: false,
    }
}

/// A value's lines as PyYAML's `dump` puts them: keys sorted, fields indented, items not. What is not set has none.
fn lines(value: &Value) -> Vec<String> {
    match value {
        Value::Null => Vec::new(),
        Value::Bool(value) => vec![value.to_string()],
        Value::Number(number) => vec![match number.as_f64() {
            Some(value) if number.is_f64() => float(value),
            _ => number.to_string(),
        }],
        Value::String(text) => vec![scalar(text)],
        Value::Array(items) if items.is_empty() => vec!["[]".into()],
        Value::Array(items) => items.iter().flat_map(item).collect(),
        Value::Object(fields) => {
            let sorted: BTreeMap<_, _> = fields.iter().collect();
            let field = |(key, value): (&String, _)| field(key, value);
            sorted.into_iter().flat_map(field).collect()
        }
    }
}

fn item(value: &Value) -> Vec<String> {
    let mut lines = lines(value);
    for (i, line) in lines.iter_mut().enumerate() {
        line.insert_str(0, if i == 0 { "- " } else { "  " });
    }
    lines
}

fn field(key: &str, value: &Value) -> Vec<String> {
    let mut lines = lines(value);
    let (indent, is_block) = match value {
        Value::Object(_) => ("  ", true),
        Value::Array(items) => ("", !items.is_empty()),
        _ => ("", false),
    };
    match &mut lines[..] {
        [] => {}
        [line] if !is_block => line.insert_str(0, &format!("{key}: ")),
        all => {
            all.iter_mut().for_each(|line| line.insert_str(0, indent));
            lines.insert(0, format!("{key}:"));
        }
    }
    lines
}

/// A string, in quotation marks where it would be read as something else without them.
fn scalar(text: &str) -> String {
    let plain = text
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"_-./".contains(&byte))
        && text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '/' || c == '_')
        && text.parse::<f64>().is_err()
        // Not for this reader but for others, these are true and false.
        && !["yes", "no", "on", "off", "y", "n"].contains(&text.to_lowercase().as_str())
        && read(text).is_ok_and(|read: String| read == text);
    if plain {
        text.into()
    } else {
        // JSON's strings are YAML's, once the characters are escaped that only JSON takes as they are.
        let escape = |c: char| match c {
            '\u{7f}'..='\u{9f}'
            | '\u{2028}'
            | '\u{2029}'
            | '\u{feff}'
            | '\u{fffe}'
            | '\u{ffff}' => {
                format!("\\u{:04x}", u32::from(c))
            }
            c => c.into(),
        };
        Value::from(text).to_string().chars().map(escape).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::{DetectorConfig, Thresholds};
    use super::*;

    #[test]
    fn released_files_are_written_as_they_were() {
        let runs = [
            "sd15_promptonly/eval",
            "sd15_promptonly/eval_precal_20260116_113552",
            "sd15_boxdiff/eval_precal_20260116_113552",
        ];
        for run in runs {
            let root = concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/../../fixtures/spatialbench-uc"
            );
            let text =
                std::fs::read_to_string(format!("{root}/{run}/checker_config.yaml")).unwrap();
            assert_eq!(CheckerConfig::from_yaml(&text).unwrap().to_yaml(), text);
        }
    }

    #[test]
    fn any_text_is_written_so_that_it_is_read() {
        for text in [
            "",
            "12bdfa31",
            "0x1F",
            "0o17",
            "1_000",
            "12e4",
            "yes",
            "y",
            "No",
            "NULL",
            "~",
            "-",
            "a b",
            "a: b",
            "# x",
            "é\n\u{7}",
            ".inf",
            "nan",
            "1:30",
            "2026-01-12",
            "=",
            "<<",
            "!!x",
            "\u{7f}",
            "\u{85}\u{9f}",
            "\u{2028}\u{feff}\u{ffff}\u{10ffff}",
            "*a",
        ] {
            let mut config = CheckerConfig::default();
            config.detector.primary.kind = text.into();
            config.detector.secondary = Some(DetectorConfig {
                model_id: Some(text.into()),
                ..DetectorConfig::default()
            });
            config.stability.perturbations.clear();
            let yaml = config.to_yaml();
            assert_eq!(CheckerConfig::from_yaml(&yaml).unwrap(), config, "{yaml}");
        }
    }

    #[test]
    fn what_python_shares_is_read_and_bombs_are_not() {
        // PyYAML names a list that is in two places.
        let shared = "output:\n  overlay_style:\n    box_a_color: &id001 [1, 2, 3]\n    box_b_color: *id001\n";
        let style = CheckerConfig::from_yaml(shared)
            .unwrap()
            .output
            .overlay_style;
        assert_eq!(
            (style.box_a_color, style.box_b_color),
            ([1, 2, 3], [1, 2, 3])
        );
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
        for i in 1..12 {
            let many = vec![format!("*a{}", i - 1); 9].join(", ");
            bomb += &format!("a{i}: &a{i} [{many}]\n");
        }
        let deep = "[".repeat(100_000);
        let wide = "stability: {perturbations: [".to_owned() + &"{},".repeat(1_000_000);
        for text in [
            &bomb[..],
            &format!("output: {bomb}"),
            &deep,
            &wide,
            &"a: ".repeat(10_000),
            &"- ".repeat(1_000_000),
            &"stability:\n  perturbations:\n  "
                .chars()
                .chain("- ".repeat(100_000).chars())
                .collect::<String>(),
            &"? ".repeat(100_000),
        ] {
            let error = CheckerConfig::from_yaml(text).unwrap_err().to_string();
            assert!(error.len() < 400, "{error}");
        }
    }

    #[test]
    fn the_default_is_the_calibrated_one() {
        let config = CheckerConfig::default();
        assert_eq!(config.geometry.margin, 0.1);
        assert_eq!(config.thresholds.detection_score, 0.2);
        assert_eq!(CheckerConfig::from_yaml("# nothing\n").unwrap(), config);
        assert_eq!(CheckerConfig::from_yaml("").unwrap(), config);
        assert_eq!(CheckerConfig::from_yaml("---\n").unwrap(), config);
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
            (
                "geometry:\n  margin: wide\n",
                "line 2, column 11: \"margin: wide\"",
            ),
            ("geometry:\n  margin: true\n", "line 2"),
            ("geometry:\n- 0.1\n", "line 2"),
            ("geometry:\n", "line 1"),
            ("detector:\n  primary:\n    type: 5\n", "type: 5"),
            (
                "output:\n  generate_overlays: yes\n",
                "generate_overlays: yes",
            ),
            (
                "output:\n  metrics_file: !!python/name:os.system x\n",
                "python/name:os.system",
            ),
            (
                "geometry:\n  margin: 0.1\n---\ngeometry:\n  margin: 0.2\n",
                "document",
            ),
            (
                "geometry: &a\n  margin: 0.1\nconfidence:\n  <<: *a\n",
                "merge",
            ),
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
            (
                "thresholds:\n  detection_score: .nan\n",
                "thresholds.detection_score is NaN",
            ),
            (
                "detector:\n  primary:\n    params: {box_threshold: .inf}\n",
                "params.box_threshold is Infinity; it has to be a finite number",
            ),
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
