//! What was asked and answered, a line each: the raw answer, and all of the request but the key and the picture's bytes.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Seek as _, SeekFrom, Write as _};
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
        "{}: line {line} is no answer of a judge ({error}); move the file away to ask everything anew", path.display()
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

impl Entry {
    fn kept(self) -> (String, Kept) {
        let kept = Kept {
            answer: self.answer,
            end: self.end,
            prompt_tokens: self.prompt_tokens,
            answer_tokens: self.answer_tokens,
        };
        (self.key, kept)
    }
}

/// Answers by their keys, in a file to which each is added as it comes.
#[derive(Debug)]
pub struct Book {
    entries: HashMap<String, Kept>,
    /// None if the answers are kept for the moment alone.
    file: Option<File>,
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
        let mut file = options.open(path).map_err(io)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => {
                return Err(BookError::InUse(path.to_owned()));
            }
            Err(std::fs::TryLockError::Error(error)) => return Err(io(error)),
        }
        let mut entries = HashMap::new();
        let mut whole = 0;
        let mut reader = BufReader::new(&file);
        for number in 1.. {
            let mut line = Vec::new();
            let length = reader.read_until(b'\n', &mut line).map_err(io)?;
            if line.last() != Some(&b'\n') {
                break;
            }
            let entry: Entry = serde_json::from_slice(&line).map_err(|error| BookError::Line {
                path: path.to_owned(),
                line: number,
                error,
            })?;
            entries.extend([entry.kept()]);
            whole += length as u64;
        }
        file.set_len(whole).map_err(io)?;
        file.seek(SeekFrom::End(0)).map_err(io)?;
        Ok(Self {
            entries,
            file: Some(file),
            path: path.to_owned(),
        })
    }

    /// A book that is not kept: for answers that cost nothing.
    pub fn unkept() -> Self {
        Self {
            entries: HashMap::new(),
            file: None,
            path: PathBuf::new(),
        }
    }

    /// The answer with this key.
    pub fn get(&self, key: &str) -> Option<&Kept> {
        self.entries.get(key)
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
    /// It cannot be written.
    pub fn add(&mut self, entry: Entry) -> Result<(), BookError> {
        if let Some(file) = &mut self.file {
            let io = |error: io::Error| BookError::Io {
                path: self.path.clone(),
                error,
            };
            let mut line = serde_json::to_string(&entry).map_err(|error| io(error.into()))?;
            line.push('\n');
            // All of it at once, so that a kill leaves at most the last line unfinished.
            file.write_all(line.as_bytes()).map_err(io)?;
        }
        self.entries.extend([entry.kept()]);
        Ok(())
    }
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
