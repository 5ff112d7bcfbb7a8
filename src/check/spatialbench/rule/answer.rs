//! What a picture's detections say, at first and in the end.

use super::Geometry;
use crate::detection::Detection;
use crate::spatialbench::verdict::{Reason, Verdict};

/// The two detections that a verdict is about.
#[derive(Clone, Debug, PartialEq)]
pub struct Selected {
    /// Of the relation's subject.
    pub a: Detection,
    /// Of its object.
    pub b: Detection,
}

/// What the picture's own detections say, before perturbations and the secondary detector.
#[derive(Clone, Debug, PartialEq)]
pub struct Look {
    /// So far.
    pub verdict: Verdict,
    /// Why it is undecidable.
    pub reason: Option<Reason>,
    /// None where an object is missing, or both have one label.
    pub selected: Option<Selected>,
    /// None where an object is missing or ambiguous.
    pub geometry: Option<Geometry>,
}

impl Look {
    /// Whether nothing more needs to be looked at: an object is missing or ambiguous, or they overlap. The secondary
    /// detector is not run then, and the confidence is 0.
    pub fn is_final(&self) -> bool {
        matches!(
            self.reason,
            Some(
                Reason::Missing(_)
                    | Reason::Ambiguous(_)
                    | Reason::OneLabel(_)
                    | Reason::HighOverlap { .. }
            )
        )
    }
}

/// What is known from a secondary detector.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Secondary<'a> {
    /// There is none: its part of the confidence is 1.
    None,
    /// Its part of the confidence is known already, in 0..=1.
    Known(f64),
    /// It could not be run: its part of the confidence is a neutral 0.5.
    Failed,
    /// What it found.
    Found(&'a [Detection]),
}

/// The four parts of a confidence, each in 0..=1.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Components {
    /// The geometric mean of the two scores.
    pub detection: f64,
    /// How far beyond the margin the centres are.
    pub geometry: f64,
    /// How well the verdict holds under perturbations.
    pub stability: f64,
    /// How well the secondary detector agrees.
    pub agreement: f64,
}

/// The checker's last word on a picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The verdict.
    pub verdict: Verdict,
    /// Why it is undecidable.
    pub reason: Option<Reason>,
    /// In 0..=1; 0 where an object is missing or ambiguous or they overlap, about 0.001 near the boundary.
    pub confidence: f64,
    /// What it is made of.
    pub components: Components,
    /// The two detections, unless one is missing or both objects have one label.
    pub selected: Option<Selected>,
    /// How they lie, unless one is missing or ambiguous.
    pub geometry: Option<Geometry>,
}
