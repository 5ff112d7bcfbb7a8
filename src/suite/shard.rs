//! Dividing a run: shard *i* of *n* makes about every *n*-th picture.
//!
//! A picture's shard follows from its method, prompt and seed ([`crate::check::shards`]). A shard's two numbers are given, or those that Slurm gives the tasks of an
//! array and Kubernetes the pods of an indexed Job.

mod scheduler;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::check::shards;

/// The most shards a run can have; a picture each would be the end of it anyway.
pub const MOST: usize = 1_000_000;

/// How many shards there are, where the command line does not say it.
pub const COUNT_VARIABLE: &str = "PREPOSE_SHARDS";

/// One of the equal parts of a run; in JSON as it is displayed, `"1/4"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Shard {
    index: usize,
    count: usize,
}

/// Why it is not known which part of a run to make.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ShardError {
    /// Not two numbers.
    #[error("{0:?} is not a shard: write INDEX/COUNT, such as 0/4 for the first of four")]
    Form(String),
    /// No shard at all, or too many.
    #[error("{0} shards are not possible: there can be 1 to {MOST}")]
    Count(usize),
    /// One past the last.
    #[error("there is no shard {index} of {count}: they are counted from 0 to {}", count - 1)]
    Index {
        /// Which was asked for.
        index: usize,
        /// Of how many.
        count: usize,
    },
    /// A variable that is no number.
    #[error("{variable}={value:?} is not a number from 0")]
    Number {
        /// Its name.
        variable: &'static str,
        /// What is in it.
        value: String,
    },
    /// Slurm leaves a variable out.
    #[error(
        "SLURM_ARRAY_TASK_ID is set but {0} is not; say which part of the run this is with --shard INDEX/COUNT"
    )]
    Missing(&'static str),
    /// Some tasks of a Slurm array are missing.
    #[error(
        "the Slurm array has {tasks} tasks, but their ids go from {first} to {last} in steps of {step}, which would be \
         {slots}: say with --shards how many shards the run has, and let the ids be the shards, from 0; or name this one \
         with --shard INDEX/COUNT"
    )]
    Gaps {
        /// SLURM_ARRAY_TASK_COUNT.
        tasks: usize,
        /// SLURM_ARRAY_TASK_MIN.
        first: usize,
        /// SLURM_ARRAY_TASK_MAX.
        last: usize,
        /// SLURM_ARRAY_TASK_STEP.
        step: usize,
        /// How many ids there are in that range.
        slots: usize,
    },
    /// The tasks do not fit the count that was given.
    #[error(
        "the run has {count} shards, so {variable} must be from 0 to {}, but it goes up to {last}: let there be as many \
         tasks as shards, counted from 0 (Slurm: --array=0-{}; Kubernetes: completions: {count})",
        count - 1, count - 1
    )]
    Range {
        /// Where the index comes from.
        variable: &'static str,
        /// How many shards were asked for.
        count: usize,
        /// The highest index.
        last: usize,
    },
    /// An index without a count.
    #[error(
        "JOB_COMPLETION_INDEX={index} says which part of the run this is, but not of how many: give the Job's completions \
         with --shards or in {COUNT_VARIABLE}, or say --shard 0/1 to make the whole run here"
    )]
    NoCount {
        /// The index.
        index: usize,
    },
    /// A count without an index.
    #[error(
        "the run should have {count} shards, but neither SLURM_ARRAY_TASK_ID nor JOB_COMPLETION_INDEX says which one this \
         is; name it with --shard INDEX/{count}"
    )]
    NoIndex {
        /// The count.
        count: usize,
    },
    /// Slurm and Kubernetes disagree.
    #[error(
        "SLURM_ARRAY_TASK_ID says shard {slurm} and JOB_COMPLETION_INDEX says shard {kubernetes}; name the right one with \
         --shard INDEX/COUNT"
    )]
    Contradiction {
        /// By the one.
        slurm: Shard,
        /// By the other.
        kubernetes: Shard,
    },
}

impl Shard {
    /// Shard `index` of `count`, counted from 0.
    ///
    /// # Errors
    /// No such shard.
    pub fn new(index: usize, count: usize) -> Result<Self, ShardError> {
        match count {
            1..=MOST if index < count => Ok(Self { index, count }),
            1..=MOST => Err(ShardError::Index { index, count }),
            _ => Err(ShardError::Count(count)),
        }
    }

    /// Which, from 0.
    pub fn index(self) -> usize {
        self.index
    }

    /// Of how many.
    pub fn count(self) -> usize {
        self.count
    }

    /// What decides the shard of the picture of a prompt by a method with seed 0.
    pub fn turn(method: &str, prompt_id: &str) -> u64 {
        shards::turn(method, prompt_id)
    }

    /// Whether the picture with this seed, of the prompt and the method with this [`turn`](Self::turn), is made here.
    pub fn has(self, turn: u64, seed: u64) -> bool {
        shards::makes(self.index, self.count, turn, seed)
    }

    /// The name of its folder inside the run's: `shard-001-of-004`.
    pub fn folder(self) -> String {
        format!("shard-{:03}-of-{:03}", self.index, self.count)
    }

    /// The shard whose [`folder`](Self::folder) it is.
    pub fn of_folder(name: &str) -> Option<Self> {
        let (index, count) = name.strip_prefix("shard-")?.split_once("-of-")?;
        let shard = Self::new(index.parse().ok()?, count.parse().ok()?).ok()?;
        (shard.folder() == name).then_some(shard)
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

impl From<Shard> for String {
    fn from(shard: Shard) -> Self {
        shard.to_string()
    }
}

impl TryFrom<String> for Shard {
    type Error = ShardError;

    fn try_from(text: String) -> Result<Self, ShardError> {
        text.parse()
    }
}

impl FromStr for Shard {
    type Err = ShardError;

    fn from_str(text: &str) -> Result<Self, ShardError> {
        let numbers = text
            .split_once('/')
            .and_then(|(index, count)| Some((index.parse().ok()?, count.parse().ok()?)));
        match numbers {
            Some((index, count)) => Self::new(index, count),
            None => Err(ShardError::Form(text.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_written_and_read() {
        let shard: Shard = "1/4".parse().unwrap();
        assert_eq!(shard, Shard::new(1, 4).unwrap());
        assert_eq!(shard.to_string(), "1/4");
        assert_eq!(shard.folder(), "shard-001-of-004");
        assert_eq!(Shard::of_folder("shard-001-of-004"), Some(shard));
        assert_eq!(serde_json::to_string(&shard).unwrap(), "\"1/4\"");
        assert_eq!(serde_json::from_str::<Shard>("\"1/4\"").unwrap(), shard);
        assert!(serde_json::from_str::<Shard>("\"4/4\"").is_err());
        for name in [
            "shard-1-of-4",
            "shard-004-of-004",
            "shard-001-of-004x",
            "psg",
        ] {
            assert_eq!(Shard::of_folder(name), None, "{name}");
        }
        for (text, wanted) in [
            (
                "4/4",
                "there is no shard 4 of 4: they are counted from 0 to 3",
            ),
            ("0/0", "0 shards are not possible: there can be 1"),
            ("0/99999999", "99999999 shards"),
            ("1", "write INDEX/COUNT"),
            ("-1/4", "write INDEX/COUNT"),
            ("1/4/5", "write INDEX/COUNT"),
        ] {
            let error = text.parse::<Shard>().unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}");
        }
    }

    #[test]
    fn every_picture_has_one_shard_and_shards_have_equally_many() {
        let shards: Vec<_> = (0..7).map(|i| Shard::new(i, 7).unwrap()).collect();
        let mut pictures = [0; 7];
        for prompt in 0..1_000 {
            let turn = Shard::turn("psg", &format!("v1_{prompt:06}"));
            for seed in 0..4 {
                let of: Vec<_> = shards
                    .iter()
                    .filter(|shard| shard.has(turn, seed))
                    .collect();
                assert_eq!(of.len(), 1);
                pictures[of[0].index()] += 1;
            }
        }
        assert!(
            pictures.iter().all(|n| (514..=629).contains(n)),
            "{pictures:?}"
        );
        // As many seeds as shards: one each.
        let turn = Shard::turn("psg", "p");
        assert!(
            shards
                .iter()
                .all(|shard| (0..7).filter(|seed| shard.has(turn, *seed)).count() == 1)
        );
    }
}
