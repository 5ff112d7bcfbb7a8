//! Which device a user asks for.

use std::fmt;
use std::str::FromStr;

use super::{Backend, DeviceError};

/// What `--device` says: `auto`, or a backend with an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceSpec {
    /// The first usable backend of [`Backend::ALL`]; software devices do not count.
    Auto,
    /// One backend's device number `index`.
    One {
        /// Which backend.
        backend: Backend,
        /// Which of its devices, in its own order.
        index: usize,
    },
}

impl fmt::Display for DeviceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceSpec::Auto => f.write_str("auto"),
            DeviceSpec::One { backend, index: 0 } => write!(f, "{backend}"),
            DeviceSpec::One { backend, index } => write!(f, "{backend}:{index}"),
        }
    }
}

impl FromStr for DeviceSpec {
    type Err = DeviceError;

    fn from_str(text: &str) -> Result<Self, DeviceError> {
        let unknown = || DeviceError::Unknown { spec: text.into() };
        let (name, index) = match text.split_once(':') {
            Some((name, index)) => (name, index.parse().map_err(|_| unknown())?),
            None => (text, 0),
        };
        match name {
            "auto" if text == "auto" => Ok(DeviceSpec::Auto),
            "cpu" => Ok(DeviceSpec::One {
                backend: Backend::Flex,
                index,
            }),
            _ => Backend::ALL
                .into_iter()
                .find(|backend| backend.name() == name)
                .map(|backend| DeviceSpec::One { backend, index })
                .ok_or_else(unknown),
        }
    }
}
