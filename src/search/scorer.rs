//! What a search goes by.

use crate::sampling::denoise::{Hook, HookError};

/// Scores the pictures of a batch while they are made.
pub trait Scorer: Hook {
    /// How good each picture of the batch looks so far, in the order of its rows; higher is better. Scores of
    /// different batches at the same step can be compared.
    ///
    /// # Errors
    /// What scores them failed.
    fn scores(&mut self) -> Result<Vec<f64>, HookError>;
}
