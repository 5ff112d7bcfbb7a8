//! Tests of the program, run as a user runs it, wrong input first. They need no network.
//!
//! CONTRIBUTING.md has a table of which file tests what.

#[cfg(target_os = "linux")]
mod attack;
mod audit;
mod bench;
mod check_inputs;
mod check_pictures;
mod check_records;
mod commands;
mod experiments;
mod first_day;
mod generate;
mod generate_again;
mod generate_sheet;
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
