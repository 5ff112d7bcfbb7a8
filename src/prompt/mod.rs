//! What the text says: weights, chunks, token spans.
//!
//! A [`Prompt`] is a text cut into the contexts that a CLIP text encoder reads. Short prompts without
//! weights give exactly the ids that diffusers gives the encoder. The rest follows A1111's notation:
//!
//! | written | means |
//! | --- | --- |
//! | `(word)` | weight × 1.1 |
//! | `[word]` | weight ÷ 1.1 |
//! | `(word:1.3)` | weight × 1.3 |
//! | `\(`, `\)`, `\[`, `\]`, `\\` | the character itself |
//! | `BREAK` | the rest begins a new chunk |
//! | `a AND b :0.8` | two prompts, see [`compose`] |
//!
//! Brackets nest, and their weights multiply. A closing bracket without an opening one is text; an opening
//! one that is never closed reaches to the end. Each weighted piece is tokenized on its own.
//!
//! **Chunks.** A context of 77 tokens holds 75 of text between a start and an end token. Where diffusers cuts a
//! longer prompt off, it continues here in further chunks, each with its own start and end, encoded one
//! by one and joined along the sequence; the UNet's cross-attention takes any length. The prompt and the
//! negative prompt are padded to as many chunks ([`Prompt::padded_to`]). A chunk is filled before the next
//! begins, wherever that cuts (A1111 by default looks back for a comma). No chunk is without text: a `BREAK` at the beginning,
//! at the end or right after another begins none (A1111 keeps the empty chunk of the first and the last of these).

pub mod compose;
mod extract;
mod spans;
mod tokens;

use std::ops::Range;

use burn::tensor::{DType, Tensor, TensorData};
use prepose_scene::weights::{self, WeightError};
use prepose_weights::tokenizer::{ClipTokenizer, TokenizerError};
use thiserror::Error;

pub use prepose_scene::{neutral, schedule};
pub use spans::Span;

/// The objects of a prompt and their relations, with where their tokens are and what a language model says of them.
pub mod scene {
    pub use prepose_scene::*;

    pub use super::extract::{ExtractError, Extractor};
    pub use super::tokens::TokenPolicy;
}

/// The most chunks a prompt may fill: 750 tokens of CLIP's.
pub const MAX_CHUNKS: usize = 10;

/// The most bytes a prompt may have, so that a file given by mistake is refused at once.
pub const MAX_BYTES: usize = 1 << 16;

/// Why a text cannot be used.
#[derive(Debug, Error)]
pub enum PromptError {
    /// More tokens than [`MAX_CHUNKS`] chunks hold.
    #[error(
        "it has {tokens} tokens in {chunks} chunks, but at most {MAX_CHUNKS} chunks of {per_chunk} tokens are possible; \
         shorten it"
    )]
    TooManyTokens {
        /// Tokens of text.
        tokens: usize,
        /// Chunks that they would fill.
        chunks: usize,
        /// Tokens of text in a chunk.
        per_chunk: usize,
    },
    /// More than [`MAX_BYTES`] bytes.
    #[error("it has {0} bytes, but at most {MAX_BYTES} are possible; shorten it")]
    TooLong(usize),
    /// A weight that is not a number, or beyond [`MAX_WEIGHT`](prepose_scene::weights::MAX_WEIGHT).
    #[error(transparent)]
    Weight(#[from] WeightError),
    /// A phrase that is not there.
    #[error("{phrase:?} is not in the prompt")]
    NotFound {
        /// What was looked for.
        phrase: String,
    },
    /// A phrase that is not there as often as asked for.
    #[error("the prompt has no occurrence {asked} of {phrase:?}, only {found}")]
    NotAsOften {
        /// What was looked for.
        phrase: String,
        /// Which occurrence, from 1.
        asked: usize,
        /// How many there are.
        found: usize,
    },
    /// An object's phrase has no tokens of its own in the prompt.
    #[error("{0:?} is not among the tokens of the prompt")]
    NoTokens(String),
    /// More parts than [`compose::MAX_PARTS`].
    #[error(
        "it is composed of {parts} parts, but at most {} are possible; leave some out",
        compose::MAX_PARTS
    )]
    TooManyParts {
        /// How many.
        parts: usize,
    },
    /// A weight beyond [`compose::MAX_PART_WEIGHT`].
    #[error(
        "a part of it has the weight {weight}, but at most {} is possible",
        compose::MAX_PART_WEIGHT
    )]
    PartWeight {
        /// That of the part.
        weight: f64,
    },
    /// The tokenizer failed.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
}

/// A text in the form that a CLIP text encoder reads: one or more chunks of equal length.
#[derive(Debug, Clone)]
pub struct Prompt {
    chunks: Vec<Chunk>,
}

/// One context of the text encoder.
#[derive(Debug, Clone)]
pub struct Chunk {
    /// Start, text, end, padding; as many as the tokenizer's `max_length`.
    pub ids: Vec<u32>,
    /// The weight of each id; 1 for everything but weighted text.
    pub weights: Vec<f32>,
    /// Where the first end token is, at which CLIP reads its pooled output, but for
    /// [old configurations](prepose_models::clip::ClipTextConfig::pooled_position).
    pub eos_position: usize,
    /// The tokens of text, which begin at position 1.
    tokens: Vec<TextToken>,
}

/// Where a token of text came from.
#[derive(Debug, Clone)]
struct TextToken {
    /// Bytes of the prompt as typed.
    bytes: Range<usize>,
    ends_word: bool,
}

impl Prompt {
    /// Reads `text` for the encoder of `tokenizer`. Empty text is one chunk without tokens.
    pub fn parse(text: &str, tokenizer: &ClipTokenizer) -> Result<Self, PromptError> {
        if text.len() > MAX_BYTES {
            return Err(PromptError::TooLong(text.len()));
        }
        let per_chunk = tokenizer.max_length() - 2;
        let mut chunks = vec![Vec::new()];
        // A chunk begins with its first token: after a `BREAK` there may be none.
        let mut broken = false;
        for piece in weights::parse(text)? {
            broken |= piece.begins_chunk;
            for token in tokenizer.encode(&piece.text)? {
                let bytes = piece.typed(&token.bytes);
                let text_token = TextToken::new(token.id, bytes, tokenizer);
                let begins = std::mem::take(&mut broken);
                match chunks.last_mut() {
                    Some(chunk) if chunk.is_empty() || (chunk.len() < per_chunk && !begins) => {
                        chunk.push((token.id, piece.weight, text_token))
                    }
                    _ => chunks.push(vec![(token.id, piece.weight, text_token)]),
                }
            }
        }
        if chunks.len() > MAX_CHUNKS {
            let tokens = chunks.iter().map(Vec::len).sum();
            return Err(PromptError::TooManyTokens {
                tokens,
                chunks: chunks.len(),
                per_chunk,
            });
        }
        let chunks = chunks
            .into_iter()
            .map(|tokens| Chunk::new(tokens, tokenizer))
            .collect();
        Ok(Self { chunks })
    }

    /// Reads `text` as it stands, without any notation, as diffusers' training scripts do: one chunk, and what is beyond it is
    /// cut off.
    ///
    /// # Errors
    /// The tokenizer failed.
    pub fn literal(text: &str, tokenizer: &ClipTokenizer) -> Result<Self, PromptError> {
        let mut tokens = tokenizer.encode(text)?;
        tokens.truncate(tokenizer.max_length() - 2);
        let tokens = tokens.into_iter().map(|token| {
            let text_token = TextToken::new(token.id, token.bytes, tokenizer);
            (token.id, 1.0, text_token)
        });
        Ok(Self {
            chunks: vec![Chunk::new(tokens.collect(), tokenizer)],
        })
    }

    /// The number of chunks, at least 1.
    pub fn chunks(&self) -> usize {
        self.chunks.len()
    }

    /// The first chunk.
    pub fn first(&self) -> &Chunk {
        &self.chunks[0]
    }

    /// The chunks in order.
    pub fn iter_chunks(&self) -> impl Iterator<Item = &Chunk> {
        self.chunks.iter()
    }

    /// Whether there is no token of text at all.
    pub fn is_empty(&self) -> bool {
        self.chunks.iter().all(|chunk| chunk.tokens.is_empty())
    }

    /// The same text, followed by empty chunks if it has fewer than `chunks`.
    pub fn padded_to(mut self, chunks: usize, tokenizer: &ClipTokenizer) -> Self {
        while self.chunks.len() < chunks {
            self.chunks.push(Chunk::new(Vec::new(), tokenizer));
        }
        self
    }
}

impl TextToken {
    fn new(id: u32, bytes: Range<usize>, tokenizer: &ClipTokenizer) -> Self {
        let ends_word = tokenizer.ends_word(id);
        Self { bytes, ends_word }
    }
}

impl Chunk {
    fn new(text: Vec<(u32, f32, TextToken)>, tokenizer: &ClipTokenizer) -> Self {
        let length = tokenizer.max_length();
        let mut ids = vec![tokenizer.bos()];
        let mut weights = vec![1.0; length];
        let mut tokens = Vec::with_capacity(text.len());
        for (id, weight, token) in text {
            weights[ids.len()] = weight;
            ids.push(id);
            tokens.push(token);
        }
        ids.push(tokenizer.eos());
        ids.resize(length, tokenizer.pad());
        // The text itself may contain an end token, and the first counts.
        let eos_position = ids
            .iter()
            .position(|id| *id == tokenizer.eos())
            .unwrap_or(length - 1);
        Self {
            ids,
            weights,
            eos_position,
            tokens,
        }
    }

    /// Multiplies the encoder's hidden states, [B, N, C] for this chunk's N ids, by the weights, and the whole by one
    /// factor so that its mean stays what it was (A1111's default rule). Without weights nothing is touched.
    pub fn apply_weights(&self, hidden: Tensor<3>) -> Tensor<3> {
        if self.weights.iter().all(|weight| *weight == 1.0) {
            return hidden;
        }
        let (device, dtype) = (hidden.device(), hidden.dtype());
        // A mean over tens of thousands of values is no job for 16 bits.
        let hidden = hidden.cast(DType::F32);
        let weights = TensorData::new(self.weights.clone(), [1, self.weights.len(), 1]);
        let weighted = hidden.clone() * Tensor::from_data(weights, &device);
        let factor = hidden.mean() / weighted.clone().mean();
        (weighted * factor.reshape([1, 1, 1])).cast(dtype)
    }
}
