//! Metrics against people: how far their numbers go together, and what they get right as a yes or no.

use prepose_draw::table::{Cell, Table};
use prepose_statistics::binary::Confusion;
use prepose_statistics::bootstrap::{Bootstrap, Interval};
use prepose_statistics::correlation::{kendall_tau_b, pearson, spearman};

use super::published::{PSG_1, PSG_2};
use super::raters::{Rater, RaterError, Together, in_common};

type Correlation = fn(&[f64], &[f64]) -> Option<f64>;

const CORRELATIONS: [(&str, Correlation); 3] = [
    ("spearman", spearman),
    ("kendall", kendall_tau_b),
    ("pearson", pearson),
];

type Share = fn(&Confusion) -> Option<f64>;

const SHARES: [(&str, Share); 5] = [
    ("precision", Confusion::precision),
    ("recall", Confusion::recall),
    ("accuracy", Confusion::accuracy),
    ("specificity", Confusion::specificity),
    ("F1", Confusion::f1),
];

/// How the metrics' numbers go together with what people say: Spearman's ρ, Kendall's τ-b and Pearson's r with their 95 %
/// intervals over items. With `published`, the rows of PSG's table 1 below.
///
/// # Errors
/// A metric says something else than numbers, or nothing of what people looked at.
pub fn correlations(
    people: &Together,
    metrics: &[Rater],
    bootstrap: &Bootstrap,
    published: bool,
) -> Result<Table, RaterError> {
    let mut rows = Vec::new();
    for metric in metrics {
        let pairs = pairs(people, metric)?;
        let mut row = vec![Cell::Name(metric.name.clone()), Cell::Count(pairs.len())];
        for (_, correlation) in CORRELATIONS {
            let of = |pairs: &[&(f64, f64)]| {
                let (x, y): (Vec<f64>, Vec<f64>) = pairs.iter().copied().copied().unzip();
                correlation(&x, &y)
            };
            let whole: Vec<&(f64, f64)> = pairs.iter().collect();
            row.extend(estimate(of(&whole), || bootstrap.interval(&pairs, of)));
        }
        rows.push(row);
    }
    if published {
        rows.extend(PSG_1.iter().map(|(name, figures)| {
            let mut row = vec![Cell::Name(format!("{name} (published)")), Cell::Count(2000)];
            for figure in figures {
                row.extend([Cell::Mean(*figure), Cell::Empty, Cell::Empty]);
            }
            row
        }));
    }
    let names = CORRELATIONS.map(|(name, _)| name);
    Ok(table("correlations", &["metric", "items"], &names, rows))
}

/// What the metrics get right as a yes or no, a number of at least its threshold being a yes, and one of people's above a half
/// (see [`Worth`](super::raters::Worth); grades mean neither): precision, recall, accuracy,
/// specificity and F1 with their 95 % intervals over items. With `published`, the rows of PSG's table 2 below, as they are
/// printed.
///
/// # Errors
/// As of [`correlations`].
pub fn decisions(
    people: &Together,
    metrics: &[Rater],
    threshold: impl Fn(&str) -> f64,
    bootstrap: &Bootstrap,
    published: bool,
) -> Result<Table, RaterError> {
    let mut rows = Vec::new();
    for metric in metrics {
        let at = threshold(&metric.name);
        let pairs: Vec<(bool, bool)> = (pairs(people, metric)?.into_iter())
            .map(|(truth, said)| (truth > 0.5, said >= at))
            .collect();
        let mut row = vec![
            Cell::Name(metric.name.clone()),
            Cell::Count(pairs.len()),
            Cell::Mean(at),
        ];
        for (_, share) in SHARES {
            let of =
                |pairs: &[&(bool, bool)]| share(&Confusion::of(pairs.iter().copied().copied()));
            let whole: Vec<&(bool, bool)> = pairs.iter().collect();
            row.extend(estimate(of(&whole), || bootstrap.interval(&pairs, of)));
        }
        rows.push(row);
    }
    if published {
        rows.extend(PSG_2.iter().map(|(name, at, figures)| {
            let mut row = vec![
                Cell::Name(format!("{name} (published)")),
                Cell::Count(2000),
                at.map_or(Cell::Empty, Cell::Mean),
            ];
            for figure in figures {
                row.extend([Cell::Mean(figure / 100.0), Cell::Empty, Cell::Empty]);
            }
            row
        }));
    }
    let names = SHARES.map(|(name, _)| name);
    let first = ["metric", "items", "threshold"];
    Ok(table("decisions", &first, &names, rows))
}

/// What people and a metric say of the same items.
fn pairs(people: &Together, metric: &Rater) -> Result<Vec<(f64, f64)>, RaterError> {
    let values = metric.numbers("; name the columns that are metrics with --columns")?;
    let pairs = in_common(["people", &metric.name], &people.values, &values)?;
    Ok(pairs.into_iter().map(|(a, b)| (*a, *b)).collect())
}

/// A figure and the ends of its interval.
pub(super) fn estimate(
    value: Option<f64>,
    interval: impl FnOnce() -> Option<Interval>,
) -> [Cell; 3] {
    let Some(value) = value else {
        return [Cell::Empty, Cell::Empty, Cell::Empty];
    };
    let ends = interval().map(|ends| ends.map(Cell::Mean));
    let [low, high] = ends.unwrap_or([Cell::Empty, Cell::Empty]);
    [Cell::Mean(value), low, high]
}

/// A table of figures, each with its interval.
pub(super) fn table(
    name: &'static str,
    first: &[&str],
    figures: &[&str],
    rows: Vec<Vec<Cell>>,
) -> Table {
    let ends = |name: &&str| {
        [
            name.to_string(),
            format!("{name}_low"),
            format!("{name}_high"),
        ]
    };
    let columns: Vec<String> = (first.iter().map(ToString::to_string))
        .chain(figures.iter().flat_map(ends))
        .collect();
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    Table::new(name, &columns, rows.into_iter())
}
