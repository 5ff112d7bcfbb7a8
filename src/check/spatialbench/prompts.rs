//! What the pictures of a prompt say together, and what prompts that say the same got.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::metrics::Counts;
use super::record::{Record, joint};
use super::verdict::Verdict;
use crate::sample::sample_of;
use prepose_scene::Relation;

/// How many pictures of a prompt the benchmark makes.
pub const PICTURES_PER_PROMPT: usize = 4;

/// The pictures of each prompt, each with its records: one for each relation.
fn by_prompt(records: &[Record]) -> BTreeMap<&str, HashMap<&str, Vec<&Record>>> {
    let mut prompts: BTreeMap<&str, HashMap<&str, Vec<&Record>>> = BTreeMap::new();
    for record in records {
        let pictures = prompts.entry(&record.prompt_id).or_default();
        let relations = pictures.entry(sample_of(&record.sample_id)).or_default();
        relations.push(record);
    }
    prompts
}

/// How many pictures there are of the prompt that has most; none without records.
pub fn pictures_per_prompt(records: &[Record]) -> Option<usize> {
    by_prompt(records).values().map(HashMap::len).max()
}

/// The verdicts of a run's prompts, all relations of a picture [together](joint).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PromptVerdicts {
    /// PASS if any picture passes, FAIL if all fail.
    pub best: BTreeMap<String, Verdict>,
    /// PASS if all pass, FAIL if any fails; a prompt that has not as many pictures as it should is undecidable.
    pub all: BTreeMap<String, Verdict>,
}

impl PromptVerdicts {
    /// Of prompts with `pictures` pictures each.
    pub fn of(records: &[Record], pictures: usize) -> Self {
        let mut verdicts = Self::default();
        for (prompt, seen) in by_prompt(records) {
            let each = seen.into_values().filter_map(joint);
            let counts = Counts::of(each.map(|(verdict, _)| verdict));
            let total = counts.total();
            let best = if counts.pass > 0 {
                Verdict::Pass
            } else if counts.fail == total {
                Verdict::Fail
            } else {
                Verdict::Undecidable
            };
            let all = if total != pictures {
                Verdict::Undecidable
            } else if counts.pass == total {
                Verdict::Pass
            } else if counts.fail > 0 {
                Verdict::Fail
            } else {
                Verdict::Undecidable
            };
            verdicts.best.insert(prompt.into(), best);
            verdicts.all.insert(prompt.into(), all);
        }
        verdicts
    }

    /// How often each verdict was given to the best picture of a prompt.
    pub fn best_counts(&self) -> Counts {
        Counts::of(self.best.values().copied())
    }

    /// How often each verdict was given to all pictures of a prompt.
    pub fn all_counts(&self) -> Counts {
        Counts::of(self.all.values().copied())
    }
}

/// What pairs of prompts that say the same got: `a left of b` and `b right of a`. A prompt with several relations has no
/// partner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counterfactual {
    /// Both pass.
    pub both_pass: usize,
    /// One passes and one fails: one of the verdicts is wrong, or the order of the words matters.
    pub one_sided: usize,
    /// Both fail.
    pub both_fail: usize,
    /// One is decided.
    pub one_undecidable: usize,
    /// None is.
    pub both_undecidable: usize,
}

impl Counterfactual {
    /// Of the prompts' verdicts by their best picture, as in the paper. Since such a verdict fails only if all pictures
    /// do, one-sided pairs hardly occur; [`by_picture`](Self::by_picture) has them.
    pub fn of(records: &[Record]) -> Self {
        let verdicts = PromptVerdicts::of(records, PICTURES_PER_PROMPT).best;
        Self::count(
            pairs(records)
                .iter()
                .filter_map(|(a, b)| Some((*verdicts.get(*a)?, *verdicts.get(*b)?))),
        )
    }

    /// Of single pictures: those of the two prompts with the same seed.
    pub fn by_picture(records: &[Record]) -> Self {
        let verdicts: HashMap<(&str, &str), Verdict> = records
            .iter()
            .map(|record| {
                let key = (record.prompt_id.as_str(), seed(record));
                (key, record.verdict_raw)
            })
            .collect();
        let pairs: HashMap<&str, &str> = pairs(records).into_iter().collect();
        Self::count(records.iter().filter_map(|record| {
            let other = pairs.get(record.prompt_id.as_str())?;
            let other = verdicts.get(&(*other, seed(record)))?;
            Some((record.verdict_raw, *other))
        }))
    }

    fn count(pairs: impl Iterator<Item = (Verdict, Verdict)>) -> Self {
        let mut counted = Self::default();
        for (a, b) in pairs {
            *match (a, b) {
                (Verdict::Pass, Verdict::Pass) => &mut counted.both_pass,
                (Verdict::Fail, Verdict::Fail) => &mut counted.both_fail,
                (Verdict::Undecidable, Verdict::Undecidable) => &mut counted.both_undecidable,
                _ if a.is_decided() && b.is_decided() => &mut counted.one_sided,
                _ => &mut counted.one_undecidable,
            } += 1;
        }
        counted
    }

    /// All pairs.
    pub fn total(&self) -> usize {
        self.both_pass + self.one_sided + self.both_fail + self.undecidable()
    }

    /// Those in which at least one is not decided.
    pub fn undecidable(&self) -> usize {
        self.one_undecidable + self.both_undecidable
    }
}

/// The part of a `sample_id` after its prompt's: the seed's.
fn seed(record: &Record) -> &str {
    // A short prompt_id may occur in the seed as well.
    let named = format!("_{}_", record.prompt_id);
    let id = &record.sample_id;
    let found = id
        .rsplit_once(&named)
        .or_else(|| id.rsplit_once(&record.prompt_id));
    found.map_or(id, |(_, seed)| seed)
}

/// The pairs of prompts that say the same the other way round, each once.
fn pairs(records: &[Record]) -> Vec<(&str, &str)> {
    let pictures = by_prompt(records);
    let several = |prompt: &str| pictures[prompt].values().any(|each| each.len() > 1);
    let mut open: HashMap<(Relation, &str, &str), Vec<&str>> = HashMap::new();
    let mut seen = HashSet::new();
    let mut pairs = Vec::new();
    for record in records {
        let id = record.prompt_id.as_str();
        if !seen.insert(id) || several(id) {
            continue;
        }
        let (a, b) = (record.object_a.as_str(), record.object_b.as_str());
        let other = record
            .relation
            .inverse()
            .and_then(|inverse| open.get_mut(&(inverse, b, a)))
            .and_then(Vec::pop);
        match other {
            Some(other) => pairs.push((other, id)),
            None => open.entry((record.relation, a, b)).or_default().push(id),
        }
    }
    pairs
}
