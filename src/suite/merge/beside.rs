//! What shards have beside what a run writes: records of a checker that looked again, figures, a judge's tables, and
//! whatever somebody has put there.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use super::MergeError;
use super::answers;
use super::copy::OF_PICTURES;
use super::evaluations;
use crate::store::Store;
use crate::store::ledger::LEDGER;
use crate::suite::folder::{CONFIG, PROMPTS, RECEIVED, RunFolder};
use crate::suite::plan::Plan;
use crate::suite::shard::Shard;

/// Where a checker's drawings are, in the folder of its records.
pub(super) const OVERLAYS: &str = "overlays";

/// Something of shards that the joined run does not get. It stays where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The file, or the folder with all that is in it, within a shard's folder.
    pub name: String,
    /// The folder of the first shard that has it.
    pub location: String,
    /// How many other shards have it.
    pub others: usize,
    /// Why it is not joined.
    pub why: Why,
    /// Whether the joined run has something of that name, from before.
    pub is_in_joined: bool,
}

/// Why something is not joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// Statistics of a set of pictures.
    Quality,
    /// A judge's tables.
    Tables,
    /// Records that a shard, by its folder, has none of.
    Lacking(String),
    /// Records, of which those in this folder of a shard cannot be read.
    Broken(String),
    /// Records that were made with different settings.
    Settings,
    /// Records that say different things of a picture, by its id.
    Differing(String),
    /// Records that say nothing of a picture, by its id, though of others of its prompt.
    Silent(String),
    /// Records of something that is no picture of the run, by its id.
    Strange(String),
    /// Nothing that prepose knows.
    Foreign,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Quality => f.write_str(
                "figures of a part say nothing of the whole; `prepose score quality` measures the joined run",
            ),
            Self::Tables => f.write_str(
                "a judge's tables of a part; `prepose score judge` makes the joined run's, and asks no model twice",
            ),
            Self::Lacking(shard) => {
                write!(f, "there are no such records in {shard}; check its pictures too, or those of the joined run")
            }
            Self::Broken(shard) => write!(f, "its records in {shard} cannot be read"),
            Self::Settings => f.write_str("the shards were checked with different settings"),
            Self::Differing(id) => write!(f, "the shards say different things of {id}"),
            Self::Silent(id) => write!(
                f,
                "it says nothing of {id}, though of other pictures of its prompt; check that shard again"
            ),
            Self::Strange(id) => write!(f, "it tells of {id}, which is no picture of the run"),
            Self::Foreign => f.write_str("not from the run itself, so how to join it is not known"),
        }
    }
}

impl LeftOut {
    /// Of the shards at these places.
    fn of(shards: &[RunFolder], name: String, places: &[usize], why: Why) -> Self {
        let first = places.first().map(|&place| &shards[place]);
        Self {
            name,
            location: first.map_or_else(String::new, |run| run.store().location()),
            others: places.len().saturating_sub(1),
            why,
            is_in_joined: false,
        }
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "left out: {} in {}", self.name, self.location)?;
        match self.others {
            0 => {}
            1 => f.write_str(" and in another shard")?,
            others => write!(f, " and in {others} other shards")?,
        }
        write!(f, " ({})", self.why)?;
        match self.is_in_joined {
            true => {
                f.write_str("; what the joined run has under this name is from before, and stays")
            }
            false => Ok(()),
        }
    }
}

/// Finds out which of these the joined run has.
pub(super) fn look_in_joined(left: &mut [LeftOut], out: &dyn Store) -> Result<(), MergeError> {
    if left.is_empty() {
        return Ok(());
    }
    let there = out.list("")?;
    for one in left {
        one.is_in_joined = there.iter().any(|entry| {
            let rest = entry.name.strip_prefix(&one.name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        });
    }
    Ok(())
}

/// A folder with a checker's records of a method's pictures, besides the run's own.
pub(super) struct Evaluation {
    /// Index of the method.
    pub method: usize,
    /// Its name in a run's folder.
    pub folder: String,
    /// The indices of the shards' folders that have it.
    pub places: Vec<usize>,
}

impl Evaluation {
    /// The folder of the drawings that go with the records.
    pub fn overlays(&self) -> String {
        format!("{}/{OVERLAYS}", self.folder)
    }

    pub fn left_out(&self, shards: &[RunFolder], why: Why) -> LeftOut {
        LeftOut::of(shards, self.folder.clone(), &self.places, why)
    }
}

/// What is beside what a run writes.
pub(super) struct Beside {
    /// In the order of the methods.
    pub evaluations: Vec<Evaluation>,
    /// What cannot be joined, whatever is in it.
    pub left: Vec<LeftOut>,
}

enum Kind {
    /// Index of the method, and the folder.
    Evaluation(usize, String),
    /// What is left out, and why.
    Left(String, Why),
}

impl Beside {
    pub fn of(shards: &[RunFolder], plan: &Plan) -> Result<Self, MergeError> {
        let methods: HashMap<&str, usize> = (plan.config.methods.iter().enumerate())
            .map(|(index, method)| (method.name.as_str(), index))
            .collect();
        let mut evaluations: BTreeMap<(usize, String), Vec<usize>> = BTreeMap::new();
        let mut left: BTreeMap<String, (Why, Vec<usize>)> = BTreeMap::new();
        for (place, run) in shards.iter().enumerate() {
            for entry in run.store().list("")? {
                let places = match kind(&entry.name, &methods) {
                    Some(Kind::Evaluation(method, folder)) => {
                        evaluations.entry((method, folder)).or_default()
                    }
                    Some(Kind::Left(name, why)) => {
                        &mut left.entry(name).or_insert_with(|| (why, Vec::new())).1
                    }
                    None => continue,
                };
                if places.last() != Some(&place) {
                    places.push(place);
                }
            }
        }
        Ok(Self {
            evaluations: (evaluations.into_iter())
                .map(|((method, folder), places)| Evaluation {
                    method,
                    folder,
                    places,
                })
                .collect(),
            left: (left.into_iter())
                .map(|(name, (why, places))| LeftOut::of(shards, name, &places, why))
                .collect(),
        })
    }
}

/// What a file of a shard is, if no run writes it; none also of a judge's answers, which are joined.
fn kind(name: &str, methods: &HashMap<&str, usize>) -> Option<Kind> {
    let left = |name: &str, why: Why| Some(Kind::Left(name.to_owned(), why));
    let Some((first, rest)) = name.split_once('/') else {
        let is_own = [CONFIG, PROMPTS, LEDGER].contains(&name);
        return if is_own {
            None
        } else {
            left(name, Why::Foreign)
        };
    };
    if first == "provenance" || name == answers::BOOK || Shard::of_folder(first).is_some() {
        return None;
    }
    if first == answers::FOLDER {
        // Another book of answers may lie in a folder there.
        return match rest.split_once('/') {
            Some((folder, _)) => left(&format!("{first}/{folder}"), Why::Foreign),
            None => left(first, Why::Tables),
        };
    }
    let Some(&method) = methods.get(first) else {
        return left(first, Why::Foreign);
    };
    let (part, file) = match rest.split_once('/') {
        Some((part, file)) => (part, Some(file)),
        None => (rest, None),
    };
    // All pictures are there, so that nothing will be made of what was received any more.
    let is_own = ["manifest.jsonl", "samples", "eval", RECEIVED].contains(&part);
    if is_own || OF_PICTURES.contains(&part) {
        return None;
    }
    let own = format!("{first}/{part}");
    match (part, file) {
        ("quality", _) => left(&own, Why::Quality),
        (_, Some(file)) if part.starts_with("eval") => match evaluations::is_joined(file) {
            true => Some(Kind::Evaluation(method, own)),
            false => left(&format!("{own}/{file}"), Why::Foreign),
        },
        _ => left(&own, Why::Foreign),
    }
}
