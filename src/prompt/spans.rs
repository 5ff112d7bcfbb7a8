//! Where a phrase of the prompt ends up in the encoder's output.

use std::ops::Range;

use prepose_weights::tokenizer::ClipTokenizer;

use super::{Prompt, PromptError};

/// The tokens of one occurrence of a phrase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// Positions in the conditioning sequence: chunks joined one after the other, start and end tokens counted.
    /// Ascending; with a gap where the phrase runs over the end of a chunk.
    pub positions: Vec<usize>,
    /// The bytes of the prompt as typed, from the first to the last character of the phrase.
    pub bytes: Range<usize>,
}

impl Prompt {
    /// Every occurrence of `phrase`, in order.
    ///
    /// A phrase is one or more whole words; case and white space do not matter, brackets and weights between its words
    /// neither. A word that is cut into several tokens contributes them all. `dog` is not found in `dogs`.
    pub fn occurrences(
        &self,
        phrase: &str,
        tokenizer: &ClipTokenizer,
    ) -> Result<Vec<Span>, PromptError> {
        let phrase: Vec<u32> = tokenizer
            .encode(phrase)?
            .iter()
            .map(|token| token.id)
            .collect();
        let mut text = Vec::new();
        for (index, chunk) in self.chunks.iter().enumerate() {
            for (i, token) in chunk.tokens.iter().enumerate() {
                text.push((index * chunk.ids.len() + i + 1, chunk.ids[i + 1], token));
            }
        }
        if phrase.is_empty() {
            return Ok(vec![]);
        }
        let mut spans = Vec::new();
        for (start, window) in text.windows(phrase.len()).enumerate() {
            let begins_word = start == 0 || text[start - 1].2.ends_word;
            if begins_word && window.iter().map(|(_, id, _)| id).eq(&phrase) {
                spans.push(Span {
                    positions: window.iter().map(|(position, _, _)| *position).collect(),
                    bytes: window[0].2.bytes.start..window[window.len() - 1].2.bytes.end,
                });
            }
        }
        Ok(spans)
    }

    /// The `n`-th occurrence of `phrase`, from 0; see [`occurrences`](Self::occurrences).
    pub fn find(
        &self,
        phrase: &str,
        n: usize,
        tokenizer: &ClipTokenizer,
    ) -> Result<Span, PromptError> {
        let mut spans = self.occurrences(phrase, tokenizer)?;
        let phrase = phrase.to_owned();
        match spans.len() {
            0 => Err(PromptError::NotFound { phrase }),
            found if n >= found => Err(PromptError::NotAsOften {
                phrase,
                asked: n + 1,
                found,
            }),
            _ => Ok(spans.swap_remove(n)),
        }
    }

    /// The positions, as in [`Span`], of the tokens that come from within `bytes` of the prompt as typed.
    pub fn positions_within(&self, bytes: &Range<usize>) -> Vec<usize> {
        let mut positions = Vec::new();
        for (index, chunk) in self.chunks.iter().enumerate() {
            let within = |bytes_of: &Range<usize>| {
                bytes.start <= bytes_of.start && bytes_of.end <= bytes.end
            };
            let tokens = chunk.tokens.iter().enumerate();
            let found = tokens.filter(|(_, token)| within(&token.bytes));
            positions.extend(found.map(|(i, _)| index * chunk.ids.len() + i + 1));
        }
        positions
    }
}
