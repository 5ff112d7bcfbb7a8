//! `per_sample.jsonl`: one line a picture, with what was found, the verdict and how sure it is, in the released schema.

use std::collections::HashMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

use super::rule::{
    Components, Decision, Look, Question, RelationError, Rule, Secondary, Selected, Size,
};
use super::verdict::Verdict;
use crate::detection::{BoundingBox, Detection};
use crate::json;
use prepose_scene::Relation;

/// Why records cannot be used.
#[derive(Debug, Error)]
pub enum RecordError {
    /// A line is no record.
    #[error("line {line}: {source}")]
    Line {
        /// From 1.
        line: usize,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// Two lines are about the same picture.
    #[error(
        "line {line}: {sample_id:?} is already on line {first}; each sample_id stands for one picture"
    )]
    Duplicate {
        /// From 1.
        line: usize,
        /// Where it was before.
        first: usize,
        /// Whose.
        sample_id: String,
    },
    /// A line has a number that its field cannot have.
    #[error("line {line}: {sample_id}: {what}")]
    Value {
        /// From 1.
        line: usize,
        /// Whose.
        sample_id: String,
        /// What is wrong.
        what: String,
    },
    /// There is no record.
    #[error("there is no record in it")]
    Empty,
    /// A relation that the rule does not know.
    #[error("{sample_id}: {source}")]
    Relation {
        /// Whose.
        sample_id: String,
        /// Which.
        source: RelationError,
    },
}

/// One line of `per_sample.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// `{run_id}_{prompt_id}_seed%04d`.
    pub sample_id: String,
    /// Names the prompt within its set.
    pub prompt_id: String,
    /// How `object_a` should stand to `object_b`, written `left_of`.
    #[serde(serialize_with = "write_relation", deserialize_with = "read_relation")]
    pub relation: Relation,
    /// The relation's subject.
    pub object_a: String,
    /// Its object.
    pub object_b: String,
    /// The verdict, before any threshold on the confidence.
    pub verdict_raw: Verdict,
    /// Why it is undecidable, as [`Reason`](super::Reason) is displayed.
    pub verdict_reason: Option<String>,
    /// How sure the verdict is.
    pub conf: f64,
    /// What that is made of.
    pub conf_components: Components,
    /// What the detectors found.
    pub detectors: Detectors,
    /// What the verdict is about.
    pub selected: SelectedBoxes,
    /// How it lies.
    pub geometry: GeometryRecord,
    /// The picture with the boxes drawn into it, relative to the records' folder.
    pub overlay_path: Option<String>,
    /// Width and height of the picture in pixels; left out for [`RELEASED_SIZE`], which all released records have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_size: Option<Size>,
}

/// Width and height of the benchmark's pictures, which its records do not say.
pub const RELEASED_SIZE: Size = [512, 512];

/// What the detectors found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Detectors {
    /// Decides.
    pub primary: DetectorRecord,
    /// Agrees or not; not there where it was not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secondary: Option<DetectorRecord>,
}

/// What one detector found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DetectorRecord {
    /// The detector's name.
    #[serde(rename = "type")]
    pub kind: String,
    /// Best first.
    pub detections: Vec<Detection>,
}

/// What the verdict is about; nothing where an object is missing, or both have one label.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SelectedBoxes {
    /// The subject's box.
    pub box_a_xyxy: Option<BoundingBox>,
    /// The object's box.
    pub box_b_xyxy: Option<BoundingBox>,
    /// The subject's score.
    pub score_a: Option<f64>,
    /// The object's score.
    pub score_b: Option<f64>,
}

/// How the two boxes lie; see [`Geometry`](super::Geometry).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GeometryRecord {
    /// None where an object is missing or ambiguous.
    pub delta: Option<f64>,
    /// The margin that decided.
    pub margin: f64,
    /// None where an object is missing or ambiguous.
    pub iou_ab: Option<f64>,
}

fn write_relation<S: Serializer>(relation: &Relation, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&relation_name(*relation))
}

fn read_relation<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Relation, D::Error> {
    let name = String::deserialize(deserializer)?;
    name.parse().map_err(serde::de::Error::custom)
}

/// A relation's name in records: `left_of`.
pub fn relation_name(relation: Relation) -> String {
    relation.as_str().replace(' ', "_")
}

/// Reads the lines of a `per_sample.jsonl`; empty ones are passed over.
pub fn read_records(text: &str) -> Result<Vec<Record>, RecordError> {
    let mut records = Vec::new();
    let mut lines = HashMap::new();
    for (line, text) in (1..).zip(text.lines()) {
        if text.trim().is_empty() {
            continue;
        }
        let record: Record =
            json::from_str(text).map_err(|source| RecordError::Line { line, source })?;
        if let Some(what) = record.nonsense() {
            let sample_id = record.sample_id;
            return Err(RecordError::Value {
                line,
                sample_id,
                what,
            });
        }
        if let Some(first) = lines.insert(record.sample_id.clone(), line) {
            let sample_id = record.sample_id;
            return Err(RecordError::Duplicate {
                line,
                first,
                sample_id,
            });
        }
        records.push(record);
    }
    if records.is_empty() {
        return Err(RecordError::Empty);
    }
    Ok(records)
}

/// The lines of a `per_sample.jsonl`.
pub fn write_records(records: &[Record]) -> serde_json::Result<String> {
    let mut text = String::new();
    for record in records {
        text.push_str(&json::to_line(record)?);
        text.push('\n');
    }
    Ok(text)
}

/// What the records of one picture say together: it passes if all relations do and fails if one does. The confidence is that
/// of the least sure. None without records.
pub fn joint<'a>(records: impl IntoIterator<Item = &'a Record>) -> Option<(Verdict, f64)> {
    let mut joint: Option<(Verdict, f64)> = None;
    for Record {
        verdict_raw, conf, ..
    } in records
    {
        joint = Some(match joint {
            None => (*verdict_raw, *conf),
            Some((so_far, least)) => {
                let verdict = match (so_far, *verdict_raw) {
                    (Verdict::Fail, _) | (_, Verdict::Fail) => Verdict::Fail,
                    (Verdict::Pass, Verdict::Pass) => Verdict::Pass,
                    _ => Verdict::Undecidable,
                };
                (verdict, least.min(*conf))
            }
        });
    }
    joint
}

impl Record {
    /// A record of a picture that was looked at; the decision is still to be [`set`](Self::set).
    pub fn new(
        sample_id: String,
        prompt_id: String,
        question: &Question,
        size: Size,
        detectors: Detectors,
    ) -> Self {
        Self {
            sample_id,
            prompt_id,
            relation: question.relation,
            object_a: question.object_a.clone(),
            object_b: question.object_b.clone(),
            verdict_raw: Verdict::Undecidable,
            verdict_reason: None,
            conf: 0.0,
            conf_components: Components::default(),
            detectors,
            selected: SelectedBoxes::default(),
            geometry: GeometryRecord {
                delta: None,
                margin: 0.0,
                iou_ab: None,
            },
            overlay_path: None,
            image_size: Some(size).filter(|size| *size != RELEASED_SIZE),
        }
    }

    /// What the record asks of its picture.
    pub fn question(&self) -> Question {
        Question {
            relation: self.relation,
            object_a: self.object_a.clone(),
            object_b: self.object_b.clone(),
        }
    }

    /// The size of its picture.
    pub fn size(&self) -> Size {
        self.image_size.unwrap_or(RELEASED_SIZE)
    }

    /// Writes a decision of the rule into the record.
    pub fn set(&mut self, rule: &Rule, decision: Decision) {
        let Decision {
            verdict,
            reason,
            confidence,
            components,
            selected,
            geometry,
        } = decision;
        self.verdict_raw = verdict;
        self.verdict_reason = reason.map(|reason| reason.to_string());
        self.conf = confidence;
        self.conf_components = components;
        self.selected =
            selected.map_or_else(SelectedBoxes::default, |Selected { a, b }| SelectedBoxes {
                box_a_xyxy: Some(a.bbox),
                box_b_xyxy: Some(b.bbox),
                score_a: Some(a.score),
                score_b: Some(b.score),
            });
        self.geometry = GeometryRecord {
            delta: geometry.map(|geometry| geometry.delta),
            margin: rule.config.geometry.margin,
            iou_ab: geometry.map(|geometry| geometry.iou),
        };
    }

    /// Decides the record's picture again, from its detections.
    ///
    /// What pictures would be needed for is taken from the record: the stability, and the agreement where a secondary
    /// detector ran but left no detections. Where the record never measured them, because it found an object missing,
    /// ambiguous, overlapping or near the boundary, and the rule now decides, the stability is taken as 1 and the
    /// agreement as the neutral 0.5 of a detector that failed; [`Redecided::unmeasured`] says so.
    pub fn redecide(&self, rule: &Rule) -> Result<Redecided, RecordError> {
        let fail = |source| RecordError::Relation {
            sample_id: self.sample_id.clone(),
            source,
        };
        let question = self.question();
        let primary = &self.detectors.primary.detections;
        let look = rule.look(&question, self.size(), primary).map_err(fail)?;
        let stability = self.stability();
        let secondary = self.secondary(rule);
        let unmeasured = is_unmeasured(rule, &look, stability, secondary);
        let decision = rule
            .conclude(&question, self.size(), look, stability, secondary)
            .map_err(fail)?;
        let mut record = self.clone();
        record.set(rule, decision);
        Ok(Redecided { record, unmeasured })
    }

    /// The stability that was measured: only a verdict that passed, failed or was found unstable was put to the test.
    pub fn stability(&self) -> Option<f64> {
        let tested = self.verdict_raw.is_decided() || self.reason_is("unstable");
        tested.then_some(self.conf_components.stability)
    }

    /// What is known of the secondary detector, where the rule has one.
    fn secondary(&self, rule: &Rule) -> Secondary<'_> {
        if rule.config.detector.secondary.is_none() {
            return Secondary::None;
        }
        if let Some(secondary) = &self.detectors.secondary {
            return Secondary::Found(&secondary.detections);
        }
        if self.verdict_raw.is_decided()
            || self.reason_is("unstable")
            || self.reason_is("near_boundary")
        {
            // It was switched off, or failed.
            return Secondary::Known(self.conf_components.agreement);
        }
        Secondary::Failed
    }

    fn reason_is(&self, name: &str) -> bool {
        self.verdict_reason
            .as_deref()
            .is_some_and(|reason| reason.starts_with(name))
    }

    /// What about the record's numbers cannot be.
    fn nonsense(&self) -> Option<String> {
        if self.image_size.is_some_and(|size| size.contains(&0)) {
            return Some("image_size has a zero".into());
        }
        let secondary = self.detectors.secondary.iter();
        let detectors = std::iter::once(&self.detectors.primary).chain(secondary);
        detectors
            .flat_map(|detector| &detector.detections)
            .find_map(|detection| {
                let Detection {
                    label, score, bbox, ..
                } = detection;
                if !(0.0..=1.0).contains(score) {
                    return Some(format!(
                        "the score of {label:?} is {score}, not from 0 to 1"
                    ));
                }
                let wrong = bbox.x0 > bbox.x1 || bbox.y0 > bbox.y1;
                wrong.then(|| {
                    let corners: [f64; 4] = (*bbox).into();
                    format!("the box of {label:?} is {corners:?}, not [x0, y0, x1, y1]")
                })
            })
    }
}

/// A record that was decided again.
#[derive(Clone, Debug, PartialEq)]
pub struct Redecided {
    /// With the new verdict.
    pub record: Record,
    /// Whether the verdict needs a stability or an agreement that the record never measured.
    pub unmeasured: bool,
}

fn is_unmeasured(rule: &Rule, look: &Look, stability: Option<f64>, secondary: Secondary) -> bool {
    let stability = rule.config.stability.enabled
        && !rule.config.stability.perturbations.is_empty()
        && look.verdict.is_decided()
        && stability.is_none();
    stability || (!look.is_final() && secondary == Secondary::Failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"sample_id": "s0", "prompt_id": "p", "relation": "left_of", "object_a": "cat", "object_b": "dog", "verdict_raw": "PASS", "verdict_reason": null, "conf": 0.5, "conf_components": {"detection": 0.9, "geometry": 1.0, "stability": 0.75, "agreement": 1.0}, "detectors": {"primary": {"type": "fasterrcnn", "detections": [{"label": "cat", "score": 0.9, "box_xyxy": [0.0, 100.0, 100.0, 200.0]}, {"label": "dog", "score": 0.9, "box_xyxy": [300.0, 100.0, 400.0, 200.0]}]}}, "selected": {"box_a_xyxy": [0.0, 100.0, 100.0, 200.0], "box_b_xyxy": [300.0, 100.0, 400.0, 200.0], "score_a": 0.9, "score_b": 0.9}, "geometry": {"delta": -0.5859375, "margin": 0.1, "iou_ab": 0.0}, "overlay_path": null}"#;

    #[test]
    fn a_record_is_written_as_it_was_read() {
        let text = format!("{LINE}\n");
        let records = read_records(&format!("\n{text}")).unwrap();
        assert_eq!(write_records(&records).unwrap(), text);
    }

    #[test]
    fn errors_name_the_line() {
        for (text, wanted) in [
            (format!("{LINE}\n{{\n"), "line 2: "),
            (
                format!("{LINE}\n{LINE}\n"),
                "line 2: \"s0\" is already on line 1",
            ),
            (
                LINE.replace("\"conf\": 0.5, ", ""),
                "line 1: missing field `conf`",
            ),
            (LINE.replace("left_of", "inside_of"), "inside_of"),
            (LINE.replace("\"PASS\"", "\"MAYBE\""), "MAYBE"),
            (
                LINE.replace("\"score\": 0.9", "\"score\": 1.5"),
                "line 1: s0: the score of \"cat\"",
            ),
            (
                LINE.replace("[300.0, 100.0, 400", "[500.0, 100.0, 400"),
                "the box of \"dog\"",
            ),
            (
                LINE.replace("[300.0, 100.0, 400.0, 200.0]", "[300.0, 100.0]"),
                "line 1: ",
            ),
            ("\n \n".into(), "no record"),
        ] {
            let error = read_records(&text).unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}");
        }
    }

    #[test]
    fn what_was_never_measured_is_said() {
        let record = read_records(LINE).unwrap().remove(0);
        let mut rule = Rule::default();
        let again = record.redecide(&rule).unwrap();
        assert_eq!(again.record.conf_components.stability, 0.75);
        assert_eq!(again.record.conf_components.agreement, 1.0);
        assert!(!again.unmeasured);
        let mut boundary = record.clone();
        boundary.verdict_raw = Verdict::Undecidable;
        boundary.verdict_reason = Some("near_boundary (…)".into());
        boundary.conf_components.stability = 1.0;
        assert!(boundary.redecide(&rule).unwrap().unmeasured);
        let mut missing = record;
        missing.verdict_raw = Verdict::Undecidable;
        missing.verdict_reason = Some("missing: cat".into());
        missing.conf_components = Components::default();
        rule.config.detector.secondary = Some(super::super::config::DetectorConfig::default());
        rule.config.stability.enabled = false;
        let again = missing.redecide(&rule).unwrap();
        assert!(again.unmeasured);
        assert_eq!(again.record.verdict_raw, Verdict::Pass);
        assert_eq!(again.record.conf_components.agreement, 0.5);
    }

    #[test]
    fn a_picture_of_another_size_says_so() {
        let mut record = read_records(LINE).unwrap().remove(0);
        record.image_size = Some([256, 128]);
        let line = write_records(std::slice::from_ref(&record)).unwrap();
        assert!(line.ends_with("\"image_size\": [256, 128]}\n"), "{line}");
        assert_eq!(read_records(&line).unwrap(), [record]);
    }
}
