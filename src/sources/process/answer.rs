//! What a program says of its jobs.

use std::path::{Path, PathBuf};

use prepose_untrusted::{MAX_PICTURE, printable, read_regular};
use serde::Deserialize;

use crate::{File, Job, Origin, Outcome, Refusal, SourceError};

/// What a program answers.
#[derive(Debug, Deserialize)]
pub(super) struct Answer {
    #[serde(default, rename = "type")]
    pub kind: Option<String>,
    #[serde(default)]
    pub id: Option<String>,
    #[serde(default)]
    path: Option<String>,
    #[serde(default)]
    seed: Option<u64>,
    #[serde(default)]
    seconds: Option<f64>,
    #[serde(default)]
    code: Option<String>,
    #[serde(default)]
    message: Option<String>,
}

/// What is wrong with an answer.
pub(super) enum Wrong {
    /// It is none.
    Line(String),
    /// It says that something failed.
    Source(SourceError),
}

/// What an answer says of its job.
pub(super) fn outcome(
    answer: &Answer,
    job: &Job,
    folder: &Path,
    seconds: f64,
) -> Result<Outcome, Wrong> {
    let message = || {
        let message = answer.message.as_deref().unwrap_or("no reason given");
        printable(message).to_string()
    };
    let code = || printable(answer.code.as_deref().unwrap_or("unknown")).to_string();
    match (answer.kind.as_deref(), answer.code.as_deref()) {
        (Some("error"), Some("refused")) => Ok(Outcome::Refused(Refusal {
            code: code(),
            message: message(),
        })),
        (Some("error"), _) => Err(Wrong::Source(SourceError::Maker {
            prompt_id: job.prompt_id.clone(),
            seed: job.seed,
            code: code(),
            message: message(),
        })),
        (Some("done") | None, _) => {
            let Some(path) = &answer.path else {
                return Err(Wrong::Line("which has no \"path\" of a picture".into()));
            };
            let (path, bytes) = take(path, folder).map_err(Wrong::Source)?;
            // It has been read; what is left of it goes with the folder.
            let _ = std::fs::remove_file(path);
            let origin = Origin {
                seed: answer.seed,
                attempts: 1,
                start: job.start.as_ref().map(|start| start.sha256.clone()),
                ..Origin::default()
            };
            let seconds = answer
                .seconds
                .filter(|seconds| seconds.is_finite() && *seconds >= 0.0)
                .unwrap_or(seconds);
            Ok(Outcome::Picture(File::new(bytes, origin, seconds)))
        }
        (Some(_), _) => Err(Wrong::Line(
            "whose \"type\" is neither \"done\" nor \"error\"".into(),
        )),
    }
}

/// The file at a path that a program named, which must be in the folder that it was given.
fn take(given: &str, folder: &Path) -> Result<(PathBuf, Vec<u8>), SourceError> {
    let wrong = |why: String| SourceError::Place {
        path: printable(given).to_string(),
        why,
    };
    let path = folder
        .join(given)
        .canonicalize()
        .map_err(|error| wrong(format!("which cannot be read: {error}")))?;
    let folder = folder
        .canonicalize()
        .map_err(|error| wrong(error.to_string()))?;
    if !path.starts_with(&folder) {
        return Err(wrong(
            "which is not in the folder that the job names in \"out\"".into(),
        ));
    }
    let bytes = read_regular(&path, MAX_PICTURE)
        .map_err(|error| wrong(format!("which cannot be read: {error}")))?;
    Ok((path, bytes))
}
