//! Seeded [`noise`], [`schedulers`] as pure functions, and the one denoising loop in [`denoise`].
//! [`python_random`] draws as Python does, where a published procedure does.

pub mod denoise;
mod mt19937;
pub mod noise;
pub mod python_random;
pub mod schedulers;
