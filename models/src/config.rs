//! What the configurations have in common: errors, and values that diffusers writes in several ways.

use std::ops::RangeInclusive;

use serde::Deserialize;
use serde::de::DeserializeOwned;
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

    /// All values that are given.
    pub(crate) fn values(&self) -> &[usize] {
        match self {
            Self::One(value) => std::slice::from_ref(value),
            Self::Many(values) => values,
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
    /// Blocks of a network in all, each with some dozens of parameters.
    pub const BLOCKS: usize = 1 << 11;
    /// Resolutions.
    pub const LEVELS: usize = 8;
    /// Tokens of a sequence.
    pub const LENGTH: usize = 1 << 16;
    /// Pixels along a side, of pictures and of latents.
    pub const SIDE: usize = 1 << 13;
    /// Tokens of a vocabulary.
    pub const VOCABULARY: usize = 1 << 22;
    /// What a norm adds to the variance.
    pub const EPS: std::ops::RangeInclusive<f64> = 1e-12..=1e-2;
}

/// The key of `config` whose value has another type than `C` wants, with the value as JSON; none if all can be read or
/// it is not a matter of one key.
pub fn wrong_key<C: DeserializeOwned>(config: &Value) -> Option<(String, String)> {
    let keys = config.as_object()?.iter();
    let wrong = |(key, value): &(&String, &Value)| {
        let alone = Map::from_iter([((*key).clone(), (*value).clone())]);
        let error = serde_json::from_value::<C>(Value::Object(alone)).err();
        // Of a configuration without defaults the other keys are missing, which is no fault of this one.
        error.is_some_and(|error| !error.to_string().starts_with("missing field"))
    };
    let (key, value) = keys.into_iter().find(wrong)?;
    Some((shown(key.clone()), shown(value.to_string())))
}

/// The beginning of a value: it may be a list of millions.
fn shown(value: String) -> String {
    const MOST: usize = 100;
    match value.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &value[..end]),
        None => value,
    }
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
            value: shown(value.into().to_string()),
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
            value: shown(format!("{value:?}")),
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

    /// Refuses a number outside of `range`, and what is no number.
    pub fn number(
        self,
        key: &str,
        values: impl IntoIterator<Item = f64>,
        range: RangeInclusive<f64>,
    ) -> Result<(), ConfigError> {
        let mut values = values.into_iter();
        match values.find(|value| !range.contains(value)) {
            Some(value) => {
                let (least, most) = (range.start(), range.end());
                let reason = format!("it must be between {least:?} and {most:?}");
                Err(self.invalid(key, value, reason))
            }
            None => Ok(()),
        }
    }

    /// Refuses sizes of pictures or latents that are not one side, or width and height.
    pub fn sides(self, key: &str, sides: &OneOrMany) -> Result<(), ConfigError> {
        if !(1..=2).contains(&sides.values().len()) {
            let reason = "it must be one side, or width and height";
            return Err(self.invalid(key, sides.values(), reason));
        }
        self.within(key, sides.values().iter().copied(), limit::SIDE)
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
