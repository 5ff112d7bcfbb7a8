//! Tests of the program, run as a user runs it, wrong input first. They need no network.
//!
//! CONTRIBUTING.md has a table of which file tests what.

mod agree;
#[cfg(target_os = "linux")]
mod attack;
mod audit;
mod bench;
mod check_detectors;
mod check_inputs;
mod check_pictures;
mod check_records;
mod commands;
mod corpus;
mod cure;
mod detect;
mod experiments;
mod eyes;
mod first_day;
mod generate;
mod generate_again;
mod generate_guided;
mod generate_sheet;
mod ip_adapter;
mod judge;
mod judge_runs;
mod memory;
mod pages;
mod parse;
mod program;
mod propose;
mod refine;
mod report;
mod run;
mod savings;
mod score;
mod score_eyes;
mod score_quality;
mod score_robustness;
mod selftest;
#[cfg(unix)]
mod serve;
#[cfg(unix)]
mod sources;
mod spatialgen;
mod suites;
#[path = "../support/mod.rs"]
mod support;
mod train;
