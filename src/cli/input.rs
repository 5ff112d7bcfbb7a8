//! Text that commands read, and what they say of many things at once.

use std::collections::HashMap;
use std::hash::Hash;
use std::path::{Component, Path, PathBuf};

use anyhow::Context;
use prepose_untrusted::escaped;

/// Stands for standard input in the place of a file's name.
pub const STDIN: &str = "-";

/// How many characters of a message are shown.
const LONGEST: usize = 1000;

/// The words that this program was called with, its own name first. Files may have names that are not UTF-8: what is none in a
/// word is replaced.
pub fn words() -> impl Iterator<Item = String> {
    std::env::args_os().map(|word| word.to_string_lossy().into_owned())
}

/// Errors in the order of their first occurrence, each with its first place and how many more there are.
pub fn once<P, E: Clone + Eq + Hash>(
    errors: impl IntoIterator<Item = (P, E)>,
) -> Vec<(P, E, usize)> {
    let mut told: Vec<(P, E, usize)> = Vec::new();
    let mut known = HashMap::new();
    for (place, error) in errors {
        let at = *known.entry(error.clone()).or_insert(told.len());
        match told.get_mut(at) {
            Some((_, _, more)) => *more += 1,
            None => told.push((place, error, 0)),
        }
    }
    told
}

/// One of [`once`] as a line for a terminal: nothing in it can move the cursor, and it is not as long as what it is about.
pub fn line(kind: &str, place: impl std::fmt::Display, error: &str, more: usize) -> String {
    let more = match more {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    let text = format!("{kind}: {place}{more}: {error}");
    let text = match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    };
    escaped(&text)
}

/// A number with its noun: `1 picture`, `2 pictures`.
pub fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// The path from the root, without `.` and `..`. Links are not followed, as a browser does not follow them either.
pub fn absolute(path: &Path) -> anyhow::Result<PathBuf> {
    let whole = std::path::absolute(path).with_context(|| path.display().to_string())?;
    let mut plain = PathBuf::new();
    for part in whole.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    Ok(plain)
}
