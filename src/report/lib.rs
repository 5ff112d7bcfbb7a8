//! Reports what runs came to: tables with the papers' column names, plots, and one HTML page that opens offline.
//!
//! Owns reading runs back, the tables and plots, the page, and the papers' [`experiments`] (their figures, beside what
//! was published). It runs nothing and knows no tensors. It may import `prepose-scene`, `prepose-draw`, `prepose-check`,
//! `prepose-store` and `prepose-untrusted`.
//!
//! * [`source`]: runs and single methods read from where they are, finished or not;
//! * [`model`]: what was read, picture by picture;
//! * [`tables`]: the tables;
//! * [`bootstrap`]: how far their rates would change with other prompts;
//! * [`paired`]: methods against each other on the same prompts and seeds;
//! * [`breakdown`]: which objects, pairs and prompts fail;
//! * [`scaling`]: what searching longer brings;
//! * [`figures`]: the plots;
//! * [`published`]: SpatialBench-UC's tables beside the published ones;
//! * [`experiments`]: what the papers' experiments came to;
//! * [`judged`]: what a judge says of the same pictures;
//! * [`people`]: what people say of the same pictures;
//! * [`pictures`]: where the page finds the pictures;
//! * [`quality`]: what networks' features say of sets of pictures;
//! * [`gallery`]: the pictures as the page's script reads them;
//! * [`page`]: the page.

#![warn(clippy::unwrap_used)]

pub mod bootstrap;
pub mod breakdown;
mod error;
pub mod experiments;
pub mod figures;
pub mod gallery;
pub mod judged;
mod lines;
pub mod model;
pub mod page;
pub mod paired;
pub mod people;
pub mod pictures;
pub mod published;
pub mod quality;
pub mod scaling;
mod scored;
pub mod source;
mod stats;
pub mod tables;
#[cfg(test)]
mod testing;
mod titled;

pub use error::SourceError;
pub use model::{Method, Picture, Place, Report, RunInfo};
pub use source::read;
