//! Whose the pictures in a folder are. A picture names its owner by a mark of the owner's token, so that it stays the same
//! caller's when other tokens come and go. Tokens may be short enough to be guessed one after the other until the digest fits;
//! therefore the mark is made with a key that the folder has in a file of its own, and tells nothing to those who have no more
//! than a picture's `.json`.

use std::fs::OpenOptions;
use std::io::{Error, ErrorKind, Write};
use std::path::{Path, PathBuf};

use prepose_store::files::WriteError;
use prepose_untrusted::read_regular;
use sha2::{Digest, Sha256};

use crate::guard::Caller;
use crate::random;

/// The file with the key.
const KEY: &str = "callers.key";
/// Random bytes of the key, which stands in the file as hexadecimal digits.
const KEY_BYTES: usize = 32;
/// Bytes of a mark.
const MARK_BYTES: usize = 16;

/// Why a folder of pictures cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// It cannot be written to.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// It cannot be told whose pictures it has.
    #[error(
        "cannot read the key in {}; put the file back, or remove it, and pictures made with tokens so far belong to nobody",
        path.display()
    )]
    Key {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: Error,
    },
}

/// The callers of a server as a folder's pictures name them.
pub(super) struct Owners(Vec<String>);

impl Owners {
    /// The callers with `tokens`, in their order. Without tokens there is one caller, whose pictures name no owner.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn of(tokens: &[String], folder: &Path) -> Result<Self, OpenError> {
        if tokens.is_empty() {
            return Ok(Self(Vec::new()));
        }
        let key = key(folder)?;
        let mark = |token: &String| {
            let digest = Sha256::new().chain_update(&key).chain_update(token);
            let digest = digest.finalize();
            (digest[..MARK_BYTES].iter())
                .map(|byte| format!("{byte:02x}"))
                .collect::<String>()
        };
        Ok(Self(tokens.iter().map(mark).collect()))
    }

    /// How the caller's pictures name their owner.
    pub fn mark(&self, caller: Caller) -> Option<&str> {
        self.0.get(caller).map(String::as_str)
    }

    /// Whose picture names that owner; none of somebody who is no caller of this server.
    pub fn caller(&self, mark: Option<&str>) -> Option<Caller> {
        match mark {
            // Of a token that is given twice the last one is the caller, as for the guard.
            Some(mark) => self.0.iter().rposition(|known| known == mark),
            None => self.0.is_empty().then_some(0),
        }
    }
}

/// The folder's key, made if there is none. Only the server's own user can read it.
fn key(folder: &Path) -> Result<Vec<u8>, OpenError> {
    let path = folder.join(KEY);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = options.open(&path).and_then(|mut file| {
        file.write_all(random::hex(KEY_BYTES).as_bytes())?;
        file.sync_all()
    });
    if let Err(source) = written
        && source.kind() != ErrorKind::AlreadyExists
    {
        return Err(WriteError::File { path, source }.into());
    }
    let digits = 2 * KEY_BYTES;
    let read = match read_regular(&path, digits as u64) {
        Ok(key) if key.len() < digits => {
            let message = format!("it has {} characters instead of {digits}", key.len());
            Err(Error::new(ErrorKind::InvalidData, message))
        }
        read => read,
    };
    read.map_err(|source| OpenError::Key { path, source })
}
