//! What the checker would have said of recorded detections at another margin and another detection threshold.
//!
//! A detection threshold can mean two things, and the published calibration chose by the one and deployed the other
//! ([`Semantics`]).

use serde::Serialize;

use super::agreement::Judgement;
use crate::Detection;
use crate::spatialbench::config::DetectorConfig;
use crate::spatialbench::{CheckerConfig, Record, RecordError, Rule, Verdict};

/// What the detection threshold t_det is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Semantics {
    /// The checker as it runs: t_det is a threshold of the rule alone, and the detectors' own thresholds
    /// (`score_threshold`, `box_threshold`) come before it.
    Deployed,
    /// As SpatialBench-UC's grid search ran: t_det also took the place of the detectors' own thresholds. From records
    /// this is exact down to the scores that the records hold; a record made with a cut of 0.5 cannot tell what a cut of
    /// 0.2 would have let through.
    Override,
}

impl Semantics {
    /// As it is written in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Deployed => "deployed",
            Self::Override => "override",
        }
    }
}

/// A picture of the sample, in one or more records of different margins.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    /// The records.
    pub records: Vec<Record>,
    /// What a person says; nothing if nobody has labelled it.
    pub human: Option<Verdict>,
}

impl Picture {
    /// The record that knows most about the picture at `margin`: of the largest margin that is not beyond it, so that
    /// what is decided now was decided then and its stability was measured; else of the smallest.
    fn at(&self, margin: f64) -> Option<&Record> {
        let by_margin = |a: &&Record, b: &&Record| a.geometry.margin.total_cmp(&b.geometry.margin);
        let records = self.records.iter();
        let within = records.filter(|record| record.geometry.margin <= margin);
        within
            .max_by(by_margin)
            .or_else(|| self.records.iter().min_by(by_margin))
    }
}

/// Decides pictures again and again, and counts what no record knows.
#[derive(Clone, Debug)]
pub struct Redecider<'a> {
    pictures: &'a [Picture],
    config: &'a CheckerConfig,
    published: bool,
    semantics: Semantics,
    /// Verdicts that needed a stability or an agreement that was never measured; see [`Record::redecide`].
    pub unmeasured: usize,
}

impl<'a> Redecider<'a> {
    /// `config` has all thresholds but the two that are tried, and [names](name_detectors) the detectors; `published` is
    /// [`Rule::published`].
    pub fn new(
        pictures: &'a [Picture],
        config: &'a CheckerConfig,
        published: bool,
        semantics: Semantics,
    ) -> Self {
        Self {
            pictures,
            config,
            published,
            semantics,
            unmeasured: 0,
        }
    }

    /// What the checker says of each picture at `margin` and `detection_score`, beside what a person says.
    pub fn judge(
        &mut self,
        margin: f64,
        detection_score: f64,
    ) -> Result<Vec<Judgement>, RecordError> {
        let mut config = self.config.clone();
        config.geometry.margin = margin;
        config.thresholds.detection_score = detection_score;
        let rule = Rule {
            config,
            published: self.published,
        };
        let mut judgements = Vec::with_capacity(self.pictures.len());
        for picture in self.pictures {
            let Some(record) = picture.at(margin) else {
                continue;
            };
            let again = self.after_detectors(record).redecide(&rule)?;
            self.unmeasured += usize::from(again.unmeasured);
            judgements.push(Judgement {
                verdict: again.record.verdict_raw,
                conf: again.record.conf,
                human: picture.human,
            });
        }
        Ok(judgements)
    }

    /// The record with what the detectors' own thresholds let through.
    fn after_detectors(&self, record: &Record) -> Record {
        let mut record = record.clone();
        if self.semantics == Semantics::Override {
            return record;
        }
        let keep = |detections: &mut Vec<Detection>, config: &DetectorConfig| {
            let params = &config.params;
            let cut = params.score_threshold.or(params.box_threshold);
            detections.retain(|detection| cut.is_none_or(|cut| detection.score >= cut));
        };
        let config = &self.config.detector;
        keep(&mut record.detectors.primary.detections, &config.primary);
        if let (Some(found), Some(config)) = (&mut record.detectors.secondary, &config.secondary) {
            keep(&mut found.detections, config);
        }
        record
    }
}

/// Names in `config` the secondary detector of the records, if it has none itself: where one ran, its agreement is a part
/// of the confidence.
pub fn name_detectors(config: &mut CheckerConfig, pictures: &[Picture]) {
    if config.detector.secondary.is_some() {
        return;
    }
    let mut records = pictures.iter().flat_map(|picture| &picture.records);
    config.detector.secondary = records
        .find_map(|record| record.detectors.secondary.as_ref())
        .map(|detector| DetectorConfig {
            kind: detector.kind.clone(),
            ..DetectorConfig::default()
        });
}

/// The lowest scores in records, of the primary and of the secondary detector: what lies below was cut off before, and
/// cannot be asked for again.
pub fn lowest_scores(pictures: &[Picture]) -> (Option<f64>, Option<f64>) {
    let detectors = || {
        let records = pictures.iter().flat_map(|picture| &picture.records);
        records.map(|record| &record.detectors)
    };
    let primary = detectors().flat_map(|found| &found.primary.detections);
    let secondary = detectors()
        .filter_map(|found| found.secondary.as_ref())
        .flat_map(|found| &found.detections);
    (
        primary.map(|d| d.score).min_by(f64::total_cmp),
        secondary.map(|d| d.score).min_by(f64::total_cmp),
    )
}
