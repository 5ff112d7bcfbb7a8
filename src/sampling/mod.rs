//! Seeded [`noise`], [`schedulers`] as pure functions, and the one denoising loop in [`denoise`].

pub mod denoise;
pub mod noise;
pub mod schedulers;
mod steps;

pub use steps::StepRange;
