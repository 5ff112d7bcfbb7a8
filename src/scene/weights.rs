//! AUTOMATIC1111's notation for weights: `(word)`, `[word]`, `(word:1.3)`, `BREAK`.

use std::ops::Range;

use thiserror::Error;

/// The largest weight, in either direction; beyond it the hidden states are only noise.
pub const MAX_WEIGHT: f32 = 10.0;

/// A weight that is not a number, or beyond [`MAX_WEIGHT`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "the weight {weight} of {text:?} is not between -{MAX_WEIGHT} and {MAX_WEIGHT}; write \\( and \\) for brackets that are text"
)]
pub struct WeightError {
    /// The weight as written, or as brackets multiply to.
    pub weight: String,
    /// The end of the text before it, at most 40 characters.
    pub text: String,
}

/// Text of one weight.
#[derive(Debug, Clone, PartialEq)]
pub struct Piece {
    /// Without brackets, weights and escapes.
    pub text: String,
    /// For each byte of `text` and its end, the byte of the prompt as typed.
    pub origin: Vec<usize>,
    /// What the tokens' hidden states are multiplied by.
    pub weight: f32,
    /// It stands after a `BREAK`.
    pub begins_chunk: bool,
}

impl Piece {
    /// The bytes of the prompt as typed, from the first to the last character, that `bytes` of the text come from.
    ///
    /// # Panics
    /// `bytes` are not within the text.
    pub fn typed(&self, bytes: &Range<usize>) -> Range<usize> {
        let start = self.origin[bytes.start];
        // Before the next character a weight, brackets and a backslash may stand.
        let end = match bytes.is_empty() {
            true => start,
            false => self.origin[bytes.end - 1] + 1,
        };
        start..end
    }
}

/// What a bracket multiplies the weight by unless it says otherwise.
const STEP: f64 = 1.1;

const BREAK: &str = "BREAK";

/// A character of text.
struct Letter {
    character: char,
    /// Its byte in the prompt.
    at: usize,
    weight: f64,
    begins_chunk: bool,
}

/// Splits a prompt into pieces of equal weight; neighbours of the same weight are one piece.
pub fn parse(prompt: &str) -> Result<Vec<Piece>, WeightError> {
    let mut letters: Vec<Letter> = Vec::new();
    // The letters at which brackets opened.
    let (mut round, mut square) = (Vec::new(), Vec::new());
    let mut begins_chunk = false;
    let mut at = 0;
    while let Some(mut character) = prompt[at..].chars().next() {
        let rest = &prompt[at + character.len_utf8()..];
        match character {
            '(' => round.push(letters.len()),
            '[' => square.push(letters.len()),
            ')' if !round.is_empty() => multiply(&mut letters, round.pop(), STEP),
            ']' if !square.is_empty() => multiply(&mut letters, square.pop(), 1.0 / STEP),
            ':' if !round.is_empty() && number_before_bracket(rest).is_some() => {
                let (number, length) = number_before_bracket(rest).unwrap_or_default();
                check(number, number.parse().unwrap_or(f64::NAN), &prompt[..at])?;
                multiply(&mut letters, round.pop(), number.parse().unwrap_or(1.0));
                at += length;
            }
            'B' if is_break(prompt, at) => {
                begins_chunk = true;
                at += BREAK.len() - 1;
            }
            _ => {
                if character == '\\'
                    && let Some(escaped) = rest.chars().next().filter(|c| "()[]\\".contains(*c))
                {
                    character = escaped;
                    at += 1;
                }
                let begins_chunk = std::mem::take(&mut begins_chunk);
                letters.push(Letter {
                    character,
                    at,
                    weight: 1.0,
                    begins_chunk,
                });
            }
        }
        at += character.len_utf8();
    }
    for start in round {
        multiply(&mut letters, Some(start), STEP);
    }
    for start in square {
        multiply(&mut letters, Some(start), 1.0 / STEP);
    }
    pieces(&letters)
}

fn multiply(letters: &mut [Letter], start: Option<usize>, factor: f64) {
    for letter in &mut letters[start.unwrap_or_default()..] {
        letter.weight *= factor;
    }
}

/// The number of `:1.3)`, given what follows the colon, and how many bytes it takes with the bracket.
fn number_before_bracket(rest: &str) -> Option<(&str, usize)> {
    let (number, _) = rest.split_once(')')?;
    let length = number.len() + 1;
    let number = number.trim();
    number.parse::<f64>().ok().map(|_| (number, length))
}

/// Whether the word BREAK begins at byte `at`.
fn is_break(prompt: &str, at: usize) -> bool {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    prompt[at..]
        .strip_prefix(BREAK)
        .is_some_and(|after| !after.starts_with(word))
        && !prompt[..at].ends_with(word)
}

/// Refuses what is not a sensible weight; `text` ends with what it belongs to.
fn check(written: &str, weight: f64, text: &str) -> Result<(), WeightError> {
    if weight.abs() <= f64::from(MAX_WEIGHT) {
        return Ok(());
    }
    let tail: Vec<char> = text.chars().rev().take(40).collect();
    Err(WeightError {
        weight: written.to_owned(),
        text: tail.into_iter().rev().collect(),
    })
}

fn pieces(letters: &[Letter]) -> Result<Vec<Piece>, WeightError> {
    let mut pieces = Vec::new();
    for run in letters.chunk_by(|a, b| a.weight == b.weight && !b.begins_chunk) {
        let text: String = run.iter().map(|letter| letter.character).collect();
        let (first, last) = (&run[0], &run[run.len() - 1]);
        check(&format!("{:.1}", first.weight), first.weight, &text)?;
        let bytes = run
            .iter()
            .flat_map(|letter| (0..letter.character.len_utf8()).map(|i| letter.at + i));
        let origin = bytes.chain([last.at + last.character.len_utf8()]).collect();
        pieces.push(Piece {
            text,
            origin,
            weight: first.weight as f32,
            begins_chunk: first.begins_chunk,
        });
    }
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weights(prompt: &str) -> Vec<(String, f32)> {
        parse(prompt)
            .unwrap()
            .into_iter()
            .map(|piece| (piece.text, piece.weight))
            .collect()
    }

    fn close(prompt: &str, expected: &[(&str, f32)]) {
        let found = weights(prompt);
        let same = found.len() == expected.len()
            && found
                .iter()
                .zip(expected)
                .all(|(f, e)| f.0 == e.0 && (f.1 - e.1).abs() < 1e-5);
        assert!(same, "{prompt:?}: {found:?}");
    }

    #[test]
    fn a1111_notation() {
        close("normal text", &[("normal text", 1.0)]);
        close(
            "an (important) word",
            &[("an ", 1.0), ("important", 1.1), (" word", 1.0)],
        );
        close("(unbalanced", &[("unbalanced", 1.1)]);
        close(r"\(literal\]", &[("(literal]", 1.0)]);
        close("(unnecessary)(parens)", &[("unnecessaryparens", 1.1)]);
        close(
            "a (((house:1.3)) [on] a (hill:0.5), sun, (((sky))).",
            &[
                ("a ", 1.0),
                ("house", 1.573),
                (" ", 1.1),
                ("on", 1.0),
                (" a ", 1.1),
                ("hill", 0.55),
                (", sun, ", 1.1),
                ("sky", 1.4641),
                (".", 1.1),
            ],
        );
        close(
            "a) b] 3:2 (c:d) (e: -1.5 )",
            &[("a) b] 3:2 ", 1.0), ("c:d", 1.1), (" ", 1.0), ("e", -1.5)],
        );
        close("", &[]);
        close("()[]", &[]);
    }

    #[test]
    fn breaks_begin_chunks() {
        let pieces = parse("one BREAK (two) BREAKFAST BREAK").unwrap();
        let found: Vec<_> = pieces
            .iter()
            .map(|p| (p.text.trim(), p.begins_chunk))
            .collect();
        assert_eq!(
            found,
            [
                ("one", false),
                ("", true),
                ("two", false),
                ("BREAKFAST", false)
            ]
        );
    }

    #[test]
    fn origins_are_bytes_of_the_prompt() {
        for prompt in [r"a (caf\(é\):1.2) [b]", "é(ü)", "((x:2) y)"] {
            for piece in parse(prompt).unwrap() {
                assert_eq!(piece.origin.len(), piece.text.len() + 1);
                for (i, c) in piece.text.char_indices() {
                    assert!(prompt[piece.origin[i]..].starts_with(c), "{prompt:?} {c:?}");
                }
            }
        }
    }

    #[test]
    fn notation_around_words_is_no_part_of_them() {
        for (prompt, words) in [
            ("a (red car:1.0) here", &["red", "car"][..]),
            ("[(red car)] here", &["red", "car"]),
            (r"a \(big cat\) here", &["(", "big", "cat", ")"]),
            ("a (café:1.0)é", &["café"]),
            ("a (dog)", &["dog", ""]),
        ] {
            let pieces = parse(prompt).unwrap();
            for word in words {
                let within = |piece: &Piece| {
                    let start = piece.text.find(word)?;
                    Some(piece.typed(&(start..start + word.len())))
                };
                let found = pieces.iter().find_map(within).unwrap();
                assert_eq!(&prompt[found], *word, "{prompt}");
            }
        }
    }

    #[test]
    fn absurd_weights_are_refused() {
        for prompt in [
            "a (dog:11)",
            "a (dog:nan)",
            "(dog:inf)",
            "(dog:-1e9)",
            "((dog:5):5)",
        ] {
            let message = parse(prompt).unwrap_err().to_string();
            assert!(
                message.contains("dog") && message.contains("not between -10 and 10"),
                "{message}"
            );
        }
        assert!(parse(&"(".repeat(60_000)).is_ok());
        assert!(parse(&format!("{}x", "(".repeat(100))).is_err());
    }
}
