//! Which bytes a picture came from.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::error::WeightsError;
use crate::tensors::TensorFile;

/// A file and the SHA-256 of its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileHash {
    /// The file.
    pub path: PathBuf,
    /// 64 hexadecimal digits, lower case.
    pub sha256: String,
}

/// The SHA-256 of the file at `path`, read in pieces, as 64 hexadecimal digits.
///
/// # Errors
/// [`WeightsError::Io`].
pub fn sha256_file(path: &Path) -> Result<String, WeightsError> {
    let io = |source| WeightsError::Io {
        path: path.to_path_buf(),
        source,
    };
    let mut file = File::open(path).map_err(io)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(hex(&hasher.finalize())),
            Ok(n) => hasher.update(&buffer[..n]),
            Err(err) if err.kind() == std::io::ErrorKind::Interrupted => {}
            Err(err) => return Err(io(err)),
        }
    }
}

/// The hash of an open file: of the embedded bytes, where it is in the binary.
pub(crate) fn hash_file(file: &TensorFile) -> Result<FileHash, WeightsError> {
    let sha256 = match file.embedded_bytes() {
        Some(bytes) => hex(&Sha256::digest(bytes)),
        None => sha256_file(file.path())?,
    };
    Ok(FileHash {
        path: file.path().to_path_buf(),
        sha256,
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
