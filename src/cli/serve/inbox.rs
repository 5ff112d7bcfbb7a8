//! Pictures that clients send, as files that last for as long as a request needs them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use prepose::output::files::{WriteError, write_atomically};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

/// A folder of its own, removed with it.
pub struct Inbox {
    folder: TempDir,
    /// By their hash.
    sent: Mutex<HashMap<String, Weak<Sent>>>,
}

/// A picture's file, for all requests that it was sent with; the last one of them takes it away.
pub struct Sent {
    /// SHA-256 of the file, by which it is called.
    pub hash: String,
    inbox: Arc<Inbox>,
}

impl Inbox {
    /// An empty one.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn new() -> std::io::Result<Self> {
        Ok(Self {
            folder: tempfile::tempdir()?,
            sent: Mutex::default(),
        })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Where a picture with that hash is.
    pub fn file(&self, hash: &str) -> PathBuf {
        self.path().join(format!("{hash}.png"))
    }

    fn sent(&self) -> MutexGuard<'_, HashMap<String, Weak<Sent>>> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a picture for as long as what is returned lives.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn keep(self: &Arc<Self>, png: &[u8]) -> Result<Arc<Sent>, WriteError> {
        let hash = format!("{:x}", Sha256::digest(png));
        let mut sent = self.sent();
        let path = self.file(&hash);
        if !path.exists() {
            write_atomically(&path, png)?;
        }
        if let Some(known) = sent.get(&hash).and_then(Weak::upgrade) {
            return Ok(known);
        }
        let new = Arc::new(Sent {
            hash: hash.clone(),
            inbox: self.clone(),
        });
        sent.insert(hash, Arc::downgrade(&new));
        Ok(new)
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        let mut sent = self.inbox.sent();
        // Meanwhile it may have been sent again.
        if sent
            .get(&self.hash)
            .is_some_and(|last| last.strong_count() == 0)
        {
            sent.remove(&self.hash);
            if let Err(error) = std::fs::remove_file(self.inbox.file(&self.hash)) {
                tracing::warn!("a picture that was sent stays in the inbox: {error}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_goes_with_the_last_request_that_needs_it() {
        let inbox = Arc::new(Inbox::new().unwrap());
        let files = || std::fs::read_dir(inbox.path()).unwrap().count();
        let [first, second, other] =
            [&b"a"[..], b"a", b"b"].map(|png| inbox.keep(png).ok().unwrap());
        let path = inbox.file(&first.hash);
        assert_eq!((files(), std::fs::read(&path).unwrap()), (2, b"a".to_vec()));
        drop(first);
        assert!(path.exists());
        drop(second);
        assert!(!path.exists());
        let again = inbox.keep(b"a").ok().unwrap();
        assert!(path.exists());
        drop((again, other));
        assert_eq!(files(), 0);
        assert!(inbox.sent().is_empty());
    }
}
