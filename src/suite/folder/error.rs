//! Why a run's files cannot be used.

use thiserror::Error;

use crate::store::StoreError;
use crate::suite::growth::Contradiction;
use crate::suite::plan::PlanError;

/// Why a run's files cannot be used.
#[derive(Debug, Error)]
pub enum FolderError {
    /// The store's reason.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There is no run.
    #[error("there is no run in {location}: it has no run.json")]
    NoRun {
        /// Where.
        location: String,
    },
    /// The run there is another one.
    #[error(
        "{location} holds a run with other settings; choose another folder, or the same settings: {}",
        list(contradictions)
    )]
    OtherSettings {
        /// Where.
        location: String,
        /// What it has otherwise.
        contradictions: Vec<Contradiction>,
    },
    /// The run's settings are broken.
    #[error("the run in {location} cannot be read")]
    Plan {
        /// Where.
        location: String,
        /// Why not.
        source: PlanError,
    },
    /// Pictures have gone while they were counted.
    #[error("{missing} pictures by {method} are missing in {location}; run the same command again")]
    Incomplete {
        /// The method.
        method: String,
        /// How many.
        missing: usize,
        /// Where.
        location: String,
    },
    /// A number that JSON does not have.
    #[error("cannot be written as JSON")]
    Json(#[from] serde_json::Error),
}

/// Contradictions for people.
fn list(contradictions: &[Contradiction]) -> String {
    const SHOWN: usize = 5;
    let shown = contradictions.iter().take(SHOWN);
    let mut text: Vec<_> = shown.map(Contradiction::to_string).collect();
    if contradictions.len() > SHOWN {
        text.push(format!("{} more", contradictions.len() - SHOWN));
    }
    text.join("; ")
}
