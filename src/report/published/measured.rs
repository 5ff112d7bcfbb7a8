//! The figures of one method's records, with their intervals, as cells.

use std::collections::HashMap;

use crate::bootstrap::{Bootstrap, Estimate};
use prepose_check::spatialbench::prompts::{self, Counterfactual, PromptVerdicts};
use prepose_check::spatialbench::{Record, Verdict};
use prepose_draw::table::Cell;
use prepose_statistics::bootstrap::wilson;

/// What is measured of a picture; none of those that do not count.
pub(super) type Value = fn(&Record) -> Option<f64>;

pub(super) const PASS: Value = |record| Some(f64::from(record.verdict_raw == Verdict::Pass));
pub(super) const DECIDED: Value = |record| Some(f64::from(record.verdict_raw.is_decided()));
pub(super) const PASS_OF_DECIDED: Value = |record| {
    let decided = record.verdict_raw.is_decided();
    decided.then(|| f64::from(record.verdict_raw == Verdict::Pass))
};
pub(super) const CONFIDENCE: Value = |record| Some(record.conf);

/// A figure with its interval; without one where a single prompt says nothing about others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figure {
    value: f64,
    ends: Option<[f64; 2]>,
}

impl Figure {
    fn new(Estimate { value, low, high }: Estimate, prompts: usize) -> Self {
        Self {
            value,
            ends: (prompts > 1).then_some([low, high]),
        }
    }

    /// As a cell of this kind.
    pub(super) fn cell(self, kind: fn(f64) -> Cell) -> Cell {
        let value = kind(self.value);
        match self.ends {
            Some(ends) => Cell::Within(Box::new(value), ends),
            None => value,
        }
    }
}

/// The mean over pictures; nothing if none counts.
pub(super) fn mean(
    records: &[Record],
    bootstrap: &Bootstrap,
    value: impl Fn(&Record) -> Option<f64>,
) -> Option<Figure> {
    let groups: Vec<Vec<f64>> = (by_prompt(records.iter()).into_iter())
        .map(|group| group.into_iter().filter_map(&value).collect())
        .collect();
    let counts = groups.iter().any(|group| !group.is_empty());
    counts.then(|| Figure::new(bootstrap.mean(&groups), groups.len()))
}

/// How the mean over pictures changes between two settings of the checker; of pictures that both looked at.
pub(super) fn change(
    before: &[Record],
    after: &[Record],
    bootstrap: &Bootstrap,
    value: Value,
) -> Option<Figure> {
    let old: HashMap<&str, &Record> = (before.iter())
        .map(|record| (record.sample_id.as_str(), record))
        .collect();
    let both = after
        .iter()
        .filter(|r| old.contains_key(r.sample_id.as_str()));
    let groups: Vec<[Sum; 2]> = (by_prompt(both).into_iter())
        .map(|group| {
            let earlier = group.iter().map(|r| old[r.sample_id.as_str()]);
            [
                Sum::of(earlier, value),
                Sum::of(group.iter().copied(), value),
            ]
        })
        .collect();
    let changed = bootstrap.estimate(&groups, |groups| {
        let side = |side: usize| {
            let sums = groups.iter().map(|group| group[side]);
            let all = sums.fold(Sum::default(), |all, one| Sum {
                sum: all.sum + one.sum,
                count: all.count + one.count,
            });
            (all.count > 0).then(|| all.sum / all.count as f64)
        };
        Some(side(1)? - side(0)?)
    });
    Some(Figure::new(changed?, groups.len()))
}

#[derive(Clone, Copy, Default)]
struct Sum {
    sum: f64,
    count: usize,
}

impl Sum {
    fn of<'a>(records: impl Iterator<Item = &'a Record>, value: Value) -> Self {
        records
            .filter_map(value)
            .fold(Self::default(), |all, one| Self {
                sum: all.sum + one,
                count: all.count + 1,
            })
    }
}

/// The records of each prompt, in the order of the prompts' first pictures.
fn by_prompt<'a>(records: impl Iterator<Item = &'a Record>) -> Vec<Vec<&'a Record>> {
    let mut places: HashMap<&str, usize> = HashMap::new();
    let mut prompts: Vec<Vec<&Record>> = Vec::new();
    for record in records {
        let place = *places.entry(&record.prompt_id).or_insert_with(|| {
            prompts.push(Vec::new());
            prompts.len() - 1
        });
        prompts[place].push(record);
    }
    prompts
}

/// How many prompts there are.
pub(super) fn prompts(records: &[Record]) -> usize {
    by_prompt(records.iter()).len()
}

/// How many pictures most prompts have: of the one that has most.
pub(super) fn pictures_per_prompt(records: &[Record]) -> usize {
    prompts::pictures_per_prompt(records).unwrap_or(0)
}

/// Prompts with a pass among their pictures, and with nothing else: `[best, all]`.
pub(super) fn of_prompts(records: &[Record]) -> [Cell; 2] {
    let verdicts = PromptVerdicts::of(records, pictures_per_prompt(records));
    [verdicts.best_counts(), verdicts.all_counts()].map(|counts| share(counts.pass, counts.total()))
}

/// Pairs of prompts: how many; both pass, one-sided, both fail, undecidable.
pub(super) fn of_pairs(records: &[Record]) -> (usize, [Cell; 4]) {
    let counted = Counterfactual::of(records);
    let parts = [
        counted.both_pass,
        counted.one_sided,
        counted.both_fail,
        counted.undecidable(),
    ];
    let total = counted.total();
    (total, parts.map(|part| share(part, total)))
}

/// Why nothing was decided: the reason's name, before its details.
pub(super) fn reason(record: &Record) -> &str {
    let reason = match record.verdict_raw {
        Verdict::Undecidable => record.verdict_reason.as_deref().unwrap_or_default(),
        _ => "",
    };
    reason.split([':', ' ', '(']).next().unwrap_or_default()
}

fn share(part: usize, whole: usize) -> Cell {
    wilson(part, whole).map_or(Cell::Empty, |ends| {
        Cell::Within(Box::new(Cell::Rate(part as f64 / whole as f64)), ends)
    })
}
