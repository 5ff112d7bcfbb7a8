//! What guidance and search make of relations (Why Settle for Mid, arXiv 2506.23418).

use std::collections::HashSet;

use super::{Pictures, Results, percent, published};
use crate::stats::mean;
use prepose_check::prompt::SuitePrompt;
use prepose_check::rules::visor::{self, Found};
use prepose_check::sample::Scores;
use prepose_check::spatialbench::record::relation_name;
use prepose_draw::plot::{Axis, Chart, Note, Series, Style};
use prepose_draw::table::{Cell, Table};
use prepose_scene::Relation;

/// Published VISOR figures in percent: OA, unconditional, conditional, 1 to 4.
type Published = (&'static str, [f64; 7]);

/// Table 4 of the paper: 5,000 of VISOR's prompts, four pictures each. "(2)" has "and" for the relation in the prompt.
const PUBLISHED: [Published; 8] = [
    ("SD 1.4", [29.6, 18.84, 63.65, 46.16, 20.12, 7.26, 1.82]),
    ("SD 2.1", [48.66, 30.9, 63.5, 65.2, 36.5, 17.1, 4.8]),
    (
        "Getting it Right",
        [60.55, 44.05, 72.75, 71.14, 52.66, 33.92, 18.48],
    ),
    ("SD XL", [65.74, 45.01, 68.46, 78.52, 55.38, 32.98, 13.16]),
    (
        "SD 1.4 + PSG (1)",
        [35.29, 30.0, 85.0, 60.48, 34.74, 18.32, 6.46],
    ),
    (
        "SD 1.4 + PSG (2)",
        [44.92, 39.98, 89.0, 71.58, 47.72, 28.56, 12.06],
    ),
    (
        "SDXL + PSG (1)",
        [76.8, 74.8, 97.4, 93.52, 84.72, 70.88, 50.08],
    ),
    (
        "SDXL + PSG (2)",
        [80.02, 77.35, 96.6, 94.98, 87.02, 74.36, 53.04],
    ),
];

/// Table 15: prompts of so many objects; PSE and VISOR in percent, averaged over the relations.
const PUBLISHED_SEVERAL: [(usize, &str, f64, f64); 4] = [
    (3, "SDXL", 30.8, 57.0),
    (3, "SDXL + PSG", 63.8, 72.5),
    (4, "SDXL", 31.5, 54.0),
    (4, "SDXL + PSG", 68.4, 58.0),
];

/// Table 16: PSE and centre accuracy in percent, without search and with the best of 2, 4, 8 and 16.
const PUBLISHED_SCALING: [(&str, [(f64, f64); 5]); 2] = [
    (
        "SDXL",
        [
            (29.39, 43.0),
            (40.07, 64.0),
            (55.56, 76.0),
            (67.14, 86.0),
            (78.23, 93.0),
        ],
    ),
    (
        "SD2.1",
        [
            (16.07, 32.0),
            (29.25, 50.0),
            (43.70, 75.0),
            (60.94, 89.0),
            (77.52, 95.0),
        ],
    ),
];

/// One relation of one picture.
#[derive(Clone, Debug)]
struct Stated<'a> {
    prompt: &'a SuitePrompt,
    /// Which of the prompt's relations.
    number: usize,
    /// The picture's seed.
    seed: u64,
    found: Found,
    pse: f64,
}

/// The relations of a method's pictures.
fn stated<'a>(pictures: &'a Pictures, seen: &'a [(usize, Scores)]) -> Vec<Stated<'a>> {
    let of_picture = |(prompt, scores): &'a (usize, Scores)| {
        let prompt = &pictures.prompts[*prompt];
        let relations = prompt.relations.iter().enumerate();
        relations.map(move |(number, said)| {
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
            Stated {
                prompt,
                number,
                seed: scores.seed,
                found: Found {
                    first: here(said.subject),
                    second: said.objects.iter().all(|&object| here(object)),
                    right: centre == Some(true),
                },
                pse: pse.unwrap_or(0.0),
            }
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
        .map(|(key, one)| (key.as_str(), one.found));
    let scores = visor::scores(each, false);
    let prompts: HashSet<&str> = stated
        .iter()
        .map(|one| one.prompt.prompt_id.as_str())
        .collect();
    let pictures: HashSet<(&str, u64)> = (stated.iter())
        .map(|one| (one.prompt.prompt_id.as_str(), one.seed))
        .collect();
    let [first, second, both] = scores.object_accuracy;
    let pse = mean(stated.iter().map(|one| 100.0 * one.pse));
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
        let of = |relation: Option<Relation>| -> Vec<&Stated> {
            let said = |one: &&Stated| {
                relation.is_none_or(|wanted| one.prompt.relations[one.number].relation == wanted)
            };
            stated.iter().filter(said).collect()
        };
        if stated.is_empty() {
            continue;
        }
        let all = cells(&of(None));
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
            let some = of(Some(relation));
            if !some.is_empty() {
                let mut row = with_name(&method.name, cells(&some));
                row.insert(1, Cell::Name(relation_name(relation)));
                by_relation.push(row);
            }
        }
    }
    let objects = pictures
        .prompts
        .iter()
        .map(|prompt| prompt.objects.len())
        .max();
    let mut published_dots = Vec::new();
    match objects {
        Some(0..=2) | None => {
            for (name, figures) in PUBLISHED {
                let [both, unconditional, conditional, at_least @ ..] = figures.map(Cell::Percent);
                let mut row = vec![published(name), Cell::Empty, Cell::Empty, Cell::Empty, both];
                row.extend([Cell::Empty, Cell::Empty, unconditional, conditional]);
                row.extend(at_least);
                row.push(Cell::Empty);
                rows.push(row);
                published_dots.push((figures[0], figures[2], name));
            }
        }
        Some(objects) => {
            for (_, name, pse, visor) in PUBLISHED_SEVERAL.iter().filter(|row| row.0 == objects) {
                let mut row = vec![published(name)];
                row.resize(7, Cell::Empty);
                row.push(Cell::Percent(*visor));
                row.resize(13, Cell::Empty);
                row.push(Cell::Percent(*pse));
                rows.push(row);
            }
        }
    }
    let names = |extra: &'static [&'static str]| -> Vec<&'static str> {
        extra.iter().copied().chain(COLUMNS).collect()
    };
    let notes = published_dots.iter().map(|(x, y, name)| Note {
        at: (*x, *y),
        text: (*name).into(),
        dot: false,
    });
    let notes = notes.collect();
    if !published_dots.is_empty() {
        let points = published_dots.iter().map(|(x, y, _)| (*x, *y)).collect();
        dots.push(Series::new("published", points, Style::Dots, dots.len()));
    }
    let plot = Chart {
        title: "Objects there, and where they belong".into(),
        x: Axis::linear("object accuracy, %", 0.0, 100.0),
        y: Axis::linear("VISOR conditional, %", 0.0, 100.0),
        series: dots,
        notes,
    };
    Results {
        name: "visor",
        note: "In percent, over the relations of all pictures. OA: both objects are found, the first-mentioned, the other. VISOR: the \
               relation holds by the centres, of all and of those with both objects; relations of a prompt with at least 1 to 4 right \
               pictures. PSE: probability of superiority, 0 where an object is missing. The published rows have other prompts, \
               detectors and checkpoints."
            .into(),
        tables: vec![
            Table::new("visor", &names(&["run"]), rows.into_iter()),
            Table::new("visor_by_relation", &names(&["run", "relation"]), by_relation.into_iter()),
        ],
        plots: vec![("objects", plot.draw())],
    }
}

fn with_name(name: &str, cells: Vec<Cell>) -> Vec<Cell> {
    std::iter::once(Cell::Name(name.into()))
        .chain(cells)
        .collect()
}

/// One method on a scaling curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The method.
    pub method: String,
    /// `search`, `gradient and search`.
    pub curve: &'static str,
    /// Pictures that were scored.
    pub pictures: usize,
    /// Noises that were tried for each.
    pub candidates: usize,
    /// Calls of the UNet for a picture: whole rows, and recorded passes of guidance.
    pub calls: f64,
    /// For a picture, without the checker's.
    pub seconds: f64,
    /// Mean probability of superiority, in 0..=1.
    pub pse: f64,
    /// Pictures in which all relations hold by the centres, of all, in 0..=1.
    pub centre: f64,
}

/// Search alone, and guidance with and without search, by the number of noises.
pub fn points(pictures: &Pictures) -> Vec<Point> {
    let mut points: Vec<Point> = (pictures.methods.iter())
        .filter_map(|(method, seen)| {
            let of = |value: fn(&Scores) -> f64| mean(seen.iter().map(|(_, scores)| value(scores)));
            Some(Point {
                method: method.name.clone(),
                curve: match method.guided {
                    false => "search",
                    true => "gradient and search",
                },
                pictures: seen.len(),
                candidates: seen
                    .iter()
                    .map(|(_, scores)| scores.candidates)
                    .max()?
                    .max(1),
                calls: of(|scores| (scores.unet_calls + scores.guided_calls) as f64)?,
                seconds: of(|scores| scores.seconds)?,
                pse: of(|scores| scores.pse.unwrap_or(0.0))?,
                centre: of(|scores| f64::from(u8::from(scores.centre == Some(true))))?,
            })
        })
        .collect();
    points.sort_by_key(|point| (point.curve != "search", point.candidates));
    points
}

/// What trying more noises brings, with and without guidance, by pictures and by calls of the UNet.
pub fn scaling(pictures: &Pictures) -> Results {
    let columns = [
        "run",
        "curve",
        "pictures",
        "candidates",
        "unet_calls",
        "seconds",
        "PSE",
        "centre_accuracy",
    ];
    let points = points(pictures);
    let mut rows: Vec<Vec<Cell>> = (points.iter())
        .map(|point| {
            vec![
                Cell::Name(point.method.clone()),
                Cell::Name(point.curve.into()),
                Cell::Count(point.pictures),
                Cell::Count(point.candidates),
                Cell::Mean(point.calls),
                Cell::Mean(point.seconds),
                Cell::Percent(100.0 * point.pse),
                Cell::Percent(100.0 * point.centre),
            ]
        })
        .collect();
    for (name, figures) in PUBLISHED_SCALING {
        for (power, (pse, centre)) in (0..).zip(figures) {
            rows.push(vec![
                published(name),
                Cell::Name("search".into()),
                Cell::Empty,
                Cell::Count(1 << power),
                Cell::Empty,
                Cell::Empty,
                Cell::Percent(pse),
                Cell::Percent(centre),
            ]);
        }
    }
    let plot = |title: &str,
                (label, value): (&str, fn(&Point) -> f64),
                (cost_label, cost): (&str, fn(&Point) -> f64),
                known: Option<fn((f64, f64)) -> f64>| {
        let mut series: Vec<Series> = ["search", "gradient and search"]
            .into_iter()
            .enumerate()
            .map(|(look, curve)| {
                let on = points.iter().filter(|point| point.curve == curve);
                let places = on.map(|point| (cost(point), 100.0 * value(point)));
                Series::new(curve, places.collect(), Style::Line, look)
            })
            .filter(|series| !series.points.is_empty())
            .collect();
        if let Some(known) = known {
            for (name, figures) in PUBLISHED_SCALING {
                let places = (0..)
                    .zip(figures)
                    .map(|(power, both)| (f64::from(1 << power), known(both)));
                let name = format!("{name}, search (published)");
                series.push(Series::new(
                    &name,
                    places.collect(),
                    Style::Line,
                    series.len(),
                ));
            }
        }
        let costs: Vec<f64> = series
            .iter()
            .flat_map(|s| &s.points)
            .map(|point| point.0)
            .collect();
        let notes = points.iter().map(|point| Note {
            at: (cost(point), 100.0 * value(point)),
            text: format!("N {}", point.candidates),
            dot: false,
        });
        Chart {
            title: title.into(),
            x: Axis::log2(cost_label, costs),
            y: Axis::linear(label, 0.0, 100.0),
            notes: notes.collect(),
            series,
        }
        .draw()
    };
    let pse: (&str, fn(&Point) -> f64) = ("PSE, %", |point| point.pse);
    let centre: (&str, fn(&Point) -> f64) = ("centre accuracy, %", |point| point.centre);
    let noises: (&str, fn(&Point) -> f64) = ("pictures tried (N)", |point| point.candidates as f64);
    let calls: (&str, fn(&Point) -> f64) = ("UNet calls for a picture", |point| point.calls);
    Results {
        name: "scaling",
        note: "Means over the pictures that were kept. UNet calls are whole rows, one a step, and the recorded passes of guidance, of \
               all noises that were tried. PSE is 0 and the centres are wrong where an object is missing. The published search goes \
               by PSE, on a hundred of VISOR's prompts."
            .into(),
        tables: vec![Table::new("scaling", &columns, rows.into_iter())],
        plots: vec![
            ("pse-pictures", plot("Best of N: PSE by pictures", pse, noises, Some(|both| both.0))),
            ("pse-calls", plot("Best of N: PSE by UNet calls", pse, calls, None)),
            (
                "centre-pictures",
                plot("Best of N: centres by pictures", centre, noises, Some(|both| both.1)),
            ),
            ("centre-calls", plot("Best of N: centres by UNet calls", centre, calls, None)),
        ],
    }
}

#[cfg(test)]
mod tests;
