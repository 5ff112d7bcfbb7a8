//! How many pictures are made at a time.

use std::fmt;
use std::str::FromStr;

use crate::engine::{Engine, EngineError};
use crate::request::Request;

/// How many pictures are made at a time: `auto`, or a number of at least 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BatchSize {
    /// As many as memory has room for.
    #[default]
    Auto,
    /// At most so many.
    AtMost(usize),
}

impl BatchSize {
    /// The most pictures as `request` at a time. `Auto` is at most `on_cpu` on the CPU, where larger batches gain
    /// little.
    ///
    /// # Errors
    /// As [`Engine::roomy_batch`].
    pub fn choose(
        self,
        engine: &Engine,
        request: &Request,
        on_cpu: usize,
    ) -> Result<usize, EngineError> {
        match self {
            Self::AtMost(pictures) => Ok(pictures),
            Self::Auto => {
                let room = engine.roomy_batch(request)?;
                let chosen = match engine.is_on_cpu() {
                    true => room.min(on_cpu),
                    false => room,
                };
                tracing::info!("up to {chosen} pictures at a time");
                Ok(chosen)
            }
        }
    }
}

impl FromStr for BatchSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.parse()) {
            ("auto", _) => Ok(Self::Auto),
            (_, Ok(pictures)) if pictures > 0 => Ok(Self::AtMost(pictures)),
            _ => Err("must be auto or at least 1".into()),
        }
    }
}

impl fmt::Display for BatchSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::AtMost(pictures) => pictures.fmt(f),
        }
    }
}
