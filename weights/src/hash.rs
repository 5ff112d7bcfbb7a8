//! Which bytes a picture came from, and whether a download is what it should be.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use prepose_formats::{TensorFile, TensorPart};
use prepose_untrusted::open_regular;
use serde::Serialize;
use sha1::Sha1;
use sha2::{Digest as _, Sha256};

use crate::error::WeightsError;

/// A file and the SHA-256 of its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileHash {
    /// The file.
    pub path: PathBuf,
    /// 64 hexadecimal digits, lower case.
    pub sha256: String,
}

/// The SHA-256 of the regular file at `path`, read in pieces, as 64 hexadecimal digits.
///
/// # Errors
/// [`WeightsError::Io`].
pub fn sha256_file(path: &Path) -> Result<String, WeightsError> {
    let hash = open_regular(path).and_then(|mut file| hash::<Sha256>(Sha256::new(), &mut file));
    hash.map_err(|source| WeightsError::Io {
        path: path.to_path_buf(),
        source,
    })
}

/// The hash of an open file: of the embedded bytes, where it is in the binary; of names, types, shapes and values, where it is
/// in memory.
pub(crate) fn hash_file(file: &TensorFile) -> Result<FileHash, WeightsError> {
    let sha256 = match file.embedded_bytes() {
        Some(bytes) => hex(&Sha256::digest(bytes)),
        None if file.is_shared() => {
            let mut hasher = Sha256::new();
            for (name, info) in file.tensors() {
                hasher.update(format!("{name} {} {:?}\n", info.dtype, info.shape));
                file.pieces(name, TensorPart::WHOLE, &mut |piece| hasher.update(piece));
            }
            hex(&hasher.finalize())
        }
        None => sha256_file(file.path())?,
    };
    Ok(FileHash {
        path: file.path().to_path_buf(),
        sha256,
    })
}

/// The hash by which the hub stores a file, in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Digest {
    /// Of a file in large-file storage: of its content.
    Sha256(String),
    /// Of a file in the repository itself: of Git's header for blobs and its content.
    Git(String),
}

impl Digest {
    /// The hash that an etag is; other etags say nothing.
    pub fn of_etag(etag: &str) -> Option<Self> {
        let etag = etag.to_ascii_lowercase();
        let is_hash = etag.bytes().all(|byte| byte.is_ascii_hexdigit());
        match etag.len() {
            64 if is_hash => Some(Self::Sha256(etag)),
            40 if is_hash => Some(Self::Git(etag)),
            _ => None,
        }
    }

    /// Whether the file from its position on has this hash, or else the one that it has.
    pub fn compare(&self, file: &mut File) -> io::Result<Result<(), String>> {
        let (expected, found) = match self {
            Self::Sha256(expected) => (expected, hash(Sha256::new(), file)?),
            Self::Git(expected) => {
                let mut hasher = Sha1::new();
                hasher.update(format!("blob {}\0", file.metadata()?.len()));
                (expected, hash(hasher, file)?)
            }
        };
        Ok(match found == *expected {
            true => Ok(()),
            false => Err(found),
        })
    }

    /// The SHA-256, if it is one.
    pub fn sha256(&self) -> Option<String> {
        match self {
            Self::Sha256(hash) => Some(hash.clone()),
            Self::Git(_) => None,
        }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Sha256(hash) | Self::Git(hash)) = self;
        f.write_str(hash)
    }
}

fn hash<H: sha2::Digest>(mut hasher: H, reader: &mut impl Read) -> io::Result<String> {
    let mut buffer = vec![0; 1 << 20];
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => return Ok(hex(&hasher.finalize())),
            Ok(count) => hasher.update(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
