//! # prepose
//!
//! A Stable Diffusion engine on [Burn](https://burn.dev) that puts things where the prompt says.
//! The rooms, in the order in which data flows:
//!
//! * [`prompt`]: what the text says: weights, chunks, token spans;
//! * [`sampling`]: seeded noise, schedulers, and the one denoising loop with its hook points.

pub mod prompt;
pub mod sampling;
