//! Tests of the library: what PyTorch, diffusers and the benchmarks' authors compute, recorded in `fixtures/`, and wrong input.
//!
//! CONTRIBUTING.md has a table of which file tests what.

mod detectors;
mod detr;
mod eyes;
mod eyes_reading;
mod eyes_types;
mod full_size;
mod guidance;
mod make;
mod memory;
mod merge;
mod pictures;
mod pipeline;
mod prompt;
mod rooms;
mod rules;
mod sampling;
mod scenes;
mod schedules;
mod store;
mod suites;
#[path = "../support/mod.rs"]
mod support;
mod toybox;
mod training;
