//! The benchmark's file: a JSON object a line, as its authors publish it.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{Choice, Domain, Item, NONE, OPTIONS, QUESTIONS};

/// A line as it is in the file.
#[derive(Debug, Deserialize, Serialize)]
struct Line {
    id: String,
    #[serde(default)]
    scene: String,
    prompt: String,
    question_type: Vec<String>,
    questions: Vec<String>,
    answers: Vec<String>,
}

/// Why a file cannot be used.
#[derive(Debug, Error)]
pub enum FileError {
    /// A line is no JSON object of the form.
    #[error(
        "line {line}: {error}; a line has \"id\", \"prompt\", \"question_type\", \"questions\" and \"answers\""
    )]
    Json {
        /// From 1.
        line: usize,
        /// What is wrong.
        error: serde_json::Error,
    },
    /// Not ten of something.
    #[error("line {line}: {id}: {found} {what}, but there must be ten, one for each sub-domain")]
    Count {
        /// From 1.
        line: usize,
        /// Of the item.
        id: String,
        /// Of what.
        what: &'static str,
        /// How many there are.
        found: usize,
    },
    /// The sub-domains are others, or in another order.
    #[error(
        "line {line}: {id}: question {number} is of type {found:?}, but must be of type {wanted:?}"
    )]
    Type {
        /// From 1.
        line: usize,
        /// Of the item.
        id: String,
        /// From 1.
        number: usize,
        /// What is there.
        found: String,
        /// What should be there.
        wanted: &'static str,
    },
    /// A question's options cannot be told apart.
    #[error(
        "line {line}: {id}: question {number} {why}; it must end in \"Options: A: …, B: …, C: …, D: …, E: None\""
    )]
    Options {
        /// From 1.
        line: usize,
        /// Of the item.
        id: String,
        /// From 1.
        number: usize,
        /// What is wrong.
        why: String,
    },
    /// An answer is none of the options.
    #[error(
        "line {line}: {id}: the answer to question {number} is {found:?}, but the options are A to E"
    )]
    Answer {
        /// From 1.
        line: usize,
        /// Of the item.
        id: String,
        /// From 1.
        number: usize,
        /// What is there.
        found: String,
    },
    /// An id that cannot be a file's name.
    #[error(
        "line {line}: the id {id:?} cannot be the name of a picture: use letters, digits, '.', '_' or '-'"
    )]
    Id {
        /// From 1.
        line: usize,
        /// What is there.
        id: String,
    },
    /// Two items have the same id.
    #[error("line {line}: the id {id:?} is already that of line {first}")]
    Twice {
        /// From 1.
        line: usize,
        /// Of both.
        id: String,
        /// The other line.
        first: usize,
    },
    /// Nothing to draw.
    #[error("line {line}: {id}: the prompt is empty")]
    NoPrompt {
        /// From 1.
        line: usize,
        /// Of the item.
        id: String,
    },
    /// There are none.
    #[error("there are no prompts in it")]
    Empty,
}

/// Reads a file; there must be something in it.
///
/// # Errors
/// A line is none, lacks something or has too much of it, or repeats an id; there are none.
pub fn read(text: &str) -> Result<Vec<Item>, FileError> {
    let items = read_lines(text)?;
    match items.is_empty() {
        true => Err(FileError::Empty),
        false => Ok(items),
    }
}

/// As [`read`], but there may be none, as in a file that was just begun.
///
/// # Errors
/// As [`read`], but for a file without lines.
pub fn read_lines(text: &str) -> Result<Vec<Item>, FileError> {
    let mut items = Vec::new();
    let mut seen = HashMap::new();
    let lines = (1..)
        .zip(text.trim_start_matches('\u{feff}').lines())
        .filter(|(_, text)| !text.trim().is_empty());
    for (line, text) in lines {
        let parsed: Line =
            serde_json::from_str(text).map_err(|error| FileError::Json { line, error })?;
        let item = item(parsed, line)?;
        if let Some(first) = seen.insert(item.id.clone(), line) {
            let id = item.id;
            return Err(FileError::Twice { line, id, first });
        }
        items.push(item);
    }
    Ok(items)
}

/// An item as a line of a file, without the line's end.
pub fn to_line(item: &Item) -> String {
    let answers = item.questions.iter();
    let line = Line {
        id: item.id.clone(),
        scene: item.scene.clone(),
        prompt: item.prompt.clone(),
        question_type: Domain::ALL
            .iter()
            .map(|one| one.as_str().to_owned())
            .collect(),
        questions: item.questions.iter().map(|one| one.text.clone()).collect(),
        answers: answers.map(|one| letter(one.right).to_string()).collect(),
    };
    // Strings and lists of them can always be written.
    serde_json::to_string(&line).unwrap_or_default()
}

/// A place as a letter.
pub fn letter(place: u8) -> char {
    char::from(b'A'.saturating_add(place))
}

fn item(read: Line, line: usize) -> Result<Item, FileError> {
    let id = read.id;
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if id.is_empty() || id.starts_with('.') || !id.chars().all(fits) {
        return Err(FileError::Id { line, id });
    }
    for (what, found) in [
        ("questions", read.questions.len()),
        ("answers", read.answers.len()),
        ("types of questions", read.question_type.len()),
    ] {
        if found != QUESTIONS {
            return Err(FileError::Count {
                line,
                id,
                what,
                found,
            });
        }
    }
    if read.prompt.trim().is_empty() {
        return Err(FileError::NoPrompt { line, id });
    }
    for (number, (found, wanted)) in (1..).zip(read.question_type.iter().zip(Domain::ALL)) {
        if found != wanted.as_str() {
            return Err(FileError::Type {
                line,
                id,
                number,
                found: found.clone(),
                wanted: wanted.as_str(),
            });
        }
    }
    let mut questions = Vec::with_capacity(QUESTIONS);
    for (number, (text, answer)) in (1..).zip(read.questions.iter().zip(&read.answers)) {
        let right = match answer.as_bytes() {
            [letter @ b'A'..=b'E'] => letter - b'A',
            _ => {
                let found = answer.clone();
                return Err(FileError::Answer {
                    line,
                    id,
                    number,
                    found,
                });
            }
        };
        let (stem, options) = match split(text) {
            Ok(parts) => parts,
            Err(why) => {
                return Err(FileError::Options {
                    line,
                    id,
                    number,
                    why,
                });
            }
        };
        questions.push(Choice {
            text: text.clone(),
            stem,
            options,
            right,
        });
    }
    Ok(Item {
        id,
        scene: read.scene,
        prompt: read.prompt,
        questions,
    })
}

/// A question without its options, and the options A to D.
fn split(text: &str) -> Result<(String, [String; 4]), String> {
    let (stem, rest) = text.rsplit_once("Options:").ok_or("has no \"Options:\"")?;
    if stem.trim().is_empty() {
        return Err("asks nothing".into());
    }
    let mut rest = rest.trim();
    let mut options: [String; OPTIONS] = Default::default();
    for (place, option) in (0u8..).zip(&mut options) {
        let letter = letter(place);
        rest = rest
            .strip_prefix(&format!("{letter}:"))
            .ok_or_else(|| format!("has no option {letter}"))?
            .trim_start();
        let next = self::letter(place + 1);
        let end = match usize::from(place) + 1 < OPTIONS {
            true => {
                let found = rest.find(&format!(", {next}:"));
                found.ok_or_else(|| format!("has no option {next}"))?
            }
            false => rest.len(),
        };
        let (this, after) = rest.split_at(end);
        this.trim().clone_into(option);
        rest = after.strip_prefix(", ").unwrap_or(after);
    }
    if let Some(place) = (0u8..).zip(&options).find(|(_, option)| option.is_empty()) {
        return Err(format!("has nothing as option {}", letter(place.0)));
    }
    let [a, b, c, d, none] = options;
    if none.trim_end_matches('.') != NONE {
        return Err(format!("has {none:?} as option E"));
    }
    Ok((stem.trim().to_owned(), [a, b, c, d]))
}
