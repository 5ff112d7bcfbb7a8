//! Why there is no report.

use prepose_store::{Store, StoreError};
use thiserror::Error;

/// Why a report cannot be made of something.
#[derive(Debug, Error)]
pub enum SourceError {
    /// The store's reason.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There is no run there.
    #[error("there is neither a run nor a method's folder in {location}: {why}")]
    Nothing {
        /// As it was given.
        location: String,
        /// What was looked for, and the way out.
        why: String,
    },
    /// A file is not what it should be.
    #[error("{name} in {location} is broken: {why}")]
    Broken {
        /// Within the location.
        name: String,
        /// The run.
        location: String,
        /// What is wrong.
        why: String,
    },
    /// A picture is there more than once.
    #[error(
        "{sample_id} is in {first} and again in {second}; give each run and each of its parts once"
    )]
    Twice {
        /// The picture.
        sample_id: String,
        /// Where it is.
        first: String,
        /// Where it is, too.
        second: String,
    },
    /// Results are not as they were written.
    #[error("{run} is damaged: {files}; `prepose verify {run} --mend` remakes what it can")]
    Damaged {
        /// Where the run is.
        run: String,
        /// Some of them, and what has become of each.
        files: String,
    },
    /// There is nothing to report yet.
    #[error("no picture is finished yet in {0}")]
    Empty(String),
}

/// A file that is not what it should be.
pub(super) fn broken(store: &dyn Store, name: &str, why: String) -> SourceError {
    SourceError::Broken {
        name: name.into(),
        location: store.location(),
        why,
    }
}
