//! Where an object's phrase is in the conditioning.

use prepose_weights::tokenizer::ClipTokenizer;
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
    /// The positions of object number `object` in the conditioning sequence of `prompt`, which is this scene's
    /// prompt as `tokenizer` reads it: chunks joined one after the other, start and end tokens counted.
    pub fn token_positions(
        &self,
        object: usize,
        prompt: &Prompt,
        tokenizer: &ClipTokenizer,
        policy: TokenPolicy,
    ) -> Result<Vec<usize>, SceneError> {
        let wanted = &self.objects[object];
        let spans = prompt.occurrences(&wanted.phrase, tokenizer)?;
        let span = spans.into_iter().find(|span| span.bytes == wanted.bytes);
        let mut positions = span
            .ok_or_else(|| SceneError::NoTokens(wanted.phrase.clone()))?
            .positions;
        if policy == TokenPolicy::First {
            positions.truncate(1);
        }
        Ok(positions)
    }
}
