//! Ending a run from outside.

use std::sync::atomic::{AtomicBool, Ordering};

use burn::tensor::Tensor;
use thiserror::Error;

use crate::sampling::denoise::{Hook, HookError, State};

/// What [`Cancel`] ends a run with.
#[derive(Debug, Error)]
#[error("cancelled")]
pub(super) struct Cancelled;

/// Ends a run when its flag is set.
pub(super) struct Cancel<'a>(pub Option<&'a AtomicBool>);

impl Hook for Cancel<'_> {
    fn after_step(&mut self, _state: &mut State, _denoised: &Tensor<4>) -> Result<(), HookError> {
        match self.0.is_some_and(|flag| flag.load(Ordering::Relaxed)) {
            true => Err(Cancelled.into()),
            false => Ok(()),
        }
    }
}

/// The caller's hooks, then `cancel`.
pub(super) fn join<'a>(
    cancel: &'a mut Cancel,
    hooks: &'a mut [&mut dyn Hook],
) -> Vec<&'a mut dyn Hook> {
    let hooks = hooks.iter_mut().map(|hook| &mut **hook as &mut dyn Hook);
    hooks.chain([cancel as &mut dyn Hook]).collect()
}
