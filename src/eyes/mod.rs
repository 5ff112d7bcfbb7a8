//! What else looks at pictures than detectors: how far away things are, which pixels are theirs, and whether a text
//! describes them.
//!
//! * [`DepthEstimator`]: Depth Anything, for rules on depth;
//! * [`Segmenter`]: SAM, for rules on masks;
//! * [`ClipScorer`]: how well a text describes a picture;
//! * [`RewardScorer`]: ImageReward, how well people would like a picture for its prompt;
//! * [`reading`]: the one place where they wait for the device;
//! * [`features`]: what measures of quality compare, which [`kept`] keeps in files.

mod clip_score;
mod depth;
pub mod features;
mod image_reward;
pub mod kept;
pub mod reading;
mod segment;

use prepose_models::pixels::{PixelsError, Rgb};
use prepose_weights::tokenizer::TokenizerError;
use thiserror::Error;

use crate::check::rules::depth::DepthError;
use crate::picture::Picture;

pub use clip_score::{ClipScorer, PROMPT_OF_PAPER, clip_score};
pub use depth::{DepthEstimator, eight_bits};
pub use image_reward::RewardScorer;
pub use segment::{MaskChoice, Segmenter};

/// Why a picture could not be looked at.
#[derive(Debug, Error)]
pub enum EyeError {
    /// It is none, or too narrow.
    #[error(transparent)]
    Pixels(#[from] PixelsError),
    /// The network gave what is no depth.
    #[error(
        "the depth network gave no depths: {0}; its weights are not those of a depth network, or overflow in a \
         half-precision type"
    )]
    Depth(#[from] DepthError),
    /// A box without extent or with corners that are no numbers.
    #[error(
        "{corners:?} is not a box; it should be [x0, y0, x1, y1] in pixels with x0 <= x1 and y0 <= y1"
    )]
    Box {
        /// As given.
        corners: [f64; 4],
    },
    /// A text that the tokenizer cannot read.
    #[error("a text cannot be read")]
    Text(#[from] TokenizerError),
    /// Numbers that are none.
    #[error(
        "the network gave NaN or infinite numbers; its weights are broken, or overflow in a half-precision type"
    )]
    NonFinite,
}

/// The bytes of a picture as the networks take them.
fn rgb(picture: &Picture) -> Result<Rgb<'_>, PixelsError> {
    Rgb::new(picture.width, picture.height, &picture.rgb)
}
