//! What a survey comes to: how many captions and pictures stay at each step, and how often the first-named is on the left.

use std::collections::BTreeMap;

use prepose_draw::table::{Cell, Table};
use prepose_statistics::bootstrap::wilson;

use crate::asked::Told;
use crate::layout::Seen;
use crate::pairs::{LINKS, Why};
use crate::survey::{Counts, Found};

/// Pairs that count, and those of which the first-named is on the left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rate {
    /// The first-named is on the left.
    pub aligned: usize,
    /// All with a clear layout.
    pub valid: usize,
}

impl Rate {
    fn add(&mut self, seen: Seen) {
        if let Some(aligned) = seen.is_aligned() {
            self.valid += 1;
            self.aligned += usize::from(aligned);
        }
    }

    /// In percent.
    pub fn percent(self) -> Option<f64> {
        (self.valid > 0).then(|| 100.0 * self.aligned as f64 / self.valid as f64)
    }

    /// Wilson's 95 % interval, in percent.
    pub fn interval(self) -> Option<[f64; 2]> {
        wilson(self.aligned, self.valid).map(|ends| ends.map(|end| 100.0 * end))
    }
}

/// What is counted while pairs go by.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// By what is looked at and how: rows of the table, in its order.
    rates: BTreeMap<(u8, String, String), Rate>,
    /// Of all pairs.
    seen: BTreeMap<Seen, usize>,
    /// Of those that the judge was asked about in both orders: same, first-named both times, second-named both times.
    orders: [usize; 3],
}

impl Tally {
    /// Takes a pair with what was seen of it.
    pub fn add(&mut self, found: &Found, seen: Seen) {
        *self.seen.entry(seen).or_default() += 1;
        self.rate(0, "all", "", seen);
        let coordinated = LINKS
            .iter()
            .any(|(link, coordination)| *coordination && *link == found.link);
        let joined = match coordinated {
            true => "coordination",
            false => "preposition",
        };
        self.rate(1, "joined by", joined, seen);
        self.rate(2, "joined by", &found.link, seen);
        let [a, b] = &found.kinds;
        let kinds = match a == b {
            true => "the same",
            false => "different",
        };
        self.rate(3, "kinds", kinds, seen);
        let mut pair = [a.as_str(), b.as_str()];
        pair.sort_unstable();
        self.rate(4, "kinds", &pair.join(", "), seen);
    }

    /// As [`add`](Self::add), of a judge that was asked in both orders.
    pub fn add_told(&mut self, found: &Found, told: Told) {
        self.add(found, told.published);
        self.rate(5, "question", "exchanged", told.exchanged);
        if told.published == told.exchanged {
            self.rate(6, "question", "both agree", told.published);
        }
        if let (Some(a), Some(b)) = (told.published.is_aligned(), told.exchanged.is_aligned()) {
            // "A" both times is the first-named on the left, and then the second-named.
            let at = match (a, b) {
                (a, b) if a == b => 0,
                (true, _) => 1,
                (false, _) => 2,
            };
            self.orders[at] += 1;
        }
    }

    fn rate(&mut self, place: u8, of: &str, value: &str, seen: Seen) {
        let key = (place, of.to_owned(), value.to_owned());
        self.rates.entry(key).or_default().add(seen);
    }

    /// Of all pairs with a clear layout.
    pub fn all(&self) -> Rate {
        let key = (0, "all".to_owned(), String::new());
        self.rates.get(&key).copied().unwrap_or_default()
    }

    /// How often the first-named is on the left, with 95 % intervals: of all pairs, by what joins the two, and by what they
    /// are.
    pub fn table(&self) -> Table {
        let columns = [
            "of",
            "value",
            "samples",
            "aligned",
            "percent",
            "percent_low",
            "percent_high",
        ];
        let percent = |value: Option<f64>| value.map_or(Cell::Empty, Cell::Percent);
        let rows = self.rates.iter().map(|((_, of, value), rate)| {
            let ends = rate.interval();
            vec![
                Cell::Name(of.clone()),
                Cell::Name(value.clone()),
                Cell::Count(rate.valid),
                Cell::Count(rate.aligned),
                percent(rate.percent()),
                percent(ends.map(|[low, _]| low)),
                percent(ends.map(|[_, high]| high)),
            ]
        });
        Table::new("alignment", &columns, rows)
    }

    /// What a reader should know of the judge.
    pub fn notes(&self) -> Vec<String> {
        let [same, first, second] = self.orders;
        let both = same + first + second;
        let mut notes = Vec::new();
        if both > 0 {
            notes.push(format!(
                "asked in both orders, the judge says the same of {same} of {both} pairs; \"A\" both times of {first}, \"B\" both times of {second}"
            ));
        }
        if both >= 20 && 2 * (first.max(second)) > both {
            notes.push("it mostly says the same letter: it may not look at the pictures".into());
        }
        notes
    }
}

/// How many captions and pictures stay at each step.
pub fn funnel(counts: &Counts, tally: Option<&Tally>) -> Table {
    let count = |number: u64| Cell::Count(usize::try_from(number).unwrap_or(usize::MAX));
    let mut rows = vec![("captions", "all", count(counts.captions))];
    if counts.unreadable > 0 {
        rows.push(("captions", "unreadable", count(counts.unreadable)));
    }
    for why in Why::ALL {
        let number = counts.refused.get(why.as_str()).copied().unwrap_or(0);
        rows.push(("left out", why.as_str(), count(number)));
    }
    rows.push(("left out", "seen before", count(counts.repeated)));
    rows.push(("pairs", "all", count(counts.pairs)));
    if let Some(tally) = tally {
        for (seen, number) in &tally.seen {
            rows.push(("pairs", seen.as_str(), Cell::Count(*number)));
        }
    }
    let rows = rows.into_iter().map(|(step, what, number)| {
        vec![
            Cell::Name(step.to_owned()),
            Cell::Name(what.to_owned()),
            number,
        ]
    });
    Table::new("funnel", &["step", "what", "count"], rows)
}

/// The paper's table 5.
pub fn published() -> Table {
    let rows = [
        ("LAION-2B-en-aesthetic", 23_020, 89.2),
        ("DataComp-Large", 10_150, 87.2),
    ];
    let rows = rows.into_iter().map(|(corpus, samples, percent)| {
        vec![
            Cell::Name(corpus.to_owned()),
            Cell::Count(samples),
            Cell::Percent(percent),
        ]
    });
    Table::new("published", &["corpus", "samples", "percent"], rows)
}
