//! What searches gain by trying more noises.

use super::percent;
use crate::model::Report;
use crate::scaling::{self, Point};
use prepose_draw::plot::{Axis, Chart, Note, Plot, Series, Style};

/// A number of a search; none where it is not known.
type Value = fn(&Point) -> Option<f64>;

/// What a search costs.
struct Cost {
    /// In the plot's title.
    name: &'static str,
    /// Beside its axis.
    axis: &'static str,
    of: Value,
}

/// By UNet calls, or by candidates where no search's calls are known: sources that make pictures elsewhere count none.
const COSTS: [Cost; 2] = [
    Cost {
        name: "UNet calls",
        axis: "UNet calls for a picture",
        of: |point| Some(point.unet_calls).filter(|calls| *calls > 0.0),
    },
    Cost {
        name: "candidates",
        axis: "candidates for a picture",
        of: |point| Some(point.candidates as f64),
    },
];

/// A plot by each measure that there is, with its name.
pub(super) fn all(report: &Report) -> Vec<(&'static str, Plot)> {
    let points = scaling::points(report);
    let kinds: [(&'static str, &str, Value); 3] = [
        ("scaling_pse", "PSE", |point| point.pse),
        ("scaling_centre", "centre accuracy", |point| point.centre),
        ("scaling_pass_rate", "pass rate", |point| point.pass_rate),
    ];
    let drawn = kinds.into_iter().filter_map(|(name, label, of)| {
        let plot = |cost| scaling(report, &points, (label, of), cost);
        Some((name, COSTS.iter().find_map(plot)?))
    });
    drawn.collect()
}

/// One of the measures by a cost; none if no two sizes of a search have both.
fn scaling(
    report: &Report,
    points: &[Point],
    (label, of): (&str, Value),
    cost: &Cost,
) -> Option<Plot> {
    let place = |point: &Point| Some(((cost.of)(point)?, percent(of(point)?)));
    let mut families: Vec<&str> = points.iter().map(|point| point.family.as_str()).collect();
    families.dedup();
    let mut series: Vec<Series> = families
        .iter()
        .enumerate()
        .map(|(i, family)| {
            let members = points.iter().filter(|point| point.family == *family);
            Series::new(family, members.filter_map(place).collect(), Style::Line, i)
        })
        .filter(|series| series.points.len() > 1)
        .collect();
    if series.is_empty() {
        return None;
    }
    for point in scaling::others(report, points) {
        if let Some(place) = place(&point) {
            let dot = vec![place];
            series.push(Series::new(&point.method, dot, Style::Dots, series.len()));
        }
    }
    let notes = points.iter().filter_map(|point| {
        Some(Note {
            at: place(point)?,
            text: format!("N {}", point.candidates),
            dot: false,
        })
    });
    let all = || series.iter().flat_map(|series| &series.points);
    let costs: Vec<f64> = all().map(|point| point.0).collect();
    Some(
        Chart {
            title: format!("Best of N: {label} by {}", cost.name),
            x: Axis::log2(cost.axis, costs),
            y: Axis::from_zero(&format!("{label} (%)"), all().map(|point| point.1), 10.0),
            notes: notes.collect(),
            series,
        }
        .into(),
    )
}
