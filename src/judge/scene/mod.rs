//! Scene-Bench: scene graphs, the questions about them, and SGScore.
//!
//! What the paper does not say is decided here, and is a setting where it matters: [`questions::Rules`].

pub mod compare;
pub mod graph;
pub mod language;
pub mod questions;
pub mod score;

pub use graph::{Graph, GraphError, Level};
