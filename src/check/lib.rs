//! Decides whether a picture shows what was asked for: detections → verdict, confidence and scores.
//!
//! Owns the checker's rule and the other published rules, the records, metrics and tables of SpatialBench-UC, what is
//! written down of each picture of a run, and the audit of the checker by people. Everything is a pure function on text
//! and small host data (boxes, scores, masks, depths); it knows neither detectors nor the generator, reads no files
//! but depth maps and needs no tensors. It may import `prepose-scene`, `prepose-draw`, `prepose-statistics` and `prepose-untrusted`.
//!
//! * [`detection`]: what a detector says of one picture;
//! * [`ask`]: from a prompt's scene to what a detector is asked;
//! * [`reward`]: how good a candidate of a search is;
//! * [`vocabulary`]: from the prompt's words to a detector's labels;
//! * [`spatialbench`]: SpatialBench-UC's rule, records, metrics and tables;
//! * [`rules`]: the other published rules: PSE, VISOR, GenEval, T2I-CompBench, HRS-Bench, OTS-Bench, OPSE;
//! * [`perturb`]: small changes of a picture under which a verdict should hold;
//! * [`prompt`], [`manifest`], [`sample`]: a benchmark's prompt, and what is written down of one picture of it;
//! * [`audit`]: how far the checker can be trusted, by the word of people;
//! * [`python_random`]: draws as Python does, where a published procedure does;
//! * [`json`]: JSON to the byte as the released records have it.

#![warn(clippy::unwrap_used)]

pub mod ask;
pub mod audit;
pub mod clock;
pub mod detected;
pub mod detection;
pub mod json;
pub mod manifest;
pub mod mask;
pub mod perturb;
pub mod prompt;
pub mod reward;
pub mod rules;
pub mod run_lengths;
pub mod sample;
pub mod seal;
pub mod shards;
pub mod spatialbench;
pub mod vocabulary;

#[cfg(test)]
mod tests;

pub use prepose_statistics::python_random;

pub use detection::{BoundingBox, Detection};
pub use mask::{Mask, MaskError};
