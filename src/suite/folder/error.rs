//! Why a run's files cannot be used.

use thiserror::Error;

use crate::store::StoreError;
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
        list(differences)
    )]
    OtherSettings {
        /// Where.
        location: String,
        /// Place, what stands there, what was asked for.
        differences: Vec<(String, String, String)>,
    },
    /// The run's settings are broken.
    #[error("the run in {location} cannot be read")]
    Plan {
        /// Where.
        location: String,
        /// Why not.
        source: PlanError,
    },
    /// A line of one of the run's files is broken.
    #[error("{name} in {location} is broken")]
    Broken {
        /// The file.
        name: String,
        /// Where.
        location: String,
        /// What is wrong with it.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Pictures have gone while they were counted.
    #[error(
        "{missing} pictures by {method} are missing in {location}; give the same command again"
    )]
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

/// Differences for people.
fn list(differences: &[(String, String, String)]) -> String {
    let each = differences.iter().take(5);
    let mut text: Vec<_> = each
        .map(|(at, there, asked)| format!("{at} is {there} there, and {asked} was asked for"))
        .collect();
    if differences.len() > text.len() {
        text.push(format!("{} more", differences.len() - text.len()));
    }
    text.join("; ")
}
