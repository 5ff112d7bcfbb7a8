//! `metrics.json`: what the records of a run add up to, in the released schema.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::record::{Record, relation_name};
use super::verdict::Verdict;
use crate::{clock, json};
use prepose_scene::Relation;

/// How often each verdict was given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// PASS.
    pub pass: usize,
    /// FAIL.
    pub fail: usize,
    /// UNDECIDABLE.
    pub undecidable: usize,
}

impl Counts {
    /// Counts verdicts.
    pub fn of(verdicts: impl IntoIterator<Item = Verdict>) -> Self {
        let mut counts = Self::default();
        for verdict in verdicts {
            match verdict {
                Verdict::Pass => counts.pass += 1,
                Verdict::Fail => counts.fail += 1,
                Verdict::Undecidable => counts.undecidable += 1,
            }
        }
        counts
    }

    /// All of them.
    pub fn total(&self) -> usize {
        self.decided() + self.undecidable
    }

    /// Passes and fails.
    pub fn decided(&self) -> usize {
        self.pass + self.fail
    }

    /// The share that is decided, in 0..=1; 0 of none.
    pub fn coverage(&self) -> f64 {
        share(self.decided(), self.total())
    }

    /// The share of all that passes, in 0..=1; 0 of none.
    pub fn pass_rate(&self) -> f64 {
        share(self.pass, self.total())
    }

    /// The share of what is decided that passes, in 0..=1; 0 of none.
    pub fn pass_rate_conditional(&self) -> f64 {
        share(self.pass, self.decided())
    }

    /// The share that is not decided, in 0..=1; 0 of none.
    pub fn undecidable_rate(&self) -> f64 {
        share(self.undecidable, self.total())
    }
}

/// A part of a whole, in 0..=1; 0 where there is nothing.
pub fn share(part: usize, whole: usize) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

/// How reasons are counted together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Buckets {
    /// By their name.
    #[default]
    Name,
    /// By what stands before a colon, so that every near-boundary delta is a reason of its own. The evaluator that made
    /// the released uncalibrated runs (of 12 January 2026) did so; the calibrated ones (of 16 January) are by name.
    BeforeColon,
}

impl Buckets {
    /// How a `metrics.json` counts them.
    pub fn of(metrics: &Value) -> Self {
        let reasons = metrics["undecidable_reasons"].as_object();
        let whole = reasons.is_some_and(|reasons| reasons.keys().any(|key| key.contains('(')));
        if whole { Self::BeforeColon } else { Self::Name }
    }

    fn key(self, reason: &str) -> &str {
        if let Some((name, _)) = reason.split_once(':') {
            return match self {
                Self::Name => name.trim(),
                Self::BeforeColon => name,
            };
        }
        match self {
            Self::Name => reason.split(['(', ' ']).next().unwrap_or(reason),
            Self::BeforeColon => reason,
        }
    }
}

/// What the records of a run add up to.
#[derive(Clone, Debug, PartialEq)]
pub struct Metrics {
    /// All of them.
    pub counts: Counts,
    /// Over all, those without a verdict included.
    pub mean_confidence: f64,
    /// For each relation that occurs: the benchmark's four first, the others in the order of [`Relation::ALL`].
    pub by_relation: Vec<(Relation, Counts)>,
    /// How often each reason was given, in the order of their first occurrence.
    pub undecidable_reasons: Vec<(String, usize)>,
}

impl Metrics {
    /// Adds up the records of a run.
    pub fn of(records: &[Record], buckets: Buckets) -> Self {
        let verdicts = |relation: Option<Relation>| {
            records
                .iter()
                .filter(move |record| relation.is_none_or(|relation| record.relation == relation))
                .map(|record| record.verdict_raw)
        };
        let mut undecidable_reasons: Vec<(String, usize)> = Vec::new();
        for record in records {
            let Some(reason) = record.verdict_reason.as_deref() else {
                continue;
            };
            if record.verdict_raw.is_decided() || reason.is_empty() {
                continue;
            }
            let key = buckets.key(reason);
            match undecidable_reasons.iter_mut().find(|(name, _)| name == key) {
                Some((_, count)) => *count += 1,
                None => undecidable_reasons.push((key.into(), 1)),
            }
        }
        // Added up from the left, as the released evaluator does: the last digits depend on it. `Iterator::sum` starts
        // from -0.0, which adds nothing, not even a digit.
        let confidence: f64 = records.iter().map(|record| record.conf).sum();
        Self {
            counts: Counts::of(verdicts(None)),
            mean_confidence: if records.is_empty() {
                0.0
            } else {
                confidence / records.len() as f64
            },
            by_relation: Relation::ALL
                .into_iter()
                .map(|relation| (relation, Counts::of(verdicts(Some(relation)))))
                .filter(|(_, counts)| counts.total() > 0)
                .collect(),
            undecidable_reasons,
        }
    }
}

impl Serialize for Metrics {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let counts = &self.counts;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("total_samples", &counts.total())?;
        map.serialize_entry("pass_count", &counts.pass)?;
        map.serialize_entry("fail_count", &counts.fail)?;
        map.serialize_entry("undecidable_count", &counts.undecidable)?;
        map.serialize_entry("coverage", &counts.coverage())?;
        map.serialize_entry("pass_rate_overall", &counts.pass_rate())?;
        map.serialize_entry("pass_rate_conditional", &counts.pass_rate_conditional())?;
        map.serialize_entry("undecidable_rate", &counts.undecidable_rate())?;
        map.serialize_entry("mean_confidence", &self.mean_confidence)?;
        map.serialize_entry("by_relation", &ByRelation(&self.by_relation))?;
        map.serialize_entry("undecidable_reasons", &Reasons(&self.undecidable_reasons))?;
        map.end()
    }
}

struct ByRelation<'a>(&'a [(Relation, Counts)]);

impl Serialize for ByRelation<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let entries = self.0.iter();
        serializer
            .collect_map(entries.map(|(relation, counts)| (relation_name(*relation), One(counts))))
    }
}

struct Reasons<'a>(&'a [(String, usize)]);

impl Serialize for Reasons<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, count)| (name, count)))
    }
}

/// One relation's entry.
struct One<'a>(&'a Counts);

impl Serialize for One<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let counts = self.0;
        let mut map = serializer.serialize_map(Some(7))?;
        map.serialize_entry("count", &counts.total())?;
        map.serialize_entry("pass_count", &counts.pass)?;
        map.serialize_entry("fail_count", &counts.fail)?;
        map.serialize_entry("undecidable_count", &counts.undecidable)?;
        map.serialize_entry("coverage", &counts.coverage())?;
        map.serialize_entry("pass_rate_overall", &counts.pass_rate())?;
        map.serialize_entry("pass_rate_conditional", &counts.pass_rate_conditional())?;
        map.end()
    }
}

/// Where metrics come from: what stands in `metrics.json` besides the numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Provenance {
    /// When they were computed, RFC 3339.
    pub timestamp_utc: String,
    /// The manifest of the pictures, where one is known.
    pub manifest: Option<String>,
    /// The checker's configuration, where it was read from a file.
    pub config: Option<String>,
    /// The software.
    pub code_version: Value,
}

impl Provenance {
    /// This program, now. `git_commit` is what the binary was built from, where that is known.
    pub fn now(manifest: Option<String>, config: Option<String>, git_commit: Option<&str>) -> Self {
        Self {
            timestamp_utc: clock::now().replace('Z', "+00:00"),
            manifest,
            config,
            code_version: serde_json::json!({
                "prepose": env!("CARGO_PKG_VERSION"),
                "git_commit": git_commit,
            }),
        }
    }
}

/// The text of a `metrics.json`.
pub fn metrics_json(metrics: &Metrics, provenance: &Provenance) -> serde_json::Result<String> {
    #[derive(Serialize)]
    struct File<'a> {
        #[serde(flatten)]
        metrics: &'a Metrics,
        #[serde(flatten)]
        provenance: &'a Provenance,
    }
    json::to_indented(&File {
        metrics,
        provenance,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_divided_by_nothing_is_nothing() {
        let metrics = Metrics::of(&[], Buckets::Name);
        assert_eq!(metrics.counts.coverage(), 0.0);
        assert_eq!(metrics.mean_confidence, 0.0);
        let json = serde_json::to_value(&metrics).unwrap();
        assert_eq!(json["by_relation"], serde_json::json!({}));
    }

    #[test]
    fn counts_are_shares_of_the_right_whole() {
        use Verdict::{Fail, Pass, Undecidable};
        let counts = Counts::of([Pass, Pass, Pass, Fail, Undecidable, Undecidable]);
        assert_eq!(counts.coverage(), 4.0 / 6.0);
        assert_eq!(counts.pass_rate(), 0.5);
        assert_eq!(counts.pass_rate_conditional(), 0.75);
        assert_eq!(counts.undecidable_rate(), 2.0 / 6.0);
    }

    #[test]
    fn reasons_are_counted_by_name_or_as_the_first_release_did() {
        let near = "near_boundary (|delta|=0.036 <= margin=0.1)";
        assert_eq!(Buckets::Name.key(near), "near_boundary");
        assert_eq!(Buckets::BeforeColon.key(near), near);
        for buckets in [Buckets::Name, Buckets::BeforeColon] {
            assert_eq!(buckets.key("missing: a, b"), "missing");
        }
        let old = serde_json::json!({"undecidable_reasons": {near: 1}});
        assert_eq!(Buckets::of(&old), Buckets::BeforeColon);
        let new = serde_json::json!({"undecidable_reasons": {"near_boundary": 1}});
        assert_eq!(Buckets::of(&new), Buckets::Name);
    }
}
