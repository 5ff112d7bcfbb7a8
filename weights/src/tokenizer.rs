//! CLIP's byte-pair tokenizer, with where each token came from in the text.
//!
//! The vocabulary is OpenAI's (Radford et al. 2021, `simple_tokenizer.py`): 256 byte symbols, the same
//! ending a word, 48,894 merges, `<|startoftext|>` and `<|endoftext|>`, 49,408 in all. It is embedded, so
//! that no checkpoint needs tokenizer files; a checkpoint that has its own is read by
//! [`ClipTokenizer::from_json`].
//!
//! Text is cleaned as transformers' `CLIPTokenizer` does it, the one that diffusers runs: Unicode NFC, runs
//! of white space to one space, lower case. OpenAI's own code also passes the text through `ftfy` (which
//! repairs broken encodings and straightens curly quotes) and resolves HTML entities; diffusers does
//! neither, and a prompt must mean here what it means there. The three agree on text without curly quotes,
//! entities, full-width letters, mojibake, and letters whose lower case depends on their place.

mod settings;

use std::collections::HashMap;
use std::ops::Range;

use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::normalizers::{
    Lowercase, NFC, Replace, Sequence as Normalizers, replace::ReplacePattern,
};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::sequence::Sequence as PreTokenizers;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{AddedToken, SplitDelimiterBehavior, Tokenizer};

use settings::{Added, Config, SpecialToken};

/// OpenAI's merges in order of rank, one `left right` a line; see `weights/vocab/NOTICE`.
const MERGES: &str = include_str!("../vocab/clip-merges.txt");

const START: &str = "<|startoftext|>";
const END: &str = "<|endoftext|>";

/// How words are cut out of the cleaned text before the merges apply.
const WORDS: &str =
    r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+";

/// Context length of every CLIP text encoder, for tokenizers whose configuration does not give one.
const CONTEXT: usize = 77;

/// The most tokens that one word stands for; diffusers cuts off what no context holds.
const MAX_VECTORS: usize = CONTEXT;

/// Several times the largest vocabulary of a text encoder of CLIP's kind.
const MAX_TOKENS: usize = 1 << 18;

/// Why a tokenizer could not be made or used.
#[derive(Debug, thiserror::Error)]
pub enum TokenizerError {
    /// `vocab.json` is not a JSON object of token to id.
    #[error("vocab.json is not a table of token to id: {0}")]
    Vocab(#[source] serde_json::Error),
    /// `tokenizer_config.json` is not a JSON object.
    #[error("tokenizer_config.json cannot be read: {0}")]
    Config(#[source] serde_json::Error),
    /// `merges.txt` is not UTF-8.
    #[error("merges.txt is not UTF-8 text: {0}")]
    MergesEncoding(#[source] std::str::Utf8Error),
    /// A line of `merges.txt` is not two symbols.
    #[error("merges.txt line {line}: expected two symbols separated by a space, found {found:?}")]
    Merge {
        /// Line number, from 1.
        line: usize,
        /// The line as it stands, shortened.
        found: String,
    },
    /// A special token named by the configuration is not in the vocabulary.
    #[error("the {role} token {token:?} is not in vocab.json")]
    SpecialToken {
        /// Which special token: `bos`, `eos`, `pad` or `unk`.
        role: &'static str,
        /// Its text.
        token: String,
    },
    /// `model_max_length` leaves no room for text between the two special tokens.
    #[error("tokenizer_config.json: model_max_length is {0}, but a context has at least 3 tokens")]
    MaxLength(usize),
    /// Far more tokens or merges than any tokenizer has.
    #[error("there are {count} {what}, but at most {MAX_TOKENS} are read")]
    TooMany {
        /// `tokens` or `merges`.
        what: &'static str,
        /// How many.
        count: usize,
    },
    /// The `tokenizers` crate refused the vocabulary or the text.
    #[error("the tokenizer failed: {0}")]
    Bpe(#[source] tokenizers::Error),
}

/// What fills a context after the end of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Padding {
    /// `<|endoftext|>`: SD1.x, and the first tokenizer of SDXL.
    EndOfText,
    /// `!`, id 0: the second tokenizer of SDXL. Being a special token there, every `!` in a prompt becomes
    /// id 0 as well (not 256, `!` ending a word), as in transformers.
    Exclamation,
}

/// One token of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Row of the token embedding.
    pub id: u32,
    /// Bytes of the original text that it came from, always on character boundaries. A character that takes
    /// several tokens is in the range of each.
    pub bytes: Range<usize>,
}

/// CLIP's tokenizer. About 0.1 s to make.
#[derive(Debug, Clone)]
pub struct ClipTokenizer {
    inner: Tokenizer,
    bos: u32,
    eos: u32,
    pad: u32,
    max_length: usize,
    vocabulary: usize,
    /// What follows each added token that is a word of several.
    following: HashMap<u32, Vec<u32>>,
}

impl ClipTokenizer {
    /// OpenAI's tokenizer from the embedded vocabulary, with contexts of 77 tokens.
    pub fn clip(padding: Padding) -> Self {
        let vocab = clip_vocabulary().into_iter().zip(0..).collect();
        let merges = parse_merges(MERGES).expect("the embedded merges are well formed");
        let config = Config {
            pad_token: Some(SpecialToken::Text(padding.token().to_owned())),
            ..Config::default()
        };
        Self::build(vocab, merges, config).expect("the embedded vocabulary is complete")
    }

    /// A checkpoint's own tokenizer, from the contents of `vocab.json`, `merges.txt` and
    /// `tokenizer_config.json`. Without the last, special tokens and context length are CLIP's.
    ///
    /// Added tokens (`added_tokens_decoder`) are matched as a whole before words are cut. Where textual inversion has trained
    /// several for one word, `<x>`, `<x>_1`, `<x>_2`, …, the first stands for all of them, as in diffusers.
    pub fn from_json(
        vocab: &[u8],
        merges: &[u8],
        config: Option<&[u8]>,
    ) -> Result<Self, TokenizerError> {
        let vocab = serde_json::from_slice(vocab).map_err(TokenizerError::Vocab)?;
        let merges =
            parse_merges(std::str::from_utf8(merges).map_err(TokenizerError::MergesEncoding)?)?;
        let config = match config {
            Some(bytes) => serde_json::from_slice(bytes).map_err(TokenizerError::Config)?,
            None => Config::default(),
        };
        Self::build(vocab, merges, config)
    }

    fn build(
        mut vocab: HashMap<String, u32>,
        merges: Vec<(String, String)>,
        config: Config,
    ) -> Result<Self, TokenizerError> {
        let added = config.added_tokens_decoder.unwrap_or_default();
        for (id, token) in &added {
            vocab.entry(token.content.clone()).or_insert(*id);
        }
        let special = |role, token: Option<SpecialToken>, default: &str| {
            let token = token.map_or_else(|| default.to_owned(), SpecialToken::text);
            match vocab.get(&token) {
                Some(&id) => Ok((token, id)),
                None => Err(TokenizerError::SpecialToken { role, token }),
            }
        };
        let (bos_text, bos) = special("bos", config.bos_token, START)?;
        let (eos_text, eos) = special("eos", config.eos_token, END)?;
        let (pad_text, pad) = special("pad", config.pad_token, &eos_text)?;
        let (unk_text, _) = special("unk", config.unk_token, &eos_text)?;
        // Where the length is unknown transformers stores 1e30, "no limit", which no CLIP has.
        let max_length = match config.model_max_length {
            Some(length) if length < 1e6 => length as usize,
            _ => CONTEXT,
        };
        if max_length < 3 {
            return Err(TokenizerError::MaxLength(max_length));
        }
        for (what, count) in [("tokens", vocab.len()), ("merges", merges.len())] {
            if count > MAX_TOKENS {
                return Err(TokenizerError::TooMany { what, count });
            }
        }

        let vocabulary = vocab.values().max().map_or(0, |id| *id as usize + 1);
        let mut inner = words(vocab, merges, unk_text).map_err(TokenizerError::Bpe)?;
        // As in transformers, the text of a special or added token inside a prompt becomes that token.
        let specials = [bos_text, eos_text, pad_text];
        let mut added: Vec<AddedToken> = added.into_values().map(Added::token).collect();
        added.retain(|token| !specials.contains(&token.content));
        let specials = specials.map(|text| AddedToken::from(text, true));
        inner
            .add_tokens(specials.into_iter().chain(added))
            .map_err(TokenizerError::Bpe)?;
        Ok(Self {
            following: following(&inner),
            inner,
            bos,
            eos,
            pad,
            max_length,
            vocabulary,
        })
    }

    /// The tokens of `text`, without start, end and padding.
    pub fn encode(&self, text: &str) -> Result<Vec<Token>, TokenizerError> {
        let encoding = self
            .inner
            .encode(text, false)
            .map_err(TokenizerError::Bpe)?;
        let tokens = encoding.get_ids().iter().zip(encoding.get_offsets());
        Ok(tokens
            .flat_map(|(&id, &(start, end))| {
                let following = self.following.get(&id).into_iter().flatten().copied();
                std::iter::once(id).chain(following).map(move |id| Token {
                    id,
                    bytes: start..end,
                })
            })
            .collect())
    }

    /// The text of one token as stored in the vocabulary (`dog</w>`), for messages.
    pub fn token_text(&self, id: u32) -> Option<String> {
        self.inner.id_to_token(id)
    }

    /// Whether a word ends with the token `id`: the vocabulary says so, or it is a special or added token.
    pub fn ends_word(&self, id: u32) -> bool {
        let whole = self.inner.get_added_vocabulary().get_added_tokens_decoder();
        let word_end = |text: String| text.ends_with("</w>");
        whole.contains_key(&id) || self.token_text(id).is_some_and(word_end)
    }

    /// Id of the token before a text.
    pub fn bos(&self) -> u32 {
        self.bos
    }

    /// Id of the token after a text, where CLIP reads its pooled output.
    pub fn eos(&self) -> u32 {
        self.eos
    }

    /// Id of the token that fills a context after the end.
    pub fn pad(&self) -> u32 {
        self.pad
    }

    /// Tokens in one context of the text encoder, start and end included: 77 for every released CLIP.
    pub fn max_length(&self) -> usize {
        self.max_length
    }

    /// Rows that the text encoder's token embedding needs: one more than the largest id.
    pub fn vocabulary(&self) -> usize {
        self.vocabulary
    }
}

impl Padding {
    fn token(self) -> &'static str {
        match self {
            Padding::EndOfText => END,
            Padding::Exclamation => "!",
        }
    }
}

/// How CLIP makes tokens of a text without special ones: what is cleaned, where words begin and end, what is merged.
fn words(
    vocab: HashMap<String, u32>,
    merges: Vec<(String, String)>,
    unknown: String,
) -> tokenizers::Result<Tokenizer> {
    let bpe = BPE::builder()
        .vocab_and_merges(vocab.into_iter().collect::<Vocab>(), merges)
        .unk_token(unknown)
        .end_of_word_suffix("</w>".to_owned())
        .build()?;
    let mut inner = Tokenizer::new(bpe);
    let spaces = Replace::new(ReplacePattern::Regex(r"\s+".to_owned()), " ")?;
    inner.with_normalizer(Some(Normalizers::new(vec![
        NFC.into(),
        spaces.into(),
        Lowercase.into(),
    ])))?;
    let words = Split::new(
        SplitPattern::Regex(WORDS.to_owned()),
        SplitDelimiterBehavior::Removed,
        true,
    )?;
    let bytes = ByteLevel::default().add_prefix_space(false);
    inner.with_pre_tokenizer(Some(PreTokenizers::new(vec![words.into(), bytes.into()])));
    Ok(inner)
}

/// What diffusers writes after each added token `<x>` that has them: `<x>_1`, `<x>_2` and so on.
fn following(tokenizer: &Tokenizer) -> HashMap<u32, Vec<u32>> {
    let added = tokenizer.get_added_vocabulary().get_vocab();
    let numbered = added.iter().map(|(text, id)| {
        let next = (1..MAX_VECTORS).map_while(|i| added.get(&format!("{text}_{i}")).copied());
        (*id, next.collect::<Vec<u32>>())
    });
    numbered.filter(|(_, next)| !next.is_empty()).collect()
}

/// OpenAI's tokens in the order of their ids.
fn clip_vocabulary() -> Vec<String> {
    let symbols = byte_symbols();
    let words = symbols.iter().map(|c| format!("{c}</w>"));
    let merges = MERGES.lines().filter(|line| !line.starts_with("#version"));
    let merged = merges.map(|line| line.replace(' ', ""));
    (symbols.iter().map(char::to_string))
        .chain(words)
        .chain(merged)
        .chain([START.to_owned(), END.to_owned()])
        .collect()
}

/// The files of a `tokenizer/` folder that make transformers' tokenizer the one of [`ClipTokenizer::clip`].
pub fn clip_files(padding: Padding) -> Vec<(&'static str, Vec<u8>)> {
    use serde_json::{Map, Value, json};
    let ids: Map<String, Value> = clip_vocabulary()
        .into_iter()
        .zip((0..).map(Value::from))
        .collect();
    let config = json!({
        "add_prefix_space": false,
        "bos_token": START,
        "do_lower_case": true,
        "eos_token": END,
        "errors": "replace",
        "model_max_length": CONTEXT,
        "pad_token": padding.token(),
        "tokenizer_class": "CLIPTokenizer",
        "unk_token": END,
    });
    let merges = match MERGES.starts_with("#version") {
        true => MERGES.to_owned(),
        false => format!("#version: 0.2\n{MERGES}"),
    };
    vec![
        ("vocab.json", Value::Object(ids).to_string().into_bytes()),
        ("merges.txt", merges.into_bytes()),
        ("tokenizer_config.json", config.to_string().into_bytes()),
    ]
}

/// The characters that stand for the bytes 0 to 255, in the order of CLIP's vocabulary: printable bytes
/// first, standing for themselves, then the rest as U+0100 upwards (GPT-2's byte encoder).
fn byte_symbols() -> Vec<char> {
    let printable = |b: &u8| matches!(*b, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    let rest = (0..=255u8).filter(|b| !printable(b)).zip('\u{100}'..);
    (0..=255u8)
        .filter(printable)
        .map(char::from)
        .chain(rest.map(|(_, c)| c))
        .collect()
}

fn parse_merges(text: &str) -> Result<Vec<(String, String)>, TokenizerError> {
    let lines = text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.is_empty());
    let lines = lines.filter(|(i, line)| *i != 0 || !line.starts_with("#version"));
    lines
        .map(|(i, line)| match line.split_once(' ') {
            Some((a, b)) if !a.is_empty() && !b.is_empty() && !b.contains(' ') => {
                Ok((a.to_owned(), b.to_owned()))
            }
            _ => Err(TokenizerError::Merge {
                line: i + 1,
                found: line.chars().take(60).collect(),
            }),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(tokenizer: &ClipTokenizer, text: &str) -> Vec<u32> {
        tokenizer
            .encode(text)
            .unwrap()
            .iter()
            .map(|t| t.id)
            .collect()
    }

    #[test]
    fn embedded_vocabulary() {
        let clip = ClipTokenizer::clip(Padding::EndOfText);
        assert_eq!(
            (clip.bos(), clip.eos(), clip.pad(), clip.max_length()),
            (49406, 49407, 49407, 77)
        );
        assert_eq!(
            ids(&clip, "A photo of\ta  CAT"),
            [320, 1125, 539, 320, 2368]
        );
        assert_eq!(ids(&clip, "hello world!"), [3306, 1002, 256]);
        assert_eq!(ids(&clip, "don't!x 3'S"), [847, 713, 256, 343, 274, 568]);
        assert_eq!(
            ids(&clip, "D\u{e9}j\u{e0} x<|endoftext|>"),
            [25466, 73, 21259, 343, 49407]
        );
        assert!(ids(&clip, " \n ").is_empty());
        let sdxl = ClipTokenizer::clip(Padding::Exclamation);
        assert_eq!(
            (sdxl.pad(), ids(&sdxl, "hello world!!")),
            (0, vec![3306, 1002, 0, 0])
        );
    }

    /// Every line of `fixtures/tokenizer`: OpenAI's ids where its cleaning is no more than white space and
    /// case, transformers' where the two differ.
    #[test]
    fn thousands_of_texts() {
        #[derive(serde::Deserialize)]
        struct Line {
            text: String,
            ids: Vec<u32>,
            rule: String,
            transformers: Option<Vec<u32>>,
        }
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../fixtures/tokenizer/cases.jsonl.gz"
        );
        let file = flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap());
        let clip = ClipTokenizer::clip(Padding::EndOfText);
        let (mut same_as_openai, mut lines) = (0, 0);
        let mut unlike = std::collections::BTreeMap::<String, usize>::new();
        for line in std::io::BufRead::lines(std::io::BufReader::new(file)) {
            let line: Line = serde_json::from_str(&line.unwrap()).unwrap();
            let found = ids(&clip, &line.text);
            assert_eq!(
                &found,
                line.transformers.as_ref().unwrap_or(&line.ids),
                "{:?}",
                line.text
            );
            lines += 1;
            match found == line.ids {
                true => same_as_openai += 1,
                false => *unlike.entry(line.rule).or_default() += 1,
            }
        }
        println!("{same_as_openai} of {lines} as OpenAI's; unlike: {unlike:?}");
        assert!(lines > 3000 && same_as_openai * 100 > lines * 95);
    }

    #[test]
    fn ranges_point_into_the_original_text() {
        let clip = ClipTokenizer::clip(Padding::EndOfText);
        let text = "  A\u{301}  D\u{c9}J\u{c0} vu\u{1f600}dog";
        for token in clip.encode(text).unwrap() {
            let piece = clip.token_text(token.id).unwrap();
            let source = &text[token.bytes.clone()];
            assert!(
                !source.trim().is_empty() && source == source.trim(),
                "{piece}: {source:?}"
            );
            if piece.is_ascii() {
                assert_eq!(piece.trim_end_matches("</w>"), source.to_lowercase());
            }
        }
    }

    /// As diffusers writes a word of several vectors out (`maybe_convert_prompt`): `<x>` is `<x> <x>_1 <x>_2`.
    #[test]
    fn added_tokens() {
        let vocab = br#"{"a":0,"b":1,"a</w>":2,"b</w>":3,"ab</w>":4,"<s>":5,"</s>":6}"#;
        let config = br#"{"bos_token":"<s>","eos_token":"</s>","unk_token":"</s>","added_tokens_decoder":{
            "0":{"content":"a","special":true,"normalized":false},
            "5":{"content":"<s>","special":true,"normalized":true},
            "7":{"content":"<x>"},"8":{"content":"<x>_1"},"9":{"content":"<x>_2"},"11":{"content":"<Big-Toy>"}}}"#;
        let tokenizer = ClipTokenizer::from_json(vocab, b"a b</w>\n", Some(config)).unwrap();
        assert_eq!(tokenizer.vocabulary(), 12);
        assert_eq!(ids(&tokenizer, "b <x> b"), [3, 7, 8, 9, 3]);
        assert_eq!(ids(&tokenizer, "b<X>b"), [3, 7, 8, 9, 3]);
        assert_eq!(ids(&tokenizer, "<x>_1 <big-toy>"), [8, 11]);
        // What the vocabulary has keeps its id, and is matched as a whole if it is among the added ones.
        assert_eq!(ids(&tokenizer, "ab <s>"), [0, 3, 5]);
        let tokens = tokenizer.encode("b <x>").unwrap();
        assert!(tokens[1..].iter().all(|token| token.bytes == (2..5)));
        let ends = [1, 3, 5, 7, 9].map(|id| tokenizer.ends_word(id));
        assert_eq!(ends, [false, true, true, true, true]);
    }

    #[test]
    fn files_of_a_checkpoint() {
        let vocab = br#"{"a":0,"b":1,"a</w>":2,"b</w>":3,"ab</w>":4,"<s>":5,"</s>":6}"#;
        let config = br#"{"bos_token":{"content":"<s>","__type":"AddedToken"},"eos_token":"</s>","unk_token":"</s>",
            "model_max_length":16}"#;
        let read =
            |merges: &[u8], config: &[u8]| ClipTokenizer::from_json(vocab, merges, Some(config));
        let small = read(b"#version: 0.2\na b</w>\n", config).unwrap();
        assert_eq!(
            (small.bos(), small.eos(), small.pad(), small.max_length()),
            (5, 6, 6, 16)
        );
        assert_eq!(ids(&small, "AB  ba"), [4, 1, 2]);

        let error = |merges: &[u8], config: &[u8]| read(merges, config).unwrap_err().to_string();
        assert_eq!(
            error(b"a b</w>\nab", config),
            "merges.txt line 2: expected two symbols separated by a space, found \"ab\""
        );
        assert!(
            error(b"a x", config).contains("out of vocabulary"),
            "{}",
            error(b"a x", config)
        );
        assert!(error(b"", b"[").starts_with("tokenizer_config.json cannot be read"));
        assert_eq!(
            error(b"", b"{}"),
            "the bos token \"<|startoftext|>\" is not in vocab.json"
        );
    }
}
