//! Why a picture could not be made.

use prepose_weights::WeightsError;
use thiserror::Error;

use crate::dtype::Dtype;
use crate::guidance::GuidanceError;
use crate::memory::OutOfMemory;
use crate::prompt::PromptError;
use crate::prompt::scene::SceneError;
use crate::prompt::schedule::ScheduleError;
use crate::request::{PicturePromptError, RequestError, SearchError};
use crate::sampling::denoise::DenoiseError;
use crate::sampling::schedulers::SchedulerError;

/// Why a picture could not be made.
#[derive(Debug, Error)]
pub enum EngineError {
    /// The request makes no sense.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// A classifier of relations that cannot be used.
    #[error(transparent)]
    Steer(#[from] prepose_weights::steer::SteerError),
    /// The prompt or the negative prompt cannot be used.
    #[error("cannot use the {which} {text:?}")]
    Prompt {
        /// `prompt` or `negative prompt`.
        which: &'static str,
        /// Its beginning.
        text: String,
        /// What is wrong with it.
        source: PromptError,
    },
    /// The prompt or the negative prompt changes at a step that there is not.
    #[error("cannot follow the {which} {text:?}")]
    Schedule {
        /// `prompt` or `negative prompt`.
        which: &'static str,
        /// Its beginning.
        text: String,
        /// What is wrong with it.
        source: ScheduleError,
    },
    /// The checkpoint could not be loaded.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// The checkpoint's or the chosen scheduler cannot be used.
    #[error(transparent)]
    Scheduler(#[from] SchedulerError),
    /// The guidance cannot be had as asked.
    #[error(transparent)]
    Guidance(#[from] GuidanceError),
    /// The search cannot be had as asked.
    #[error(transparent)]
    Search(#[from] SearchError),
    /// The prompt's objects and relations cannot be used.
    #[error("cannot use the scene of {prompt:?}")]
    Scene {
        /// The prompt.
        prompt: String,
        /// What is wrong with it.
        source: SceneError,
    },
    /// A picture that the request names could not be read.
    #[error("cannot use the {which} {}", path.display())]
    Picture {
        /// `start picture`, `picture prompt` or `mask`.
        which: &'static str,
        /// The file.
        path: std::path::PathBuf,
        /// The reason.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A picture that the request names is not the one it was made with.
    #[error(
        "{} has changed since the picture was made (its SHA-256 is not the recorded one)",
        path.display()
    )]
    PictureChanged {
        /// The file.
        path: std::path::PathBuf,
    },
    /// A picture cannot be shown to the network as asked.
    #[error(transparent)]
    PicturePrompt(#[from] PicturePromptError),
    /// The loop ended early.
    #[error(transparent)]
    Denoise(#[from] DenoiseError),
    /// There is not enough memory.
    #[error(transparent)]
    OutOfMemory(Box<OutOfMemory>),
    /// The autoencoder's output is not a picture.
    #[error(
        "the decoded picture {picture} of the batch is not finite although the latents are; the autoencoder \
         overflows in {dtype:?}; use --dtype f32, or --vae with a fixed autoencoder"
    )]
    NonFinitePicture {
        /// Which picture of the batch, from 0.
        picture: usize,
        /// The type of the weights.
        dtype: Dtype,
    },
}

impl EngineError {
    /// The want of memory that this is about, also where a hook ran into it.
    pub fn out_of_memory(&self) -> Option<&OutOfMemory> {
        match self {
            EngineError::OutOfMemory(short) => Some(short),
            EngineError::Denoise(DenoiseError::Hook(hook)) => {
                hook.downcast_ref::<EngineError>()?.out_of_memory()
            }
            _ => None,
        }
    }
}
