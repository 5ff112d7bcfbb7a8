//! VISOR: are both objects there, and is any pair of them as the prompt says? (Gokhale et al., arXiv 2212.10015)

use std::collections::HashMap;

use super::{Case, Figure, Options, Outcome, Report, Rule, RuleError, Value};
use crate::BoundingBox;
use prepose_scene::{Relation, StatedRelation};

/// OWL-ViT's threshold in the authors' notebook.
const MIN_SCORE: f64 = 0.1;
const KNOWN: &[Relation] = &[
    Relation::LeftOf,
    Relation::RightOf,
    Relation::Above,
    Relation::Below,
];

/// VISOR.
#[derive(Clone, Copy, Debug)]
pub struct Visor;

/// Whether the centre of `a` lies strictly on the side of `b`'s that the relation names. False for relations without a
/// side.
pub fn holds(relation: Relation, a: &BoundingBox, b: &BoundingBox) -> bool {
    let ((ax, ay), (bx, by)) = (a.centre(), b.centre());
    match relation {
        Relation::LeftOf => ax < bx,
        Relation::RightOf => ax > bx,
        Relation::Above => ay < by,
        Relation::Below => ay > by,
        _ => false,
    }
}

/// Whether VISOR scores such relations: left of, right of, above and below.
pub fn knows(relation: Relation) -> bool {
    KNOWN.contains(&relation)
}

/// Whether VISOR scores a relation of a picture of which its rule says `centre` and PSE's `pse`: one to the left, to the
/// right, above or below, between objects with two labels. Both rules refuse objects with one label, where a missing object
/// makes PSE 0.
pub fn counts(stated: &StatedRelation, centre: Option<bool>, pse: Option<f64>) -> bool {
    knows(stated.relation) && (centre.is_some() || pse.is_some())
}

/// What was found in one picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The first object.
    pub first: bool,
    /// The second.
    pub second: bool,
    /// Both, and some pair of them stands as it should.
    pub right: bool,
}

/// Judges one picture. None for a picture without a relation ("a dog and a cat"), which VISOR does not count.
///
/// # Errors
/// More than one relation, or one that is not left of, right of, above or below.
pub fn judge(case: &Case, options: &Options) -> Result<Option<Found>, RuleError> {
    if case.relations.is_empty() {
        return Ok(None);
    }
    let (subject, relation, object) = case.only_relation(Visor.name(), KNOWN)?;
    let first = case.found_with(subject, options, MIN_SCORE);
    let second = case.found_with(object, options, MIN_SCORE);
    let pairs = |a: &BoundingBox| second.iter().any(|b| holds(relation, a, &b.bbox));
    Ok(Some(Found {
        first: !first.is_empty(),
        second: !second.is_empty(),
        right: first.iter().any(|a| pairs(&a.bbox)),
    }))
}

/// The published scores, in percent; none where nothing could be divided.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scores {
    /// Pictures that count.
    pub pictures: usize,
    /// Their prompts.
    pub prompts: usize,
    /// Object accuracy: pictures with the first object, the second, both.
    pub object_accuracy: [Option<f64>; 3],
    /// Right pictures, of those with both objects.
    pub conditional: Option<f64>,
    /// Right pictures, of all.
    pub unconditional: Option<f64>,
    /// Prompts with at least 1, 2, 3, 4 right pictures.
    pub at_least: [Option<f64>; 4],
}

/// Sums up pictures, each with its prompt.
///
/// `published`: the authors' notebook instead of their script. It counts only prompts with a picture of both objects
/// among the prompts, and adds 1e-6 to what it divides by.
pub fn scores<'a>(pictures: impl IntoIterator<Item = (&'a str, Found)>, published: bool) -> Scores {
    let (mut count, mut right) = (0usize, 0usize);
    let mut found = [0usize; 3];
    // Of each prompt: how many pictures count, and in how many of them the relation holds.
    let mut by_prompt: HashMap<&str, (usize, usize)> = HashMap::new();
    for (prompt, picture) in pictures {
        let both = picture.first && picture.second;
        count += 1;
        right += usize::from(picture.right);
        for (sum, here) in found.iter_mut().zip([picture.first, picture.second, both]) {
            *sum += usize::from(here);
        }
        if both || !published {
            let (pictures, right) = by_prompt.entry(prompt).or_default();
            *pictures += 1;
            *right += usize::from(picture.right);
        }
    }
    let epsilon = if published { 1e-6 } else { 0.0 };
    let percent = |part: usize, whole: f64| (whole > 0.0).then(|| 100.0 * part as f64 / whole);
    let object_accuracy = found.map(|sum| percent(sum, count as f64));
    let conditional = percent(right, found[2] as f64 + epsilon);
    let unconditional = if published {
        percent(right, count as f64 + epsilon)
    } else {
        // As the script forms it; without both objects anywhere there is nothing right.
        object_accuracy[2].map(|both| 0.01 * (conditional.unwrap_or(0.0) * both))
    };
    let most = by_prompt.values().map(|(pictures, _)| *pictures).max();
    let at_least = [1, 2, 3, 4].map(|least| {
        // The notebook says 0 where no prompt has as many pictures.
        let possible = published || most.is_some_and(|most| most >= least);
        let right = by_prompt.values().filter(|(_, right)| *right >= least);
        possible.then(|| percent(right.count(), by_prompt.len() as f64 + epsilon))?
    });
    Scores {
        pictures: count,
        prompts: by_prompt.len(),
        object_accuracy,
        conditional,
        unconditional,
        at_least,
    }
}

impl Rule for Visor {
    fn name(&self) -> &'static str {
        "visor"
    }

    fn about(&self) -> &'static str {
        "both objects there, and the centres of any pair of boxes as the prompt says"
    }

    fn score(&self, cases: &mut dyn Iterator<Item = Case>, options: &Options) -> Report {
        let (mut counted, mut outcomes) = (Vec::new(), Vec::new());
        for case in cases {
            let judged = judge(&case, options);
            outcomes.push(judged.clone().map(|found| outcome(&case, found)));
            if let Ok(Some(found)) = judged {
                counted.push((case.prompt_id, found));
            }
        }
        let counted = counted
            .iter()
            .map(|(prompt, found)| (prompt.as_str(), *found));
        let scores = scores(counted, options.published);
        let percent = |name: &str, value| Figure::new(name, Value::Percent(value));
        let mut figures = vec![
            Figure::count("pictures", scores.pictures),
            Figure::count("prompts", scores.prompts),
        ];
        for (name, value) in ["OA first", "OA second", "OA"]
            .iter()
            .zip(scores.object_accuracy)
        {
            figures.push(percent(name, value));
        }
        figures.push(percent("VISOR_uncond", scores.unconditional));
        figures.push(percent("VISOR_cond", scores.conditional));
        for (n, value) in (1..).zip(scores.at_least) {
            figures.push(percent(&format!("VISOR_{n}"), value));
        }
        Report { outcomes, figures }
    }
}

fn outcome(case: &Case, found: Option<Found>) -> Outcome {
    let (Some(found), [stated]) = (found, case.relations.as_slice()) else {
        return Outcome::without_score("no relation");
    };
    let objects = [
        (stated.subject, found.first),
        (stated.objects[0], found.second),
    ];
    let missing = objects.into_iter().filter(|(_, here)| !here);
    Outcome::missing(
        f64::from(u8::from(found.right)),
        missing.map(|(object, _)| case.name_of(object)),
    )
}
