//! What is asked of a picture.

use prepose_scene::Relation;
use thiserror::Error;

/// Why a question cannot be answered by this rule.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "the checker cannot say whether something is {relation:?}: two boxes show left, right, above, below and the \
     diagonals between them, but no distance and no depth"
)]
pub struct RelationError {
    /// What was asked.
    pub relation: String,
}

/// A picture's width and height in pixels.
pub type Size = [u32; 2];

/// What is asked of a picture: does `object_a` stand in `relation` to `object_b`?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// How `object_a` should stand to `object_b`.
    pub relation: Relation,
    /// The relation's subject, as the detector's label; case does not matter.
    pub object_a: String,
    /// Its object, likewise.
    pub object_b: String,
}
