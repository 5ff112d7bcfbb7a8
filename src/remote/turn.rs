//! One try of several.

use std::time::Duration;

use crate::RemoteError;

/// How one try ended.
#[derive(Debug)]
pub enum Turn<T> {
    /// With an answer.
    Done(T),
    /// With nothing, for this reason; the next try may come after this time.
    Later(RemoteError, Duration),
}

impl<T> Turn<T> {
    /// The same, with something else made of the answer.
    ///
    /// # Errors
    /// That of `make`.
    pub fn try_map<U, E>(self, make: impl FnOnce(T) -> Result<U, E>) -> Result<Turn<U>, E> {
        Ok(match self {
            Self::Done(answer) => Turn::Done(make(answer)?),
            Self::Later(error, wait) => Turn::Later(error, wait),
        })
    }
}
