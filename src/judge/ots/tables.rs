//! What answers come to: homogenization and correctness with intervals, the judge's own bias, and its agreement with boxes.

use std::collections::BTreeMap;

use prepose_check::rules::ots::{Code, homogenization};
use prepose_draw::table::{Cell, Table};
use prepose_statistics::agreement::{Weights, cohen_kappa, confusion};
use prepose_statistics::bootstrap::Bootstrap;

use super::{Case, Order, Setting};
use crate::ask::Outcome;

/// A case with what came of its questions.
#[derive(Clone, Debug)]
pub struct Judged<'a> {
    /// What was asked about.
    pub case: &'a Case,
    /// Of the paper's question.
    pub as_published: Outcome,
    /// Of the same with the subjects in the other order; none if it was not asked.
    pub exchanged: Option<Outcome>,
}

/// How many count for what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    first: usize,
    second: usize,
    invalid: usize,
    unanswered: usize,
}

impl Counts {
    fn add(&mut self, other: &Self) {
        self.first += other.first;
        self.second += other.second;
        self.invalid += other.invalid;
        self.unanswered += other.unanswered;
    }

    /// Homogenization, or the share of correct ones, in percent.
    fn figure(&self, setting: Setting) -> Option<f64> {
        let valid = self.first + self.second;
        match setting.is_homogenization() {
            true => homogenization(self.first, self.second),
            false => (valid > 0).then(|| 100.0 * self.first as f64 / valid as f64),
        }
    }
}

/// Which of a case's questions count.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Published,
    Exchanged,
    Both,
}

impl Judged<'_> {
    fn code(&self, by: By) -> Option<Code> {
        let code = |outcome: &Outcome, exchanged| {
            outcome
                .answer()
                .map(|answer| self.case.code(answer, exchanged))
        };
        let published = || code(&self.as_published, false);
        let exchanged = || code(self.exchanged.as_ref()?, true);
        match by {
            By::Published => published(),
            By::Exchanged => exchanged(),
            // What both say; invalid where they say different things.
            By::Both => Some(match (published()?, exchanged()?) {
                (one, other) if self.case.counts(one) == self.case.counts(other) => one,
                _ => Code(3),
            }),
        }
    }

    fn counts(&self, by: By) -> Counts {
        let mut counts = Counts::default();
        *match self.code(by).map(|code| self.case.counts(code)) {
            Some(Some(true)) => &mut counts.first,
            Some(Some(false)) => &mut counts.second,
            Some(None) => &mut counts.invalid,
            None => &mut counts.unanswered,
        } = 1;
        counts
    }
}

/// Of which pictures a row of a table is: how they were made, what is measured, in which order of mention.
type Row = (String, Setting, Option<Order>);

fn rows<'a, 'b>(judged: &'a [Judged<'b>]) -> BTreeMap<Row, Vec<&'a Judged<'b>>> {
    let mut rows: BTreeMap<Row, Vec<&Judged>> = BTreeMap::new();
    for one in judged {
        let order = one
            .case
            .order
            .filter(|_| !one.case.setting.is_homogenization());
        let method = one.case.method.clone().unwrap_or_default();
        rows.entry((method, one.case.setting, order))
            .or_default()
            .push(one);
    }
    rows
}

fn named((method, setting, order): &Row) -> Vec<Cell> {
    let order = match order {
        Some(Order::Aligned) => "aligned",
        Some(Order::Reverse) => "reverse",
        None => "",
    };
    [method.as_str(), setting.as_str(), order]
        .map(|name| Cell::Name(name.to_owned()))
        .to_vec()
}

/// Homogenization, or correctness, of each setting and order of mention: how many count for the first outcome (A, or
/// correct) and for the second, how many are invalid or have no answer, and the figure in percent with its 95 % interval
/// over pairs of subjects. Three rows each if questions were asked in both orders: as published, exchanged, and where both
/// say the same.
pub fn figures(judged: &[Judged], bootstrap: &Bootstrap) -> Table {
    let mut all = Vec::new();
    for (row, of) in rows(judged) {
        let setting = row.1;
        for (by, question) in [
            (By::Published, "as published"),
            (By::Exchanged, "exchanged"),
            (By::Both, "both agree"),
        ] {
            if by != By::Published && of.iter().all(|one| one.exchanged.is_none()) {
                continue;
            }
            let mut groups: BTreeMap<String, Counts> = BTreeMap::new();
            for one in &of {
                groups
                    .entry(one.case.group())
                    .or_default()
                    .add(&one.counts(by));
            }
            let groups: Vec<Counts> = groups.into_values().collect();
            let sum = |groups: &mut dyn Iterator<Item = &Counts>| {
                groups.fold(Counts::default(), |mut sum, one| {
                    sum.add(one);
                    sum
                })
            };
            let total = sum(&mut groups.iter());
            let figure = total.figure(setting);
            let ends = figure.and_then(|_| {
                let of = |drawn: &[&Counts]| sum(&mut drawn.iter().copied()).figure(setting);
                bootstrap.interval(&groups, of)
            });
            let percent = |value: Option<f64>| value.map_or(Cell::Empty, Cell::Percent);
            let mut cells = named(&row);
            cells.push(Cell::Name(question.to_owned()));
            cells.push(Cell::Count(of.len()));
            cells.extend(
                [total.first, total.second, total.invalid, total.unanswered].map(Cell::Count),
            );
            cells.extend(
                [figure, ends.map(|[low, _]| low), ends.map(|[_, high]| high)].map(percent),
            );
            all.push(cells);
        }
    }
    let columns = [
        "method",
        "setting",
        "order",
        "question",
        "pictures",
        "first",
        "second",
        "invalid",
        "unanswered",
        "percent",
        "percent_low",
        "percent_high",
    ];
    Table::new("figures", &columns, all.into_iter())
}

/// The judge's own bias by the order in which its question names the two: of pictures that both questions call valid, how
/// often both say the same, how often the outcome that goes with the name that comes first has it both times, and how often
/// the other. A judge without bias has as many of the one as of the other; one that looks has few of either.
pub fn bias(judged: &[Judged]) -> Table {
    let mut all = Vec::new();
    for (row, of) in rows(judged) {
        let both: Vec<[Option<bool>; 2]> = (of.iter())
            .filter_map(|one| {
                let side = |by| Some(one.case.counts(one.code(by)?));
                Some([side(By::Published)?, side(By::Exchanged)?])
            })
            .collect();
        if both.is_empty() {
            continue;
        }
        let count =
            |is: fn(&[Option<bool>; 2]) -> bool| both.iter().filter(|pair| is(pair)).count();
        let same = count(|[a, b]| a.is_some() && a == b);
        // Of homogenization: A in the paper's order and B in the other is the one that is named first, both times.
        let first = count(|pair| *pair == [Some(true), Some(false)]);
        let second = count(|pair| *pair == [Some(false), Some(true)]);
        let half = count(|[a, b]| a.is_some() != b.is_some());
        let neither = count(|[a, b]| a.is_none() && b.is_none());
        let valid = same + first + second;
        let bias = (valid > 0).then(|| 100.0 * (first as f64 - second as f64) / valid as f64);
        let mut cells = named(&row);
        cells.extend([both.len(), same, first, second, half, neither].map(Cell::Count));
        cells.push(bias.map_or(Cell::Empty, Cell::Percent));
        all.push(cells);
    }
    let columns = [
        "method",
        "setting",
        "order",
        "pictures",
        "same",
        "first_both_times",
        "second_both_times",
        "one_invalid",
        "both_invalid",
        "bias_percent",
    ];
    Table::new("bias", &columns, all.into_iter())
}

/// How far two judges agree on the same cases, such as a model and the rule on boxes: κ of the three classes, with its 95 %
/// interval over pictures.
pub fn agreement(judged: &[Judged], other: &[Judged], bootstrap: &Bootstrap) -> Table {
    let others: BTreeMap<&str, &Judged> = other
        .iter()
        .map(|one| (one.case.id.as_str(), one))
        .collect();
    let mut all = Vec::new();
    for (row, of) in rows(judged) {
        let class = |one: &Judged| {
            let code = one.code(By::Published)?;
            Some(match one.case.counts(code) {
                None => 0,
                Some(true) => 1,
                Some(false) => 2,
            })
        };
        let pairs: Vec<[usize; 2]> = (of.iter())
            .filter_map(|one| Some([class(one)?, class(others.get(one.case.id.as_str())?)?]))
            .collect();
        if pairs.is_empty() {
            continue;
        }
        let kappa = |pairs: &[&[usize; 2]]| {
            let (x, y): (Vec<usize>, Vec<usize>) = pairs.iter().map(|[x, y]| (*x, *y)).unzip();
            cohen_kappa(&confusion(&x, &y, 3), Weights::None)
        };
        let same = pairs.iter().filter(|[x, y]| x == y).count();
        let whole: Vec<&[usize; 2]> = pairs.iter().collect();
        let ends = bootstrap.interval(&pairs, kappa);
        let mut cells = named(&row);
        cells.push(Cell::Count(pairs.len()));
        let share = Some(same as f64 / pairs.len() as f64);
        let [low, high] = [0, 1].map(|end| ends.map(|ends| ends[end]));
        cells.extend(
            [share, kappa(&whole), low, high].map(|value| value.map_or(Cell::Empty, Cell::Mean)),
        );
        all.push(cells);
    }
    let columns = [
        "method",
        "setting",
        "order",
        "pictures",
        "agreement",
        "kappa",
        "kappa_low",
        "kappa_high",
    ];
    Table::new("agreement", &columns, all.into_iter())
}
