//! The one way from requests to finished pictures.
//!
//! [`PictureMaker`] puts the rooms below together: batches that go through the engine, best-of-N search, a detector as
//! its judge, attention maps, smaller batches when memory runs out, and the provenance of each picture. Nothing here
//! parses or prints; progress is a [`Hook`](crate::sampling::denoise::Hook), cancellation a flag, and mistakes are
//! [`MakeError`]s. The command line, benchmarks and measurements all call it.
//!
//! ```no_run
//! use prepose::device;
//! use prepose::engine::Blueprint;
//! use prepose::make::{PictureMaker, PictureWriter, check};
//! use prepose::request::{Dtype, ModelRequest};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let model = ModelRequest::new("toybox", Dtype::F32);
//! let blueprint = Blueprint::open(&model)?;
//! let mut request = blueprint.request("a dog to the left of a cat", &model);
//! check(&blueprint, &mut request, None, None)?;
//! let device = device::open("flex".parse()?)?;
//! let engine = blueprint.load(&model, &device)?;
//! let batch = PictureMaker::new(&engine, 1).make(&[request], None, &mut [])?;
//! for picture in &batch.pictures {
//!     PictureWriter::new(device.title(), None, None).save(picture, "dog-cat.png".as_ref())?;
//! }
//! # Ok(())
//! # }
//! ```

mod batch;
mod cancel;
mod error;
pub mod feedback;
mod files;
mod fingerprint;
mod finished;
mod halving;
mod judge;
mod maker;
mod maps;
mod signature;

pub use batch::BatchSize;
pub use error::MakeError;
pub use files::{PictureWriter, SaveError};
pub use finished::{FinishedBatch, FinishedPicture, Seconds};
pub use judge::{CandidateJudge, check, picture_reward, reward_kind};
pub use maker::PictureMaker;
pub use maps::MapOptions;
pub use signature::{Signature, Signing};
