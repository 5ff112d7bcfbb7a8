//! # prepose
//!
//! A Stable Diffusion engine on [Burn](https://burn.dev) that puts things where the prompt says.
//!
//! The rooms, in the order in which data flows:
//!
//! * [`request`]: everything that decides what one picture looks like;
//! * [`prompt`]: what the text says: weights, chunks, token spans;
//! * [`sampling`]: seeded noise, schedulers, and the one denoising loop with its hook points;
//! * [`guidance`]: what acts inside the loop to put things where they belong;
//! * [`engine`]: text → conditioning → denoise → decode, on the networks of a checkpoint;
//! * [`attention_maps`]: where the network looks for each word;
//! * [`device`]: choosing where it runs;
//! * [`dtype`]: the type of the weights;
//! * [`memory`]: what runs take, and what there is;
//! * [`search`]: best-of-N noise search;
//! * [`make`]: the one way from requests to finished pictures;
//! * [`selftest`]: whether a device computes what it should;
//! * [`check`]: what a picture shows, and whether that is what was asked for;
//! * [`audit`]: how far the checker can be trusted, by the word of people;
//! * [`mod@bench`]: speed and memory, measured;
//! * [`detect`]: detectors, from pictures to labelled boxes;
//! * [`plot`]: plots as SVG and PNG; [`table`]: tables as CSV and Markdown;
//! * [`picture`]: pictures as bytes;
//! * [`output`]: pictures that carry their request, and the manifest;
//! * [`report`]: tables, plots and a page of what runs came to;
//! * [`store`]: where the files of a run are;
//! * [`suite`]: whole benchmarks, and the runner.

#![warn(clippy::unwrap_used)]

/// What a picture shows, and whether that is what was asked for: the rules of `prepose-check`, and detectors.
pub mod check {
    pub use prepose_check::*;

    pub use crate::detect;
}

pub use prepose_check::audit;
pub use prepose_draw::{plot, table};
pub use prepose_report as report;
pub use prepose_store as store;

pub mod attention_maps;
pub mod bench;
pub mod detect;
pub mod device;
pub mod dtype;
pub mod engine;
pub mod guidance;
pub mod make;
pub mod memory;
pub mod output;
pub mod picture;
pub mod prompt;
pub mod request;
pub mod sampling;
pub mod search;
pub mod selftest;
pub mod suite;
