//! Where an object's phrase is in the conditioning.

use serde::{Deserialize, Serialize};

use super::{Scene, SceneError};
use crate::prompt::Prompt;

/// Which tokens of a phrase stand for the object.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum TokenPolicy {
    /// All of them; their maps are averaged.
    #[default]
    Mean,
    /// The first one, as in the reference code of PSG: "teddy" of "teddy bear".
    First,
}

impl Scene {
    /// The positions of object number `object` in the conditioning sequence of `prompt`: chunks joined one after the
    /// other, start and end tokens counted. At least one, ascending.
    ///
    /// `prompt` is the text that this scene was read from, for the encoder in question. The object's own occurrence
    /// counts, not another one of the same word.
    ///
    /// # Panics
    ///
    /// If the scene has no such object.
    pub fn token_positions(
        &self,
        object: usize,
        prompt: &Prompt,
        policy: TokenPolicy,
    ) -> Result<Vec<usize>, SceneError> {
        let object = &self.objects[object];
        let mut positions = prompt.positions_within(&object.bytes);
        if positions.is_empty() {
            return Err(SceneError::NoTokens(object.phrase.clone()));
        }
        if policy == TokenPolicy::First {
            positions.truncate(1);
        }
        Ok(positions)
    }
}
