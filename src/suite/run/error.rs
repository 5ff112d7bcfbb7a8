//! Why a run ended early.

use std::path::PathBuf;

use thiserror::Error;

use crate::detect::checker::CheckError;
use crate::detect::reward::RewardError;
use crate::engine::EngineError;
use crate::guidance::boxes::BoxError;
use crate::make::MakeError;
use crate::picture::PictureError;
use crate::request::RewardKind;
use crate::sources::SourceError;
use crate::suite::folder::FolderError;
use crate::suite::method::MethodError;

/// Why a run ended early. What was finished before is kept, and the same run goes on from there.
#[derive(Debug, Error)]
pub enum RunError {
    /// Ctrl-C or a signal.
    #[error("interrupted; what is finished is kept, and the same command goes on from there")]
    Interrupted,
    /// The run's files.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The networks.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The detector.
    #[error(transparent)]
    Check(#[from] CheckError),
    /// A prompt that a method cannot change.
    #[error(transparent)]
    Method(#[from] MethodError),
    /// A picture that cannot be made.
    #[error(transparent)]
    Make(MakeError),
    /// A prompt that cannot be used.
    #[error("{method} cannot make {prompt_id:?}")]
    Prompt {
        /// By which method.
        method: String,
        /// Which prompt.
        prompt_id: String,
        /// Why not.
        source: Box<RunError>,
    },
    /// A prompt that changes a picture, which is not there.
    #[error(
        "{prompt_id:?} changes a picture that is still to be made; `prepose ots edit` makes the pictures, and then changes them"
    )]
    NoPicture {
        /// Which prompt.
        prompt_id: String,
    },
    /// A picture that is to be changed and cannot be read.
    #[error("{prompt_id:?} changes {}, which cannot be read", path.display())]
    Start {
        /// Which prompt.
        prompt_id: String,
        /// The picture.
        path: PathBuf,
        /// Why not.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A source that makes pictures from nothing alone.
    #[error("{prompt_id:?} changes a picture, but {name} only makes pictures from nothing; {how}")]
    CannotEdit {
        /// The source.
        name: String,
        /// What one that can would have.
        how: &'static str,
        /// Which prompt.
        prompt_id: String,
    },
    /// A source that makes pictures from pictures alone.
    #[error(
        "{name} begins with a picture ({{image}} in its workflow), but {prompt_id:?} has none: give it a workflow that makes pictures \
         from nothing, or a set of edits"
    )]
    OnlyEdits {
        /// The source.
        name: String,
        /// Which prompt.
        prompt_id: String,
    },
    /// A prompt with a box that is none.
    #[error("the prompt {prompt_id:?} cannot be put into its boxes")]
    Box {
        /// Which prompt.
        prompt_id: String,
        /// What is wrong with it.
        source: BoxError,
    },
    /// A search by the picture without a detector.
    #[error("{method} uses what the checker sees, but there is no checker (--checker none)")]
    NoChecker {
        /// The method with that search.
        method: String,
    },
    /// Prompts whose candidates a search cannot score.
    #[error(
        "{method} scores candidates by the reward {reward}, which has nothing to say about {} of {prompts} prompts \
         ({}): {why}; leave them out, or choose another reward",
        unscored.len(), list(unscored)
    )]
    Unscored {
        /// The method with that search.
        method: String,
        /// What it scores candidates by.
        reward: RewardKind,
        /// How many prompts the run has.
        prompts: usize,
        /// Ids of those that cannot be scored.
        unscored: Vec<String>,
        /// Why the first of them cannot.
        why: Box<RewardError>,
    },
    /// A picture that cannot be encoded.
    #[error("cannot encode the picture of {sample_id}")]
    Encode {
        /// Whose.
        sample_id: String,
        /// The encoder's reason.
        source: ::png::EncodingError,
    },
    /// A source of pictures elsewhere.
    #[error(transparent)]
    Source(SourceError),
    /// A file from elsewhere that is no picture.
    #[error("what came for {sample_id}{} is not a picture", from(file.as_deref()))]
    Picture {
        /// What it was to be.
        sample_id: String,
        /// The file's name in a folder of pictures.
        file: Option<String>,
        /// What is wrong with it.
        source: PictureError,
    },
    /// A request to the engine in a run whose pictures come from elsewhere.
    #[error("the pictures of this run are not made here")]
    Elsewhere,
    /// A method that works inside of the engine.
    #[error(
        "{method} {why}, but the pictures of this run are made elsewhere: prompt-only and searches by the rewards pse and \
         checker work with any source, as does judge with --judge"
    )]
    Inside {
        /// Which.
        method: String,
        /// What it does there.
        why: &'static str,
    },
    /// A judge that has no answer about the candidates of a search.
    #[error("the judge cannot say which candidate of {sample_id} is best")]
    Judge {
        /// Whose.
        sample_id: String,
        /// Why not.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The thread that looks at pictures has died.
    #[error("looking at the pictures failed: {0}")]
    Panic(String),
}

/// The ids of the first few prompts.
fn list(prompt_ids: &[String]) -> String {
    const SHOWN: usize = 10;
    let shown = prompt_ids.len().min(SHOWN);
    let mut text = prompt_ids[..shown].join(", ");
    if prompt_ids.len() > shown {
        text += &format!(" and {} more", prompt_ids.len() - shown);
    }
    text
}

fn from(file: Option<&str>) -> String {
    file.map(|file| format!(" ({file})")).unwrap_or_default()
}

impl From<SourceError> for RunError {
    fn from(error: SourceError) -> Self {
        match error {
            SourceError::Stopped => Self::Interrupted,
            error => Self::Source(error),
        }
    }
}

impl From<MakeError> for RunError {
    fn from(error: MakeError) -> Self {
        match error {
            MakeError::Cancelled => Self::Interrupted,
            error => Self::Make(error),
        }
    }
}
