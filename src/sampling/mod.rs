//! Seeded [`noise`] and [`schedulers`] as pure functions.

pub mod noise;
