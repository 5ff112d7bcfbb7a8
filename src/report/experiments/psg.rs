//! What guidance and search make of relations (Why Settle for Mid, arXiv 2506.23418).

use std::collections::HashSet;

mod published;
mod scaling;

use self::published::{PUBLISHED, PUBLISHED_SEVERAL, Published};
pub use self::scaling::{Point, points, scaling};
use super::{Pictures, Results, percent, published};
use crate::stats::mean;
use prepose_check::prompt::SuitePrompt;
use prepose_check::rules::visor::{self, Found};
use prepose_check::sample::Scores;
use prepose_check::spatialbench::record::relation_name;
use prepose_draw::plot::{Axis, Chart, Note, Series, Style};
use prepose_draw::table::{Cell, Table};
use prepose_scene::Relation;

/// One relation of one picture.
#[derive(Clone, Debug)]
struct Stated<'a> {
    prompt: &'a SuitePrompt,
    /// Which of the prompt's relations.
    number: usize,
    /// The picture's seed.
    seed: u64,
    /// None if VISOR does not score it.
    found: Option<Found>,
    /// None if PSE does not score it.
    pse: Option<f64>,
}

/// The relations of a method's pictures that VISOR or PSE scores.
fn stated<'a>(pictures: &'a Pictures, seen: &'a [(usize, Scores)]) -> Vec<Stated<'a>> {
    let of_picture = |(prompt, scores): &'a (usize, Scores)| {
        let prompt = &pictures.prompts[*prompt];
        let relations = prompt.relations.iter().enumerate();
        relations.filter_map(move |(number, said)| {
            let here = |object: usize| {
                let each = scores.each_found.as_ref();
                each.and_then(|each| each.get(object))
                    .copied()
                    .unwrap_or(false)
            };
            let centre = match &scores.each_centre {
                Some(each) => each.get(number).copied().flatten(),
                None => scores.centre,
            };
            let pse = match &scores.each_pse {
                Some(each) => each.get(number).copied().flatten(),
                None => scores.pse,
            };
            let found = visor::counts(said, centre, pse).then(|| Found {
                first: here(said.subject),
                second: said.objects.iter().all(|&object| here(object)),
                right: centre == Some(true),
            });
            (found.is_some() || pse.is_some()).then_some(Stated {
                prompt,
                number,
                seed: scores.seed,
                found,
                pse,
            })
        })
    };
    seen.iter().flat_map(of_picture).collect()
}

/// The figures of some relations: how many prompts, pictures and relations, OA of both, of the first and the second object,
/// unconditional, conditional, 1 to 4, PSE.
fn cells(stated: &[&Stated]) -> Vec<Cell> {
    let keys: Vec<String> = (stated.iter())
        .map(|one| format!("{} {}", one.prompt.prompt_id, one.number))
        .collect();
    let each = keys
        .iter()
        .zip(stated)
        .filter_map(|(key, one)| Some((key.as_str(), one.found?)));
    let scores = visor::scores(each, false);
    let prompts: HashSet<&str> = stated
        .iter()
        .map(|one| one.prompt.prompt_id.as_str())
        .collect();
    let pictures: HashSet<(&str, u64)> = (stated.iter())
        .map(|one| (one.prompt.prompt_id.as_str(), one.seed))
        .collect();
    let [first, second, both] = scores.object_accuracy;
    let pse = mean(stated.iter().filter_map(|one| Some(100.0 * one.pse?)));
    let counts = [prompts.len(), pictures.len(), stated.len()];
    let mut cells: Vec<Cell> = counts.map(Cell::Count).into();
    cells.extend(
        [
            both,
            first,
            second,
            scores.unconditional,
            scores.conditional,
        ]
        .map(percent),
    );
    cells.extend(scores.at_least.map(percent));
    cells.push(percent(pse));
    cells
}

const COLUMNS: [&str; 13] = [
    "prompts",
    "pictures",
    "relations",
    "OA",
    "OA_first",
    "OA_second",
    "VISOR_uncond",
    "VISOR_cond",
    "VISOR_1",
    "VISOR_2",
    "VISOR_3",
    "VISOR_4",
    "PSE",
];

/// VISOR's table for each method, and split by relation, beside the paper's.
pub fn table(pictures: &Pictures) -> Results {
    let (mut rows, mut by_relation, mut dots) = (Vec::new(), Vec::new(), Vec::new());
    for (look, (method, seen)) in pictures.methods.iter().enumerate() {
        let stated = stated(pictures, seen);
        if stated.is_empty() {
            continue;
        }
        let all = cells(&stated.iter().collect::<Vec<_>>());
        if let (Cell::Percent(both), Cell::Percent(right)) = (&all[3], &all[7]) {
            dots.push(Series::new(
                &method.name,
                vec![(*both, *right)],
                Style::Dots,
                look,
            ));
        }
        rows.push(with_name(&method.name, all));
        for relation in Relation::ALL {
            let said = |one: &&Stated| one.prompt.relations[one.number].relation == relation;
            let some: Vec<&Stated> = stated.iter().filter(said).collect();
            if !some.is_empty() {
                let mut row = with_name(&method.name, cells(&some));
                row.insert(1, Cell::Name(relation_name(relation)));
                by_relation.push(row);
            }
        }
    }
    let most = pictures.prompts.iter().map(|prompt| prompt.objects.len());
    let (published_rows, published_dots) = match most.max() {
        Some(0..=2) | None => of_two_objects(),
        Some(objects) => (of_several_objects(objects), Vec::new()),
    };
    rows.extend(published_rows);
    let names = |extra: &'static [&'static str]| -> Vec<&'static str> {
        extra.iter().copied().chain(COLUMNS).collect()
    };
    Results {
        name: "visor",
        note: "In percent, over the relations of all pictures; VISOR and PSE leave out what they do not score. OA: both objects are \
               found, the first-mentioned, the other. VISOR: the relation holds by the centres, of all and of those with both \
               objects; relations of a prompt with at least 1 to 4 right pictures. PSE: probability of superiority, 0 where an \
               object is missing. The published rows have other prompts, detectors and checkpoints."
            .into(),
        tables: vec![
            Table::new("visor", &names(&["run"]), rows.into_iter()),
            Table::new("visor_by_relation", &names(&["run", "relation"]), by_relation.into_iter()),
        ],
        plots: vec![("objects", plot(dots, published_dots).draw())],
    }
}

/// Published rows for prompts of two objects, and their dots in the plot.
fn of_two_objects() -> (Vec<Vec<Cell>>, Vec<Note>) {
    let row = |(name, figures): Published| {
        let [both, unconditional, conditional, at_least @ ..] = figures.map(Cell::Percent);
        let mut row = vec![published(name), Cell::Empty, Cell::Empty, Cell::Empty, both];
        row.extend([Cell::Empty, Cell::Empty, unconditional, conditional]);
        row.extend(at_least);
        row.push(Cell::Empty);
        let dot = Note {
            at: (figures[0], figures[2]),
            text: name.into(),
            dot: false,
        };
        (row, dot)
    };
    PUBLISHED.into_iter().map(row).unzip()
}

/// Published rows for prompts of so many objects.
fn of_several_objects(objects: usize) -> Vec<Vec<Cell>> {
    let these = PUBLISHED_SEVERAL.iter().filter(|row| row.0 == objects);
    these
        .map(|(_, name, pse, visor)| {
            let mut row = vec![published(name)];
            row.resize(7, Cell::Empty);
            row.push(Cell::Percent(*visor));
            row.resize(13, Cell::Empty);
            row.push(Cell::Percent(*pse));
            row
        })
        .collect()
}

/// Object accuracy against conditional VISOR: a dot for each method, and the paper's.
fn plot(mut dots: Vec<Series>, notes: Vec<Note>) -> Chart {
    if !notes.is_empty() {
        let points = notes.iter().map(|note| note.at).collect();
        dots.push(Series::new("published", points, Style::Dots, dots.len()));
    }
    Chart {
        title: "Objects there, and where they belong".into(),
        x: Axis::linear("object accuracy, %", 0.0, 100.0),
        y: Axis::linear("VISOR conditional, %", 0.0, 100.0),
        series: dots,
        notes,
    }
}

fn with_name(name: &str, cells: Vec<Cell>) -> Vec<Cell> {
    std::iter::once(Cell::Name(name.into()))
        .chain(cells)
        .collect()
}

#[cfg(test)]
mod tests;
