//! How good a candidate of a search is, by what a detector saw in it; higher is better.

use super::Detection;
use super::rules::{Case, Options, RuleError, pse};
use super::spatialbench::{Look, Question, Reason, RelationError, Rule, Secondary, Size, Verdict};

/// By the checker's verdict, without perturbations: 1 and the confidence for PASS, between 0 and 1 while it cannot be
/// decided, the confidence below 0 for FAIL. A picture is as good as its worst relation.
///
/// Of what cannot be decided, two objects that are nearly level are the better the farther they went in the right direction;
/// objects that are there but ambiguous or overlapping come next, then one object, then none. While a picture is still
/// noise nothing is found in it, which is better than a layout that is plainly wrong.
///
/// # Errors
/// A relation that the rule does not decide.
pub fn by_verdict(
    rule: &Rule,
    questions: &[Question],
    size: Size,
    found: &[Detection],
) -> Result<f64, RelationError> {
    let mut worst = f64::INFINITY;
    for question in questions {
        let look = rule.look(question, size, found)?;
        let undecided = undecided(rule, &look);
        let decision = rule.conclude(question, size, look, None, Secondary::None)?;
        worst = worst.min(match decision.verdict {
            Verdict::Pass => 1.0 + decision.confidence,
            Verdict::Fail => -decision.confidence,
            Verdict::Undecidable => undecided,
        });
    }
    Ok(worst)
}

/// Where in 0..=1 a picture stands that cannot be decided.
fn undecided(rule: &Rule, look: &Look) -> f64 {
    let margin = rule.config.geometry.margin;
    match (&look.reason, &look.geometry) {
        (Some(Reason::NearBoundary { .. }), Some(geometry)) if margin > 0.0 => {
            0.5 + 0.5 * (geometry.progress / margin).clamp(-1.0, 1.0) * 0.99
        }
        (Some(Reason::Missing(missing)), _) => 0.1 * 2usize.saturating_sub(missing.len()) as f64,
        _ => 0.3,
    }
}

/// By PSE ([`pse`]); each object that is missing costs one more, so that of two pictures that are
/// both worth nothing the one with more objects is kept.
///
/// # Errors
/// A relation that PSE does not score.
pub fn by_pse(case: &Case) -> Result<f64, RuleError> {
    let outcome = pse::of_case(case, &Options::default())?;
    Ok(outcome.score.unwrap_or_default() - outcome.missing.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BoundingBox;
    use prepose_scene::Relation;

    fn at(label: &str, x: f64) -> Detection {
        Detection {
            label: label.into(),
            score: 0.9,
            bbox: BoundingBox::new(x - 10.0, 40.0, x + 10.0, 60.0),
            mask: None,
        }
    }

    #[test]
    fn verdicts_are_worth_what_they_say() {
        let question = Question {
            relation: Relation::LeftOf,
            object_a: "dog".into(),
            object_b: "cat".into(),
        };
        let worth = |found: &[Detection]| {
            by_verdict(
                &Rule::default(),
                std::slice::from_ref(&question),
                [100, 100],
                found,
            )
            .unwrap()
        };
        let descending = [
            worth(&[at("dog", 20.0), at("cat", 80.0)]),
            worth(&[at("dog", 46.0), at("cat", 54.0)]),
            worth(&[at("dog", 54.0), at("cat", 54.0)]),
            worth(&[at("dog", 20.0), at("dog", 50.0), at("cat", 80.0)]),
            worth(&[at("dog", 20.0)]),
            worth(&[]),
            worth(&[at("dog", 80.0), at("cat", 20.0)]),
        ];
        assert!(
            descending.windows(2).all(|pair| pair[0] >= pair[1]),
            "{descending:?}"
        );
        assert!(descending[0] > 1.0 && descending[6] < 0.0);
        let worst = by_verdict(
            &Rule::default(),
            &[
                question.clone(),
                Question {
                    relation: Relation::RightOf,
                    ..question.clone()
                },
            ],
            [100, 100],
            &[at("dog", 20.0), at("cat", 80.0)],
        );
        assert!(worst.unwrap() < 0.0);
    }
}
