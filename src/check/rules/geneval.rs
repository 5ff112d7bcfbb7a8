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

/// The detections of an object, best first, by GenEval's name or by COCO's, which is another for three things (`computer
/// mouse`).
fn found<'a>(case: &'a Case, name: &str, options: &Options) -> Vec<&'a Detection> {
    let mut found = case.found_with(name, options, MIN_SCORE);
    if let Some(coco) = alias(&name.to_lowercase()) {
        found.extend(case.found_with(coco, options, MIN_SCORE));
        found.sort_by(|a, b| b.score.total_cmp(&a.score));
    }
    found.truncate(MOST);
    found
}

/// Judges one picture: right if every object is there as often as it should be, and all of the most certain ones, as many
/// as were asked for, stand to each other as they should.
///
/// # Errors
/// A relation that is not left of, right of, above or below.
pub fn judge(case: &Case, options: &Options) -> Result<Outcome, RuleError> {
    let mut found_of = Vec::new();
    let mut missing = Vec::new();
    for wanted in &case.objects {
        let mut found = found(case, &wanted.name, options);
        found.truncate(wanted.count);
        if found.len() < wanted.count {
            missing.push(wanted.name.as_str());
        }
        found_of.push(found);
    }
    let mut wrong = Vec::new();
    for stated in &case.relations {
        let (subject, object) = case.names(stated, Geneval.name(), KNOWN)?;
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
