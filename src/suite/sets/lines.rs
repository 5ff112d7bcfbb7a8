//! The lines of a file that anybody may have written, with bounded memory.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use prepose_untrusted::open_regular;
use sha2::{Digest, Sha256};

use super::error::{LINE_LIMIT, LineError, SuiteError};

/// The lines of a file, without their ends and without a byte order mark.
pub(super) struct Lines {
    path: PathBuf,
    reader: BufReader<Box<dyn Read>>,
    /// Of the line that was read last, from 1.
    pub number: usize,
    /// Lines that end in CR LF.
    pub crlf: usize,
    /// The file began with a byte order mark.
    pub bom: bool,
    hash: Sha256,
}

impl Lines {
    pub fn open(path: &Path) -> Result<Self, SuiteError> {
        let file = open_regular(path).map_err(|error| SuiteError::Io {
            path: path.into(),
            error,
        })?;
        Ok(Self::of(path, Box::new(file)))
    }

    /// The lines that somebody types or another program writes.
    pub fn standard_input() -> Self {
        Self::of(Path::new("standard input"), Box::new(std::io::stdin()))
    }

    fn of(path: &Path, reader: Box<dyn Read>) -> Self {
        Self {
            path: path.into(),
            reader: BufReader::new(reader),
            number: 0,
            crlf: 0,
            bom: false,
            hash: Sha256::new(),
        }
    }

    /// The beginning of what is read next.
    pub fn peek(&mut self) -> Result<&[u8], SuiteError> {
        self.reader.fill_buf().map_err(|error| SuiteError::Io {
            path: self.path.clone(),
            error,
        })
    }

    /// The next line; none after the last.
    pub fn next(&mut self) -> Result<Option<String>, SuiteError> {
        let mut line = Vec::new();
        let limit = LINE_LIMIT as u64 + 1;
        let read = (&mut self.reader).take(limit).read_until(b'\n', &mut line);
        let read = read.map_err(|error| SuiteError::Io {
            path: self.path.clone(),
            error,
        })?;
        if read == 0 {
            return Ok(None);
        }
        self.number += 1;
        self.hash.update(&line);
        if self.number == 1 {
            if line.starts_with(&[0xff, 0xfe]) || line.starts_with(&[0xfe, 0xff]) {
                return Err(SuiteError::Utf16(self.path.clone()));
            }
            if line.starts_with(&[0xef, 0xbb, 0xbf]) {
                self.bom = true;
                line.drain(..3);
            }
        }
        if line.last() == Some(&b'\n') {
            line.pop();
            if line.last() == Some(&b'\r') {
                line.pop();
                self.crlf += 1;
            }
        } else if line.len() > LINE_LIMIT {
            return Err(self.wrong(self.number, LineError::TooLong));
        }
        match String::from_utf8(line) {
            Ok(line) => Ok(Some(line)),
            Err(error) => {
                let byte = error.utf8_error().valid_up_to() + 1;
                Err(self.wrong(self.number, LineError::NotUtf8(byte)))
            }
        }
    }

    /// What is wrong with a line.
    pub fn wrong(&self, line: usize, error: LineError) -> SuiteError {
        SuiteError::Line {
            path: self.path.clone(),
            line,
            error: Box::new(error),
        }
    }

    /// The file goes on after as many prompts as are read.
    pub fn too_many(&self, limit: usize) -> SuiteError {
        SuiteError::TooMany {
            path: self.path.clone(),
            limit,
        }
    }

    /// The first digits of the SHA-256 of what was read.
    pub fn short_hash(self) -> String {
        let digest = self.hash.finalize();
        digest[..6]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }
}
