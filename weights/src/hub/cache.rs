//! The folder in which downloads lie.
//!
//! It may hold anything: links to the user's own files, pipes, what another program left. Nothing is
//! written through a link: folders must be folders, a partial download must be a file of its own,
//! and finished files and pointers are put in place by renaming, which replaces a link and not what
//! it leads to. Nothing is removed but partial downloads.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use prepose_untrusted::read_regular;

use super::HubError;
use super::plan::is_commit;

/// Where a revision of a repository lies.
pub(super) fn snapshot(cache: &Path, repo: &str, commit: &str) -> PathBuf {
    folder(cache, repo).join("snapshots").join(commit)
}

fn folder(cache: &Path, repo: &str) -> PathBuf {
    cache.join(format!("models--{}", repo.replace('/', "--")))
}

/// One repository's part of the cache. Names given to it have passed the checks of `plan`.
pub(super) struct RepoCache {
    cache: PathBuf,
    repo: String,
}

/// A file that lies in the cache under its name.
pub(super) struct Found {
    /// Where it is, links resolved.
    pub content: PathBuf,
    /// The etag by which it is stored; none for a copy beside the store, or outside of the cache.
    pub etag: Option<String>,
    /// Whether a link leads out of the cache.
    pub outside: bool,
}

/// A download that is not finished: a file of ours alone, locked.
pub(super) struct Part {
    pub file: File,
    pub path: PathBuf,
}

impl RepoCache {
    pub fn new(cache: &Path, repo: &str) -> Self {
        Self {
            cache: cache.into(),
            repo: repo.into(),
        }
    }

    pub fn snapshot(&self, commit: &str) -> PathBuf {
        snapshot(&self.cache, &self.repo, commit)
    }

    /// What lies at `file` of a commit, for reading.
    pub fn find(&self, commit: &str, file: &str) -> Option<Found> {
        let content = fs::canonicalize(self.snapshot(commit).join(file)).ok()?;
        self.found(content)
    }

    /// What is stored by `etag`, for reading.
    pub fn blob(&self, etag: &str) -> Option<Found> {
        let path = folder(&self.cache, &self.repo).join("blobs").join(etag);
        let is_file = fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_file());
        self.found(is_file.then(|| fs::canonicalize(path).ok())??)
    }

    fn found(&self, content: PathBuf) -> Option<Found> {
        if !fs::metadata(&content).ok()?.is_file() {
            return None;
        }
        let root = fs::canonicalize(&self.cache).ok()?;
        let blobs = folder(&root, &self.repo).join("blobs");
        let name = content.file_name().and_then(|name| name.to_str());
        let stored = content.parent() == Some(&blobs);
        Some(Found {
            etag: name.filter(|_| stored).map(str::to_string),
            outside: !content.starts_with(&root),
            content,
        })
    }

    /// The commit that a branch or tag was when it was last pulled.
    pub fn commit_of(&self, revision: &str) -> Option<String> {
        let path = folder(&self.cache, &self.repo).join("refs").join(revision);
        let text = String::from_utf8(read_regular(&path, 128).ok()?).ok()?;
        let commit = text.trim();
        is_commit(commit).then(|| commit.to_string())
    }

    /// Where the branch `main` lies as it was when it was last pulled.
    pub fn main(&self) -> Option<PathBuf> {
        let folder = self.snapshot(&self.commit_of("main")?);
        folder.is_dir().then_some(folder)
    }

    /// Where the only commit lies that is here.
    pub fn only(&self) -> Option<PathBuf> {
        let snapshots = folder(&self.cache, &self.repo).join("snapshots");
        let entries = fs::read_dir(snapshots).ok()?.flatten();
        let mut commits = entries
            .filter(|entry| entry.file_name().to_str().is_some_and(is_commit))
            .map(|entry| entry.path())
            .filter(|path| path.is_dir());
        let only = commits.next()?;
        commits.next().is_none().then_some(only)
    }

    /// The partial download of `etag`, continued or begun, and locked against other processes.
    pub fn part(&self, etag: &str, what: &str) -> Result<Part, HubError> {
        let path = self.folder(&["blobs"])?.join(format!("{etag}.part"));
        // Each turn but the last follows a change by another process.
        for _ in 0..3 {
            let file = match open_own(&path) {
                Ok(Some(file)) => file,
                Ok(None) => continue,
                Err(source) => return Err(HubError::Disk { path, source }),
            };
            match file.try_lock() {
                Ok(()) => {}
                Err(fs::TryLockError::WouldBlock) => break,
                // A file system without locks; the hash will tell if two have written.
                Err(fs::TryLockError::Error(error)) => tracing::debug!(%error, "no lock"),
            }
            // Its former owner may have finished and renamed it before the lock was ours.
            if is_same(&file, &path) {
                return Ok(Part { file, path });
            }
        }
        Err(HubError::Locked { what: what.into() })
    }

    /// Stores a finished download by its etag.
    pub fn store(&self, part: Part, etag: &str) -> Result<(), HubError> {
        let blob = self.folder(&["blobs"])?.join(etag);
        let put = part
            .file
            .sync_all()
            .and_then(|()| fs::rename(&part.path, &blob));
        put.map_err(|source| HubError::Disk { path: blob, source })
    }

    /// Names what is stored by `etag` as `file` of a commit; where it lies then.
    pub fn point(&self, commit: &str, file: &str, etag: &str) -> Result<PathBuf, HubError> {
        let (folders, name) = match file.rsplit_once('/') {
            Some((folders, name)) => (folders.split('/').collect(), name),
            None => (Vec::new(), file),
        };
        let up = "../".repeat(folders.len() + 2);
        let folder = self.folder(&[&["snapshots", commit], folders.as_slice()].concat())?;
        let pointer = folder.join(name);
        let target = PathBuf::from(format!("{up}blobs/{etag}"));
        if fs::read_link(&pointer).is_ok_and(|link| link == target) {
            return Ok(pointer);
        }
        let put = link(&target, &folder, &pointer);
        put.map_err(|source| HubError::Disk {
            path: pointer.clone(),
            source,
        })?;
        Ok(pointer)
    }

    /// Notes which commit a branch or tag is.
    pub fn note_commit(&self, revision: &str, commit: &str) -> Result<(), HubError> {
        let parts: Vec<&str> = ["refs"].into_iter().chain(revision.split('/')).collect();
        let (name, folders) = parts.split_last().expect("it begins with refs");
        let folder = self.folder(folders)?;
        let path = folder.join(name);
        let new = folder.join(temporary_name());
        let write = || {
            let mut file = File::options().write(true).create_new(true).open(&new)?;
            file.write_all(commit.as_bytes())?;
            fs::rename(&new, &path)
        };
        write().map_err(|source| HubError::Disk { path, source })
    }

    /// A folder below the repository's, made if it is missing. Each step must be a folder itself.
    fn folder(&self, parts: &[&str]) -> Result<PathBuf, HubError> {
        let disk = |path: &Path| {
            let path = path.to_path_buf();
            |source| HubError::Disk { path, source }
        };
        fs::create_dir_all(&self.cache).map_err(disk(&self.cache))?;
        let mut path = folder(&self.cache, &self.repo);
        make_folder(&path)?;
        for part in parts {
            path.push(part);
            make_folder(&path)?;
        }
        Ok(path)
    }
}

fn make_folder(path: &Path) -> Result<(), HubError> {
    match fs::create_dir(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let is_folder = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir());
            let refusal = || HubError::NoFolder { path: path.into() };
            is_folder.then_some(()).ok_or_else(refusal)
        }
        Err(source) => Err(HubError::Disk {
            path: path.into(),
            source,
        }),
    }
}

/// Opens `path` for writing if it is a regular file with no other name, or makes it; whatever else
/// has the name loses it first. None if somebody else was quicker.
fn open_own(path: &Path) -> io::Result<Option<File>> {
    let mut options = File::options();
    options.read(true).write(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    }
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_file() && has_one_name(&metadata) => {}
        Ok(_) => {
            // Of a link or of a file with several names, only this name goes.
            fs::remove_file(path)?;
            options.create_new(true);
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            options.create_new(true);
        }
        Err(error) => return Err(error),
    }
    match options.open(path) {
        Ok(file) => {
            let metadata = file.metadata()?;
            Ok((metadata.is_file() && has_one_name(&metadata)).then_some(file))
        }
        Err(error) if matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::NotFound) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

#[cfg(unix)]
fn has_one_name(metadata: &fs::Metadata) -> bool {
    std::os::unix::fs::MetadataExt::nlink(metadata) == 1
}

#[cfg(not(unix))]
fn has_one_name(_: &fs::Metadata) -> bool {
    true
}

/// Whether `path` still is the name of `file`.
#[cfg(unix)]
fn is_same(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let (Ok(open), Ok(named)) = (file.metadata(), fs::symlink_metadata(path)) else {
        return false;
    };
    (open.dev(), open.ino()) == (named.dev(), named.ino())
}

#[cfg(not(unix))]
fn is_same(_: &File, path: &Path) -> bool {
    path.exists()
}

/// Makes `pointer` a link to `target`, in place of what had that name.
#[cfg(unix)]
fn link(target: &Path, folder: &Path, pointer: &Path) -> io::Result<()> {
    let new = folder.join(temporary_name());
    std::os::unix::fs::symlink(target, &new)?;
    fs::rename(&new, pointer).inspect_err(|_| {
        let _ = fs::remove_file(&new);
    })
}

/// As huggingface_hub does where links need a privilege: the file itself moves to its place.
#[cfg(not(unix))]
fn link(target: &Path, folder: &Path, pointer: &Path) -> io::Result<()> {
    fs::rename(folder.join(target), pointer)
}

/// A name that no file of a repository has and no other process uses.
fn temporary_name() -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!(".prepose-{}-{count}", std::process::id())
}
