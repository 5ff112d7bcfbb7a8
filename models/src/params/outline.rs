//! Which parameters a network takes, without making any.

use burn::prelude::*;
use burn::tensor::DType;

use super::source::Origin;
use super::{Gate, Params, Wanted};
use crate::config::ConfigError;

/// The parameters that `build` takes, in its order. None of them is made: this costs neither memory nor time,
/// whatever the size of the network.
///
/// # Errors
/// Those of `build`.
pub fn outline<T>(
    build: impl FnOnce(Params) -> Result<T, ConfigError>,
) -> Result<Vec<Wanted>, ConfigError> {
    outline_of(&|_| false, build)
}

/// As [`outline`], from a source that `contains` the parameters of these names: some networks take what is there.
///
/// # Errors
/// Those of `build`.
pub fn outline_of<T>(
    contains: &dyn Fn(&str) -> bool,
    build: impl FnOnce(Params) -> Result<T, ConfigError>,
) -> Result<Vec<Wanted>, ConfigError> {
    let mut wanted = Vec::new();
    build(Params {
        origin: Origin::Outline {
            wanted: &mut wanted,
            contains,
        },
        prefix: String::new(),
        device: Device::flex(),
        dtype: DType::F32,
        factor: Gate::OPEN,
    })?;
    Ok(wanted)
}
