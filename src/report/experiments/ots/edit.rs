//! Image to image: who does what an instruction asks for, the left one of a picture or the right one?

use std::collections::HashMap;

use super::correctness::{VARIANTS, published_rows, variant_rows};
use super::published::MODELS;
use super::{Place, Tallies, Tally, cells};
use crate::experiments::{Pictures, Results, percent, published, share};
use prepose_check::rules::ots::{Code, Side, Verdict};
use prepose_check::rules::{RuleError, Task};
use prepose_check::sample::Scores;
use prepose_draw::table::{Cell, Table};

/// What a judge said of pictures, by their `sample_id`: the codes of table 14, of which those for correctness are the
/// other way round than for text to image.
pub type Labels = HashMap<String, u8>;

/// What the edited pictures came to: whether both subjects are still there and still on their sides, by the detector's
/// boxes, and, of those with a judge's label, who acts.
///
/// # Errors
/// A label that means nothing.
pub fn edit(pictures: &Pictures, labels: &Labels) -> Result<Results, RuleError> {
    let counterparts = pictures.counterparts();
    let (mut kept, mut sides, mut variants) = (Vec::new(), Vec::new(), Vec::new());
    for (method, seen) in &pictures.methods {
        let name = Cell::Name(method.name.clone());
        kept.push(kept_row(&name, seen));
        let named = |prompt: usize, variant: &str| {
            pictures.prompts[prompt]
                .tags
                .iter()
                .any(|tag| tag == variant)
        };
        let under = |prompt: usize| !VARIANTS.iter().any(|variant| named(prompt, variant));
        let mut placed = Vec::new();
        let mut of_variant = [Vec::new(), Vec::new()];
        for (prompt, scores) in seen {
            let Some(code) = labels.get(&scores.sample_id).map(|code| Code(*code)) else {
                continue;
            };
            if under(*prompt) {
                placed.push((*prompt, side(code.side()?)));
            }
            for (list, variant) in of_variant.iter_mut().zip(VARIANTS) {
                if named(*prompt, variant) {
                    list.push((*prompt, verdict(code.verdict(Task::ImageToImage)?)));
                }
            }
        }
        let tallies = Tallies::of(placed, &counterparts);
        if tallies.sum().total() > 0 {
            let mut row = vec![name.clone()];
            row.extend(tallies.sum().cells());
            row.extend(cells(tallies.estimate(Tally::homogenization)));
            sides.push(row);
        }
        let of_variant = of_variant.map(|placed| Tallies::of(placed, &counterparts));
        variants.extend(variant_rows(&name, &of_variant));
    }
    for model in MODELS {
        if let Some(figure) = model.edit {
            let mut row = vec![published(model.name)];
            row.resize(6, Cell::Empty);
            row.extend([Cell::Percent(figure), Cell::Empty, Cell::Empty]);
            sides.push(row);
        }
        if let Some(accuracy) = model.edit_correctness {
            variants.extend(published_rows(model.name, accuracy));
        }
    }
    Ok(Results {
        name: "edit",
        note: "Pictures of two subjects, changed by an instruction. Kept: both are there once, apart, and beside each other, and on \
               the sides where the seed picture has them, by the boxes of the detector. Who acts is for a judge to say (table 14 \
               of the paper: 1 the left one, 2 the right one; of correctness 1 reversed, 2 aligned; 3 invalid); low and high are \
               the ends of 95 % intervals over cases."
            .into(),
        tables: vec![
            Table::new("edit_kept", &KEPT, kept.into_iter()),
            Table::new("edit_homogenization", &HOMOGENIZATION, sides.into_iter()),
            Table::new("edit_correctness", &CORRECTNESS, variants.into_iter()),
        ],
        plots: Vec::new(),
    })
}

const KEPT: [&str; 6] = [
    "run",
    "pictures",
    "kept",
    "other_way_round",
    "invalid",
    "kept_percent",
];
const HOMOGENIZATION: [&str; 9] = [
    "run",
    "pictures",
    "left",
    "right",
    "invalid",
    "invalid_percent",
    "homogenization",
    "low",
    "high",
];
const CORRECTNESS: [&str; 11] = [
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

/// The objects of such a prompt are those of the seed picture, the left one first.
fn kept_row(name: &Cell, seen: &[(usize, Scores)]) -> Vec<Cell> {
    let of = |place: &str| {
        let sides = seen.iter().filter_map(|(_, scores)| scores.side.as_deref());
        sides.filter(|side| *side == place).count()
    };
    let counts = ["left", "right", "invalid"].map(of);
    let total = counts.iter().sum();
    let mut row = vec![name.clone(), Cell::Count(total)];
    row.extend(counts.map(Cell::Count));
    row.push(percent(share(counts[0], total)));
    row
}

fn side(side: Side) -> Place {
    match side {
        Side::Left => Place::First,
        Side::Right => Place::Second,
        Side::Invalid => Place::Invalid,
    }
}

fn verdict(verdict: Verdict) -> Place {
    match verdict {
        Verdict::Correct => Place::First,
        Verdict::Wrong => Place::Second,
        Verdict::Invalid => Place::Invalid,
    }
}
