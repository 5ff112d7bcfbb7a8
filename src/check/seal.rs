//! A finished picture as a run writes it down before its method is complete: what is known of it in the first line, and
//! in the second the digests by which damage is noticed.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::sample::Sample;

/// A picture that is written down, with its files.
#[derive(Clone, Debug, PartialEq)]
pub struct Sealed {
    /// What is known of it.
    pub sample: Sample,
    /// The picture, and what is drawn beside it.
    pub files: Vec<SealedFile>,
}

/// A file of a picture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SealedFile {
    /// Its name within the method's folder.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// SHA-256 of what is in it.
    pub sha256: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Seal {
    /// SHA-256 of the first line.
    sha256: String,
    files: Vec<SealedFile>,
}

/// SHA-256 of a sample's line, in hexadecimal digits.
///
/// # Errors
/// A number that JSON does not have.
pub fn digest(sample: &Sample) -> serde_json::Result<String> {
    Ok(sha256(&sample.to_line()?))
}

fn sha256(text: &str) -> String {
    format!("{:x}", Sha256::digest(text))
}

impl Sealed {
    /// Both lines.
    ///
    /// # Errors
    /// A number that JSON does not have.
    pub fn to_text(&self) -> serde_json::Result<String> {
        let line = self.sample.to_line()?;
        let seal = serde_json::to_string(&Seal {
            sha256: sha256(&line),
            files: self.files.clone(),
        })?;
        Ok(format!("{line}\n{seal}\n"))
    }

    /// What [`to_text`](Self::to_text) gave; none if a byte of it is another.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?.strip_suffix('\n')?;
        let (line, seal) = text.split_once('\n')?;
        let seal: Seal = serde_json::from_str(seal).ok()?;
        if sha256(line) != seal.sha256 {
            return None;
        }
        Some(Self {
            sample: Sample::from_line(line).ok()?,
            files: seal.files,
        })
    }
}
