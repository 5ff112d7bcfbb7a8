//! Best-of-N noise search: many noises for one prompt, the best picture is kept.
//!
//! Candidates are scored while they are made, so those that go wrong can be dropped early (successive
//! halving; Jamieson and Talwalkar, 2016): where things are is decided in the first steps.

mod attention;
mod best_of;
mod pictures;
mod scorer;

pub use attention::AttentionScorer;
pub use best_of::{Candidate, Found, Search, candidate_seed, check, unet_calls};
pub use pictures::PictureScorer;
pub use scorer::Scorer;

pub use crate::request::{Pruning, RewardKind, SearchConfig, SearchError};
