//! Pictures over HTTP.
//!
//! What makes pictures is behind two traits: a [`Studio`] says what it can do and turns what somebody [`Wanted`] into a
//! [`Plan`], and its [`Maker`] makes batches on a thread of its own. Between them and the network stand
//!
//! * [`guard`]: who may ask: tokens, the host's name, other sites;
//! * [`queue`]: what waits, fair among callers, compatible pictures together;
//! * [`jobs`]: what became of each request, and its events;
//! * [`gallery`]: finished pictures in a folder;
//! * [`http`]: three families of routes: the page's own, OpenAI's images, AUTOMATIC1111's;
//! * [`server`]: connections with limits, and an orderly end.
//!
//! No path that comes from a client reaches the disk: checkpoints, LoRAs and runs go by names from a list, pictures by
//! identifiers that are made here.

#![warn(clippy::unwrap_used)]

mod app;
pub mod gallery;
pub mod guard;
pub mod http;
pub mod jobs;
mod metrics;
pub mod page;
mod patient;
mod picture;
mod problem;
pub mod queue;
mod random;
pub mod runs;
pub mod server;
mod studio;
mod wire;
mod worker;

pub use app::{App, Limits, Setup};
pub use problem::{Problem, Refusal};
pub use studio::{
    Batch, Finished, Kept, Kind, Maker, MapImage, Plan, Studio, Taken, Trouble, Unit, Watch,
};
pub use wire::{
    Init, LoraWanted, PictureWanted, RegionWanted, RequestWanted, SearchWanted, SecondPassWanted,
    Wanted,
};
