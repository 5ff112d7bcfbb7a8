//! Why there is nothing to train on.

use std::io;
use std::path::{Path, PathBuf};

use prepose_corpus::read::ReadError;
use thiserror::Error;

/// Why there is nothing to train on.
#[derive(Debug, Error)]
pub enum DatasetError {
    /// A file or folder cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    Io {
        /// It.
        path: PathBuf,
        /// What is wrong.
        error: io::Error,
    },
    /// A file of captions cannot be read.
    #[error(transparent)]
    Captions(#[from] ReadError),
    /// A file that is none of those that are known.
    #[error(
        "{} cannot be trained on: give a folder of pictures with captions, a run, or a .jsonl, .csv, .parquet or .tar file",
        .0.display()
    )]
    Form(PathBuf),
    /// There is no picture with a caption.
    #[error("there is nothing to train on in {}: {why}", path.display())]
    Empty {
        /// The folder or file.
        path: PathBuf,
        /// What was looked for, or why nothing is left.
        why: String,
    },
    /// Too many pictures are of no use.
    #[error(
        "{skipped} of {all} pictures in {} cannot be used, which is more than {most:.0} % (--most-skipped): {first}",
        path.display(), most = most * 100.0
    )]
    Skipped {
        /// The folder or file.
        path: PathBuf,
        /// How many.
        skipped: usize,
        /// Of how many.
        all: usize,
        /// The most that is accepted.
        most: f64,
        /// Some of them with reasons.
        first: String,
    },
    /// An option that is for data in another layout.
    #[error("{option} says nothing of {}: {why}; leave it out", path.display())]
    Unread {
        /// The folder or file.
        path: PathBuf,
        /// As it is written.
        option: &'static str,
        /// Why there is nothing that it could mean.
        why: &'static str,
    },
    /// A run without checked pictures.
    #[error("{}: {why}", path.display())]
    Run {
        /// The run's folder.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

impl DatasetError {
    pub(crate) fn io(path: &Path, error: io::Error) -> Self {
        Self::Io {
            path: path.to_owned(),
            error,
        }
    }
}
