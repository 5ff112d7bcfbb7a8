//! Accuracy by sub-domain and level, and what the answers say of the judge.

use std::collections::BTreeMap;

use prepose_draw::table::{Cell, Table};
use prepose_statistics::bootstrap::Bootstrap;

use super::read::letter;
use super::rounds::{Rules, Votes};
use super::{Control, Domain, Item, Level, NONE_PLACE, OPTIONS, QUESTIONS};
use crate::question::Invalid;

/// A picture, or a prompt without one, with what came of its ten questions.
#[derive(Clone, Debug)]
pub struct Judged<'a> {
    /// What was asked.
    pub item: &'a Item,
    /// The picture's name.
    pub picture: String,
    /// How it was made: tables have rows for each.
    pub method: Option<String>,
    /// How it was asked.
    pub control: Control,
    /// Of each question whether the answer is right; none where there is no answer to go by.
    pub right: [Option<bool>; QUESTIONS],
    /// The answers behind it; none of a judge that says each thing once and for all.
    pub votes: Option<Votes>,
    /// Of each question whether all rounds said the same.
    pub unanimous: [bool; QUESTIONS],
}

impl<'a> Judged<'a> {
    /// A picture with the answers about it.
    pub fn of_votes(
        item: &'a Item,
        picture: String,
        method: Option<String>,
        control: Control,
        votes: Votes,
        rules: &Rules,
        seed: u64,
    ) -> Self {
        let meant = Votes {
            valid: votes
                .valid
                .iter()
                .map(|answer| item.meant(answer, control, seed))
                .collect(),
            ..Votes::default()
        };
        let right = std::array::from_fn(|at| {
            let right = item.questions.get(at)?.right;
            meant.is_right(at, right, rules)
        });
        Self {
            item,
            picture,
            method,
            control,
            right,
            unanimous: std::array::from_fn(|at| votes.is_unanimous(at)),
            votes: Some(votes),
        }
    }

    /// Whether there is an answer to any of its questions: pictures without one are in no denominator.
    pub fn counts(&self) -> bool {
        self.right.iter().any(Option::is_some)
    }
}

/// How many questions of each sub-domain are answered rightly, of how many.
type Counts = [(usize, usize); QUESTIONS];

fn count<'a>(judged: impl Iterator<Item = &'a Judged<'a>>) -> Counts {
    let mut counts = Counts::default();
    for one in judged {
        for (count, right) in counts.iter_mut().zip(one.right) {
            count.0 += usize::from(right == Some(true));
            count.1 += usize::from(right.is_some());
        }
    }
    counts
}

fn sum<'a>(groups: impl Iterator<Item = &'a Counts>) -> Counts {
    groups.fold(Counts::default(), |mut sum, one| {
        for (all, (right, of)) in sum.iter_mut().zip(one) {
            all.0 += right;
            all.1 += of;
        }
        sum
    })
}

/// The mean accuracy of sub-domains in percent, as the benchmark's scorer has it; none if one of them has no answers.
fn accuracy(counts: &Counts, of: impl Fn(Domain) -> bool) -> Option<f64> {
    let picked: Vec<&(usize, usize)> = (Domain::ALL.iter().zip(counts))
        .filter(|(domain, _)| of(**domain))
        .map(|(_, count)| count)
        .collect();
    let share = |(right, of): &&(usize, usize)| (*of > 0).then(|| *right as f64 / *of as f64);
    let shares: Option<Vec<f64>> = picked.iter().map(share).collect();
    let shares = shares.filter(|shares| !shares.is_empty())?;
    Some(100.0 * shares.iter().sum::<f64>() / shares.len() as f64)
}

/// The rows of tables: each method as published, then with controls.
fn rows<'a>(judged: &'a [Judged<'a>]) -> BTreeMap<(Control, Option<&'a str>), Vec<&'a Judged<'a>>> {
    let mut rows: BTreeMap<_, Vec<&Judged>> = BTreeMap::new();
    for one in judged {
        rows.entry((one.control, one.method.as_deref()))
            .or_default()
            .push(one);
    }
    rows
}

/// Pictures of one prompt are not independent of each other: they are drawn together.
fn groups(of: &[&Judged]) -> Vec<Counts> {
    let mut groups: BTreeMap<&str, Vec<&Judged>> = BTreeMap::new();
    for one in of {
        groups.entry(&one.item.id).or_default().push(one);
    }
    groups
        .values()
        .map(|of| count(of.iter().copied()))
        .collect()
}

fn percent(value: Option<f64>) -> Cell {
    value.map_or(Cell::Empty, Cell::Percent)
}

/// One row for each way of asking: overall with its 95 % interval over prompts, and the ten sub-domains; then what it would be
/// to say the same letter always.
pub fn figures(judged: &[Judged], bootstrap: &Bootstrap) -> Table {
    let mut columns = vec![
        "method",
        "asked",
        "pictures",
        "dropped",
        "overall",
        "overall_low",
        "overall_high",
    ];
    columns.extend(Domain::ALL.map(Domain::as_str));
    let mut all = Vec::new();
    for ((control, method), of) in rows(judged) {
        let counted = of.iter().filter(|one| one.counts()).count();
        let groups = groups(&of);
        let total = sum(groups.iter());
        let ends = bootstrap.interval(&groups, |drawn| {
            accuracy(&sum(drawn.iter().copied()), |_| true)
        });
        let mut cells = vec![
            Cell::Name(method.unwrap_or_default().to_owned()),
            Cell::Name(control.as_str().to_owned()),
            Cell::Count(counted),
            Cell::Count(of.len() - counted),
            percent(accuracy(&total, |_| true)),
            percent(ends.map(|[low, _]| low)),
            percent(ends.map(|[_, high]| high)),
        ];
        cells.extend(Domain::ALL.map(|one| percent(accuracy(&total, |domain| domain == one))));
        all.push(cells);
    }
    let items = items(judged);
    if let Some((place, share)) = best_letter(&items) {
        let mut cells = vec![
            Cell::Name(String::new()),
            Cell::Name(format!("always {}", letter(place))),
            Cell::Count(items.len()),
            Cell::Count(0),
            Cell::Percent(share),
            Cell::Empty,
            Cell::Empty,
        ];
        let of = |at: usize| {
            let has = |item: &&&Item| item.questions.get(at).is_some_and(|one| one.right == place);
            100.0 * items.iter().filter(has).count() as f64 / items.len().max(1) as f64
        };
        cells.extend((0..QUESTIONS).map(|at| Cell::Percent(of(at))));
        all.push(cells);
    }
    Table::new("figures", &columns, all.into_iter())
}

/// The sub-domains, the levels and all of it, each with its 95 % interval, and how often all rounds said the same.
pub fn domains(judged: &[Judged], bootstrap: &Bootstrap) -> Table {
    let columns = [
        "method",
        "asked",
        "level",
        "sub_domain",
        "questions",
        "right",
        "percent",
        "percent_low",
        "percent_high",
        "unanimous",
    ];
    let mut all = Vec::new();
    for ((control, method), of) in rows(judged) {
        let groups = groups(&of);
        let total = sum(groups.iter());
        let mut add = |level: &str, name: &str, is: &dyn Fn(Domain) -> bool| {
            let picked = || (0..QUESTIONS).filter(|at| is(Domain::ALL[*at]));
            let (right, questions) =
                picked().fold((0, 0), |all, at| (all.0 + total[at].0, all.1 + total[at].1));
            let ends =
                bootstrap.interval(&groups, |drawn| accuracy(&sum(drawn.iter().copied()), is));
            let asked = (of.iter())
                .filter(|one| one.votes.is_some())
                .flat_map(|one| {
                    picked().map(move |at| (one.right[at].is_some(), one.unanimous[at]))
                })
                .filter(|(counts, _)| *counts);
            let (same, rounds) = asked.fold((0, 0), |all, (_, same)| {
                (all.0 + usize::from(same), all.1 + 1)
            });
            all.push(vec![
                Cell::Name(method.unwrap_or_default().to_owned()),
                Cell::Name(control.as_str().to_owned()),
                Cell::Name(level.to_owned()),
                Cell::Name(name.to_owned()),
                Cell::Count(questions),
                Cell::Count(right),
                percent(accuracy(&total, is)),
                percent(ends.map(|[low, _]| low)),
                percent(ends.map(|[_, high]| high)),
                percent((rounds > 0).then(|| 100.0 * f64::from(same as u32) / f64::from(rounds))),
            ]);
        };
        for domain in Domain::ALL {
            add(domain.level().as_str(), domain.as_str(), &|one| {
                one == domain
            });
        }
        for level in Level::ALL {
            add(level.as_str(), "all", &|one| one.level() == level);
        }
        add("all", "all", &|_| true);
    }
    Table::new("domains", &columns, all.into_iter())
}

/// How often each letter is the right one, and how often it was said, round by round, in the order in which options stood.
pub fn letters(judged: &[Judged]) -> Table {
    let items = items(judged);
    let mut key = [0; OPTIONS];
    for choice in items.iter().flat_map(|item| &item.questions) {
        if let Some(count) = key.get_mut(usize::from(choice.right)) {
            *count += 1;
        }
    }
    let mut controls: Vec<Control> = judged.iter().map(|one| one.control).collect();
    controls.sort_unstable();
    controls.dedup();
    let said: Vec<[usize; OPTIONS]> = controls
        .iter()
        .map(|control| said(judged.iter().filter(|one| one.control == *control)))
        .collect();
    let mut columns = vec!["letter", "key"];
    columns.extend(controls.iter().map(|control| control.as_str()));
    let rows = (0..OPTIONS).map(|place| {
        let mut cells = vec![
            Cell::Name(letter(place as u8).to_string()),
            Cell::Count(key[place]),
        ];
        cells.extend(said.iter().map(|counts| Cell::Count(counts[place])));
        cells
    });
    Table::new("letters", &columns, rows)
}

fn said<'a>(judged: impl Iterator<Item = &'a Judged<'a>>) -> [usize; OPTIONS] {
    let mut counts = [0; OPTIONS];
    let votes = judged.filter_map(|one| one.votes.as_ref());
    for place in votes.flat_map(|votes| votes.valid.iter().flatten()) {
        if let Some(count) = counts.get_mut(usize::from(*place)) {
            *count += 1;
        }
    }
    counts
}

/// Each item once, in order.
fn items<'a>(judged: &'a [Judged<'a>]) -> Vec<&'a Item> {
    let items: BTreeMap<&str, &Item> = judged
        .iter()
        .map(|one| (one.item.id.as_str(), one.item))
        .collect();
    items.into_values().collect()
}

/// The letter that is right most often, and for how many of a hundred questions.
fn best_letter(items: &[&Item]) -> Option<(u8, f64)> {
    let all = items.len() * QUESTIONS;
    let has = |place: u8| {
        let choices = items.iter().flat_map(|item| &item.questions);
        choices.filter(|choice| choice.right == place).count()
    };
    let best = (0..=NONE_PLACE).rev().max_by_key(|place| has(*place))?;
    (all > 0).then(|| (best, 100.0 * has(best) as f64 / all as f64))
}

/// What a reader should know: one letter nearly always, what the controls say, pictures that were dropped and why.
pub fn notes(judged: &[Judged], rules: &Rules) -> Vec<String> {
    let mut notes = Vec::new();
    let best = best_letter(&items(judged));
    for control in [Control::AsPublished, Control::Shuffled, Control::NoPicture] {
        let counts = said(judged.iter().filter(|one| one.control == control));
        let all: usize = counts.iter().sum();
        for (place, count) in (0u8..).zip(counts) {
            if all >= 20 && count * 20 >= all * 19 {
                let by_key = best.map_or(0.0, |(_, share)| share);
                notes.push(format!(
                    "asked {}, the judge says {:?} in {count} of {all} answers: it may not look at the pictures; by the key alone \
                     whoever always says the same can be right on {by_key:.1} %",
                    control.as_str(),
                    letter(place)
                ));
            }
        }
    }
    notes.extend(beside_controls(judged));
    let mut why: BTreeMap<Invalid, usize> = BTreeMap::new();
    for (reason, count) in judged
        .iter()
        .filter_map(|one| one.votes.as_ref())
        .flat_map(|votes| &votes.invalid)
    {
        *why.entry(*reason).or_default() += count;
    }
    if !why.is_empty() {
        let each: Vec<String> = (why.iter())
            .map(|(reason, count)| format!("{count} {}", reason.as_str()))
            .collect();
        notes.push(format!(
            "{} answers are not ten letters from A to E and were asked for again: {}",
            why.values().sum::<usize>(),
            each.join(", ")
        ));
    }
    let given_up = |votes: &&Votes| votes.failed.is_none() && !votes.is_whole(rules);
    let dropped = judged
        .iter()
        .filter_map(|one| one.votes.as_ref())
        .filter(given_up)
        .count();
    if dropped > 0 {
        notes.push(format!(
            "{dropped} pictures have fewer than {} valid answers of {} and are in no figure",
            rules.rounds, rules.attempts
        ));
    }
    let mut failed = judged
        .iter()
        .filter_map(|one| one.votes.as_ref()?.failed.as_ref());
    notes.extend(
        failed
            .next()
            .map(|why| format!("some questions have no answer, the first because of this: {why}")),
    );
    notes
}

/// What the controls say of all methods together.
fn beside_controls(judged: &[Judged]) -> Vec<String> {
    let overall = |control: Control| {
        accuracy(
            &count(judged.iter().filter(|one| one.control == control)),
            |_| true,
        )
    };
    let Some(published) = overall(Control::AsPublished) else {
        return Vec::new();
    };
    let mut notes = Vec::new();
    if let Some(shuffled) = overall(Control::Shuffled) {
        notes.push(format!(
            "with options in another order the judge says {shuffled:.1} % where it said {published:.1} %: what is above is by the order"
        ));
    }
    if let Some(blind) = overall(Control::NoPicture) {
        notes.push(format!(
            "without a picture it is right on {blind:.1} %: so much do the questions tell, and {published:.1} % is to be held against that"
        ));
    }
    notes
}
