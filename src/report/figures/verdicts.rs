//! What the checker says of pictures, and of pairs of them.

use super::percent;
use crate::bootstrap::Rates;
use crate::model::Method;
use crate::paired::Pair;
use prepose_check::spatialbench::prompts::Counterfactual;
use prepose_check::spatialbench::{Buckets, Metrics};
use prepose_draw::plot::bars::Interval;
use prepose_draw::plot::{Axis, Chart, Ink, Intervals, Parts, Plot, Series, Style};

pub(super) fn pass_rate(methods: &[&Method], rates: &[Rates]) -> Plot {
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

/// How much more than the first method the others pass; none of one method.
pub(super) fn differences(methods: &[&Method], pairs: &[Pair]) -> Option<Plot> {
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

/// `what` is what was decided, pictures or relations.
pub(super) fn coverage_accuracy(methods: &[&Method], rates: &[Rates], what: &str) -> Plot {
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
        title: format!("Decided {what}, and passes of them"),
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

/// `what` is what verdicts are of, pictures or relations.
pub(super) fn abstentions(methods: &[&Method], what: &str) -> Plot {
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
        label: format!("share of all {what}"),
        parts,
        rows,
    }
    .without_empty()
    .into()
}

pub(super) fn counterfactual(methods: &[&Method]) -> Option<Plot> {
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
