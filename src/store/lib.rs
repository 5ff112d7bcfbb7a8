//! Keeps the files of a run: in a folder, or in an object store.
//!
//! Owns the [`Store`] trait, its implementations (object stores behind the feature `object-store`), and writing single
//! [`files`] whole or not at all, [`reading`] single files by path or address; and the [`ledger`] of a run's digests. It knows bytes and names, not what is in them.
//!
//! All that a run writes goes through [`Store`], whose writes are whole or not at all, so that a run may be killed at any
//! instant, and several copies of it may run at once.

#![warn(clippy::unwrap_used)]

pub mod files;
pub mod ledger;
mod local;
#[cfg(feature = "object-store")]
mod object;
pub mod reading;

use std::path::Path;
use std::sync::Arc;

use thiserror::Error;

pub use local::LocalStore;
#[cfg(feature = "object-store")]
pub use object::ObjectStore;

/// How names of files begin that are no part of the run: those being written, of which a killed run may leave some, and
/// trials.
const UNFINISHED: &str = ".prepose-";

/// Why a file of a run could not be read or written.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The location cannot be used at all.
    #[error(
        "cannot use {}: {}",
        without_secrets(location),
        prepose_untrusted::redact(why)
    )]
    Location {
        /// As it was given; the message leaves out credentials.
        location: String,
        /// Why not, and the way out.
        why: String,
    },
    /// One file or folder.
    #[error("cannot {action} {name} in {location}")]
    File {
        /// What was tried: `read`, `write`, `list`, `remove`.
        action: &'static str,
        /// Its name in the store.
        name: String,
        /// Where the store is.
        location: String,
        /// The system's or the server's reason.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A name that would lead out of the store.
    #[error(
        "{0:?} is not the name of a file in a run: parts are joined by '/', and none is empty, '.' or '..'"
    )]
    Name(String),
    /// A place outside of the store.
    #[error(
        "cannot {action} {name} in {location}: {link} is a link, and what it leads to is not part of the run; put a folder \
         in its place"
    )]
    Link {
        /// What was tried: `write`, `remove`.
        action: &'static str,
        /// Its name in the store.
        name: String,
        /// Where the store is.
        location: String,
        /// The folder in the store that is a link.
        link: String,
    },
}

/// A file of a store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Its name, from the store's root.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// When it was last written, by the store's clock, in microseconds since 1970; none where the store does not tell.
    pub modified: Option<i64>,
}

/// Files by name. Names are relative, their parts joined by `/`.
pub trait Store: Send + Sync {
    /// Where it is, as [`open`] takes it.
    fn location(&self) -> String;

    /// What is in a file; none if there is no such file.
    ///
    /// # Errors
    /// It is there but cannot be read.
    fn get(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// What is in several files, in their order.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    fn get_all(&self, names: &[String]) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
        names.iter().map(|name| self.get(name)).collect()
    }

    /// Writes a file, in place of what was there. Whoever reads it finds the old or the new, never a part.
    ///
    /// # Errors
    /// It cannot be written; the old is still there then.
    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError>;

    /// Writes a file that is not there yet; of several writers one wins. False if it was there: nothing has changed then.
    ///
    /// # Errors
    /// It cannot be written; nothing is left of it.
    fn put_new(&self, name: &str, bytes: &[u8]) -> Result<bool, StoreError>;

    /// Refuses, before anything is written, a name that nothing can be written to: it, or a folder on its way, leads out
    /// of the store.
    ///
    /// # Errors
    /// [`StoreError::Name`], [`StoreError::Link`].
    fn check_place(&self, name: &str) -> Result<(), StoreError> {
        check_name(name)
    }

    /// Every file below `folder` (all files for an empty name), in the order of their names.
    ///
    /// # Errors
    /// They cannot be listed. A folder that is not there has no files.
    fn list(&self, folder: &str) -> Result<Vec<Entry>, StoreError>;

    /// Removes a file; it may be gone already.
    ///
    /// # Errors
    /// It is still there.
    fn remove(&self, name: &str) -> Result<(), StoreError>;

    /// Removes several files.
    ///
    /// # Errors
    /// One is still there; others may be gone.
    fn remove_all(&self, names: &[String]) -> Result<(), StoreError> {
        names.iter().try_for_each(|name| self.remove(name))
    }

    /// Sees to it that files that were written outlast a power cut.
    ///
    /// # Errors
    /// The system's.
    fn keep(&self, _names: &[String]) -> Result<(), StoreError> {
        Ok(())
    }

    /// The folder of this machine that it is, if it is one.
    fn folder(&self) -> Option<&Path> {
        None
    }
}

/// The store at a location: a path, which is made when something is written, or `s3://bucket/folder`, `gs://…`, `az://…`.
///
/// # Errors
/// A location that is of no known kind, or lacks what it needs; an object store that does not answer.
pub fn open(location: &str) -> Result<Arc<dyn Store>, StoreError> {
    if !location.contains("://") {
        return Ok(Arc::new(LocalStore::new(Path::new(location))));
    }
    #[cfg(feature = "object-store")]
    return Ok(Arc::new(ObjectStore::open(location)?));
    #[cfg(not(feature = "object-store"))]
    Err(StoreError::Location {
        location: location.into(),
        why: "this prepose was built without object stores; build it with the feature object-store, or give a folder"
            .into(),
    })
}

/// A location that cannot be used, as a message shows it: a password may have a slash in it, and then looks like the name
/// of a bucket.
fn without_secrets(location: &str) -> String {
    let secret = |(scheme, rest): (&str, &str)| {
        let (secret, rest) = rest.rsplit_once('@')?;
        secret
            .contains(':')
            .then(|| format!("{scheme}://***@{rest}"))
    };
    let shown = location.split_once("://").and_then(secret);
    prepose_untrusted::redact_address(&shown.unwrap_or_else(|| location.into()))
}

/// Refuses names that would lead out of the store.
fn check_name(name: &str) -> Result<(), StoreError> {
    let part_is_fine =
        |part: &str| !matches!(part, "" | "." | "..") && !part.contains(['\\', '\0']);
    match name.split('/').all(part_is_fine) {
        true => Ok(()),
        false => Err(StoreError::Name(name.into())),
    }
}
