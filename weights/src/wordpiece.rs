//! BERT's tokenizer, from the files of a checkpoint, as transformers' `BertTokenizer` of `bert-base-uncased` has it: lower case
//! without accents, split at spaces, punctuation and Chinese characters, then the longest pieces that the vocabulary has.

use std::collections::HashMap;

use serde_json::Value;
use tokenizers::decoders::wordpiece::WordPiece as Pieces;
use tokenizers::models::bpe::Vocab;
use tokenizers::models::wordpiece::WordPiece;
use tokenizers::normalizers::bert::BertNormalizer;
use tokenizers::pre_tokenizers::bert::BertPreTokenizer;
use tokenizers::{AddedToken, Tokenizer};

use crate::error::WeightsError;
use crate::files::Files;
use crate::tokenizer::TokenizerError;

/// The tokens that belong to no text.
const SPECIAL: [&str; 5] = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];
/// Several times the largest vocabulary of a BERT.
const MAX_TOKENS: usize = 1 << 18;

/// The tokenizer.
#[derive(Debug, Clone)]
pub struct BertTokenizer {
    inner: Tokenizer,
    start: u32,
    end: u32,
    vocabulary: usize,
}

impl BertTokenizer {
    /// From `tokenizer.json` of a folder, or its `vocab.txt`.
    pub(crate) fn open(files: &Files) -> Result<Self, WeightsError> {
        const JSON: &str = "tokenizer.json";
        const TEXT: &str = "vocab.txt";
        let refused = |name: &str, what: &str| WeightsError::Folder {
            path: files.path(name),
            what: what.to_string(),
            hint: "give the whole folder of the checkpoint, with the tokenizer of a BERT".into(),
        };
        let (name, vocabulary) = if files.has(JSON) {
            (JSON, from_json(&files.json(JSON)?))
        } else if files.has(TEXT) {
            let text = String::from_utf8(files.read(TEXT)?)
                .map_err(|_| refused(TEXT, "this is not UTF-8 text"))?;
            let lines = text
                .lines()
                .map(|line| line.trim_end_matches('\r').to_string());
            (TEXT, Some(lines.zip(0..).collect()))
        } else {
            return Err(refused(
                "",
                "there is neither tokenizer.json nor vocab.txt here",
            ));
        };
        let vocabulary =
            vocabulary.ok_or_else(|| refused(name, "this is not a vocabulary of word pieces"))?;
        Self::new(vocabulary).map_err(|source| WeightsError::Tokenizer {
            path: files.path(name),
            source,
        })
    }

    fn new(vocabulary: HashMap<String, u32>) -> Result<Self, TokenizerError> {
        let count = vocabulary.len();
        if count > MAX_TOKENS {
            return Err(TokenizerError::TooMany {
                what: "tokens",
                count,
            });
        }
        let id = |token: &str, role| {
            let id = vocabulary.get(token).copied();
            id.ok_or_else(|| TokenizerError::SpecialToken {
                role,
                token: token.to_string(),
            })
        };
        let (start, end) = (id("[CLS]", "bos")?, id("[SEP]", "eos")?);
        id("[UNK]", "unk")?;
        let special: Vec<AddedToken> = SPECIAL
            .iter()
            .filter(|token| vocabulary.contains_key(**token))
            .map(|token| AddedToken::from(*token, true))
            .collect();
        let largest = vocabulary.values().max().copied().unwrap_or_default();
        let model = WordPiece::builder()
            .vocab(vocabulary.into_iter().collect::<Vocab>())
            .unk_token("[UNK]".to_string())
            .build()
            .map_err(TokenizerError::Bpe)?;
        let mut inner = Tokenizer::new(model);
        inner
            .with_normalizer(Some(BertNormalizer::new(true, true, None, true)))
            .map_err(TokenizerError::Bpe)?
            .with_pre_tokenizer(Some(BertPreTokenizer))
            .with_decoder(Some(Pieces::default()));
        inner
            .add_special_tokens(special)
            .map_err(TokenizerError::Bpe)?;
        Ok(Self {
            inner,
            start,
            end,
            vocabulary: largest as usize + 1,
        })
    }

    /// The tokens of `text` between `[CLS]` and `[SEP]`.
    ///
    /// # Errors
    /// [`TokenizerError`] if the text cannot be split.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        let encoding = self
            .inner
            .encode(text, false)
            .map_err(TokenizerError::Bpe)?;
        let mut ids = vec![self.start];
        ids.extend_from_slice(encoding.get_ids());
        ids.push(self.end);
        Ok(ids)
    }

    /// The text of tokens: pieces joined to words, and no space before punctuation.
    ///
    /// # Errors
    /// [`TokenizerError`] if they cannot be joined.
    pub fn decode(&self, ids: &[u32]) -> Result<String, TokenizerError> {
        self.inner.decode(ids, false).map_err(TokenizerError::Bpe)
    }

    /// Rows of a token table that has all tokens.
    pub fn vocabulary(&self) -> usize {
        self.vocabulary
    }
}

/// The vocabulary in a `tokenizer.json`.
fn from_json(tokenizer: &Value) -> Option<HashMap<String, u32>> {
    let model = &tokenizer["model"];
    if model["type"]
        .as_str()
        .is_some_and(|kind| kind != "WordPiece")
    {
        return None;
    }
    let entries = model["vocab"].as_object()?.iter();
    let entry =
        |(token, id): (&String, &Value)| Some((token.clone(), u32::try_from(id.as_u64()?).ok()?));
    entries.map(entry).collect()
}
