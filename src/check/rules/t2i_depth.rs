//! T2I-CompBench's 3D spatial score, by UniDet and DPT (Huang et al., arXiv 2307.06350, second version).

use super::depth::DepthMap;
use super::t2i::{MIN_SCORE, called, label, report};
use super::{Case, Options, Outcome, Report, Rule, RuleError};
use crate::{BoundingBox, Detection};
use prepose_scene::Relation;

/// Overlap from which on the score is full.
const FULL_IOU: f64 = 0.5;
const KNOWN: &[Relation] = &[Relation::InFrontOf, Relation::Behind];

/// T2I-CompBench in depth.
#[derive(Clone, Copy, Debug)]
pub struct T2iDepth;

/// How well `a` stands in front of or behind `b`, in 0..=1, boxes in pixels of the map: 0 if their mean depths are not in
/// that order, else their overlap divided by one half, at most 1. Boxes that do not overlap score 0. 0 for relations that
/// it does not know.
///
/// `published`: columns and rows of the map are mixed up, and an overlap of exactly one half scores 0.
pub fn position(
    relation: Relation,
    a: &BoundingBox,
    b: &BoundingBox,
    depth: &DepthMap,
    published: bool,
) -> f64 {
    let mean = |b: &BoundingBox| {
        let columns = b.x0 as usize..b.x1 as usize;
        let rows = b.y0 as usize..b.y1 as usize;
        if published {
            depth.mean(rows, columns)
        } else {
            depth.mean(columns, rows)
        }
    };
    let (Some(nearness_a), Some(nearness_b)) = (mean(a), mean(b)) else {
        return 0.0;
    };
    let right = match relation {
        Relation::InFrontOf => nearness_a > nearness_b,
        Relation::Behind => nearness_a < nearness_b,
        _ => false,
    };
    let iou = a.iou(b);
    match right {
        false => 0.0,
        true if published && iou == FULL_IOU => 0.0,
        true => (iou / FULL_IOU).min(1.0),
    }
}

/// The detections of both objects. A label that *contains* the name counts ("teddy bear" is a bear), but for people.
///
/// `published`: of an object that is found before the other, the last detection up to the other's first.
fn choose<'a>(
    found: &[&'a Detection],
    names: [&str; 2],
    published: bool,
) -> [Option<&'a Detection>; 2] {
    let first = |name: &str| found.iter().position(|detection| is(detection, name));
    let mut at = names.map(first);
    if let (true, [Some(one), Some(other)]) = (published, at) {
        let upto = &found[..=one.max(other)];
        at = names.map(|name| upto.iter().rposition(|detection| is(detection, name)));
    } else if let (false, [Some(one), Some(other)]) = (published, at)
        && one == other
    {
        at = apart(found, names, one);
    }
    at.map(|at| at.map(|at| found[at]))
}

/// One of the words that T2I-CompBench takes for `person` is the whole label: a woman is no man.
fn is(detection: &Detection, name: &str) -> bool {
    let found = detection.label.trim().to_lowercase();
    let name = name.to_lowercase();
    match label(&name) == name {
        true => found.contains(&name),
        false => found == name,
    }
}

/// Where two names have the same best detection, which cannot be both: the name that is its whole label keeps it, else the
/// first. The other name goes to the next detection that fits, one of exactly that label before others. If only the first
/// has another, it is the first that goes.
fn apart(found: &[&Detection], names: [&str; 2], shared: usize) -> [Option<usize>; 2] {
    let same = |one: &str, other: &str| one.to_lowercase() == other.to_lowercase();
    let called = |at: usize, name: &str| same(&found[at].label, name);
    let twice = same(names[0], names[1]);
    let next = names.map(|name| {
        let mut rest = (shared + 1..found.len()).filter(|&at| is(found[at], name));
        let exact = rest.clone().find(|&at| !twice && called(at, name));
        exact.or_else(|| rest.next())
    });
    let is_seconds = called(shared, names[1]) && !twice;
    match is_seconds || (next[1].is_none() && next[0].is_some()) {
        true => [next[0], Some(shared)],
        false => [Some(shared), next[1]],
    }
}

/// The score of one picture, in 0..=1: a quarter of each object's score and half of [`position`]; unlike in the plane it
/// is kept below one half, and one object alone has its quarter.
///
/// # Errors
/// Not exactly one relation, one that is not of depth, or no depth map or size of the picture.
pub fn judge(case: &Case, options: &Options) -> Result<Outcome, RuleError> {
    let (subject, relation, object) = case.only_pair(T2iDepth.name(), KNOWN)?;
    let (width, height) = case.size.ok_or(RuleError::NoSize(T2iDepth.name()))?;
    let depth = case
        .depth
        .as_ref()
        .ok_or(RuleError::NoDepth(T2iDepth.name()))?;
    let names = [subject, object].map(|name| called(case, name, options));
    let cut = options.cut(MIN_SCORE);
    let mut found: Vec<&Detection> = case.detections.iter().filter(|d| d.score > cut).collect();
    found.sort_by(|a, b| b.score.total_cmp(&a.score));
    let chosen = choose(&found, names, options.published);
    let mut score: f64 = chosen
        .iter()
        .flatten()
        .map(|detection| 0.25 * detection.score)
        .sum();
    if let [Some(a), Some(b)] = chosen {
        let (map_width, map_height) = depth.size();
        let x = map_width as f64 / width.max(1) as f64;
        let y = map_height as f64 / height.max(1) as f64;
        let [a, b] = [a, b].map(|detection| {
            let BoundingBox { x0, y0, x1, y1 } = detection.bbox;
            BoundingBox::new(x0 * x, y0 * y, x1 * x, y1 * y)
        });
        score += position(relation, &a, &b, depth, options.published) / 2.0;
    }
    let missing = names
        .iter()
        .zip(chosen)
        .filter(|(_, found)| found.is_none());
    Ok(Outcome::missing(score, missing.map(|(name, _)| *name)))
}

impl Rule for T2iDepth {
    fn name(&self) -> &'static str {
        "t2i-compbench-3d"
    }

    fn about(&self) -> &'static str {
        "T2I-CompBench 3D: scores of both objects, their depths and overlap; needs a depth map"
    }

    fn score(&self, cases: &mut dyn Iterator<Item = Case>, options: &Options) -> Report {
        report(cases, |case| judge(&case, options))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::rules::Wanted;
    use crate::rules::depth::DepthMap;
    use prepose_scene::StatedRelation;

    #[test]
    fn people_are_who_their_labels_say() {
        // Near on the right.
        let depths = (0..100).map(|x| if x < 50 { 1.0 } else { 9.0 });
        let depth = Arc::new(DepthMap::new(100, 1, depths.collect()).unwrap());
        let judged = |subject: &str, labels: [&str; 2]| {
            let at = |label: &str, score, x| Detection {
                label: label.into(),
                score,
                bbox: BoundingBox::new(x, 0.0, x + 60.0, 1.0),
                mask: None,
            };
            let case = Case {
                size: Some((100, 1)),
                objects: [subject, "woman"].map(Wanted::one).to_vec(),
                relations: vec![StatedRelation::of_two(0, Relation::Behind, 1)],
                detections: vec![at(labels[0], 0.9, 0.0), at(labels[1], 0.8, 40.0)],
                depth: Some(depth.clone()),
                ..Case::default()
            };
            judge(&case, &Options::default()).unwrap()
        };
        // 20 of 100 columns are common, two fifths of what is needed.
        let there = 0.425 + 0.4 / 2.0;
        for (subject, labels, score) in [
            ("dog", ["dog", "woman"], there),
            ("dog", ["dog", "person"], there),
            ("man", ["man", "woman"], there),
            ("man", ["person", "person"], there),
            // A label that has the name in it is not the name.
            ("man", ["snowman", "person"], 0.2),
            ("man", ["man", "dog"], 0.225),
            // The man is not the better of both.
            ("man", ["woman", "man"], 0.425),
        ] {
            let outcome = judged(subject, labels);
            let close = (outcome.score.unwrap() - score).abs() < 1e-12;
            assert!(close, "{subject} {labels:?} {outcome:?}");
        }
    }
}
