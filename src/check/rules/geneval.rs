//! GenEval: are the objects there, and do the most certain of them stand as the prompt says? (Ghosh et al., arXiv
//! 2310.11513; tags `single_object`, `two_object` and `position`)

use std::collections::HashMap;

use super::{Case, Figure, Options, Outcome, Report, Rule, RuleError};
use crate::vocabulary::alias;
use crate::{BoundingBox, Detection};
use prepose_scene::Relation;

/// Mask2Former's threshold.
const MIN_SCORE: f64 = 0.3;
/// Detections of one label that count at most.
const MOST: usize = 16;
/// The share of both boxes' sizes by which centres may differ without a relation.
const MARGIN: f64 = 0.1;
const KNOWN: &[Relation] = &[
    Relation::LeftOf,
    Relation::RightOf,
    Relation::Above,
    Relation::Below,
];
/// GenEval's presence and position.
#[derive(Clone, Copy, Debug)]
pub struct Geneval;

/// How `a` stands to `b`: none, one or two of left of, right of, above and below.
///
/// The offset of the centres is lessened by a tenth of both sizes along each axis. A relation holds where what is left is
/// more than half of the offset's whole length, before it was lessened.
pub fn relations(a: &BoundingBox, b: &BoundingBox) -> Vec<Relation> {
    let ((ax, ay), (bx, by)) = (a.centre(), b.centre());
    let offset = [ax - bx, ay - by];
    let sizes = [
        a.width().abs() + b.width().abs(),
        a.height().abs() + b.height().abs(),
    ];
    let lessened = [0, 1].map(|axis| {
        let left = (offset[axis].abs() - MARGIN * sizes[axis]).max(0.0);
        if offset[axis] < 0.0 { -left } else { left }
    });
    if lessened.iter().all(|part| part.abs() < 1e-3) {
        return Vec::new();
    }
    let length = (offset[0] * offset[0] + offset[1] * offset[1]).sqrt();
    let [dx, dy] = lessened.map(|part| part / length);
    let held = [
        (dx < -0.5, Relation::LeftOf),
        (dx > 0.5, Relation::RightOf),
        (dy < -0.5, Relation::Above),
        (dy > 0.5, Relation::Below),
    ];
    let held = held.into_iter().filter(|(held, _)| *held);
    held.map(|(_, relation)| relation).collect()
}

/// The detections that count of a name, best first.
fn found<'a>(case: &'a Case, name: &str, options: &Options) -> Vec<&'a Detection> {
    case.found_with(name, options, MIN_SCORE)
}

/// What the detections of an object are called: as it is, or else, if there are none, as COCO calls it (`mouse` for
/// GenEval's `computer mouse`), if there is such a word.
fn called(case: &Case, name: &str, options: &Options) -> String {
    match alias(&name.to_lowercase()) {
        Some(coco) if found(case, name, options).is_empty() => coco.to_owned(),
        _ => name.to_lowercase(),
    }
}

/// Judges one picture: right if every object is there as often as it should be, and all of the most certain ones, as many
/// as were asked for, stand to each other as they should. Objects whose detections are called the same ("a man and a
/// woman", which are both COCO's `person`) need one each, as often as they should be there; the first has the best ones.
/// More than 16 of an object are never needed.
///
/// # Errors
/// An object that the detector has no label for, a relation that is not left of, right of, above or below, or one of two
/// objects whose detections are called the same.
pub fn judge(case: &Case, options: &Options) -> Result<Outcome, RuleError> {
    if !case.unknown.is_empty() {
        return Err(RuleError::Unknown(case.unknown.clone()));
    }
    let names = case.objects.iter();
    let names = names.map(|wanted| called(case, &wanted.name, options));
    let names: Vec<String> = names.collect();
    let mut found_of = Vec::new();
    let mut missing = Vec::new();
    for (at, wanted) in case.objects.iter().enumerate() {
        let count = wanted.count.min(MOST);
        // No detection is two of the objects.
        let others = names[..at].iter().zip(&case.objects);
        let same = others.filter(|(name, _)| **name == names[at]);
        let taken = same.map(|(_, other)| other.count.min(MOST)).sum();
        let found = found(case, &names[at], options).into_iter();
        let left: Vec<&Detection> = found.skip(taken).take(count).collect();
        if left.len() < count {
            missing.push(wanted.name.as_str());
        }
        found_of.push(left);
    }
    let mut wrong = Vec::new();
    for stated in &case.relations {
        let (subject, object) = case.names(stated, Geneval.name(), KNOWN)?;
        if names[stated.subject] == names[stated.objects[0]] {
            return Err(RuleError::SameName(names[stated.subject].clone()));
        }
        for a in &found_of[stated.subject] {
            for b in &found_of[stated.objects[0]] {
                let held = relations(&a.bbox, &b.bbox);
                if !held.contains(&stated.relation) {
                    let held: Vec<&str> = held.iter().map(|relation| relation.as_str()).collect();
                    let held = if held.is_empty() {
                        "nowhere near that".to_owned()
                    } else {
                        held.join(" and ")
                    };
                    wrong.push(format!("{subject} {held} {object}"));
                }
            }
        }
    }
    let right = missing.is_empty() && wrong.is_empty();
    wrong.dedup();
    Ok(Outcome {
        note: wrong.join("; "),
        ..Outcome::missing(f64::from(u8::from(right)), missing)
    })
}

impl Rule for Geneval {
    fn name(&self) -> &'static str {
        "geneval"
    }

    fn about(&self) -> &'static str {
        "objects there, and the most certain boxes well apart in the prompt's direction"
    }

    fn score(&self, cases: &mut dyn Iterator<Item = Case>, options: &Options) -> Report {
        let mut by_prompt: HashMap<String, bool> = HashMap::new();
        let (mut count, mut right) = (0, 0);
        let mut outcomes = Vec::new();
        for case in cases {
            let outcome = judge(&case, options);
            if let Ok(outcome) = &outcome {
                let is_right = outcome.score == Some(1.0);
                count += 1;
                right += usize::from(is_right);
                *by_prompt.entry(case.prompt_id).or_default() |= is_right;
            }
            outcomes.push(outcome);
        }
        let prompts = by_prompt.values().filter(|right| **right).count();
        let figures = vec![
            Figure::count("pictures", count),
            Figure::count("prompts", by_prompt.len()),
            Figure::percent("right pictures", right as f64, count as f64),
            Figure::percent(
                "prompts with a right one",
                prompts as f64,
                by_prompt.len() as f64,
            ),
        ];
        Report { outcomes, figures }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Wanted;
    use prepose_scene::StatedRelation;

    fn judged(
        wanted: &[(&str, usize)],
        left: Option<[usize; 2]>,
        found: &[(&str, f64)],
    ) -> Result<Outcome, RuleError> {
        let wanted = wanted.iter().map(|(name, count)| Wanted {
            name: (*name).into(),
            count: *count,
        });
        let detections = found.iter().zip(1..).map(|((label, x), nth)| Detection {
            label: (*label).into(),
            score: 1.0 - 0.01 * f64::from(nth),
            bbox: BoundingBox::new(*x, 0.0, x + 10.0, 10.0),
            mask: None,
        });
        let relations = left.map(|[a, b]| StatedRelation::of_two(a, Relation::LeftOf, b));
        let case = Case {
            objects: wanted.collect(),
            relations: relations.into_iter().collect(),
            detections: detections.collect(),
            ..Case::default()
        };
        judge(&case, &Options::default())
    }

    #[test]
    fn no_detection_is_two_objects() {
        let pair = [("man", 1), ("woman", 1)];
        for (wanted, found, missing) in [
            (&pair[..], &[("person", 0.0)][..], &["woman"][..]),
            (&pair, &[("person", 0.0), ("person", 50.0)], &[]),
            (&pair, &[("man", 0.0), ("woman", 50.0)], &[]),
            (&pair, &[("man", 0.0), ("man", 50.0)], &["woman"]),
            (&pair, &[], &["man", "woman"]),
            (&[("kitten", 1), ("cat", 1)], &[("cat", 0.0)], &["cat"]),
            (&[("Dog", 1), ("dog", 1)], &[("dog", 0.0)], &["dog"]),
            (
                &[("man", 2), ("woman", 1)],
                &[("person", 0.0), ("person", 50.0)],
                &["woman"],
            ),
            (&[("computer mouse", 1)], &[("mouse", 0.0)], &[]),
            (&[("sofa", 1)], &[("couch", 0.0)], &[]),
            (
                &[("dog", usize::MAX), ("dog", usize::MAX)],
                &[],
                &["dog", "dog"],
            ),
        ] {
            let outcome = judged(wanted, None, found).unwrap();
            assert_eq!(outcome.missing, missing, "{wanted:?} {found:?}");
            assert_eq!(outcome.score == Some(1.0), missing.is_empty());
        }
    }

    #[test]
    fn labels_must_tell_the_objects_of_a_relation_apart() {
        let judged = |names: [&str; 2], found: &[(&str, f64)]| {
            judged(&names.map(|name| (name, 1)), Some([0, 1]), found)
        };
        let people = [("person", 0.0), ("person", 50.0)];
        for (names, found) in [
            (["man", "woman"], &people[..]),
            // Whatever is found, it would not tell them apart.
            (["man", "woman"], &people[..1]),
            (["man", "woman"], &people[..0]),
            (["person", "person"], &people),
            (["cat", "kitten"], &[("cat", 0.0), ("cat", 50.0)]),
        ] {
            let error = judged(names, found).unwrap_err();
            assert!(matches!(error, RuleError::SameName(_)), "{names:?} {error}");
        }
        let apart = [("kitten", 50.0), ("cat", 0.0)];
        let score = |names| judged(names, &apart).unwrap().score;
        assert_eq!(score(["cat", "kitten"]), Some(1.0));
        assert_eq!(score(["kitten", "cat"]), Some(0.0));
        assert_eq!(judged(["man", "dog"], &[]).unwrap().score, Some(0.0));
        // The second of a name has the second best.
        let three = [("man", 1), ("woman", 1), ("dog", 1)];
        let found = [("person", 0.0), ("person", 50.0), ("dog", 25.0)];
        let score = |at| self::judged(&three, Some([at, 2]), &found).unwrap().score;
        assert_eq!([score(0), score(1)], [Some(1.0), Some(0.0)]);
    }
}
