//! Writing files so that a reader never sees half of one.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Why something could not be written.
#[derive(Debug, Error)]
pub enum WriteError {
    /// The folder for the output does not exist and could not be made.
    #[error("cannot create the folder {}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
    /// The folder exists but nothing can be written there.
    #[error("cannot write into the folder {}; choose another with -o", path.display())]
    ReadOnly {
        /// The folder.
        path: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
    /// A file could not be written or put in place. Nothing is left of it.
    #[error("cannot write {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
}

/// The folder that holds `file`; the current one for a bare name.
pub fn parent(file: &Path) -> &Path {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Makes `folder` if need be and makes sure that a file can be written there, so that a run does
/// not find out after minutes of work.
pub fn prepare_folder(folder: &Path) -> Result<(), WriteError> {
    fs::create_dir_all(folder).map_err(|source| WriteError::Folder {
        path: folder.to_path_buf(),
        source,
    })?;
    tempfile::Builder::new()
        .prefix(UNFINISHED)
        .tempfile_in(folder)
        .and_then(|mut file| file.write_all(b"probe"))
        .map_err(|source| WriteError::ReadOnly {
            path: folder.to_path_buf(),
            source,
        })
}

/// Takes `folder`, which is there, for this process alone, until what is returned is dropped or the process ends, however it
/// ends; none if another process has it. On file systems without locks everybody gets it.
///
/// # Errors
/// The file of the lock cannot be made.
pub fn lock(folder: &Path) -> Result<Option<FolderLock>, WriteError> {
    let path = folder.join(LOCK);
    let file = OpenOptions::new().create(true).append(true).open(&path);
    let file = file.map_err(|source| WriteError::File { path, source })?;
    Ok(match file.try_lock() {
        Err(TryLockError::WouldBlock) => None,
        Ok(()) | Err(TryLockError::Error(_)) => Some(FolderLock { _file: file }),
    })
}

/// The file that is locked; it stays, as removing it would let two processes lock two files of that name.
const LOCK: &str = "lock";

/// A folder that no other process takes by [`lock`].
#[derive(Debug)]
pub struct FolderLock {
    _file: File,
}

/// Writes `bytes` to `path` through a temporary file beside it and a rename: afterwards `path`
/// holds all of `bytes`, or what it held before.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), WriteError> {
    let fail = |source| WriteError::File {
        path: path.to_path_buf(),
        source,
    };
    let mut file = tempfile::Builder::new()
        .prefix(UNFINISHED)
        .tempfile_in(parent(path))
        .map_err(fail)?;
    file.write_all(bytes).map_err(fail)?;
    file.as_file().sync_all().map_err(fail)?;
    // A temporary file is private to its owner; a picture should have the usual permissions.
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = fs::Permissions::from_mode(0o644);
        file.as_file().set_permissions(mode).map_err(fail)?;
    }
    file.persist(path).map_err(|error| fail(error.error))?;
    Ok(())
}

/// How the names of files begin that are not finished.
const UNFINISHED: &str = ".prepose-";

/// Removes what [`write_atomically`] left in `folder` when a process was killed in the middle. Nobody else may be writing there.
pub fn remove_unfinished(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if name
            .to_str()
            .is_some_and(|name| name.starts_with(UNFINISHED))
        {
            // It takes room and does no harm.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Appends `line` and a line feed to `path` in one write, so that lines of runs that share a file
/// do not mix.
pub fn append_line(path: &Path, line: &str) -> Result<(), WriteError> {
    let fail = |source| WriteError::File {
        path: path.to_path_buf(),
        source,
    };
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .map_err(fail)?;
    let mut bytes = Vec::with_capacity(line.len() + 1);
    bytes.extend_from_slice(line.as_bytes());
    bytes.push(b'\n');
    file.write_all(&bytes).map_err(fail)
}

/// A name for a picture in `folder` that is not taken: `stem.png`, else `stem-2.png` and so on.
pub fn free_name(folder: &Path, stem: &str) -> PathBuf {
    let first = folder.join(format!("{stem}.png"));
    if !first.exists() {
        return first;
    }
    (2..)
        .map(|n| folder.join(format!("{stem}-{n}.png")))
        .find(|path| !path.exists())
        .unwrap_or(first)
}

/// The prompt as a file name: lower-case words joined by hyphens, at most 60 characters.
pub fn slug(prompt: &str) -> String {
    let mut slug = String::new();
    for word in prompt
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
    {
        if slug.chars().count() + word.chars().count() + 1 > 60 {
            break;
        }
        if !slug.is_empty() {
            slug.push('-');
        }
        slug.extend(word.chars().flat_map(char::to_lowercase));
    }
    if slug.is_empty() {
        slug.push_str("picture");
    }
    slug
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slug_is_short_and_plain() {
        assert_eq!(slug("A dog, left of a cat!"), "a-dog-left-of-a-cat");
        assert_eq!(slug("  ../../etc "), "etc");
        assert_eq!(slug("🐶"), "picture");
        assert!(slug(&"word ".repeat(100)).len() <= 60);
    }

    #[test]
    fn names_do_not_collide() {
        let folder = tempfile::tempdir().unwrap();
        let first = free_name(folder.path(), "x");
        write_atomically(&first, b"1").unwrap();
        let second = free_name(folder.path(), "x");
        assert_ne!(first, second);
        assert_eq!(second.file_name().unwrap(), "x-2.png");
    }

    #[test]
    fn a_failed_write_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("taken");
        fs::create_dir(&target).unwrap();
        fs::write(target.join("inside"), b"kept").unwrap();
        assert!(write_atomically(&target, b"new").is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert_eq!(fs::read(target.join("inside")).unwrap(), b"kept");
    }

    #[test]
    fn lines_are_appended() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("manifest.jsonl");
        append_line(&path, "{}").unwrap();
        append_line(&path, "[]").unwrap();
        assert_eq!(fs::read_to_string(path).unwrap(), "{}\n[]\n");
    }
}
