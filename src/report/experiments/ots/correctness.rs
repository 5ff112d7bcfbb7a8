//! Text-to-image correctness: do things stand as the world has them, whatever the order of mention?

use super::published::MODELS;
use super::{Place, Tallies, Tally, cells};
use crate::experiments::{Pictures, Results, percent, published};
use prepose_check::prompt::SuitePrompt;
use prepose_check::sample::Scores;
use prepose_draw::table::{Cell, Table};
use prepose_scene::Relation;

/// The variants of a case, as the sets tag them.
pub(super) const VARIANTS: [&str; 2] = ["aligned", "reverse"];

/// Accuracy with the order of mention as it is in the world (aligned) and with the other one (reverse), in 0 to 100.
pub fn correctness(pictures: &Pictures) -> Results {
    let columns = [
        "run",
        "variant",
        "pictures",
        "correct",
        "wrong",
        "invalid",
        "invalid_percent",
        "accuracy",
        "low",
        "high",
        "aligned_minus_reverse",
    ];
    let counterparts = pictures.counterparts();
    let mut rows = Vec::new();
    for (method, seen) in &pictures.methods {
        let tallies = VARIANTS.map(|variant| {
            let placed = seen.iter().filter_map(|(prompt, scores)| {
                let asked = &pictures.prompts[*prompt];
                let of_variant = asked.tags.iter().any(|tag| tag == variant);
                Some((*prompt, verdict(asked, scores).filter(|_| of_variant)?))
            });
            Tallies::of(placed, &counterparts)
        });
        rows.extend(variant_rows(&Cell::Name(method.name.clone()), &tallies));
    }
    for model in MODELS {
        rows.extend(published_rows(model.name, model.correctness));
    }
    Results {
        name: "correctness",
        note: "Whether two things stand as the world has them. Aligned: the left one is mentioned first; reverse: the right one \
               is. Accuracy: correct of correct and wrong, without the invalid ones, in which the two are not both there once, \
               apart, and beside each other; low and high are the ends of its 95 % interval over pairs."
            .into(),
        tables: vec![Table::new("correctness", &columns, rows.into_iter())],
        plots: Vec::new(),
    }
}

/// Whether the first-mentioned object is on its side; [`Place::First`] is correct.
fn verdict(prompt: &SuitePrompt, scores: &Scores) -> Option<Place> {
    let [stated] = prompt.relations.as_slice() else {
        return None;
    };
    let first_is_left = match (stated.relation, stated.two()?) {
        (Relation::LeftOf, (0, 1)) | (Relation::RightOf, (1, 0)) => true,
        (Relation::LeftOf, (1, 0)) | (Relation::RightOf, (0, 1)) => false,
        _ => return None,
    };
    Some(match scores.side.as_deref()? {
        "left" if first_is_left => Place::First,
        "right" if !first_is_left => Place::First,
        "left" | "right" => Place::Second,
        _ => Place::Invalid,
    })
}

/// A row for each variant; the difference is in the second.
pub(super) fn variant_rows(name: &Cell, tallies: &[Tallies; 2]) -> Vec<Vec<Cell>> {
    let accuracy = tallies.each_ref().map(|one| one.sum().success());
    let difference = accuracy[0].zip(accuracy[1]).map(|(a, b)| a - b);
    let mut rows = Vec::new();
    for (variant, tallies) in VARIANTS.into_iter().zip(tallies) {
        if tallies.sum().total() == 0 {
            continue;
        }
        let mut row = vec![name.clone(), Cell::Name(variant.into())];
        row.extend(tallies.sum().cells());
        row.extend(cells(tallies.estimate(Tally::success)));
        row.push(match variant {
            "reverse" => percent(difference),
            _ => Cell::Empty,
        });
        rows.push(row);
    }
    rows
}

/// What is published of a model, in the same columns.
pub(super) fn published_rows(name: &str, accuracy: [f64; 2]) -> Vec<Vec<Cell>> {
    let of = |(at, variant): (usize, &'static str)| {
        let mut row = vec![published(name), Cell::Name(variant.into())];
        row.extend([
            Cell::Empty,
            Cell::Empty,
            Cell::Empty,
            Cell::Empty,
            Cell::Empty,
        ]);
        row.extend([Cell::Percent(accuracy[at]), Cell::Empty, Cell::Empty]);
        row.push(match at {
            0 => Cell::Empty,
            _ => Cell::Percent(accuracy[0] - accuracy[1]),
        });
        row
    };
    VARIANTS.into_iter().enumerate().map(of).collect()
}
