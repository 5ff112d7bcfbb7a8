//! Whole benchmarks: sets of prompts, and runs over them that can be killed, taken up again, divided and joined.
//!
//! * [`method`]: what is compared; [`plan`]: every picture of a run, and what decides it;
//! * [`requests`]: what the engine is asked for; [`run`]: the runner; [`maker`]: its pictures, [`elsewhere`]: those of others; [`examiner`]: who looks
//!   at them; [`sample`]: what is known of one;
//! * [`growth`]: runs that get more methods, prompts or seeds; [`folder`]: the run's files; [`provenance`]: who made them, and when; [`shard`]: one part of a divided run;
//!   [`merge`]: joining the parts;
//! * [`sets`]: the benchmarks' prompts, and those of one's own; [`propose`]: prompts by language models;
//!   [`experiments`]: the runs that the papers' experiments need.

pub mod elsewhere;
pub mod examiner;
pub mod experiments;
pub mod folder;
pub mod growth;
pub mod judge;
pub mod maker;
pub mod merge;
pub mod method;
pub mod plan;
pub mod propose;
pub mod provenance;
pub mod requests;
pub mod run;
pub mod sets;
pub mod shard;

pub use prepose_check::prompt::{Edit, SuitePrompt};
pub use prepose_check::sample;

/// A set of prompts.
#[derive(Clone, Debug, PartialEq)]
pub struct Suite {
    /// What it is called on the command line.
    pub name: String,
    /// Of the set.
    pub version: String,
    /// In their order.
    pub prompts: Vec<SuitePrompt>,
    /// How many pictures of each prompt its authors make.
    pub pictures_per_prompt: usize,
}

#[cfg(test)]
mod tests;
