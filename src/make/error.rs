//! Why pictures could not be made.

use prepose_weights::WeightsError;
use thiserror::Error;

use super::cancel::Cancelled;
use crate::detect::reward::RewardError;
use crate::engine::EngineError;
use crate::sampling::denoise::DenoiseError;

/// Why pictures could not be made.
#[derive(Debug, Error)]
pub enum MakeError {
    /// The engine's reason, a caller's hook included.
    #[error(transparent)]
    Engine(Box<EngineError>),
    /// The flag of [`PictureMaker::with_cancel`](super::PictureMaker::with_cancel) was set; nothing is left of the
    /// batch at hand.
    #[error("cancelled")]
    Cancelled,
    /// A search scores pictures by what a detector sees, and there is none.
    #[error("candidates are scored by what a detector sees, but there is no detector")]
    NoJudge,
    /// A search scores pictures by what a judge answers, and there is none.
    #[error("candidates are scored by a judge, but none was named")]
    NoCandidateJudge,
    /// The reward has nothing to say about the prompt.
    #[error("cannot search for {prompt:?}")]
    Reward {
        /// The prompt.
        prompt: String,
        /// Why not.
        source: Box<RewardError>,
    },
    /// The checkpoint's files could not be hashed.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// The thread that hashes the checkpoint has died.
    #[error("hashing the checkpoint failed")]
    Fingerprint,
}

impl From<EngineError> for MakeError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Denoise(DenoiseError::Hook(hook)) if hook.is::<Cancelled>() => {
                Self::Cancelled
            }
            error => Self::Engine(Box::new(error)),
        }
    }
}
