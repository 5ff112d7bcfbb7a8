//! What people said of the pictures: `labels_filled.json` (or `.csv`) as the labelling page exports it.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

use crate::spatialbench::Verdict;

/// What one person said of one picture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Label {
    /// Names the picture.
    pub sample_id: String,
    /// Whether it shows what was asked for.
    pub human_verdict: Verdict,
    /// In the person's words; may be empty.
    #[serde(default)]
    pub notes: String,
    /// When, RFC 3339; may be empty.
    #[serde(default)]
    pub timestamp: String,
}

/// Why a text holds no labels.
#[derive(Debug, Error)]
pub enum LabelError {
    /// Nothing is in it.
    #[error("there are no labels in it")]
    Empty,
    /// It is not JSON.
    #[error("it is neither a JSON list nor a CSV table of labels")]
    Json(#[from] serde_json::Error),
    /// A column is missing, or a value is not what its column holds.
    #[error("{0}")]
    Csv(#[from] csv::Error),
    /// It is JSON, but not a list.
    #[error("it is JSON, but not a list of {{sample_id, human_verdict, notes, timestamp}}")]
    NotAList,
    /// A label lacks something or holds something else.
    #[error("label {number}{}: {reason}", sample_id.as_ref().map_or(String::new(), |id| format!(" ({id})")))]
    Entry {
        /// Which, from 1.
        number: usize,
        /// The picture, if that can be read.
        sample_id: Option<String>,
        /// What is wrong.
        reason: String,
    },
    /// The same picture has two labels.
    #[error(
        "label {number}: {sample_id} already has the label {first}, and now {second}; keep one of them"
    )]
    Duplicate {
        /// Of the second label, from 1.
        number: usize,
        /// The picture.
        sample_id: String,
        /// What it says first.
        first: Verdict,
        /// What it says then.
        second: Verdict,
    },
}

/// Reads labels: a JSON list as the labelling page exports it, or a CSV table with the same names as columns. A byte
/// order mark and either kind of line ending do not matter.
pub fn read(text: &str) -> Result<Vec<Label>, LabelError> {
    let text = super::without_bom(text).trim_start();
    let labels = if text.starts_with(['[', '{']) {
        match serde_json::from_str(text)? {
            Value::Array(entries) => entries
                .into_iter()
                .enumerate()
                .map(|(i, entry)| label(i + 1, entry))
                .collect::<Result<_, _>>()?,
            _ => return Err(LabelError::NotAList),
        }
    } else {
        from_csv(text)?
    };
    if labels.is_empty() {
        return Err(LabelError::Empty);
    }
    let mut seen: HashMap<&str, Verdict> = HashMap::new();
    for (i, label) in labels.iter().enumerate() {
        if let Some(first) = seen.insert(&label.sample_id, label.human_verdict) {
            return Err(LabelError::Duplicate {
                number: i + 1,
                sample_id: label.sample_id.clone(),
                first,
                second: label.human_verdict,
            });
        }
    }
    Ok(labels)
}

fn from_csv(text: &str) -> Result<Vec<Label>, LabelError> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let headers = reader.headers()?.clone();
    reader
        .records()
        .enumerate()
        .map(|(i, record)| {
            let record = record?;
            let fields = headers.iter().zip(record.iter());
            let entry = fields
                .map(|(name, value)| (name.to_owned(), value.into()))
                .collect();
            label(i + 1, Value::Object(entry))
        })
        .collect()
}

/// Reads the parts one by one, so that an error can say which label it is of.
fn label(number: usize, entry: Value) -> Result<Label, LabelError> {
    let text = |name: &str| entry.get(name).and_then(Value::as_str);
    let sample_id = text("sample_id").filter(|id| !id.is_empty());
    let fail = |reason: String| LabelError::Entry {
        number,
        sample_id: sample_id.map(str::to_owned),
        reason,
    };
    let Some(id) = sample_id else {
        return Err(fail("there is no sample_id".into()));
    };
    let word = text("human_verdict").ok_or_else(|| fail("there is no human_verdict".into()))?;
    let human_verdict = [Verdict::Pass, Verdict::Fail, Verdict::Undecidable]
        .into_iter()
        .find(|verdict| verdict.as_str() == word.trim())
        .ok_or_else(|| {
            fail(format!(
                "{word:?} is not a verdict; it is PASS, FAIL or UNDECIDABLE"
            ))
        })?;
    Ok(Label {
        sample_id: id.into(),
        human_verdict,
        notes: text("notes").unwrap_or_default().into(),
        timestamp: text("timestamp").unwrap_or_default().into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_read_from_json_and_csv() {
        let json = r#"[{"sample_id":"a","human_verdict":"PASS","notes":"x, y","timestamp":"2026-01-14T15:37:27.930Z"},
            {"sample_id":"b","human_verdict":"UNDECIDABLE"}]"#;
        let labels = read(json).unwrap();
        assert_eq!(labels[0].notes, "x, y");
        assert_eq!(labels[1].human_verdict, Verdict::Undecidable);
        assert_eq!(read(&format!("\u{feff}\r\n{json}")).unwrap(), labels);
        let csv = "\u{feff}sample_id,human_verdict,notes,timestamp\r\na,PASS,\"x, y\",2026-01-14T15:37:27.930Z\r\nb,UNDECIDABLE,,\r\n";
        assert_eq!(read(csv).unwrap(), labels);
    }

    #[test]
    fn what_is_no_label_is_refused() {
        let refused = |text: &str, parts: &[&str]| {
            let error = read(text).unwrap_err().to_string();
            for part in parts {
                assert!(error.contains(part), "{error:?} lacks {part:?}");
            }
        };
        refused("", &["no labels"]);
        refused("[]", &["no labels"]);
        refused("{}", &["not a list"]);
        refused("[{", &["neither"]);
        refused("sample_id\nx\n", &["label 1 (x)", "no human_verdict"]);
        refused(
            r#"[{"human_verdict":"PASS"}]"#,
            &["label 1:", "no sample_id"],
        );
        refused(
            r#"[{"sample_id":"a","human_verdict":"PASS"},{"sample_id":"b","human_verdict":"maybe"}]"#,
            &["label 2 (b)", "maybe", "UNDECIDABLE"],
        );
        refused(
            r#"[{"sample_id":"a","human_verdict":"PASS"},{"sample_id":"a","human_verdict":"FAIL"}]"#,
            &["label 2", "a already has the label PASS, and now FAIL"],
        );
    }
}
