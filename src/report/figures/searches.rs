//! What searches gain by trying more noises.

use super::percent;
use crate::model::Report;
use crate::scaling::{self, Point};
use prepose_draw::plot::{Axis, Chart, Note, Plot, Series, Style};

/// What a search is judged by.
type Value = fn(&Point) -> Option<f64>;

/// A plot by each measure that there is, with its name.
pub(super) fn all(report: &Report) -> Vec<(&'static str, Plot)> {
    let points = scaling::points(report);
    let kinds: [(&'static str, &str, Value); 3] = [
        ("scaling_pse", "PSE", |point| point.pse),
        ("scaling_centre", "centre accuracy", |point| point.centre),
        ("scaling_pass_rate", "pass rate", |point| point.pass_rate),
    ];
    let drawn = kinds.into_iter().filter_map(|(name, label, of)| {
        let drawing = scaling(report, &points, label, of)?;
        Some((name, drawing))
    });
    drawn.collect()
}

fn scaling(report: &Report, points: &[Point], label: &str, of: Value) -> Option<Plot> {
    let mut families: Vec<&str> = points.iter().map(|point| point.family.as_str()).collect();
    families.dedup();
    let mut series: Vec<Series> = families
        .iter()
        .enumerate()
        .map(|(i, family)| {
            let members = points.iter().filter(|point| point.family == *family);
            let places = members.filter_map(|point| Some((point.unet_calls, percent(of(point)?))));
            Series::new(family, places.collect(), Style::Line, i)
        })
        .filter(|series| series.points.len() > 1)
        .collect();
    if series.is_empty() {
        return None;
    }
    for point in scaling::others(report, points) {
        if let Some(value) = of(&point) {
            let place = vec![(point.unet_calls, percent(value))];
            series.push(Series::new(&point.method, place, Style::Dots, series.len()));
        }
    }
    let notes = points.iter().filter_map(|point| {
        Some(Note {
            at: (point.unet_calls, percent(of(point)?)),
            text: format!("N {}", point.candidates),
            dot: false,
        })
    });
    let all = || series.iter().flat_map(|series| &series.points);
    let calls: Vec<f64> = all().map(|point| point.0).collect();
    Some(
        Chart {
            title: format!("Best of N: {label} by UNet calls"),
            x: Axis::log2("UNet calls for a picture", calls),
            y: Axis::from_zero(&format!("{label} (%)"), all().map(|point| point.1), 10.0),
            notes: notes.collect(),
            series,
        }
        .into(),
    )
}
