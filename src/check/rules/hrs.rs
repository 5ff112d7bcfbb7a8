//! HRS-Bench's spatial composition, by edges of boxes (Bakr et al., arXiv 2304.05390).

use super::{Case, Figure, Options, Outcome, Report, Rule, RuleError, Value, mean};
use crate::{BoundingBox, Detection};
use prepose_scene::{Relation, StatedRelation};

/// UniDet's threshold in the authors' command.
const MIN_SCORE: f64 = 0.5;
const KNOWN: &[Relation] = &[
    Relation::LeftOf,
    Relation::RightOf,
    Relation::Above,
    Relation::Below,
    Relation::Between,
];
const LEVELS: [&str; 3] = ["easy", "medium", "hard"];

/// HRS-Bench's spatial composition.
#[derive(Clone, Copy, Debug)]
pub struct Hrs;

/// Whether `a` reaches farther to the relation's side than `b`. Left and right compare the edges on that side; above and
/// below are content with either edge, so that both can hold at once. False for relations without a side.
pub fn holds(relation: Relation, a: &BoundingBox, b: &BoundingBox) -> bool {
    match relation {
        Relation::LeftOf => a.x0 < b.x0,
        Relation::RightOf => a.x1 > b.x1,
        Relation::Above => a.y0 < b.y0 || a.y1 < b.y1,
        Relation::Below => a.y1 > b.y1 || a.y0 > b.y0,
        _ => false,
    }
}

/// Whether `a` lies between the others along either axis, by [`holds`].
pub fn between(a: &BoundingBox, b: &BoundingBox, c: &BoundingBox) -> bool {
    let sides = [
        (Relation::RightOf, Relation::LeftOf),
        (Relation::Below, Relation::Above),
    ];
    let opposite = |one, other| holds(one, a, b) && holds(other, a, c);
    (sides.iter()).any(|(one, other)| opposite(*one, *other) || opposite(*other, *one))
}

/// Judges one picture: right if every object is there and each stated relation holds between the objects' best detections.
///
/// # Errors
/// There is no relation, one that HRS does not have, or two objects of one name.
pub fn judge(case: &Case, options: &Options) -> Result<Outcome, RuleError> {
    if case.relations.is_empty() {
        return Err(RuleError::NoRelation);
    }
    distinct(case)?;
    let best = |name: &str| case.found_with(name, options, MIN_SCORE).first().copied();
    let found: Vec<Option<&Detection>> = case.objects.iter().map(|o| best(&o.name)).collect();
    let mut wrong = Vec::new();
    for stated in &case.relations {
        known(stated.relation)?;
        let at = |object: &usize| found.get(*object).copied().flatten();
        let objects: Option<Vec<_>> = stated.objects.iter().map(at).collect();
        let (Some(a), Some(objects)) = (at(&stated.subject), objects) else {
            continue;
        };
        let right = match objects.as_slice() {
            [b, c] => between(&a.bbox, &b.bbox, &c.bbox),
            [b] => holds(stated.relation, &a.bbox, &b.bbox),
            _ => false,
        };
        if !right {
            wrong.push(said(case, stated));
        }
    }
    let missing = case
        .objects
        .iter()
        .zip(&found)
        .filter(|(_, found)| found.is_none());
    let missing: Vec<&str> = missing.map(|(object, _)| object.name.as_str()).collect();
    let right = missing.is_empty() && wrong.is_empty();
    Ok(Outcome {
        note: wrong.join("; "),
        ..Outcome::missing(f64::from(u8::from(right)), missing)
    })
}

/// As the authors' code judges the objects of `case` in the detections of `seen`. Unlike [`judge`]:
///
/// * of several detections of one label the last, least certain one counts, and of several with the same whole pixels
///   only the first does;
/// * with four objects and two relations, the first relation is that of the first two objects to the *fourth*, and the
///   second to a fifth, which does not exist: where it comes to that, the original stops with an error.
///
/// # Errors
/// As [`judge`], and objects and relations that are not of one of HRS's forms.
pub fn judge_as_published(
    case: &Case,
    seen: &Case,
    options: &Options,
) -> Result<Outcome, RuleError> {
    distinct(case)?;
    let boxes = kept(seen, options.cut(MIN_SCORE));
    let last = |name: &str| {
        let found = boxes.iter().rev();
        let mut found = found.filter(|d| d.label.trim().eq_ignore_ascii_case(name));
        found.next().map(|detection| &detection.bbox)
    };
    let found: Vec<Option<&BoundingBox>> = case.objects.iter().map(|o| last(&o.name)).collect();
    let mut relations = Vec::new();
    for stated in case.relations.iter().filter(|stated| stated.subject == 0) {
        relations.push(known(stated.relation)?);
    }
    if let Some(missing) = found.iter().position(Option::is_none) {
        return Ok(Outcome::missing(0.0, [case.name_of(missing)]));
    }
    let found: Vec<&BoundingBox> = found.into_iter().flatten().collect();
    let right = match (found.as_slice(), relations.as_slice()) {
        ([a, b], [relation, ..]) => holds(*relation, a, b),
        ([a, b, c], [_]) => between(a, b, c),
        ([a, b, c], [first, second]) => holds(*first, a, b) && holds(*second, a, c),
        ([a, b, c, d], [_]) => between(a, c, d) && between(b, c, d),
        ([a, b, _, d], [first, _]) => {
            if holds(*first, a, d) && holds(*first, b, d) {
                let note = "the original stops here, looking for a fifth object";
                return Ok(Outcome::without_score(note));
            }
            false
        }
        (objects, relations) => {
            let (objects, relations) = (objects.len(), relations.len());
            let shape = format!("this has {objects}, and {relations} relations of the first");
            return Err(RuleError::HrsShape(shape));
        }
    };
    Ok(Outcome::new(f64::from(u8::from(right)), ""))
}

/// The detections that the authors' code keeps: best first, of each box (in whole pixels) the first.
fn kept(seen: &Case, cut: f64) -> Vec<&Detection> {
    let mut all: Vec<&Detection> = seen.detections.iter().filter(|d| d.score > cut).collect();
    all.sort_by(|a, b| b.score.total_cmp(&a.score));
    let pixels = |detection: &Detection| <[f64; 4]>::from(detection.bbox).map(|edge| edge as i64);
    let mut kept: Vec<&Detection> = Vec::new();
    for detection in all {
        if !kept.iter().any(|other| pixels(other) == pixels(detection)) {
            kept.push(detection);
        }
    }
    kept
}

fn known(relation: Relation) -> Result<Relation, RuleError> {
    if KNOWN.contains(&relation) {
        return Ok(relation);
    }
    Err(RuleError::UnknownRelation {
        rule: Hrs.name(),
        relation,
        known: KNOWN,
    })
}

fn distinct(case: &Case) -> Result<(), RuleError> {
    for (i, object) in case.objects.iter().enumerate() {
        let same = |other: &super::Wanted| other.name.eq_ignore_ascii_case(&object.name);
        if case.objects[..i].iter().any(same) {
            return Err(RuleError::SameName(object.name.clone()));
        }
    }
    Ok(())
}

/// The relation in words.
fn said(case: &Case, stated: &StatedRelation) -> String {
    let objects: Vec<&str> = stated.objects.iter().map(|o| case.name_of(*o)).collect();
    let subject = case.name_of(stated.subject);
    format!(
        "not {subject} {} {}",
        stated.relation,
        objects.join(" and ")
    )
}

/// The level of a picture: by its number of objects, 0 for two.
fn level(case: &Case) -> usize {
    case.objects.len().saturating_sub(2).min(2)
}

impl Rule for Hrs {
    fn name(&self) -> &'static str {
        "hrs"
    }

    fn about(&self) -> &'static str {
        "HRS-Bench: edges of boxes, two to four objects, between included"
    }

    fn score(&self, cases: &mut dyn Iterator<Item = Case>, options: &Options) -> Report {
        // Boxes are all that counts, and masks are large.
        let boxes = |mut case: Case| {
            case.depth = None;
            case.detections.iter_mut().for_each(|d| d.mask = None);
            case
        };
        let cases: Vec<Case> = cases.map(boxes).collect();
        let mut levels = [(0usize, 0usize); 3];
        let mut outcomes = Vec::new();
        let third = cases.len() / 3;
        for (i, case) in cases.iter().enumerate() {
            let (level, outcome) = if !options.published {
                (level(case), judge(case, options))
            } else if i >= 3 * third {
                (2, Ok(Outcome::without_score("beyond three equal levels")))
            } else {
                // The original's levels are thirds of the rows, and it looks for each level's pictures a third of a
                // level further on, where the previous level's are.
                let level = i / third;
                let seen = &cases[i % third + level * (third / 3)];
                (level, judge_as_published(case, seen, options))
            };
            if let Ok(Outcome {
                score: Some(score), ..
            }) = &outcome
            {
                levels[level].0 += usize::from(*score == 1.0);
                levels[level].1 += 1;
            }
            outcomes.push(outcome);
        }
        let mut figures = vec![Figure::count(
            "pictures",
            levels.iter().map(|(_, count)| count).sum(),
        )];
        let mut accuracies = Vec::new();
        for (name, (right, count)) in LEVELS.iter().zip(levels) {
            let figure = Figure::percent(*name, right as f64, count as f64);
            accuracies.extend(figure.value.number());
            figures.push(figure);
        }
        figures.push(Figure::new(
            "mean of levels",
            Value::Percent(mean(&accuracies)),
        ));
        Report { outcomes, figures }
    }
}
