//! The checker's records and people's labels of the same pictures.

use std::collections::{HashMap, HashSet};

use thiserror::Error;

use super::agreement::Judgement;
use super::labels::Label;
use super::redecide::Picture;
use super::table::SampleRow;
use crate::spatialbench::{Record, Verdict};

/// Why records and labels do not go together.
#[derive(Debug, PartialEq, Error)]
pub enum JoinError {
    /// Labels of pictures that are not in the sample.
    #[error(
        "{count} of {total} labels are of pictures that are not in the sample (the first is {first}); they belong to \
         another sample"
    )]
    NotInSample {
        /// How many.
        count: usize,
        /// Of how many.
        total: usize,
        /// One of them.
        first: String,
    },
    /// Pictures without a record.
    #[error(
        "{count} of {total} pictures are in none of the records (the first is {first}); give the records of all runs, \
         or leave these pictures out with --partial"
    )]
    NoRecord {
        /// How many.
        count: usize,
        /// Of how many.
        total: usize,
        /// One of them.
        first: String,
    },
    /// Nothing is left.
    #[error("none of the {total} pictures is in the records; the records are of other runs")]
    NothingInCommon {
        /// How many were asked for.
        total: usize,
    },
    /// A picture has two records of the same margin that differ.
    #[error(
        "{sample_id} has two different records at margin {margin}; give each run's records once"
    )]
    Conflict {
        /// The picture.
        sample_id: String,
        /// The margin.
        margin: f64,
    },
}

/// The pictures of an audit, in the sample's order (without a sample, in the labels').
#[derive(Clone, Debug, PartialEq)]
pub struct Audit {
    /// What is known of each.
    pub pictures: Vec<Picture>,
    /// Pictures that were left out because no record has them.
    pub left_out: usize,
}

impl Audit {
    /// Brings together what is said of the same pictures. Records of other pictures do not matter; without a sample, the
    /// labelled pictures are the sample. `partial` leaves out pictures without a record instead of refusing them.
    pub fn new(
        records: impl IntoIterator<Item = Record>,
        labels: &[Label],
        sample: Option<&[SampleRow]>,
        partial: bool,
    ) -> Result<Self, JoinError> {
        let verdicts: HashMap<&str, _> = labels
            .iter()
            .map(|label| (label.sample_id.as_str(), label.human_verdict))
            .collect();
        let wanted: Vec<&str> = match sample {
            Some(rows) => rows.iter().map(|row| row.sample_id.as_str()).collect(),
            None => labels.iter().map(|l| l.sample_id.as_str()).collect(),
        };
        let set: HashSet<&str> = wanted.iter().copied().collect();
        let mut strangers = labels
            .iter()
            .filter(|label| !set.contains(label.sample_id.as_str()));
        if let Some(first) = strangers.next() {
            return Err(JoinError::NotInSample {
                count: 1 + strangers.count(),
                total: labels.len(),
                first: first.sample_id.clone(),
            });
        }

        let mut found: HashMap<String, Vec<Record>> = HashMap::new();
        for record in records {
            if !set.contains(record.sample_id.as_str()) {
                continue;
            }
            let margin = record.geometry.margin;
            let others = found.entry(record.sample_id.clone()).or_default();
            match others.iter().find(|other| other.geometry.margin == margin) {
                None => others.push(record),
                Some(other) if *other == record => {}
                Some(_) => {
                    return Err(JoinError::Conflict {
                        sample_id: record.sample_id,
                        margin,
                    });
                }
            }
        }

        let total = wanted.len();
        if found.is_empty() {
            return Err(JoinError::NothingInCommon { total });
        }
        let mut missing = wanted.iter().filter(|id| !found.contains_key(**id));
        let left_out = match missing.next() {
            None => 0,
            Some(first) => {
                let count = 1 + missing.count();
                if !partial {
                    return Err(JoinError::NoRecord {
                        count,
                        total,
                        first: (*first).into(),
                    });
                }
                count
            }
        };
        let pictures = wanted
            .into_iter()
            .filter_map(|id| {
                Some(Picture {
                    records: found.remove(id)?,
                    human: verdicts.get(id).copied(),
                })
            })
            .collect();
        Ok(Self { pictures, left_out })
    }

    /// What people say of the pictures, of those that have a label.
    pub fn human_verdicts(&self) -> impl Iterator<Item = Verdict> {
        self.pictures.iter().filter_map(|picture| picture.human)
    }

    /// The margins of the records, rising.
    pub fn margins(&self) -> Vec<f64> {
        let records = self.pictures.iter().flat_map(|picture| &picture.records);
        let mut margins: Vec<f64> = records.map(|record| record.geometry.margin).collect();
        margins.sort_by(f64::total_cmp);
        margins.dedup();
        margins
    }

    /// What the records of one margin say, beside what people say.
    pub fn judgements(&self, margin: f64) -> Vec<Judgement> {
        let judgement = |picture: &Picture| {
            let mut records = picture.records.iter();
            let record = records.find(|record| record.geometry.margin == margin)?;
            Some(Judgement {
                verdict: record.verdict_raw,
                conf: record.conf,
                human: picture.human,
            })
        };
        self.pictures.iter().filter_map(judgement).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::labels;

    fn record(sample_id: &str, margin: f64, conf: f64) -> Record {
        serde_json::from_value(serde_json::json!({
            "sample_id": sample_id,
            "prompt_id": "p",
            "relation": "left_of",
            "object_a": "dog",
            "object_b": "cat",
            "verdict_raw": "PASS",
            "verdict_reason": null,
            "conf": conf,
            "conf_components": { "detection": 1.0, "geometry": 1.0, "stability": 1.0, "agreement": 1.0 },
            "detectors": { "primary": { "type": "toybox", "detections": [] } },
            "selected": {},
            "geometry": { "delta": null, "margin": margin, "iou_ab": null },
            "overlay_path": null,
        }))
        .unwrap()
    }

    fn label_list(ids: &[&str]) -> Vec<Label> {
        let entries: Vec<String> = ids
            .iter()
            .map(|id| format!(r#"{{"sample_id":"{id}","human_verdict":"PASS"}}"#))
            .collect();
        labels::read(&format!("[{}]", entries.join(","))).unwrap()
    }

    fn records(of: &[(&str, f64, f64)]) -> Vec<Record> {
        of.iter()
            .map(|&(id, margin, conf)| record(id, margin, conf))
            .collect()
    }

    #[test]
    fn records_of_several_margins_are_kept_apart() {
        let records = records(&[
            ("a", 0.1, 0.5),
            ("x", 0.1, 0.5),
            ("b", 0.1, 0.6),
            ("a", 0.05, 0.7),
        ]);
        let audit = Audit::new(records, &label_list(&["b", "a"]), None, false).unwrap();
        assert_eq!(audit.margins(), [0.05, 0.1]);
        let confs =
            |margin| -> Vec<f64> { audit.judgements(margin).iter().map(|j| j.conf).collect() };
        assert_eq!(confs(0.1), [0.6, 0.5]);
        assert_eq!(confs(0.05), [0.7]);
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        let labels = label_list(&["a", "b", "c"]);
        let some = records(&[("a", 0.1, 0.5)]);
        let missing = JoinError::NoRecord {
            count: 2,
            total: 3,
            first: "b".into(),
        };
        assert_eq!(Audit::new(some.clone(), &labels, None, false), Err(missing));
        let audit = Audit::new(some.clone(), &labels, None, true).unwrap();
        assert_eq!((audit.pictures.len(), audit.left_out), (1, 2));
        let none = Audit::new(records(&[("x", 0.1, 0.5)]), &labels, None, true);
        assert_eq!(none, Err(JoinError::NothingInCommon { total: 3 }));
        let twice = records(&[("a", 0.1, 0.5), ("a", 0.1, 0.6)]);
        let conflict = Audit::new(twice, &labels, None, true).unwrap_err();
        assert!(
            conflict
                .to_string()
                .contains("a has two different records at margin 0.1")
        );
        let same = records(&[("a", 0.1, 0.5), ("a", 0.1, 0.5)]);
        assert!(Audit::new(same, &labels, None, true).is_ok());
    }
}
