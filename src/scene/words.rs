//! A prompt as words, with where each stands.

use std::ops::Range;

use unicode_normalization_alignments::UnicodeNormalization;
use unicode_normalization_alignments::char::is_combining_mark;

use crate::spatial::{self, Spatial};
use crate::weights::{self, WeightError};

/// What a word is to the grammar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Word,
    /// A comma, or another mark that separates within a sentence.
    Comma,
    /// The end of a sentence, or a `BREAK`.
    Stop,
}

/// A word or a mark.
#[derive(Debug, Clone)]
pub(crate) struct Word {
    /// As it is compared ([`plain`]).
    pub text: String,
    /// As typed, without the brackets of weights.
    pub typed: String,
    /// Where it stands in the prompt as typed.
    pub bytes: Range<usize>,
    pub kind: Kind,
}

impl Word {
    pub fn is(&self, text: &str) -> bool {
        self.text == text
    }

    /// Whether textual inversion has made it: `<cat-toy>`.
    pub fn is_learned(&self) -> bool {
        self.text.starts_with('<')
    }

    /// Whether it is one of these, which spaces separate.
    pub fn is_one_of(&self, list: &str) -> bool {
        list.split(' ').any(|text| text == self.text)
    }
}

/// Words that a hyphen or an underscore may join to a phrase of direction: `top-left`, `left-hand`.
const DIRECTIONS: &str = "left right top bottom upper lower hand side above below front of";

/// What joins the words of a compound.
const JOINTS: [char; 2] = ['-', '_'];

/// Splits a prompt at white space, marks and the ends of weighted pieces. Brackets and weights are gone.
pub(crate) fn words(prompt: &str) -> Result<Vec<Word>, WeightError> {
    let mut words = Vec::new();
    for piece in weights::parse(prompt)? {
        if piece.begins_chunk {
            let at = piece.origin[0];
            words.push(mark(Kind::Stop, at..at));
        }
        let letters: Vec<(char, usize)> = piece
            .text
            .char_indices()
            .map(|(i, c)| (c, piece.origin[i]))
            .collect();
        let mut i = 0;
        while i < letters.len() {
            let (c, at) = letters[i];
            let end = |j: usize| letters[j - 1].1 + letters[j - 1].0.len_utf8();
            if c.is_alphanumeric() {
                let start = i;
                while i < letters.len() && belongs(&letters, i) {
                    i += 1;
                }
                push_word(&mut words, &letters[start..i]);
                continue;
            }
            if let Some(length) = learned(&letters[i..]) {
                words.push(word(&letters[i..i + length]));
                i += length;
                continue;
            }
            i += 1;
            match c {
                '&' | '+' => words.push(Word {
                    text: "and".to_owned(),
                    typed: c.to_string(),
                    bytes: at..end(i),
                    kind: Kind::Word,
                }),
                '.' | ';' | '!' | '?' | '\n' => words.push(mark(Kind::Stop, at..end(i))),
                _ if c.is_whitespace() || "'\"\u{2018}\u{2019}\u{201c}\u{201d}_".contains(c) => {}
                _ => words.push(mark(Kind::Comma, at..end(i))),
            }
        }
    }
    join_phrases(&mut words);
    Ok(words)
}

/// Phrases that say how things stand to each other without saying which is which. Each is one adverb, and no noun.
const MUTUAL: [&[&str]; 12] = [
    &["side", "by", "side"],
    &["one", "above", "the", "other"],
    &["one", "below", "the", "other"],
    &["one", "over", "the", "other"],
    &["one", "under", "the", "other"],
    &["one", "on", "top", "of", "the", "other"],
    &["one", "behind", "the", "other"],
    &["one", "in", "front", "of", "the", "other"],
    &["one", "to", "the", "left", "of", "the", "other"],
    &["one", "to", "the", "right", "of", "the", "other"],
    &["near", "each", "other"],
    &["far", "from", "each", "other"],
];

/// Phrases in which "over" is no relation: each says what its last word says.
const POINTING: [&[&str]; 2] = [&["over", "there"], &["over", "here"]];

/// Makes one word of each of [`MUTUAL`], which the grammar knows as "side-by-side", and of [`POINTING`].
fn join_phrases(words: &mut Vec<Word>) {
    let mutual = MUTUAL.into_iter().map(|phrase| (phrase, "side-by-side"));
    let pointing = POINTING.into_iter().map(|phrase| (phrase, phrase[1]));
    let phrases: Vec<(&[&str], &str)> = mutual.chain(pointing).collect();
    let mut at = 0;
    while at < words.len() {
        let begins = |(phrase, _): &&(&[&str], &str)| {
            let here = words.get(at..at + phrase.len());
            here.is_some_and(|here| here.iter().zip(*phrase).all(|(word, text)| word.is(text)))
        };
        if let Some((phrase, meant)) = phrases.iter().find(begins) {
            let end = words[at + phrase.len() - 1].bytes.end;
            words.drain(at + 1..at + phrase.len());
            words[at].text = (*meant).to_owned();
            words[at].typed = phrase.join(" ");
            words[at].bytes.end = end;
        }
        at += 1;
    }
}

fn mark(kind: Kind, bytes: Range<usize>) -> Word {
    Word {
        text: String::new(),
        typed: String::new(),
        bytes,
        kind,
    }
}

/// Text as it is compared: in lower case, an accent and its letter as one character, apostrophes straight.
pub(crate) fn plain(text: &str) -> String {
    let lower = text.to_lowercase();
    let composed = lower.as_str().nfc().map(|(letter, _)| letter);
    let straight = composed.map(|letter| match letter {
        '\u{2019}' => '\'',
        letter => letter,
    });
    straight.collect()
}

/// Whether the character belongs to the letter before it: an accent of its own, as macOS writes file names, or what joins
/// letters that are written apart.
fn is_mark(c: char) -> bool {
    is_combining_mark(c) || matches!(c, '\u{200c}' | '\u{200d}')
}

/// Whether the letter continues a word: a hyphen, an apostrophe or a decimal point does so between letters.
fn belongs(letters: &[(char, usize)], i: usize) -> bool {
    let c = letters[i].0;
    let after = letters
        .get(i + 1)
        .is_some_and(|next| next.0.is_alphanumeric());
    let digits = i > 0
        && letters[i - 1].0.is_ascii_digit()
        && letters
            .get(i + 1)
            .is_some_and(|next| next.0.is_ascii_digit());
    let marks = i > 0 && is_mark(c);
    c.is_alphanumeric() || marks || ("-'\u{2019}_".contains(c) && after) || (c == '.' && digits)
}

/// How many of the letters, from the first on, are a word of textual inversion, such as `<cat-toy>`; none if none are.
fn learned(letters: &[(char, usize)]) -> Option<usize> {
    let (_, after) = letters.split_first().filter(|(first, _)| first.0 == '<')?;
    let length = after
        .iter()
        .take_while(|letter| letter.0.is_alphanumeric() || JOINTS.contains(&letter.0))
        .count();
    let named = after[..length]
        .iter()
        .any(|letter| letter.0.is_alphanumeric());
    let closed = after.get(length).is_some_and(|letter| letter.0 == '>');
    (named && closed).then_some(length + 2)
}

/// Whether words are one phrase of place or direction: they mean the same when nothing joins them, as in `left_of` and
/// `in-front-of`.
fn is_place(parts: &[Word]) -> bool {
    let whole = |(_, length): (Spatial, usize)| length == parts.len();
    parts.iter().all(|part| part.is_one_of(DIRECTIONS)) || spatial::phrase(parts).is_some_and(whole)
}

/// A word of these letters, each with its byte in the prompt; there is at least one.
fn word(letters: &[(char, usize)]) -> Word {
    let typed: String = letters.iter().map(|letter| letter.0).collect();
    let (last, at) = letters[letters.len() - 1];
    Word {
        text: plain(&typed),
        typed,
        bytes: letters[0].1..at + last.len_utf8(),
        kind: Kind::Word,
    }
}

/// Adds a word, or the words of a contraction or of a compound that says where something is.
fn push_word(words: &mut Vec<Word>, letters: &[(char, usize)]) {
    let parts = letters.split(|letter| JOINTS.contains(&letter.0));
    let parts: Vec<Word> = parts.map(word).collect();
    if parts.len() > 1 && is_place(&parts) {
        words.extend(parts);
        return;
    }
    let Word {
        text, typed, bytes, ..
    } = word(letters);
    let mut push = |text: &str, typed: &str, bytes| {
        words.push(Word {
            text: text.to_owned(),
            typed: typed.to_owned(),
            bytes,
            kind: Kind::Word,
        })
    };
    let contraction = [("n't", "not"), ("'s", "is"), ("'re", "are")]
        .into_iter()
        .find_map(|(ending, word)| Some((text.strip_suffix(ending)?, ending, word)));
    match contraction {
        Some((stem, ending, word))
            if word != "is" || ["it", "there", "that", "he", "she"].contains(&stem) =>
        {
            // Counted from the end: before the ending, letters may take more or fewer bytes in lower case.
            let mut letters = typed.char_indices().rev();
            let first = letters.nth(ending.chars().count() - 1);
            let at = first.map_or(0, |(at, _)| at);
            let cut = bytes.end - (typed.len() - at);
            push(stem, &typed[..at], bytes.start..cut);
            push(word, "", cut..bytes.end);
        }
        _ => push(&text, &typed, bytes),
    }
}
