//! Why a row could not be measured.

use prepose_weights::WeightsError;
use thiserror::Error;

use super::row::What;
use crate::device::DeviceError;
use crate::engine::EngineError;
use crate::make::MakeError;
use crate::request::Dtype;

/// Why a row could not be measured.
#[derive(Debug, Error)]
pub enum BenchError {
    /// The device does not compute in that type.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The device failed, for want of memory for example.
    #[error("the device failed: {reason}")]
    Execution {
        /// The backend's words.
        reason: String,
    },
    /// The checkpoint cannot be used.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The detector of a search cannot be used.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// The pictures cannot be made.
    #[error(transparent)]
    Make(#[from] MakeError),
    /// No such guidance.
    #[error("there is no guided step {name:?}")]
    Variant {
        /// As asked for.
        name: String,
    },
    /// Numbers that mean nothing, so that their time means nothing either.
    #[error("the result is not finite in {dtype:?}")]
    NonFinite {
        /// The type of the weights.
        dtype: Dtype,
    },
    /// The row is a matter of whole processes.
    #[error("{what:?} cannot be measured within a process")]
    Outside {
        /// What was asked for.
        what: What,
    },
}
