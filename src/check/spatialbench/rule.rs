//! From detections to a verdict and how sure it is.
//!
//! The decision, in this order: each object's best detection, else *missing*; two labels, and no second one nearly as good,
//! else *ambiguous*; for left and right an overlap of the two, else *high overlap*; the centres within the margin, else *near
//! boundary*; what is left passes or fails. Then the verdict has to hold under perturbations, else *unstable*, and a
//! secondary detector agrees or not, which only moves the confidence.

mod answer;
mod geometry;
mod question;

pub use self::answer::{Components, Decision, Look, Secondary, Selected};
pub use self::geometry::Geometry;
use self::geometry::{direction, geometry};
pub use self::question::{Question, RelationError, Size};

use super::config::CheckerConfig;
use super::verdict::{Reason, Verdict};
use crate::detection::Detection;

/// SpatialBench-UC's rule.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rule {
    /// The thresholds.
    pub config: CheckerConfig,
    /// Whether to decide as the released evaluator does where it is plainly wrong:
    ///
    /// * a second box makes an object ambiguous even if it is too small to count as that object
    ///   ([`Thresholds::min_area_fraction`](super::config::Thresholds::min_area_fraction));
    /// * stability is half the share of perturbations with the same verdict and half the mean overlap of the boxes;
    ///   the paper and the configuration's own comment say the share alone;
    /// * the secondary detector agrees with an unstable verdict if it says `UNDECIDABLE` itself; otherwise it is
    ///   asked about the verdict that was found unstable.
    ///
    /// None of these changes a released verdict; the second changes every confidence that is measured anew.
    pub published: bool,
}

/// What keeps the powers of a confidence above zero.
const EPSILON: f64 = 1e-10;

impl Rule {
    /// What the detections of the picture itself say.
    pub fn look(
        &self,
        question: &Question,
        size: Size,
        primary: &[Detection],
    ) -> Result<Look, RelationError> {
        let direction = direction(question.relation)?;
        let undecidable = |reason, selected, geometry| Look {
            verdict: Verdict::Undecidable,
            reason: Some(reason),
            selected,
            geometry,
        };
        let objects = [&question.object_a, &question.object_b];
        let found = objects.map(|object| self.best(size, primary, object));
        let [Some(a), Some(b)] = found else {
            let missing = objects
                .into_iter()
                .zip(found)
                .filter(|(_, found)| found.is_none())
                .map(|(object, _)| object.clone())
                .collect();
            return Ok(undecidable(Reason::Missing(missing), None, None));
        };
        // The best boxes would be one and the same.
        if question.object_a.to_lowercase() == question.object_b.to_lowercase() {
            let reason = Reason::OneLabel(question.object_a.clone());
            return Ok(undecidable(reason, None, None));
        }
        let selected = Selected {
            a: a.clone(),
            b: b.clone(),
        };
        if let Some(object) = objects
            .into_iter()
            .find(|object| self.is_ambiguous(size, primary, object))
        {
            let reason = Reason::Ambiguous(object.clone());
            return Ok(undecidable(reason, Some(selected), None));
        }
        let geometry = geometry(size, direction, a, b);
        let max = self.config.thresholds.max_overlap_iou;
        if direction.0 != 0 && geometry.iou > max {
            let iou = geometry.iou;
            let reason = Reason::HighOverlap { iou, max };
            return Ok(undecidable(reason, Some(selected), Some(geometry)));
        }
        let verdict = self.side(&geometry);
        let reason = (!verdict.is_decided()).then_some(Reason::NearBoundary {
            delta: geometry.delta,
            margin: self.config.geometry.margin,
        });
        Ok(Look {
            verdict,
            reason,
            selected: Some(selected),
            geometry: Some(geometry),
        })
    }

    /// How well a decided verdict holds under perturbations, in 0..=1; 1 where there were none.
    ///
    /// `perturbed` has the detections of each changed picture, none where it could not be looked at. A changed
    /// picture is only asked for missing objects and geometry, not for ambiguity or overlap, as published.
    pub fn stability(
        &self,
        question: &Question,
        size: Size,
        look: &Look,
        perturbed: &[Option<Vec<Detection>>],
    ) -> Result<f64, RelationError> {
        let direction = direction(question.relation)?;
        if perturbed.is_empty() {
            return Ok(1.0);
        }
        let mut same = 0u32;
        let mut overlaps = Vec::new();
        for detections in perturbed.iter().flatten() {
            let (Some(a), Some(b)) = (
                self.best(size, detections, &question.object_a),
                self.best(size, detections, &question.object_b),
            ) else {
                continue;
            };
            let verdict = self.side(&geometry(size, direction, a, b));
            same += u32::from(verdict == look.verdict);
            if let Some(selected) = &look.selected {
                overlaps.push(selected.a.bbox.iou(&a.bbox));
                overlaps.push(selected.b.bbox.iou(&b.bbox));
            }
        }
        let share = f64::from(same) / perturbed.len() as f64;
        if !self.published || overlaps.is_empty() {
            return Ok(share);
        }
        let overlap = overlaps.iter().sum::<f64>() / overlaps.len() as f64;
        Ok(0.5 * share + 0.5 * overlap)
    }

    /// The last word, from a look, the [`stability`](Self::stability) where it was tested, and the secondary detector.
    pub fn conclude(
        &self,
        question: &Question,
        size: Size,
        look: Look,
        stability: Option<f64>,
        secondary: Secondary,
    ) -> Result<Decision, RelationError> {
        let Look {
            mut verdict,
            mut reason,
            selected,
            geometry,
        } = look.clone();
        let (Some(Selected { a, b }), Some(place), false) = (&selected, geometry, look.is_final())
        else {
            return Ok(Decision {
                verdict,
                reason,
                confidence: 0.0,
                components: Components::default(),
                selected,
                geometry,
            });
        };
        let config = &self.config;
        let tested = config.stability.enabled && verdict.is_decided();
        let stability = stability.filter(|_| tested).unwrap_or(1.0);
        let threshold = config.stability.consistency_threshold;
        if tested && stability < threshold {
            verdict = Verdict::Undecidable;
            reason = Some(Reason::Unstable {
                stability,
                threshold,
            });
        }
        let asked = if self.published {
            verdict
        } else {
            look.verdict
        };
        let agreement = match secondary {
            Secondary::None => 1.0,
            Secondary::Known(agreement) => agreement,
            Secondary::Failed => 0.5,
            Secondary::Found(detections) => {
                self.agreement(question, size, &look, asked, detections)?
            }
        };
        let beyond = (place.delta.abs() - config.geometry.margin) / config.confidence.geom_slope;
        let components = Components {
            detection: (a.score * b.score).sqrt().clamp(0.0, 1.0),
            geometry: beyond.clamp(0.0, 1.0),
            stability: stability.clamp(0.0, 1.0),
            agreement: agreement.clamp(0.0, 1.0),
        };
        Ok(Decision {
            verdict,
            reason,
            confidence: self.confidence(&components),
            components,
            selected,
            geometry,
        })
    }

    /// How sure a verdict with these parts is: their weighted geometric mean, at most 1 but for a rounding.
    pub fn confidence(&self, parts: &Components) -> f64 {
        let weights = &self.config.confidence.weights;
        // The order of the factors is the released evaluator's, for the last digit's sake.
        (parts.detection + EPSILON).powf(weights.detection)
            * (parts.geometry + EPSILON).powf(weights.geometry)
            * (parts.stability + EPSILON).powf(weights.stability)
            * (parts.agreement + EPSILON).powf(weights.agreement)
    }

    /// The best detection of an object: its label, the score and the area large enough, the highest score, and the
    /// first of equal ones.
    pub fn best<'d>(
        &self,
        size: Size,
        detections: &'d [Detection],
        object: &str,
    ) -> Option<&'d Detection> {
        let mut best: Option<&Detection> = None;
        for detection in self.counted(detections, object) {
            let better = best.is_none_or(|best| detection.score > best.score);
            if better && self.is_large(size, detection) {
                best = Some(detection);
            }
        }
        best
    }

    /// Whether an object's second best detection is nearly as good as the best. Two boxes on the same object count as
    /// two, however much they overlap.
    pub fn is_ambiguous(&self, size: Size, detections: &[Detection], object: &str) -> bool {
        let mut scores: Vec<f64> = self
            .counted(detections, object)
            .filter(|detection| self.published || self.is_large(size, detection))
            .map(|detection| detection.score)
            .collect();
        scores.sort_by(|a, b| b.total_cmp(a));
        match scores[..] {
            [first, second, ..] => first - second < self.config.thresholds.ambiguity_delta,
            _ => false,
        }
    }

    /// The detections of an object with a score that counts.
    fn counted<'d>(
        &self,
        detections: &'d [Detection],
        object: &str,
    ) -> impl Iterator<Item = &'d Detection> {
        let object = object.to_lowercase();
        let lowest = self.config.thresholds.detection_score;
        detections.iter().filter(move |detection| {
            detection.label.to_lowercase() == object && detection.score >= lowest
        })
    }

    fn is_large(&self, [width, height]: Size, detection: &Detection) -> bool {
        let picture = f64::from(width) * f64::from(height);
        detection.bbox.area() >= self.config.thresholds.min_area_fraction * picture
    }

    /// Which side of the margin the subject is on.
    fn side(&self, geometry: &Geometry) -> Verdict {
        let margin = self.config.geometry.margin;
        if geometry.delta.abs() <= margin {
            Verdict::Undecidable
        } else if geometry.progress > margin {
            Verdict::Pass
        } else {
            Verdict::Fail
        }
    }

    /// How well a secondary detector agrees with `verdict` and the selected boxes: a quarter each for the same verdict
    /// and the same sign of the delta, and half the mean overlap of the boxes; 0.5 if it misses an object.
    fn agreement(
        &self,
        question: &Question,
        size: Size,
        look: &Look,
        verdict: Verdict,
        detections: &[Detection],
    ) -> Result<f64, RelationError> {
        let (Some(a), Some(b), Some(selected), Some(first)) = (
            self.best(size, detections, &question.object_a),
            self.best(size, detections, &question.object_b),
            &look.selected,
            look.geometry,
        ) else {
            return Ok(0.5);
        };
        let second = geometry(size, direction(question.relation)?, a, b);
        let same_verdict = f64::from(u8::from(self.side(&second) == verdict));
        let same_sign = f64::from(u8::from(first.progress * second.progress >= 0.0));
        let said = 0.5 * same_verdict + 0.5 * same_sign;
        let overlap_a = selected.a.bbox.iou(&a.bbox);
        let overlap_b = selected.b.bbox.iou(&b.bbox);
        Ok(0.5 * said + 0.25 * overlap_a + 0.25 * overlap_b)
    }
}
