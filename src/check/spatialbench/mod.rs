//! SpatialBench-UC (Rostane 2026, arXiv:2601.13462): PASS, FAIL or UNDECIDABLE, and how sure.
//!
//! * [`config`]: what decides, read from a released `checker_config.yaml`;
//! * [`rule`]: from detections to a verdict and its confidence;
//! * [`record`]: the records, and deciding them again;
//! * [`verdict`]: the verdicts and the reasons to abstain;
//! * [`metrics`]: what the records of a run add up to;
//! * [`prompts`]: what the pictures of a prompt, and prompts that say the same, got;
//! * [`tables`]: the tables of the paper; [`results`]: all files of a checked run.

pub mod config;
pub mod metrics;
pub mod prompts;
pub mod record;
pub mod results;
pub mod rule;
pub mod tables;
pub mod verdict;
mod yaml;

pub use config::{CheckerConfig, ConfigError};
pub use metrics::{Buckets, Counts, Metrics, Provenance, metrics_json};
pub use record::{Record, RecordError, Redecided, joint, read_records, write_records};
pub use rule::{
    Components, Decision, Geometry, Look, Question, RelationError, Rule, Secondary, Selected, Size,
};
pub use verdict::{Reason, Verdict};

#[cfg(test)]
mod tests;
