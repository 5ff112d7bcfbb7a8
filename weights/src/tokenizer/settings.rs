//! What `tokenizer_config.json` says.

use std::collections::BTreeMap;

use tokenizers::AddedToken;

/// The keys of `tokenizer_config.json` that matter.
#[derive(Default, serde::Deserialize)]
pub(super) struct Config {
    pub bos_token: Option<SpecialToken>,
    pub eos_token: Option<SpecialToken>,
    pub pad_token: Option<SpecialToken>,
    pub unk_token: Option<SpecialToken>,
    pub model_max_length: Option<f64>,
    /// By id.
    pub added_tokens_decoder: Option<BTreeMap<u32, Added>>,
}

/// A token that stands for its whole text, beside those that merges make.
#[derive(serde::Deserialize)]
pub(super) struct Added {
    pub content: String,
    #[serde(default)]
    special: bool,
    normalized: Option<bool>,
    #[serde(default)]
    single_word: bool,
    #[serde(default)]
    lstrip: bool,
    #[serde(default)]
    rstrip: bool,
}

impl Added {
    pub fn token(self) -> AddedToken {
        let normalized = self.normalized.unwrap_or(!self.special);
        AddedToken::from(self.content, self.special)
            .normalized(normalized)
            .single_word(self.single_word)
            .lstrip(self.lstrip)
            .rstrip(self.rstrip)
    }
}

/// A special token is stored as its text or as an object around it.
#[derive(serde::Deserialize)]
#[serde(untagged)]
pub(super) enum SpecialToken {
    Text(String),
    Object { content: String },
}

impl SpecialToken {
    pub fn text(self) -> String {
        match self {
            SpecialToken::Text(text) | SpecialToken::Object { content: text } => text,
        }
    }
}
