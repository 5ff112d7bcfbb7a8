//! How sure the checker is.

use super::percent;
use crate::model::Method;
use prepose_draw::plot::{Axis, Chart, Plot, Series, Style};

/// The bins of the confidences.
const BINS: usize = 20;

/// How much stays decided at each confidence.
pub(super) fn by_threshold(methods: &[&Method]) -> Plot {
    let series = methods.iter().enumerate().map(|(i, method)| {
        let mut sure: Vec<f64> = decided(method).collect();
        sure.sort_by(f64::total_cmp);
        let total = method.records.len().max(1) as f64;
        // Just above each confidence one less is decided.
        let mut points = vec![(0.0, percent(sure.len() as f64 / total))];
        for (below, conf) in sure.iter().enumerate() {
            points.push((
                conf.clamp(0.0, 1.0),
                percent((sure.len() - below - 1) as f64 / total),
            ));
        }
        points.push((1.0, points.last().map_or(0.0, |last| last.1)));
        Series::new(&method.name, thinned(points), Style::Steps, i)
    });
    let series: Vec<Series> = series.collect();
    let highest: Vec<f64> = series
        .iter()
        .filter_map(|s| s.points.first())
        .map(|p| p.1)
        .collect();
    Chart {
        title: "Coverage against confidence".into(),
        x: Axis::linear("confidence τ asked for", 0.0, 1.0),
        y: Axis::from_zero("decided at τ (%)", highest, 5.0),
        series,
        notes: Vec::new(),
    }
    .into()
}

/// At most a few hundred points, the first and the last among them.
fn thinned(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let every = points.len().div_ceil(400).max(1);
    let last = points.len().saturating_sub(1);
    let kept = points.into_iter().enumerate();
    kept.filter(|(i, _)| i % every == 0 || *i == last)
        .map(|(_, point)| point)
        .collect()
}

fn decided(method: &Method) -> impl Iterator<Item = f64> {
    let decided = method
        .records
        .iter()
        .filter(|record| record.verdict_raw.is_decided());
    decided.map(|record| record.conf)
}

/// How many of the decided pictures, or relations (`what`), have each confidence.
pub(super) fn histogram(methods: &[&Method], what: &str) -> Plot {
    let series: Vec<Series> = methods
        .iter()
        .enumerate()
        .map(|(i, method)| {
            let mut bins = [0usize; BINS];
            for conf in decided(method) {
                bins[((conf * BINS as f64) as usize).min(BINS - 1)] += 1;
            }
            let total = bins.iter().sum::<usize>().max(1) as f64;
            let place = |bin: usize| bin as f64 / BINS as f64;
            let mut points: Vec<(f64, f64)> = bins
                .iter()
                .enumerate()
                .map(|(bin, count)| (place(bin), percent(*count as f64 / total)))
                .collect();
            points.push((1.0, points[BINS - 1].1));
            // Of many areas over each other none can be told.
            let style = if methods.len() > 2 {
                Style::Steps
            } else {
                Style::Filled
            };
            Series::new(&method.name, points, style, i)
        })
        .collect();
    let highest: Vec<f64> = series.iter().flat_map(|s| &s.points).map(|p| p.1).collect();
    Chart {
        title: format!("Confidence of decided {what}"),
        x: Axis::linear("confidence", 0.0, 1.0),
        y: Axis::from_zero("of the decided (%)", highest, 5.0),
        series,
        notes: Vec::new(),
    }
    .into()
}
