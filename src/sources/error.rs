//! Why pictures do not come.

use std::path::PathBuf;
use std::time::Duration;

use prepose_remote::RemoteError;
use thiserror::Error;

/// Why pictures do not come.
#[derive(Debug, Error)]
pub enum SourceError {
    /// A folder that cannot be used.
    #[error("{} cannot be used as a folder of pictures", folder.display())]
    Folder {
        /// Which.
        folder: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A file in it.
    #[error("cannot read the picture {}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// More files than a benchmark has.
    #[error("{} has more than {most} files in it; give a folder with only the pictures in it", folder.display())]
    TooMany {
        /// Which.
        folder: PathBuf,
        /// What is looked at.
        most: usize,
    },
    /// A template that says nothing of a picture.
    #[error(
        "the name template {template:?} {why}; it needs {{prompt_id}}, {{number}} or {{prompt}} for the prompt, and \
         {{seed}} or {{index}} for which of its pictures it is, such as {{prompt_id}}/{{index}}.png"
    )]
    Template {
        /// As given.
        template: String,
        /// What is wrong.
        why: String,
    },
    /// A file that could be two pictures.
    #[error(
        "the name {file:?} fits {first} and {second}: rename it, or say with --name-template how names are formed"
    )]
    Ambiguous {
        /// The file's name.
        file: String,
        /// The one.
        first: String,
        /// The other.
        second: String,
    },
    /// Two files that are the same picture.
    #[error("{first:?} and {second:?} are both the picture of {job}: remove one of them")]
    Twice {
        /// The one.
        first: String,
        /// The other.
        second: String,
        /// Which picture.
        job: String,
    },
    /// A manifest that cannot be read.
    #[error("{file}, line {line}: {why}")]
    Manifest {
        /// Which.
        file: String,
        /// From 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
    /// A server.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// A maker that cannot be started.
    #[error("cannot start the maker {command:?}")]
    Start {
        /// As given.
        command: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A maker that ended.
    #[error("the maker ended ({how}) and {what}{}", said(stderr))]
    Died {
        /// Its exit code or signal.
        how: String,
        /// What was to be done.
        what: String,
        /// The end of what it wrote for people.
        stderr: String,
    },
    /// A maker that says nothing.
    #[error("the maker said nothing for {} s while {what}{}", seconds.as_secs(), said(stderr))]
    Silent {
        /// How long.
        seconds: Duration,
        /// What was to be done.
        what: String,
        /// The end of what it wrote for people.
        stderr: String,
    },
    /// A line that is no answer.
    #[error(
        "the maker wrote {line:?} on its standard output, {why}; only answers go there, one JSON object per line, and \
         everything else goes to standard error"
    )]
    Line {
        /// The line.
        line: String,
        /// What is wrong with it.
        why: String,
    },
    /// A picture that the maker could not make.
    #[error(
        "the maker could not make the picture of {prompt_id} with seed {seed} ({code}): {message}"
    )]
    Maker {
        /// The prompt.
        prompt_id: String,
        /// The seed.
        seed: u64,
        /// The maker's word for it.
        code: String,
        /// What it says.
        message: String,
    },
    /// A file that is not where it may be.
    #[error("the maker answered with the file {path:?}, {why}")]
    Place {
        /// As given.
        path: String,
        /// What is wrong.
        why: String,
    },
    /// A picture that a maker is to change cannot be put where it finds it.
    #[error("cannot write {}, the picture that the maker is to change", path.display())]
    Put {
        /// Where.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// What is done with pictures failed.
    #[error("keeping a picture failed")]
    Keep(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The program was asked to stop.
    #[error("interrupted")]
    Stopped,
}

fn said(stderr: &str) -> String {
    match stderr.trim() {
        "" => "; it wrote nothing on standard error".into(),
        text => format!("; the end of what it wrote on standard error:\n{text}"),
    }
}
