//! PSE in the plane: the probability of superiority of two masks (Why Settle for Mid, arXiv 2506.23418, section 3.1).

use super::superiority::{Superiority, in_the_plane};
use super::{Case, Figure, Options, Outcome, Report, Rule, RuleError, Value, mean, scores};
use crate::Mask;
use prepose_scene::{Relation, StatedRelation};

/// The score from which on a relation counts as met, in the paper.
pub const MET: f64 = 0.5;
/// The score beyond which the authors' script counts it as met.
pub const MET_IN_SCRIPT: f64 = 0.01;
/// The box threshold of the authors' script for Grounding DINO.
const MIN_SCORE: f64 = 0.35;
const KNOWN: &[Relation] = &[
    Relation::LeftOf,
    Relation::RightOf,
    Relation::Above,
    Relation::Below,
    Relation::AboveLeft,
    Relation::AboveRight,
    Relation::BelowLeft,
    Relation::BelowRight,
];

/// PSE of relations in the plane.
#[derive(Clone, Copy, Debug)]
pub struct Pse;

/// The PSE of one relation of a picture: all detections of a name make up the object, by their masks, or by their boxes
/// where there are no masks. Profiles have the picture's own pixels.
///
/// A diagonal is as good as its worse axis. A missing object makes it 0.
///
/// # Errors
/// A relation that is not in the plane, two objects of one name, masks of different sizes.
pub fn of_relation(
    case: &Case,
    stated: &StatedRelation,
    options: &Options,
) -> Result<Outcome, RuleError> {
    of_changed(case, stated, options, &mut |_, mask| mask)
}

/// As [`of_relation`], of what `change` makes of each object's mask; it is told the object's name.
///
/// # Errors
/// Those of [`of_relation`].
pub(super) fn of_changed(
    case: &Case,
    stated: &StatedRelation,
    options: &Options,
    change: &mut dyn FnMut(&str, Mask) -> Mask,
) -> Result<Outcome, RuleError> {
    let (subject, object) = case.names(stated, Pse.name(), KNOWN)?;
    if subject.eq_ignore_ascii_case(object) {
        return Err(RuleError::SameName(subject.to_owned()));
    }
    let mut mask = |name: &str| -> Result<Option<Mask>, RuleError> {
        let mask = case.cover(&case.found_with(name, options, MIN_SCORE))?;
        Ok(mask.map(|mask| change(name, mask)))
    };
    let (first, second) = (mask(subject)?, mask(object)?);
    Ok(match (first, second) {
        (Some(a), Some(b)) if a.area() > 0 && b.area() > 0 => {
            let axes = in_the_plane(stated.relation, &a, &b).unwrap_or_default();
            let score = axes.iter().map(|axis| axis.pse()).fold(1.0, f64::min);
            let part =
                |axis: &Superiority| format!("right {:.4}, wrong {:.4}", axis.right, axis.wrong);
            Outcome::new(score, axes.iter().map(part).collect::<Vec<_>>().join("; "))
        }
        (first, second) => {
            let gone = |mask: Option<Mask>| mask.is_none_or(|mask| mask.area() == 0);
            let both = [(subject, gone(first)), (object, gone(second))];
            let missing = both.into_iter().filter(|(_, gone)| *gone);
            Outcome::missing(0.0, missing.map(|(name, _)| name))
        }
    })
}

/// The PSE of a picture, in 0..=1: that of its worst relation.
///
/// # Errors
/// There is no relation, or one of them cannot be scored.
pub fn of_case(case: &Case, options: &Options) -> Result<Outcome, RuleError> {
    worst(case, |stated| of_relation(case, stated, options))
}

/// The worst of a picture's relations.
pub(super) fn worst(
    case: &Case,
    score: impl FnMut(&StatedRelation) -> Result<Outcome, RuleError>,
) -> Result<Outcome, RuleError> {
    let outcomes: Vec<Outcome> = case.relations.iter().map(score).collect::<Result<_, _>>()?;
    let worst = outcomes.into_iter().min_by(|a, b| {
        let value = |outcome: &Outcome| outcome.score.unwrap_or(-1.0);
        value(a).total_cmp(&value(b))
    });
    worst.ok_or(RuleError::NoRelation)
}

/// The figures of PSE: its mean, and how many pictures meet their relations.
pub(super) fn figures(outcomes: &[Result<Outcome, RuleError>]) -> Vec<Figure> {
    let scores = scores(outcomes);
    let share = |name: &str, met: &dyn Fn(f64) -> bool| {
        let met = scores.iter().filter(|score| met(**score)).count();
        Figure::percent(name, met as f64, scores.len() as f64)
    };
    let here = |outcome: &&Outcome| outcome.score.is_some() && outcome.missing.is_empty();
    let both = outcomes.iter().flatten().filter(here).count();
    vec![
        Figure::count("pictures", scores.len()),
        Figure::new("PSE", Value::Mean(mean(&scores))),
        share("PSE >= 0.5", &|score| score >= MET),
        share("PSE > 0.01", &|score| score > MET_IN_SCRIPT),
        Figure::percent("both objects", both as f64, scores.len() as f64),
    ]
}

impl Rule for Pse {
    fn name(&self) -> &'static str {
        "pse"
    }

    fn about(&self) -> &'static str {
        "probability of superiority of masks or boxes, for left, right, above, below and diagonals"
    }

    fn score(&self, cases: &mut dyn Iterator<Item = Case>, options: &Options) -> Report {
        let outcomes: Vec<_> = cases.map(|case| of_case(&case, options)).collect();
        Report {
            figures: figures(&outcomes),
            outcomes,
        }
    }
}
