//! A run in a folder of this machine.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use prepose_untrusted::read_regular;
use tempfile::{Builder, NamedTempFile};

use super::{Entry, Store, StoreError, UNFINISHED, check_name};

/// A folder. Files are written beside their place and renamed, which is atomic on local file systems and on NFS; they are
/// not forced onto the disk one by one, so that a power cut, unlike a kill, may leave recent ones empty.
pub struct LocalStore {
    root: PathBuf,
}

impl LocalStore {
    /// The folder need not exist yet.
    pub fn new(root: &Path) -> Self {
        Self { root: root.into() }
    }

    /// The path of a file.
    ///
    /// # Errors
    /// [`StoreError::Name`].
    pub fn path(&self, name: &str) -> Result<PathBuf, StoreError> {
        check_name(name)?;
        Ok(self.root.join(name))
    }

    fn fail(&self, action: &'static str, name: &str, source: io::Error) -> StoreError {
        StoreError::File {
            action,
            name: name.into(),
            location: self.location(),
            source: source.into(),
        }
    }

    /// The path of a file that is to be written or removed: no folder on the way may be a link, which would lead to files
    /// that are not the run's.
    fn own_path(&self, action: &'static str, name: &str) -> Result<PathBuf, StoreError> {
        let path = self.path(name)?;
        for (end, _) in name.match_indices('/') {
            let folder = &name[..end];
            match fs::symlink_metadata(self.root.join(folder)) {
                Ok(about) if about.is_symlink() => {
                    return Err(StoreError::Link {
                        action,
                        name: name.into(),
                        location: self.location(),
                        link: folder.into(),
                    });
                }
                Ok(_) => {}
                // Nothing is below what is not there.
                Err(_) => break,
            }
        }
        Ok(path)
    }

    /// The bytes in a file beside their place.
    fn beside(&self, path: &Path, bytes: &[u8]) -> io::Result<NamedTempFile> {
        let folder = path.parent().unwrap_or(&self.root);
        let open = || {
            let mut builder = Builder::new();
            builder.prefix(UNFINISHED);
            #[cfg(unix)]
            {
                use std::os::unix::fs::PermissionsExt;
                builder.permissions(fs::Permissions::from_mode(0o644));
            }
            builder.tempfile_in(folder)
        };
        let mut opened = open();
        // Another process may remove the folder as empty before there is a file in it.
        for _ in 0..10 {
            match &opened {
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    fs::create_dir_all(folder)?;
                    opened = open();
                }
                _ => break,
            }
        }
        let mut file = opened?;
        file.write_all(bytes)?;
        Ok(file)
    }

    fn collect(&self, folder: &Path, name: &str, found: &mut Vec<Entry>) -> io::Result<()> {
        let entries = match fs::read_dir(folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            // Names that are not UTF-8 are none of ours.
            let Ok(file) = entry.file_name().into_string() else {
                continue;
            };
            if file.starts_with(UNFINISHED) {
                continue;
            }
            let name = match name {
                "" => file,
                folder => format!("{folder}/{file}"),
            };
            // Another process may have removed it meanwhile.
            let about = match fs::metadata(entry.path()) {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                about => about?,
            };
            if !about.is_dir() {
                found.push(Entry {
                    name,
                    bytes: about.len(),
                    modified: about.modified().ok().and_then(microseconds),
                });
            } else if !entry.file_type()?.is_symlink() {
                // What is behind a link is no part of the run.
                self.collect(&entry.path(), &name, found)?;
            }
        }
        Ok(())
    }
}

/// Since 1970; below 0 for a time before.
fn microseconds(time: SystemTime) -> Option<i64> {
    let passed = match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_micros()).ok()?,
        Err(before) => -i64::try_from(before.duration().as_micros()).ok()?,
    };
    Some(passed)
}

/// Makes room for a file where an empty folder has its name. False if there is none.
fn remove_empty_folder(path: &Path) -> bool {
    path.is_dir() && !path.is_symlink() && fs::remove_dir(path).is_ok()
}

impl Store for LocalStore {
    fn location(&self) -> String {
        self.root.display().to_string()
    }

    fn get(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let path = self.path(name)?;
        match read_regular(&path, u64::MAX) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            // A folder is no file.
            Err(_) if path.is_dir() => Ok(None),
            Err(error) => Err(self.fail("read", name, error)),
        }
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let path = self.own_path("write", name)?;
        let file = self.beside(&path, bytes);
        let done = file.and_then(|file| match file.persist(&path) {
            Err(error) if remove_empty_folder(&path) => Ok(error.file.persist(&path)?),
            done => Ok(done?),
        });
        done.map(drop)
            .map_err(|error| self.fail("write", name, error))
    }

    fn put_new(&self, name: &str, bytes: &[u8]) -> Result<bool, StoreError> {
        let path = self.own_path("write", name)?;
        remove_empty_folder(&path);
        let file = self.beside(&path, bytes);
        let done = file.and_then(|file| Ok(file.persist_noclobber(&path)?));
        match done {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(self.fail("write", name, error)),
        }
    }

    fn check_place(&self, name: &str) -> Result<(), StoreError> {
        self.own_path("write", name).map(drop)
    }

    fn list(&self, folder: &str) -> Result<Vec<Entry>, StoreError> {
        let path = match folder {
            "" => self.root.clone(),
            folder => self.path(folder)?,
        };
        let mut found = Vec::new();
        self.collect(&path, folder, &mut found)
            .map_err(|error| self.fail("list", folder, error))?;
        found.sort();
        Ok(found)
    }

    fn remove(&self, name: &str) -> Result<(), StoreError> {
        let path = self.own_path("remove", name)?;
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(self.fail("remove", name, error));
            }
            _ => {}
        }
        // Like in an object store, no folder is left without files. It fails where there are some.
        if let Some(folder) = path.parent().filter(|folder| *folder != self.root) {
            let _ = fs::remove_dir(folder);
        }
        Ok(())
    }

    fn keep(&self, names: &[String]) -> Result<(), StoreError> {
        for name in names {
            let path = self.path(name)?;
            match fs::File::open(&path).and_then(|file| file.sync_all()) {
                // Some file systems cannot, and say so.
                Err(error) if error.kind() == ErrorKind::StorageFull => {
                    return Err(self.fail("write", name, error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn folder(&self) -> Option<&Path> {
        Some(&self.root)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_whole_new_and_listed() {
        let folder = tempfile::tempdir().unwrap();
        let store = LocalStore::new(&folder.path().join("run"));
        assert_eq!(store.list("").unwrap(), []);
        assert_eq!(store.get("a/b.json").unwrap(), None);
        assert!(store.put_new("a/b.json", b"1").unwrap());
        assert!(!store.put_new("a/b.json", b"22").unwrap());
        assert_eq!(store.get("a/b.json").unwrap().unwrap(), b"1");
        store.put("a/b.json", b"333").unwrap();
        store.put("c", b"").unwrap();
        fs::write(folder.path().join("run/a/.prepose-left"), "half").unwrap();
        let names = store.list("").unwrap();
        let names: Vec<_> = names.iter().map(|e| (e.name.as_str(), e.bytes)).collect();
        assert_eq!(names, [("a/b.json", 3), ("c", 0)]);
        assert_eq!(store.list("a").unwrap()[0].name, "a/b.json");
        store.remove("c").unwrap();
        store.remove("c").unwrap();
        store.put("d/e", b"").unwrap();
        store.remove("d/e").unwrap();
        assert!(!folder.path().join("run/d").exists());
        for wrong in ["", "../x", "/x", "a//b", "a/./b", "a\\b"] {
            assert!(
                matches!(store.put(wrong, b""), Err(StoreError::Name(_))),
                "{wrong}"
            );
        }
        // A file where a folder should be.
        let error = store.put("a/b.json/c", b"").unwrap_err();
        assert!(
            error.to_string().starts_with("cannot write a/b.json/c in "),
            "{error}"
        );
    }

    #[test]
    fn an_empty_folder_makes_room_and_another_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let store = LocalStore::new(folder.path());
        for name in ["a", "b", "c/x"] {
            fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        assert_eq!(store.get("a").unwrap(), None);
        store.put("a", b"1").unwrap();
        assert!(store.put_new("b", b"2").unwrap());
        assert!(store.put("c", b"3").is_err());
        assert_eq!(store.list("").unwrap().len(), 2);
    }

    #[cfg(unix)]
    #[test]
    fn what_is_behind_a_link_is_not_touched() {
        let folder = tempfile::tempdir().unwrap();
        let mine = folder.path().join("mine");
        fs::create_dir(&mine).unwrap();
        fs::write(mine.join("thesis.txt"), "years").unwrap();
        let root = folder.path().join("run");
        fs::create_dir_all(root.join("psg")).unwrap();
        std::os::unix::fs::symlink(&mine, root.join("psg/samples")).unwrap();
        let store = LocalStore::new(&root);
        assert_eq!(store.list("").unwrap(), []);
        for done in [
            store.put("psg/samples/a/b", b""),
            store.put("psg/samples/thesis.txt", b""),
            store.put_new("psg/samples/new", b"").map(drop),
            store.remove("psg/samples/thesis.txt"),
            store.check_place("psg/samples/a/b"),
        ] {
            let error = done.unwrap_err().to_string();
            assert!(error.contains("psg/samples is a link"), "{error}");
        }
        assert_eq!(
            fs::read_to_string(mine.join("thesis.txt")).unwrap(),
            "years"
        );
        assert_eq!(fs::read_dir(&mine).unwrap().count(), 1);
        // The run's own folder may be a link.
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&root, &link).unwrap();
        LocalStore::new(&link).check_place("a/b").unwrap();
        LocalStore::new(&link).put("a/b", b"1").unwrap();
        assert_eq!(store.get("a/b").unwrap().unwrap(), b"1");
    }

    #[test]
    fn of_many_writers_one_wins() {
        let folder = tempfile::tempdir().unwrap();
        let store = LocalStore::new(folder.path());
        let wins: usize = std::thread::scope(|scope| {
            let write = |i: usize| store.put_new("x/one", format!("{i}").as_bytes()).unwrap();
            let threads: Vec<_> = (0..8).map(|i| scope.spawn(move || write(i))).collect();
            threads
                .into_iter()
                .map(|t| usize::from(t.join().unwrap()))
                .sum()
        });
        assert_eq!(wins, 1);
        assert_eq!(store.list("").unwrap().len(), 1);
    }
}
