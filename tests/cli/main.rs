//! Tests of the program, run as a user runs it, wrong input first. They need no network.
//!
//! CONTRIBUTING.md has a table of which file tests what.

mod audit;
mod bench;
mod check_inputs;
mod check_pictures;
mod check_records;
mod experiments;
mod generate;
mod memory;
mod pages;
mod parse;
mod program;
mod report;
mod run;
mod score;
mod selftest;
mod suites;
#[path = "../support/mod.rs"]
mod support;
