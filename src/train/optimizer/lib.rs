//! How weights move while they are trained, as functions of slices of f32: nothing here knows a network or a tensor.
//!
//! * [`rule`]: AdamW, AdamW with 8-bit moments, Adafactor;
//! * [`rate`]: the learning rate over the steps;
//! * [`average`]: the running average of weights (EMA);
//! * [`clip`]: one norm over all gradients;
//! * [`objective`]: what the network should say, and how much each sample's error counts;
//! * [`draws`]: random numbers that depend on nothing but a seed and a number, so that a training that goes on needs no
//!   generator's state;
//! * [`scale`]: what losses are multiplied with where gradients have 16 bits;
//! * [`state`]: all of it in one file, which is whole or not there.
//!
//! Each rule is compared with PyTorch, transformers, bitsandbytes or diffusers (`fixtures/training`).

#![warn(clippy::unwrap_used)]

mod adafactor;
mod adamw;
pub mod average;
mod blockwise;
pub mod clip;
pub mod draws;
pub mod objective;
pub mod rate;
pub mod rule;
pub mod scale;
pub mod state;

pub use adafactor::Adafactor;
pub use adamw::AdamW;

#[cfg(test)]
mod tests;
