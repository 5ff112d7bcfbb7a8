//! What trying more noises brings, with and without guidance (Why Settle for Mid, arXiv 2506.23418, fig. 10 and table 16).

use super::super::{Pictures, Results, percent, published};
use super::published::PUBLISHED_SCALING;
use crate::stats::mean;
use prepose_check::sample::Scores;
use prepose_draw::plot::{Axis, Chart, Drawing, Note, Series, Style};
use prepose_draw::table::{Cell, Table};

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
    /// Mean probability of superiority, in 0..=1, of the pictures that PSE scores.
    pub pse: Option<f64>,
    /// Pictures in which all relations hold by the centres, of those that VISOR scores, in 0..=1.
    pub centre: Option<f64>,
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
                pse: mean(seen.iter().filter_map(|(_, scores)| scores.pse)),
                centre: mean(seen.iter().filter_map(|(prompt, scores)| {
                    let found = scores.visor(&pictures.prompts[*prompt])?;
                    Some(f64::from(u8::from(found.right)))
                })),
            })
        })
        .collect();
    points.sort_by_key(|point| (point.curve != "search", point.candidates));
    points
}

/// What trying more noises brings, with and without guidance, by pictures and by calls of the UNet.
pub fn scaling(pictures: &Pictures) -> Results {
    let points = points(pictures);
    let pse = |title, cost, known| plot(&points, title, PSE, cost, known);
    let centre = |title, cost, known| plot(&points, title, CENTRE, cost, known);
    let plots = vec![
        (
            "pse-pictures",
            pse("Best of N: PSE by pictures", NOISES, Some(|both| both.0)),
        ),
        (
            "pse-calls",
            pse("Best of N: PSE by UNet calls", CALLS, None),
        ),
        (
            "centre-pictures",
            centre(
                "Best of N: centres by pictures",
                NOISES,
                Some(|both| both.1),
            ),
        ),
        (
            "centre-calls",
            centre("Best of N: centres by UNet calls", CALLS, None),
        ),
    ];
    Results {
        name: "scaling",
        note: "Means over the pictures that were kept; PSE and the centres leave out what PSE and VISOR do not score. UNet calls \
               are whole rows, one a step, and the recorded passes of guidance, of all noises that were tried. PSE is 0 and the \
               centres are wrong where an object is missing. The published search goes by PSE, on a hundred of VISOR's prompts."
            .into(),
        tables: vec![table(&points)],
        plots,
    }
}

const COLUMNS: [&str; 8] = [
    "run",
    "curve",
    "pictures",
    "candidates",
    "unet_calls",
    "seconds",
    "PSE",
    "centre_accuracy",
];

/// The points, and below them those of the paper.
fn table(points: &[Point]) -> Table {
    let ours = points.iter().map(|point| {
        vec![
            Cell::Name(point.method.clone()),
            Cell::Name(point.curve.into()),
            Cell::Count(point.pictures),
            Cell::Count(point.candidates),
            Cell::Mean(point.calls),
            Cell::Mean(point.seconds),
            percent(PSE.1(point)),
            percent(CENTRE.1(point)),
        ]
    });
    let theirs = PUBLISHED_SCALING.into_iter().flat_map(|(name, figures)| {
        (0..).zip(figures).map(move |(power, (pse, centre))| {
            vec![
                published(name),
                Cell::Name("search".into()),
                Cell::Empty,
                Cell::Count(1 << power),
                Cell::Empty,
                Cell::Empty,
                Cell::Percent(pse),
                Cell::Percent(centre),
            ]
        })
    });
    Table::new("scaling", &COLUMNS, ours.chain(theirs))
}

/// An axis: its label, and a point's place on it.
type Measure<T> = (&'static str, fn(&Point) -> T);

const PSE: Measure<Option<f64>> = ("PSE, %", |point| Some(100.0 * point.pse?));
const CENTRE: Measure<Option<f64>> = ("centre accuracy, %", |point| Some(100.0 * point.centre?));
const NOISES: Measure<f64> = ("pictures tried (N)", |point| point.candidates as f64);
const CALLS: Measure<f64> = ("UNet calls for a picture", |point| point.calls);

/// A curve without and one with guidance; `known` picks a curve of the paper from its (PSE, centre accuracy).
fn plot(
    points: &[Point],
    title: &str,
    (label, value): Measure<Option<f64>>,
    (cost_label, cost): Measure<f64>,
    known: Option<fn((f64, f64)) -> f64>,
) -> Drawing {
    let mut series: Vec<Series> = ["search", "gradient and search"]
        .into_iter()
        .enumerate()
        .map(|(look, curve)| {
            let on = points.iter().filter(|point| point.curve == curve);
            let places = on.filter_map(|point| Some((cost(point), value(point)?)));
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
    let notes = points.iter().filter_map(|point| {
        Some(Note {
            at: (cost(point), value(point)?),
            text: format!("N {}", point.candidates),
            dot: false,
        })
    });
    Chart {
        title: title.into(),
        x: Axis::log2(cost_label, costs),
        y: Axis::linear(label, 0.0, 100.0),
        notes: notes.collect(),
        series,
    }
    .draw()
}
