//! What the checker says of a picture, and why it says nothing.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::json::float;

/// What a checker says of one picture and one relation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Verdict {
    /// The relation holds.
    Pass,
    /// It does not.
    Fail,
    /// The picture does not show it clearly enough to say.
    Undecidable,
}

impl Verdict {
    /// The name in records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "PASS",
            Self::Fail => "FAIL",
            Self::Undecidable => "UNDECIDABLE",
        }
    }

    /// Whether it is a pass or a fail.
    pub fn is_decided(self) -> bool {
        self != Self::Undecidable
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Why a verdict is [`Undecidable`](Verdict::Undecidable). Displayed as the released records have it, to the letter.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// These objects were not found.
    Missing(Vec<String>),
    /// This object was found more than once, nearly equally well.
    Ambiguous(String),
    /// Both objects have this label, and boxes of it do not say which of the two they are: "a man to the left of a woman",
    /// both of which COCO's detectors call `person`. No released record is about such a pair.
    OneLabel(String),
    /// The objects overlap too much to say which is left and which is right.
    HighOverlap {
        /// Intersection over union.
        iou: f64,
        /// What is allowed.
        max: f64,
    },
    /// The centres are too close.
    NearBoundary {
        /// How far they are apart, as a fraction of the picture.
        delta: f64,
        /// What is needed.
        margin: f64,
    },
    /// Small changes of the picture change the verdict.
    Unstable {
        /// In 0..=1.
        stability: f64,
        /// What is needed.
        threshold: f64,
    },
}

impl Reason {
    /// The kind of reason: `missing`, `ambiguous`, `high_overlap`, `near_boundary` or `unstable`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Missing(_) => "missing",
            Self::Ambiguous(_) | Self::OneLabel(_) => "ambiguous",
            Self::HighOverlap { .. } => "high_overlap",
            Self::NearBoundary { .. } => "near_boundary",
            Self::Unstable { .. } => "unstable",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name();
        match self {
            Self::Missing(objects) => write!(f, "{name}: {}", objects.join(", ")),
            Self::Ambiguous(object) => write!(f, "{name}: multiple {object}"),
            Self::OneLabel(label) => write!(f, "{name}: both are {label} to the detector"),
            Self::HighOverlap { iou, max } => {
                write!(f, "{name}: IoU={iou:.2} > {}", float(*max))
            }
            Self::NearBoundary { delta, margin } => {
                let (delta, margin) = (delta.abs(), float(*margin));
                write!(f, "{name} (|delta|={delta:.3} <= margin={margin})")
            }
            Self::Unstable {
                stability,
                threshold,
            } => write!(
                f,
                "{name}: stability={stability:.2} < {}",
                float(*threshold)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_read_as_in_the_records() {
        let cases = [
            (
                Reason::Missing(vec!["teddy bear".into(), "bear".into()]),
                "missing: teddy bear, bear",
            ),
            (Reason::Ambiguous("bed".into()), "ambiguous: multiple bed"),
            (
                Reason::OneLabel("person".into()),
                "ambiguous: both are person to the detector",
            ),
            (
                Reason::HighOverlap {
                    iou: 0.5393817873854924,
                    max: 0.5,
                },
                "high_overlap: IoU=0.54 > 0.5",
            ),
            (
                Reason::NearBoundary {
                    delta: -0.03578072041273117,
                    margin: 0.1,
                },
                "near_boundary (|delta|=0.036 <= margin=0.1)",
            ),
            (
                Reason::Unstable {
                    stability: 0.375,
                    threshold: 0.5,
                },
                "unstable: stability=0.38 < 0.5",
            ),
        ];
        for (reason, text) in cases {
            assert_eq!(reason.to_string(), text);
            assert!(text.starts_with(reason.name()));
        }
    }

    #[test]
    fn verdicts_are_spelt_as_in_the_records() {
        for verdict in [Verdict::Pass, Verdict::Fail, Verdict::Undecidable] {
            let json = serde_json::to_string(&verdict).unwrap();
            assert_eq!(json, format!("\"{verdict}\""));
        }
    }
}
