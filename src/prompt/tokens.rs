//! Where an object's phrase is in the conditioning.

use prepose_scene::SceneObject;
use serde::{Deserialize, Serialize};

use super::{Prompt, PromptError};

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

impl Prompt {
    /// The positions of `object` in the conditioning sequence: chunks joined one after the other, start and end tokens
    /// counted. At least one, ascending.
    ///
    /// `object` belongs to the scene that was read from the same text as this prompt. The object's own occurrence
    /// counts, not another one of the same word.
    ///
    /// # Errors
    /// [`PromptError::NoTokens`] if no token comes from the object's phrase alone.
    pub fn positions_of(
        &self,
        object: &SceneObject,
        policy: TokenPolicy,
    ) -> Result<Vec<usize>, PromptError> {
        let mut positions = self.positions_within(&object.bytes);
        if positions.is_empty() {
            return Err(PromptError::NoTokens(object.phrase.clone()));
        }
        if policy == TokenPolicy::First {
            positions.truncate(1);
        }
        Ok(positions)
    }
}
