//! Why a training cannot begin, or ends.

use std::path::{Path, PathBuf};

use prepose_dataset::DatasetError;
use prepose_optimizer::state::StateError;
use prepose_store::files::WriteError;
use prepose_weights::{Family, WeightsError};
use thiserror::Error;

use crate::engine::EngineError;
use crate::make::{MakeError, SaveError};

/// Why a training cannot begin, or ends.
#[derive(Debug, Error)]
pub enum TrainError {
    /// There is nothing to train on.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// The checkpoint cannot be loaded, or not be trained so.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// A caption or a picture cannot be encoded.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A sample picture cannot be made.
    #[error(transparent)]
    Make(#[from] MakeError),
    /// A sample picture cannot be written.
    #[error(transparent)]
    Save(#[from] SaveError),
    /// The state cannot be read or written.
    #[error(transparent)]
    State(#[from] StateError),
    /// A file cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A file of the training cannot be read.
    #[error("cannot read {}: {why}", path.display())]
    Read {
        /// It.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// A network of which no classifier can be trained.
    #[error(transparent)]
    Steer(#[from] prepose_weights::steer::SteerError),
    /// Maps that cannot be recorded.
    #[error(transparent)]
    Guidance(#[from] crate::guidance::GuidanceError),
    /// Too few pictures show clearly what a classifier is to see.
    #[error(
        "of {pictures} pictures only {kept} clearly show how their two objects stand ({counts}), and a classifier needs at \
         least {least} of each relation; give more --most-pictures, or a larger run with --pictures"
    )]
    FewPictures {
        /// That were looked at.
        pictures: usize,
        /// That can be used.
        kept: usize,
        /// How many of each class.
        counts: String,
        /// Of each class.
        least: usize,
    },
    /// All pictures are of one pair of objects, which would be tried, with none left to train on.
    #[error(
        "all pictures are of one pair of objects; a classifier is tried on pairs that it was not trained on, so give \
         pictures of at least two pairs"
    )]
    OnePair,
    /// A setting out of its range.
    #[error("{name} is {value}, but {range}")]
    Setting {
        /// Which.
        name: &'static str,
        /// What it is.
        value: String,
        /// What it may be.
        range: &'static str,
    },
    /// The folder has another training.
    #[error(
        "{} has another training, in which {differences}; give those settings to continue it, or another folder",
        path.display()
    )]
    Differs {
        /// The folder.
        path: PathBuf,
        /// Only what differs.
        differences: String,
    },
    /// Another process trains in the folder.
    #[error("another training is at work in {}; wait for it to finish, or give another folder", .0.display())]
    Taken(PathBuf),
    /// Captions in the other order were asked for, and there are none.
    #[error(
        "no caption names two objects in an order that can be reversed, as \"a dog and a cat\" and \"a cat and a dog\"; \
         the first is {first:?}"
    )]
    NoExchange {
        /// The first caption.
        first: String,
    },
    /// The network predicts what no loss here is for.
    #[error(
        "this checkpoint predicts clean latents, and only those that predict noise or velocity can be trained"
    )]
    Prediction,
    /// GLIGEN's layers for another family, for which there are none.
    #[error(
        "GLIGEN's layers are for checkpoints of Stable Diffusion 1.x, but this one is of {0}; train a LoRA, or the UNet"
    )]
    Grounding(Family),
    /// Buckets without any size, or a size that latents cannot have.
    #[error("{0}")]
    Sizes(String),
    /// A loss that is no number.
    #[error(
        "the loss of step {step} is {loss} at {sample}; {}; a lower --rate, or --clip, may help",
        last_state(*kept, path)
    )]
    NotFinite {
        /// From 1.
        step: u64,
        /// NaN or infinite.
        loss: f64,
        /// Of which the loss is; or all of the step, where only the gradient is no number.
        sample: String,
        /// The step of the last state; 0: there is none.
        kept: u64,
        /// The state.
        path: PathBuf,
    },
    /// It was asked to stop.
    #[error("stopped after step {step} of {steps}; the same command goes on from there")]
    Stopped {
        /// Steps that are done.
        step: u64,
        /// Of how many.
        steps: u64,
    },
}

/// Where the last good state is.
fn last_state(kept: u64, path: &Path) -> String {
    match kept {
        0 => "no state was kept before it".into(),
        kept => format!(
            "the last good state, of step {kept}, is in {}",
            path.display()
        ),
    }
}
