//! What a picture shows and whether that is what was asked for: detections → verdict, confidence and scores.
//!
//! The rules are pure functions on small host data: boxes, scores and masks, read back once per batch. They know
//! nothing of the generator.
//!
//! * [`detection`]: what a detector says of one picture.

pub mod detection;

pub use detection::{BoundingBox, Detection, Mask, MaskError};
