//! How good a candidate of a search is, by what a detector saw in it; higher is better.

use prepose_scene::{Relation, StatedRelation};

use super::rules::{Case, Options, RuleError, Wanted, pse, pse_depth, t2i};
use super::spatialbench::{Look, Question, Reason, RelationError, Rule, Secondary, Size, Verdict};
use super::{BoundingBox, Detection};

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

/// By each relation's own rule, in 0..=1, the worst of them: to a side by PSE in the plane, in depth by PSE in depth, near by
/// T2I-CompBench's distance, far by the distance of the centres as a share of the picture's diagonal, between by how far the
/// first object's centre is from the middle of the others', as a share of their distance. Each object that is missing costs
/// one.
///
/// # Errors
/// No relation, or one in depth without a depth map.
pub fn by_relations(case: &Case) -> Result<f64, RuleError> {
    let options = Options::default();
    let missing = |object: &&Wanted| best(case, &object.name).is_none();
    let missing = case.objects.iter().filter(missing).count();
    let mut worst: Option<f64> = None;
    for stated in &case.relations {
        let score = match stated.relation {
            Relation::InFrontOf | Relation::Behind => {
                pse_depth::of_relation(case, stated, &options)?.score
            }
            Relation::Near | Relation::Far | Relation::Between => {
                by_centres(case, stated).map(|score| score.clamp(0.0, 1.0))
            }
            _ => pse::of_relation(case, stated, &options)?.score,
        };
        let score = score.unwrap_or_default();
        worst = Some(worst.map_or(score, |worst| worst.min(score)));
    }
    let worst = worst.ok_or(RuleError::NoRelation)?;
    Ok(worst - missing as f64)
}

/// The surest detection of an object.
fn best<'a>(case: &'a Case, name: &str) -> Option<&'a Detection> {
    case.found(name, 0.0).into_iter().next()
}

/// Relations of distance, by the boxes' centres; none if an object is missing.
fn by_centres(case: &Case, stated: &StatedRelation) -> Option<f64> {
    let (width, height) = case.size?;
    let box_of = |object: usize| {
        let found = best(case, &case.objects.get(object)?.name)?;
        Some(found.bbox)
    };
    let apart = |(ax, ay): (f64, f64), (bx, by): (f64, f64)| (ax - bx).hypot(ay - by);
    let first = box_of(stated.subject)?;
    let others = stated.objects.iter().map(|&object| box_of(object));
    let others: Vec<BoundingBox> = others.collect::<Option<_>>()?;
    match (stated.relation, others.as_slice()) {
        (Relation::Near, [other]) => {
            let (frame_width, frame_height) = t2i::frame((width, height));
            let scale = [
                frame_width as f64 / width.max(1) as f64,
                frame_height as f64 / height.max(1) as f64,
            ];
            let [a, b] = [first, *other].map(|b| {
                BoundingBox::new(
                    b.x0 * scale[0],
                    b.y0 * scale[1],
                    b.x1 * scale[0],
                    b.y1 * scale[1],
                )
            });
            Some(t2i::position(Relation::Near, &a, &b))
        }
        (Relation::Far, [other]) => {
            let diagonal = (width as f64).hypot(height as f64).max(1.0);
            Some(apart(first.centre(), other.centre()) / diagonal)
        }
        (Relation::Between, [left, right]) => {
            let ((lx, ly), (rx, ry)) = (left.centre(), right.centre());
            let middle = ((lx + rx) / 2.0, (ly + ry) / 2.0);
            let wide = apart((lx, ly), (rx, ry)).max(1.0);
            Some(1.0 - apart(first.centre(), middle) / wide)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::rules::depth::DepthMap;

    fn at(label: &str, x: f64) -> Detection {
        Detection {
            label: label.into(),
            score: 0.9,
            bbox: BoundingBox::new(x - 10.0, 40.0, x + 10.0, 60.0),
            mask: None,
        }
    }

    fn case(names: &[&str], relations: Vec<StatedRelation>, found: Vec<Detection>) -> Case {
        Case {
            size: Some((100, 100)),
            objects: names.iter().copied().map(Wanted::one).collect(),
            relations,
            detections: found,
            ..Case::default()
        }
    }

    #[test]
    fn distances_are_worth_what_they_should() {
        let two = |relation, x| {
            let relations = vec![StatedRelation::of_two(0, relation, 1)];
            let found = vec![at("dog", 10.0), at("cat", x)];
            by_relations(&case(&["dog", "cat"], relations, found)).unwrap()
        };
        assert_eq!(two(Relation::Near, 20.0), 1.0);
        assert!(two(Relation::Far, 90.0) > two(Relation::Far, 40.0));
        let between = |x| {
            let relations = vec![StatedRelation {
                subject: 0,
                relation: Relation::Between,
                objects: vec![1, 2],
            }];
            let found = vec![at("dog", x), at("cat", 10.0), at("cow", 90.0)];
            by_relations(&case(&["dog", "cat", "cow"], relations, found)).unwrap()
        };
        assert_eq!(between(50.0), 1.0);
        assert!(between(50.0) > between(30.0) && between(30.0) > between(10.0));
        let gone = case(
            &["dog", "cat"],
            vec![StatedRelation::of_two(0, Relation::Near, 1)],
            vec![at("dog", 10.0)],
        );
        assert_eq!(by_relations(&gone).unwrap(), -1.0);
        let nothing = case(&["dog"], Vec::new(), Vec::new());
        assert_eq!(by_relations(&nothing), Err(RuleError::NoRelation));
    }

    #[test]
    fn what_is_nearer_stands_in_front() {
        let relations = vec![StatedRelation::of_two(0, Relation::InFrontOf, 1)];
        let found = vec![at("dog", 20.0), at("cat", 80.0)];
        let mut picture = case(&["dog", "cat"], relations, found);
        assert!(matches!(by_relations(&picture), Err(RuleError::NoDepth(_))));
        // The left half is nearer.
        let depths = (0..100 * 100).map(|i| if i % 100 < 50 { 9.0 } else { 1.0 });
        let map = DepthMap::new(100, 100, depths.collect()).unwrap();
        picture.depth = Some(Arc::new(map));
        assert_eq!(by_relations(&picture).unwrap(), 1.0);
        picture.relations[0].relation = Relation::Behind;
        assert_eq!(by_relations(&picture).unwrap(), 0.0);
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
