//! What was asked and answered, a line each: the raw answer, and all of the request but the key and the picture's bytes.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use prepose_untrusted::refuse_special;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use thiserror::Error;

use super::question::End;

/// One question that was answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// What the answer depends on: see [`key`].
    pub key: String,
    /// The question's name, for whoever reads the book.
    pub question: String,
    /// Who answered.
    pub model: String,
    /// SHA-256 of the picture's file.
    pub picture: String,
    /// What the model was told to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// What was asked.
    pub text: String,
    /// All else that the request said.
    pub settings: Value,
    /// What was answered, as it came.
    pub answer: String,
    /// What was thought before, if the server shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thoughts: Option<String>,
    /// How the answer ended.
    pub end: End,
    /// Tokens of the request, picture included, if the server counts them.
    #[serde(default)]
    pub prompt_tokens: u64,
    /// Tokens of the answer.
    #[serde(default)]
    pub answer_tokens: u64,
}

/// Why a book cannot be used.
#[derive(Debug, Error)]
pub enum BookError {
    /// It cannot be read or written.
    #[error("cannot use {}: {error}", path.display())]
    Io {
        /// The book.
        path: PathBuf,
        /// What is wrong.
        error: io::Error,
    },
    /// A line is no entry.
    #[error(
        "{}: line {line} is not a judge's answer ({error}); move the file away to ask everything again", path.display()
    )]
    Line {
        /// The book.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// What is wrong.
        error: serde_json::Error,
    },
    /// Somebody else writes into it.
    #[error("{} is being written by another prepose; wait for it, or choose another folder", .0.display())]
    InUse(PathBuf),
}

/// What of an entry is needed again.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    /// What was answered, as it came.
    pub answer: String,
    /// How the answer ended.
    pub end: End,
    /// Tokens of the request.
    pub prompt_tokens: u64,
    /// Tokens of the answer.
    pub answer_tokens: u64,
}

impl From<Entry> for Kept {
    fn from(entry: Entry) -> Self {
        Self {
            answer: entry.answer,
            end: entry.end,
            prompt_tokens: entry.prompt_tokens,
            answer_tokens: entry.answer_tokens,
        }
    }
}

/// A key's digest, which takes less than half the room of its digits; others, of foreign books, as they are.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    Digest([u8; 32]),
    Other(Box<str>),
}

impl Key {
    pub fn of(text: &str) -> Self {
        match unhex(text) {
            Some(digest) => Self::Digest(digest),
            None => Self::Other(text.into()),
        }
    }
}

/// Where an answer is: of a book in a file its line alone is remembered, so that long answers take no memory.
#[derive(Debug)]
enum Held {
    Line { start: u64, length: u32 },
    Here(Box<Kept>),
}

/// Answers by their keys, in a file to which each is added as it comes.
#[derive(Debug)]
pub struct Book {
    entries: HashMap<Key, Held>,
    /// None if the answers are kept for the moment alone.
    file: Option<File>,
    /// Of the file, up to its last whole line.
    length: u64,
    path: PathBuf,
}

impl Book {
    /// Opens a book, or begins one. A last line without an end is of a run that was killed, and is cut off.
    ///
    /// # Errors
    /// It cannot be read or written, holds something else, or is in use.
    pub fn open(path: &Path) -> Result<Self, BookError> {
        let io = |error| BookError::Io {
            path: path.to_owned(),
            error,
        };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        // A pipe would hang.
        if let Ok(metadata) = std::fs::metadata(path) {
            refuse_special(&metadata).map_err(io)?;
        }
        let file = options.open(path).map_err(io)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => {
                return Err(BookError::InUse(path.to_owned()));
            }
            Err(std::fs::TryLockError::Error(error)) => return Err(io(error)),
        }
        let mut entries = HashMap::new();
        let length = scan(BufReader::new(&file), path, |entry, start, length| {
            entries.insert(Key::of(&entry.key), Held::Line { start, length });
        })?;
        file.set_len(length).map_err(io)?;
        Ok(Self {
            entries,
            file: Some(file),
            length,
            path: path.to_owned(),
        })
    }

    /// A book that is not kept: for answers that cost nothing.
    pub fn unkept() -> Self {
        Self {
            entries: HashMap::new(),
            file: None,
            length: 0,
            path: PathBuf::new(),
        }
    }

    /// The answer with this key; none also if its line is no longer what it was.
    pub fn get(&self, key: &str) -> Option<Kept> {
        match self.entries.get(&Key::of(key))? {
            Held::Here(kept) => Some((**kept).clone()),
            Held::Line { start, length } => {
                let mut file = self.file.as_ref()?;
                let mut line = vec![0; usize::try_from(*length).ok()?];
                file.seek(SeekFrom::Start(*start)).ok()?;
                file.read_exact(&mut line).ok()?;
                let entry: Entry = serde_json::from_slice(&line).ok()?;
                (entry.key == key).then(|| entry.into())
            }
        }
    }

    /// How many answers there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds an answer, to the file first.
    ///
    /// # Errors
    /// It cannot be written; the file is as it was then.
    pub fn add(&mut self, entry: Entry) -> Result<(), BookError> {
        let key = Key::of(&entry.key);
        let Some(file) = &mut self.file else {
            self.entries.insert(key, Held::Here(Box::new(entry.into())));
            return Ok(());
        };
        let io = |error: io::Error| BookError::Io {
            path: self.path.clone(),
            error,
        };
        let mut line = serde_json::to_vec(&entry).map_err(|error| io(error.into()))?;
        line.push(b'\n');
        let length =
            u32::try_from(line.len()).map_err(|_| io(io::ErrorKind::FileTooLarge.into()))?;
        // All of it at once, so that a kill leaves at most the last line unfinished; and in the place where it belongs, as a
        // disk that was full may have taken half of the line before.
        let written = file
            .seek(SeekFrom::Start(self.length))
            .and_then(|_| file.write_all(&line));
        if let Err(error) = written {
            // If that fails too, the next one who opens the book does it.
            let _ = file.set_len(self.length);
            return Err(io(error));
        }
        let start = self.length;
        self.length += u64::from(length);
        self.entries.insert(key, Held::Line { start, length });
        Ok(())
    }
}

/// Goes through the whole lines of a book with where each begins and how long it is, and returns where the last one ends.
fn scan(
    mut reader: impl BufRead,
    path: &Path,
    mut each: impl FnMut(Entry, u64, u32),
) -> Result<u64, BookError> {
    let mut whole = 0;
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let read = reader.read_until(b'\n', &mut line);
        let length = read.map_err(|error| BookError::Io {
            path: path.to_owned(),
            error,
        })?;
        if line.last() != Some(&b'\n') {
            break;
        }
        let wrong = |error| BookError::Line {
            path: path.to_owned(),
            line: number,
            error,
        };
        let entry = serde_json::from_slice(&line).map_err(wrong)?;
        let fits = u32::try_from(length);
        let length = fits.map_err(|_| {
            wrong(serde::de::Error::custom(
                "it is longer than an answer can be",
            ))
        })?;
        each(entry, whole, length);
        whole += u64::from(length);
    }
    Ok(whole)
}

/// The entries of a book's text, in their order; a last line without an end is none.
///
/// # Errors
/// A line is no entry.
pub fn entries(text: &[u8]) -> Result<Vec<Entry>, BookError> {
    let mut entries = Vec::new();
    scan(text, Path::new("the book"), |entry, _, _| {
        entries.push(entry)
    })?;
    Ok(entries)
}

/// What an answer depends on: picture, words, model and settings.
pub fn key(
    picture: &str,
    system: Option<&str>,
    text: &str,
    model: &str,
    settings: &Value,
) -> String {
    let mut hash = Sha256::new();
    // As JSON, so that no part can run into the next one.
    let whole = serde_json::json!([picture, system, text, model, settings]);
    hash.update(whole.to_string());
    hex(&hash.finalize())
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing into a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The bytes of a digest's digits, as [`hex`] writes them.
fn unhex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    let digits = text.as_bytes();
    if digits.len() != 64 {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |of: u8| match of {
            b'0'..=b'9' => Some(of - b'0'),
            b'a'..=b'f' => Some(of - b'a' + 10),
            _ => None,
        };
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}
