//! The plots of a report.

use super::bootstrap::Rates;
use super::model::{Method, Report};
use super::paired::Pair;
use super::scaling::{self, Point};
use prepose_check::audit::plot as audit;
use prepose_check::spatialbench::prompts::Counterfactual;
use prepose_check::spatialbench::{Buckets, Metrics};
use prepose_draw::plot::bars::Interval;
use prepose_draw::plot::{
    Axis, Chart, Drawing, Ink, Intervals, NARROW, Parts, Plot, Series, Style, WIDTH,
};

/// A plot with what is said about it.
pub struct Figure {
    /// Its files' name, without ending.
    pub name: &'static str,
    /// What it shows.
    pub title: String,
    /// How to read it.
    pub caption: String,
    /// Itself.
    pub drawing: Drawing,
    /// For a phone's screen.
    pub narrow: Drawing,
}

/// The bins of the confidences.
const BINS: usize = 20;

/// All plots that the report's methods give. `curves` are the risk–coverage curves, if people looked at the pictures.
pub fn all(
    report: &Report,
    rates: &[Rates],
    pairs: &[Pair],
    curves: &[(String, Vec<prepose_check::audit::curve::Point>)],
) -> Vec<Figure> {
    let mut all = Vec::new();
    let mut add = |name, caption: &str, plot: Plot| {
        let drawing = plot.draw_within(WIDTH);
        all.push(Figure {
            name,
            title: drawing.title.clone(),
            caption: caption.into(),
            drawing,
            narrow: plot.draw_within(NARROW),
        });
    };
    let checked = report.checked();
    if !checked.is_empty() {
        add(
            "pass_rate",
            "Dots: passes of all pictures. Lines: 95 % bootstrap intervals; prompts are drawn again, not pictures.",
            pass_rate(&checked, rates),
        );
        if let Some(plot) = differences(&checked, pairs) {
            add(
                "differences",
                "Passes more or fewer than the first method, in percentage points, on the pictures of the same prompts and seeds. Lines: \
                 95 % bootstrap intervals; the table Differences says which are more than chance.",
                plot,
            );
        }
        add(
            "coverage_accuracy",
            "How much the checker decides, and how much of that passes. Lines: 95 % bootstrap intervals.",
            coverage_accuracy(&checked, rates),
        );
        add(
            "abstentions",
            "What the checker says of all pictures, and where it says nothing, why.",
            abstentions(&checked),
        );
        if let Some(drawing) = counterfactual(&checked) {
            add(
                "counterfactual",
                "Pairs of prompts that say the same the other way round: by the best of their pictures as in the paper, and picture \
                 by picture with the same seed.",
                drawing,
            );
        }
        if !curves.is_empty() {
            let series: Vec<_> = curves
                .iter()
                .map(|(name, points)| audit::Series { name, points })
                .collect();
            add(
                "risk_coverage",
                "How often the checker is wrong by the word of people, and how much it decides, as the confidence τ that is asked of it grows.",
                audit::risk_coverage(&series).into(),
            );
        }
        add(
            "confidence_coverage",
            "How much stays decided if more confidence is asked for.",
            confidence_coverage(&checked),
        );
        add(
            "confidence_histogram",
            "How sure the checker is of the pictures that it decides.",
            confidence_histogram(&checked),
        );
    }
    for (name, drawing) in scalings(report) {
        let caption = "Each dot is a method; lines join searches that differ only in how many noises they try. \
                       Guided passes are not among the UNet calls.";
        add(name, caption, drawing);
    }
    all
}

/// What a search is judged by.
type Value = fn(&Point) -> Option<f64>;

/// What searches gain by trying more noises, by each measure that there is.
fn scalings(report: &Report) -> Vec<(&'static str, Plot)> {
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

fn pass_rate(methods: &[&Method], rates: &[Rates]) -> Plot {
    let rows: Vec<Interval> = methods
        .iter()
        .zip(rates)
        .enumerate()
        .map(|(look, (method, rates))| Interval {
            look,
            name: method.name.clone(),
            value: percent(rates.pass_rate.value),
            ends: (percent(rates.pass_rate.low), percent(rates.pass_rate.high)),
        })
        .collect();
    Intervals {
        title: "Pass rate".into(),
        x: Axis::from_zero("pass rate (%)", rows.iter().map(|row| row.ends.1), 5.0),
        rows,
    }
    .into()
}

fn percent(share: f64) -> f64 {
    100.0 * share
}

/// How much more than the first method the others pass; none of one method.
fn differences(methods: &[&Method], pairs: &[Pair]) -> Option<Plot> {
    let look = |name: &str| methods.iter().position(|method| method.name == name);
    let first = &pairs.first()?.against;
    let rows: Vec<Interval> = pairs
        .iter()
        .filter(|pair| pair.measure == "pass_rate" && pair.against == *first)
        .map(|pair| Interval {
            look: look(&pair.method).unwrap_or_default(),
            name: format!("{} − {first}", pair.method),
            value: percent(pair.difference.value),
            ends: (percent(pair.difference.low), percent(pair.difference.high)),
        })
        .collect();
    let most = rows
        .iter()
        .flat_map(|row| [row.ends.0.abs(), row.ends.1.abs()]);
    let Axis {
        range: (_, most), ..
    } = Axis::from_zero("", most, 5.0);
    (!rows.is_empty()).then(|| {
        Intervals {
            title: format!("Pass rate against {first}"),
            x: Axis::linear("difference (percentage points)", -most, most),
            rows,
        }
        .into()
    })
}

fn coverage_accuracy(methods: &[&Method], rates: &[Rates]) -> Plot {
    let series = methods
        .iter()
        .zip(rates)
        .enumerate()
        .map(|(i, (method, rates))| {
            let (x, y) = (rates.coverage, rates.pass_rate_conditional);
            let at = (percent(x.value), percent(y.value));
            let mut series = Series::new(&method.name, vec![at], Style::Dots, i);
            series.intervals = vec![(percent(y.low), percent(y.high))];
            series.spans = vec![(percent(x.low), percent(x.high))];
            series
        });
    Chart {
        title: "Decided pictures, and passes of them".into(),
        x: Axis::linear("decided (%)", 0.0, 100.0),
        y: Axis::linear("passes of the decided (%)", 0.0, 100.0),
        series: series.collect(),
        notes: Vec::new(),
    }
    .into()
}

/// Why the checker abstains, with the ink of each reason; others come last.
const REASONS: [(&str, Ink); 6] = [
    ("missing", Ink::Undecided),
    ("ambiguous", Ink::Series(4)),
    ("near_boundary", Ink::Series(5)),
    ("high_overlap", Ink::Series(3)),
    ("unstable", Ink::Series(0)),
    ("other", Ink::Series(6)),
];

fn abstentions(methods: &[&Method]) -> Plot {
    let mut rows = Vec::new();
    for method in methods {
        let metrics = Metrics::of(&method.records, Buckets::Name);
        let mut sizes = vec![metrics.counts.pass, metrics.counts.fail];
        let named = |wanted: &str| {
            let reasons = metrics.undecidable_reasons.iter();
            reasons
                .filter(|(name, _)| name == wanted)
                .map(|(_, count)| count)
                .sum::<usize>()
        };
        sizes.extend(REASONS[..5].iter().map(|(name, _)| named(name)));
        let said: usize = sizes[2..].iter().sum();
        sizes.push(metrics.counts.undecidable.saturating_sub(said));
        rows.push((method.name.clone(), sizes));
    }
    let mut parts = vec![
        ("PASS".to_owned(), Ink::Pass),
        ("FAIL".to_owned(), Ink::Fail),
    ];
    parts.extend(REASONS.map(|(name, ink)| (name.replace('_', " "), ink)));
    Parts {
        title: "Verdicts and abstentions".into(),
        label: "share of all pictures".into(),
        parts,
        rows,
    }
    .without_empty()
    .into()
}

fn counterfactual(methods: &[&Method]) -> Option<Plot> {
    let mut rows = Vec::new();
    for method in methods {
        for (kind, counted) in [
            ("best", Counterfactual::of(&method.records)),
            ("same seed", Counterfactual::by_picture(&method.records)),
        ] {
            let sizes = vec![
                counted.both_pass,
                counted.one_sided,
                counted.both_fail,
                counted.one_undecidable,
                counted.both_undecidable,
            ];
            if counted.total() > 0 {
                rows.push((format!("{}, {kind}", method.name), sizes));
            }
        }
    }
    let parts = [
        ("both pass", Ink::Pass),
        ("one passes, one fails", Ink::Series(4)),
        ("both fail", Ink::Fail),
        ("one undecidable", Ink::Series(5)),
        ("both undecidable", Ink::Undecided),
    ];
    (!rows.is_empty()).then(|| {
        Parts {
            title: "Counterfactual outcomes".into(),
            label: "share of pairs".into(),
            parts: parts.map(|(name, ink)| (name.to_owned(), ink)).into(),
            rows,
        }
        .without_empty()
        .into()
    })
}

fn confidence_coverage(methods: &[&Method]) -> Plot {
    let series = methods.iter().enumerate().map(|(i, method)| {
        let mut sure: Vec<f64> = decided(method).collect();
        sure.sort_by(f64::total_cmp);
        let total = method.records.len().max(1) as f64;
        // Just above each confidence one picture less is decided.
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

fn confidence_histogram(methods: &[&Method]) -> Plot {
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
        title: "Confidence of decided pictures".into(),
        x: Axis::linear("confidence", 0.0, 1.0),
        y: Axis::from_zero("of the decided (%)", highest, 5.0),
        series,
        notes: Vec::new(),
    }
    .into()
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
        Some(prepose_draw::plot::Note {
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
