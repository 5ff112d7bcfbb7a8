use thiserror::Error;

use crate::judge::book::BookError;
use crate::store::StoreError;
use crate::store::ledger::{Damage, named};
use crate::suite::folder::FolderError;
use crate::suite::growth::Contradiction;
use crate::suite::shard::Shard;

/// Why shards cannot be joined.
#[derive(Debug, Error)]
pub enum MergeError {
    /// A file that cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A run that cannot be read, or another one where the joined one should be.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// No shards were named.
    #[error("there are no shards to join")]
    Nothing,
    /// A folder with neither a shard nor shards.
    #[error(
        "{0} is not a shard of a run and has none in it: a shard's run.json says which one it is, and its folder is called \
         shard-000-of-004"
    )]
    NoShard(String),
    /// The joined run would take the place of a shard.
    #[error("{0} is one of the shards; choose another --out")]
    Itself(String),
    /// Divided by different numbers.
    #[error(
        "{a} is shard {a_shard} and {b} is shard {b_shard}: they are of runs that were divided into different numbers of \
         shards and cannot be joined"
    )]
    Count {
        /// The one.
        a: String,
        /// Which it is.
        a_shard: Shard,
        /// The other.
        b: String,
        /// Which it is.
        b_shard: Shard,
    },
    /// Different settings.
    #[error(
        "{a} and {b} were run with different settings: {}",
        each(contradictions)
    )]
    Settings {
        /// The one.
        a: String,
        /// The other.
        b: String,
        /// What they have otherwise.
        contradictions: Vec<Contradiction>,
    },
    /// Shards that were not named.
    #[error("of {count} shards, no. {} missing", listed(missing))]
    Missing {
        /// Their indices.
        missing: Vec<usize>,
        /// Of how many.
        count: usize,
    },
    /// A shard that is still being made, or was killed.
    #[error(
        "{location} is unfinished: {done} of its {jobs} pictures by {method} are done; run the command that made it again, \
         and it goes on where it stopped"
    )]
    Unfinished {
        /// The shard's folder.
        location: String,
        /// The first method that lacks something.
        method: String,
        /// Pictures that are there.
        done: usize,
        /// Pictures that should be.
        jobs: usize,
    },
    /// Lines that a finished shard lacks.
    #[error(
        "{file} in {location} lacks {missing} of {jobs} pictures (the first is {sample_id}); remove the method's folder \
         and run the command that made the shard again"
    )]
    Gap {
        /// The shard's folder.
        location: String,
        /// The file in it.
        file: String,
        /// How many are missing.
        missing: usize,
        /// How many there should be.
        jobs: usize,
        /// The first that is missing.
        sample_id: String,
    },
    /// One picture, two contents.
    #[error("{a} and {b} both have {sample_id}, but their {what} differ; leave out the wrong one")]
    Overlap {
        /// The one.
        a: String,
        /// The other.
        b: String,
        /// The picture.
        sample_id: String,
        /// What is not the same.
        what: &'static str,
    },
    /// Files that are not as they were written.
    #[error(
        "{location} is damaged: {}; `prepose verify --mend` remakes what it can, or run the command that made the shard \
         again",
        named(damage)
    )]
    Damaged {
        /// The shard's folder.
        location: String,
        /// The files, and what has become of them.
        damage: Vec<Damage>,
    },
    /// A joined run with more than the shards.
    #[error(
        "{location} already holds {there} pictures, and the shards lack {lacking} of them; grow the shards, or choose \
         another --out"
    )]
    More {
        /// The joined run's folder.
        location: String,
        /// Pictures of its plan.
        there: usize,
        /// Those of them that are not in the shards' plan.
        lacking: usize,
    },
    /// A shard's book of a judge's answers.
    #[error("the judge's answers in {file} cannot be joined")]
    Answers {
        /// The book.
        file: String,
        /// What is wrong with it.
        source: BookError,
    },
    /// The joined run's book of a judge's answers.
    #[error(transparent)]
    Book(#[from] BookError),
    /// A file that was listed and cannot be had.
    #[error("{name} in {location} was there a moment ago; is something else at work there?")]
    Vanished {
        /// The shard's folder.
        location: String,
        /// The file.
        name: String,
    },
}

/// The first of several contradictions.
fn each(contradictions: &[Contradiction]) -> String {
    let each = contradictions.iter().take(3);
    let mut texts: Vec<_> = each
        .map(|one| {
            format!(
                "{} is {} in the first and {} in the second",
                one.setting, one.there, one.asked
            )
        })
        .collect();
    if contradictions.len() > texts.len() {
        texts.push(format!("{} more", contradictions.len() - texts.len()));
    }
    texts.join("; ")
}

/// `1 is`, `1 and 3 are`, `1, 3, 5 and 20 others are`.
fn listed(indices: &[usize]) -> String {
    let (shown, rest) = indices.split_at(indices.len().min(8));
    let texts: Vec<_> = shown.iter().map(usize::to_string).collect();
    match (&texts[..], rest.len()) {
        ([one], 0) => format!("{one} is"),
        ([first @ .., last], 0) => format!("{} and {last} are", first.join(", ")),
        (all, rest) => format!("{} and {rest} others are", all.join(", ")),
    }
}
