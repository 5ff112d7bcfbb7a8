//! Captions with pictures: how often what is named first is on the left (table 5 and appendix F of Order Is Not Layout, arXiv
//! 2603.03714).
//!
//! * [`read`]: captions from Parquet, JSON lines, CSV and folders, a part at a time;
//! * [`quality`], [`ontology`], [`pairs`]: which captions name two things of known kinds, joined by "and" or a word of nearness;
//! * [`survey`]: all captions of all files, so that a survey that was stopped goes on where it was;
//! * [`layout`]: on which side the first of the two is, by boxes; [`asked`]: by a vision-language model in two stages;
//! * [`rates`]: what it comes to, with intervals.
//!
//! It holds a part of the captions at a time, and of those that stay 16 bytes each. It knows neither the generator nor
//! detectors' networks, and imports no crate with tensors.

#![warn(clippy::unwrap_used)]

pub mod asked;
pub mod layout;
pub mod ontology;
pub mod pairs;
pub mod quality;
pub mod rates;
pub mod read;
pub mod survey;

#[cfg(test)]
mod tests;
