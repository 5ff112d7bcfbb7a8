//! Pictures with captions to train on.
//!
//! * [`open`]: what is in a folder or a file, whatever its layout: metadata beside pictures, captions beside pictures, kohya's
//!   folders, Parquet, webdataset's tar files, a run of prepose's own;
//! * [`look`]: which pictures can be read, how large they are, and which are the same;
//! * [`bucket`]: the sizes that pictures are brought to;
//! * [`sides`]: captions that name left or right, which a mirror image would belie;
//! * [`objects`]: phrases with boxes, and where these are after a picture was cut and mirrored;
//! * [`pairs`]: pictures of two things, with captions that leave their sides open and such that say them;
//! * [`order`]: what is trained when, by the seed alone.
//!
//! It knows neither networks nor tensors. A picture that cannot be read is named and left out; of too many of them the whole is
//! refused.

#![warn(clippy::unwrap_used)]

mod beside;
pub mod bucket;
mod error;
mod listed;
pub mod look;
pub mod objects;
mod open;
pub mod order;
pub mod pairs;
#[cfg(feature = "parquet")]
mod parquet;
mod runs;
mod sample;
pub mod sides;
mod webdataset;

pub use error::DatasetError;
pub use open::{Options, open};
pub use sample::{Dataset, Layout, Place, Sample, Skipped};

#[cfg(test)]
mod tests;
