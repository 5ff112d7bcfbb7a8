//! What a picture shows and whether that is what was asked for: detections → verdict, confidence and scores.
//!
//! The rules are pure functions on small host data: boxes, scores and masks, read back once per batch. They know
//! nothing of the generator.
//!
//! * [`detect`]: detectors, from pictures to detections;
//! * [`detection`]: what a detector says of one picture;
//! * [`ask`]: from a prompt's scene to what a detector is asked;
//! * [`reward`]: how good a candidate of a search is;
//! * [`vocabulary`]: from the prompt's words to a detector's labels;
//! * [`spatialbench`]: SpatialBench-UC's rule, records, metrics and tables;
//! * [`rules`]: the other published rules: PSE, VISOR, GenEval, T2I-CompBench, HRS-Bench, OTS-Bench, OPSE;
//! * [`perturb`]: small changes of a picture under which a verdict should hold;
//! * [`json`]: JSON to the byte as the released records have it.

pub mod ask;
pub mod detect;
pub mod detection;
pub mod json;
pub mod perturb;
pub mod reward;
pub mod rules;
pub mod run_lengths;
pub mod spatialbench;
pub mod vocabulary;

pub use detection::{BoundingBox, Detection, Mask, MaskError};
