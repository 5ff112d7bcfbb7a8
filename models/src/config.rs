//! What the configurations have in common: errors, and values that diffusers writes in several ways.

use serde::Deserialize;
use serde_json::{Map, Value};
use thiserror::Error;

/// A configuration that these networks cannot be built from.
#[derive(Debug, Error, Clone, PartialEq)]
pub enum ConfigError {
    /// A feature of the reference library that is not implemented here.
    #[error(
        "`{key}` is {value} in the configuration of the {network}; only {supported} is supported"
    )]
    Unsupported {
        /// The kind of network, as messages call it.
        network: &'static str,
        /// The key in `config.json`.
        key: String,
        /// Its value, as JSON.
        value: String,
        /// The values that are supported.
        supported: String,
    },
    /// A value that no network can have.
    #[error("`{key}` is {value} in the configuration of the {network}, but {reason}")]
    Invalid {
        /// The kind of network, as messages call it.
        network: &'static str,
        /// The key in `config.json`.
        key: String,
        /// Its value, as JSON.
        value: String,
        /// Why it cannot be.
        reason: String,
    },
}

/// A value given once for all blocks or once for each.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum OneOrMany {
    /// The same value for all blocks.
    One(usize),
    /// For each block, from the first down block to the last.
    Many(Vec<usize>),
}

impl OneOrMany {
    /// The value of the first block; none for an empty list.
    pub fn first(&self) -> Option<usize> {
        match self {
            Self::One(value) => Some(*value),
            Self::Many(values) => values.first().copied(),
        }
    }

    /// One value for each of `n` blocks, or none if the list has another length.
    pub(crate) fn spread(&self, n: usize) -> Option<Vec<usize>> {
        match self {
            Self::One(value) => Some(vec![*value; n]),
            Self::Many(values) => (values.len() == n).then(|| values.clone()),
        }
    }
}

/// Keys that a configuration does not declare, as they stand in `config.json`.
pub(crate) type Rest = Map<String, Value>;

/// The largest numbers that a configuration may ask for. Each is several times that of the largest published network;
/// what is beyond would fill the memory before it is found that the weights are others.
pub(crate) mod limit {
    /// Channels of a layer.
    pub const CHANNELS: usize = 1 << 16;
    /// Channels of pictures and latents.
    pub const PLANES: usize = 1 << 10;
    /// Layers or blocks one after the other.
    pub const LAYERS: usize = 1 << 7;
    /// Resolutions.
    pub const LEVELS: usize = 8;
    /// Tokens of a sequence, and pixels along a side.
    pub const LENGTH: usize = 1 << 16;
    /// Tokens of a vocabulary.
    pub const VOCABULARY: usize = 1 << 22;
}

/// Makes the errors of one network's configuration.
#[derive(Clone, Copy)]
pub(crate) struct Check {
    pub network: &'static str,
}

impl Check {
    pub fn unsupported(
        self,
        key: &str,
        value: impl Into<Value>,
        supported: impl Into<String>,
    ) -> ConfigError {
        ConfigError::Unsupported {
            network: self.network,
            key: key.to_string(),
            value: value.into().to_string(),
            supported: supported.into(),
        }
    }

    pub fn invalid(
        self,
        key: &str,
        value: impl std::fmt::Debug,
        reason: impl Into<String>,
    ) -> ConfigError {
        ConfigError::Invalid {
            network: self.network,
            key: key.to_string(),
            value: format!("{value:?}"),
            reason: reason.into(),
        }
    }

    /// Refuses every key of `table` that has another value in `rest` than the one given there. A
    /// missing key has its default, which is that value, and a list stands for its elements.
    pub fn only(self, rest: &Rest, table: &[(&str, Value)]) -> Result<(), ConfigError> {
        for (key, neutral) in table {
            let Some(value) = rest.get(*key) else {
                continue;
            };
            let same = |value: &Value| match (value.as_f64(), neutral.as_f64()) {
                (Some(value), Some(neutral)) => value == neutral,
                _ => value == neutral,
            };
            let neutral_list = value
                .as_array()
                .is_some_and(|values| values.iter().all(same));
            if !same(value) && !neutral_list {
                return Err(self.unsupported(key, value.clone(), neutral.to_string()));
            }
        }
        Ok(())
    }

    /// Refuses a configuration that names another class than `classes`.
    pub fn class(self, rest: &Rest, classes: &[&str]) -> Result<(), ConfigError> {
        match rest.get("_class_name").and_then(Value::as_str) {
            Some(class) if !classes.contains(&class) => {
                Err(self.unsupported("_class_name", class, classes.join(" or ")))
            }
            _ => Ok(()),
        }
    }

    /// Refuses block types other than `supported`.
    pub fn block_types(
        self,
        key: &str,
        types: &[String],
        supported: &[&str],
    ) -> Result<(), ConfigError> {
        match types.iter().find(|t| !supported.contains(&t.as_str())) {
            Some(other) => Err(self.unsupported(key, other.as_str(), supported.join(" or "))),
            None => Ok(()),
        }
    }

    /// Refuses a number that is 0 or larger than `limit`.
    pub fn within(
        self,
        key: &str,
        values: impl IntoIterator<Item = usize>,
        limit: usize,
    ) -> Result<(), ConfigError> {
        let mut values = values.into_iter();
        match values.find(|value| !(1..=limit).contains(value)) {
            Some(value) => {
                Err(self.invalid(key, value, format!("it must be between 1 and {limit}")))
            }
            None => Ok(()),
        }
    }

    /// Refuses channels of no resolution, or of more than [`limit::LEVELS`].
    pub fn levels(self, key: &str, levels: &[usize]) -> Result<(), ConfigError> {
        let reason = match levels.len() {
            0 => "it is empty".to_string(),
            1..=limit::LEVELS => return Ok(()),
            n => format!(
                "it has {n} entries, and at most {} are possible",
                limit::LEVELS
            ),
        };
        let shown = &levels[..levels.len().min(limit::LEVELS)];
        Err(self.invalid(key, shown, reason))
    }

    /// Refuses a number of channels that does not divide into `groups`.
    pub fn divides(self, key: &str, channels: &[usize], groups: usize) -> Result<(), ConfigError> {
        match channels
            .iter()
            .find(|&&channels| groups == 0 || !channels.is_multiple_of(groups))
        {
            Some(channels) => Err(self.invalid(
                key,
                groups,
                format!("{channels} channels do not divide into that many"),
            )),
            None => Ok(()),
        }
    }
}
