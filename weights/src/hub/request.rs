//! What to pull, what is told meanwhile, and what was pulled.

use std::path::PathBuf;

/// What to pull.
#[derive(Debug, Clone, Default)]
pub struct PullRequest {
    /// A name of [`CATALOG`](super::CATALOG), `OWNER/NAME` for a folder of diffusers or transformers, or `OWNER/NAME/FILE`.
    pub name: String,
    /// A commit, branch or tag; known checkpoints have their own.
    pub revision: Option<String>,
}

/// How far a pull is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PullEvent<'a> {
    /// A file's download starts, or starts again after a break.
    Start {
        /// Its path in the repository.
        file: &'a str,
        /// Its size in bytes.
        size: u64,
    },
    /// So many more bytes of it are here; what was here from an earlier run comes first, at once.
    Advance(u64),
    /// Its SHA-256 is being computed.
    Verify {
        /// Its path in the repository.
        file: &'a str,
    },
    /// It is here and sound.
    Done {
        /// Its path in the repository.
        file: &'a str,
    },
}

/// What was pulled.
#[derive(Debug, Clone)]
pub struct Pulled {
    /// What to give as the checkpoint: a file or a folder.
    pub path: PathBuf,
    /// Owner and name.
    pub repo: String,
    /// The commit.
    pub commit: String,
    /// Every file, with its SHA-256 where the hub states one.
    pub files: Vec<(PathBuf, Option<String>)>,
}
