//! T2I-CompBench's 2D spatial score, by UniDet (Huang et al., arXiv 2307.06350).

use super::{Case, Figure, Options, Outcome, Report, Rule, RuleError, Value, mean, scores};
use crate::{BoundingBox, Detection};
use prepose_scene::Relation;

/// Overlap from which on a side counts for less.
const MOST_IOU: f64 = 0.1;
/// What is near, in pixels of the resized picture.
const NEAR: f64 = 150.0;
/// The threshold in the authors' copy of UniDet's unified head.
pub(super) const MIN_SCORE: f64 = 0.1;
const KNOWN: &[Relation] = &[
    Relation::LeftOf,
    Relation::RightOf,
    Relation::Above,
    Relation::Below,
    Relation::Near,
];
/// The phrases that the authors' script looks for, in its order, and what it makes of them.
const PHRASES: [(&str, Option<Relation>); 8] = [
    ("on side of", Some(Relation::Near)),
    ("next to", Some(Relation::Near)),
    ("near", Some(Relation::Near)),
    ("on the left of", Some(Relation::LeftOf)),
    ("on the right of", Some(Relation::RightOf)),
    ("on the bottom of", Some(Relation::Below)),
    ("on the top of", Some(Relation::Above)),
    ("on top of", None),
];

/// T2I-CompBench in the plane.
#[derive(Clone, Copy, Debug)]
pub struct T2i;

/// The size of the picture in which distances are measured: the short side 479 pixels, the long one at most 480.
/// torchvision's `Resize(479, max_size=480)`.
pub fn frame((width, height): (usize, usize)) -> (usize, usize) {
    const SHORT: usize = 479;
    const LONG: usize = 480;
    let (short, long) = (width.min(height).max(1), width.max(height).max(1));
    // The divisions are those of torchvision's, in floating point and cut off.
    let (mut new_short, mut new_long) = (SHORT, (SHORT * long) as f64 / short as f64);
    if new_long.trunc() > LONG as f64 {
        new_short = (LONG as f64 * new_short as f64 / new_long.trunc()) as usize;
        new_long = LONG as f64;
    }
    if width <= height {
        (new_short, new_long as usize)
    } else {
        (new_long as usize, new_short)
    }
}

/// How well `a` stands to `b`, in 0..=1; boxes in pixels of the [`frame`]. 0 for relations that it does not know.
///
/// To a side: 1 if the centres differ more along the relation's axis than along the other, and less as the boxes overlap
/// by more than a tenth. Near: 1 if the centres are less than 150 pixels apart along *either* axis, else 150 divided by
/// the larger distance.
pub fn position(relation: Relation, a: &BoundingBox, b: &BoundingBox) -> f64 {
    let ((ax, ay), (bx, by)) = (a.centre(), b.centre());
    let (dx, dy) = (bx - ax, by - ay);
    let (along, across) = match relation {
        Relation::LeftOf => (dx, dy),
        Relation::RightOf => (-dx, dy),
        Relation::Above => (dy, dx),
        Relation::Below => (-dy, dx),
        Relation::Near if dx.abs() < NEAR || dy.abs() < NEAR => return 1.0,
        Relation::Near => return NEAR / dx.abs().max(dy.abs()),
        _ => return 0.0,
    };
    let iou = a.iou(b);
    match along > across.abs() {
        false => 0.0,
        true if iou < MOST_IOU => 1.0,
        true => MOST_IOU / iou,
    }
}

/// What T2I-CompBench's detector calls an object.
pub(super) fn label(name: &str) -> &str {
    match name {
        "girl" | "boy" | "man" | "woman" => "person",
        name => name,
    }
}

/// What an object's detections in a picture are called: its own name where one that counts has it, as those of detectors
/// that take phrases do (`man`), else what T2I-CompBench's detector calls it (`person`). `published`: always the latter.
pub(super) fn called<'a>(case: &Case, name: &'a str, options: &Options) -> &'a str {
    let own = || !case.found_with(name, options, MIN_SCORE).is_empty();
    match !options.published && own() {
        true => name,
        false => label(name),
    }
}

/// A picture's relation and the boxes of its two objects in the frame, best first.
struct Scene<'a> {
    names: [&'a str; 2],
    relation: Relation,
    found: [Vec<&'a Detection>; 2],
    scale: (f64, f64),
}

impl<'a> Scene<'a> {
    fn new(case: &'a Case, options: &Options) -> Result<Self, RuleError> {
        let (subject, relation, object) = case.only_pair(T2i.name(), KNOWN)?;
        let (width, height) = case.size.ok_or(RuleError::NoSize(T2i.name()))?;
        let (frame_width, frame_height) = frame((width, height));
        let names = [subject, object].map(|name| called(case, name, options));
        Ok(Self {
            names,
            relation,
            found: names.map(|name| case.found_with(name, options, MIN_SCORE)),
            scale: (
                frame_width as f64 / width as f64,
                frame_height as f64 / height as f64,
            ),
        })
    }

    /// The score for these detections, one an object.
    fn score(&self, first: &Detection, second: &Detection) -> f64 {
        let [a, b] = [first, second].map(|detection| {
            let BoundingBox { x0, y0, x1, y1 } = detection.bbox;
            let (x, y) = self.scale;
            BoundingBox::new(x0 * x, y0 * y, x1 * x, y1 * y)
        });
        0.25 * first.score + 0.25 * second.score + position(self.relation, &a, &b) / 2.0
    }
}

/// The score of one picture, in 0..=1: a quarter of each object's score and half of [`position`], and 0 below one half, so
/// that one object alone or a wrong relation is always 0.
///
/// Each object is its best detection. Two objects with the same label are two detections, whichever way round is better.
///
/// `published`: two objects with the same label are the same detection, a box labelled `man` is no man, and the phrase of
/// place is looked for in the prompt as typed: "on top of", without "the", always counts as wrong.
///
/// # Errors
/// Not exactly one relation, one that is not in the plane, or an unknown size of the picture.
pub fn judge(case: &Case, options: &Options) -> Result<Outcome, RuleError> {
    let mut scene = Scene::new(case, options)?;
    let score = |scene: &Scene, first: usize, second: usize| {
        let best = [scene.found[0].get(first), scene.found[1].get(second)];
        let [Some(first), Some(second)] = best else {
            return None;
        };
        Some(scene.score(first, second))
    };
    let same = scene.names[0].eq_ignore_ascii_case(scene.names[1]);
    let full = match &case.prompt {
        _ if same && !options.published => {
            let ways = [score(&scene, 0, 1), score(&scene, 1, 0)];
            ways.into_iter().flatten().reduce(f64::max)
        }
        Some(prompt) if options.published => {
            let phrase = PHRASES.iter().find(|(phrase, _)| prompt.contains(phrase));
            // Between is one of the relations that score 0.
            let relation = phrase.and_then(|(_, relation)| *relation);
            scene.relation = relation.unwrap_or(Relation::Between);
            score(&scene, 0, 0)
        }
        _ => score(&scene, 0, 0),
    };
    let Some(full) = full else {
        let needed = [1, if same && !options.published { 2 } else { 1 }];
        let objects = scene.names.iter().zip(&scene.found).zip(needed);
        let missing = objects.filter(|((_, found), needed)| found.len() < *needed);
        return Ok(Outcome::missing(0.0, missing.map(|((name, _), _)| *name)));
    };
    Ok(if full < 0.5 {
        Outcome::new(0.0, format!("{full:.4}, below one half"))
    } else {
        Outcome::new(full, "")
    })
}

impl Rule for T2i {
    fn name(&self) -> &'static str {
        "t2i-compbench"
    }

    fn about(&self) -> &'static str {
        "T2I-CompBench 2D: scores of both objects and how their boxes lie, next to included"
    }

    fn score(&self, cases: &mut dyn Iterator<Item = Case>, options: &Options) -> Report {
        report(cases, |case| judge(&case, options))
    }
}

/// The mean score and the pictures that have one.
pub(super) fn report(
    cases: &mut dyn Iterator<Item = Case>,
    judge: impl Fn(Case) -> Result<Outcome, RuleError>,
) -> Report {
    let outcomes: Vec<_> = cases.map(judge).collect();
    let scores = scores(&outcomes);
    let both = outcomes
        .iter()
        .flatten()
        .filter(|outcome| outcome.missing.is_empty());
    let figures = vec![
        Figure::count("pictures", scores.len()),
        Figure::new("score", Value::Mean(mean(&scores))),
        Figure::percent("both objects", both.count() as f64, scores.len() as f64),
    ];
    Report { outcomes, figures }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Wanted;
    use prepose_scene::StatedRelation;

    #[test]
    fn the_frame_is_torchvisions() {
        assert_eq!(frame((512, 512)), (479, 479));
        assert_eq!(frame((1024, 1024)), (479, 479));
        assert_eq!(frame((512, 768)), (320, 480));
        assert_eq!(frame((768, 512)), (480, 320));
        assert_eq!(frame((479, 479)), (479, 479));
        assert_eq!(frame((479, 480)), (479, 480));
    }

    #[test]
    fn people_are_who_their_labels_say() {
        let judged = |object: &str, labels: [&str; 2], published| {
            let at = |label: &str, score, x| Detection {
                label: label.into(),
                score,
                bbox: BoundingBox::new(x, 0.0, x + 50.0, 50.0),
                mask: None,
            };
            let case = Case {
                size: Some((479, 479)),
                objects: ["man", object].map(Wanted::one).to_vec(),
                relations: vec![StatedRelation::of_two(0, Relation::LeftOf, 1)],
                detections: vec![at(labels[0], 0.9, 0.0), at(labels[1], 0.8, 200.0)],
                ..Case::default()
            };
            let options = Options {
                published,
                ..Options::default()
            };
            judge(&case, &options).unwrap()
        };
        let there = 0.425 + 0.5;
        for (object, labels, score) in [
            ("dog", ["man", "dog"], there),
            ("dog", ["Man", "dog"], there),
            ("dog", ["person", "dog"], there),
            ("woman", ["man", "woman"], there),
            ("woman", ["person", "woman"], there),
            // One and the same to the detector: in the better order.
            ("woman", ["person", "person"], there),
            ("man", ["man", "man"], there),
            // The right way round where labels say so.
            ("woman", ["woman", "man"], 0.0),
            ("woman", ["man", "man"], 0.0),
        ] {
            let outcome = judged(object, labels, false);
            let close = (outcome.score.unwrap() - score).abs() < 1e-12;
            assert!(close, "{object} {labels:?} {outcome:?}");
        }
        let published = judged("dog", ["man", "dog"], true);
        assert_eq!(published.missing, ["person"]);
    }
}
