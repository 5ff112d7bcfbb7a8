//! What can be wrong with a prompt that changes on the way.

use thiserror::Error;

use super::MAX_DEPTH;

/// Why a schedule cannot be followed.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ScheduleError {
    /// A change that would come after the last step, or never.
    #[error(
        "{construct:?} changes after step {when}, but there are {steps} steps; write a whole number from 1 to {}, or a share below 1 such as 0.5",
        steps.saturating_sub(1)
    )]
    Late {
        /// The construct as written.
        construct: String,
        /// When, as written.
        when: String,
        /// Steps in all.
        steps: usize,
    },
    /// A change that would come after the last step of two passes.
    #[error(
        "{construct:?} changes after step {when}, but the second pass ends after step {}: {first} of the first pass and {steps} of \
         its own; write a whole number below that, or a share below 2, where 1.5 is the middle of the second pass",
        first + steps
    )]
    LateSecond {
        /// The construct as written.
        construct: String,
        /// When, as written.
        when: String,
        /// Steps of the first pass.
        first: usize,
        /// Steps of the second.
        steps: usize,
    },
    /// What one of two passes has of the prompt would read as something else.
    #[error(
        "in one of the two passes this leaves {0:?}, which reads as a change that was not written; keep changes apart from colons and \
         numbers in square brackets, or give the second pass a prompt of its own"
    )]
    Joined(String),
    /// More brackets inside brackets than [`MAX_DEPTH`].
    #[error("square brackets are nested more than {MAX_DEPTH} deep")]
    TooDeep,
}
