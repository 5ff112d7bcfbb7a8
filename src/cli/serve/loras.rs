//! The folder of LoRAs, which can be read again while the server runs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::Context;

/// The LoRA files that requests can name.
pub struct Loras {
    folder: Option<PathBuf>,
    files: Mutex<BTreeMap<String, PathBuf>>,
    readings: AtomicU64,
}

impl Loras {
    /// Reads the folder; without one there are no LoRAs.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn open(folder: Option<&Path>) -> anyhow::Result<Self> {
        Ok(Self {
            folder: folder.map(Path::to_path_buf),
            files: Mutex::new(folder.map(read).transpose()?.unwrap_or_default()),
            readings: AtomicU64::new(0),
        })
    }

    /// Reads the folder again.
    ///
    /// # Errors
    /// It cannot be read; the files stay those that were there.
    pub fn read_again(&self) -> anyhow::Result<()> {
        if let Some(folder) = &self.folder {
            let files = read(folder)?;
            *self.files() = files;
            self.readings.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// The files by name.
    pub fn files(&self) -> MutexGuard<'_, BTreeMap<String, PathBuf>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often the folder was read again: what was loaded before may have other files under the same names now.
    pub fn readings(&self) -> u64 {
        self.readings.load(Ordering::Relaxed)
    }
}

/// The LoRA files of a folder by name.
fn read(folder: &Path) -> anyhow::Result<BTreeMap<String, PathBuf>> {
    let entries = std::fs::read_dir(folder);
    let entries =
        entries.with_context(|| format!("cannot read the folder of LoRAs {}", folder.display()))?;
    let mut found = BTreeMap::new();
    for entry in entries.flatten() {
        let path = entry.path();
        let is_one = path
            .extension()
            .is_some_and(|ending| ending == "safetensors");
        if let Some(name) = path
            .file_stem()
            .and_then(|name| name.to_str())
            .filter(|_| is_one)
        {
            found.insert(name.to_owned(), path.clone());
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str| std::fs::write(folder.path().join(name), "").unwrap();
        put("ink.safetensors");
        put("ink.txt");
        let loras = Loras::open(Some(folder.path())).unwrap();
        let names = || -> Vec<String> { loras.files().keys().cloned().collect() };
        put("chalk.safetensors");
        assert_eq!((names(), loras.readings()), (vec!["ink".into()], 0));
        loras.read_again().unwrap();
        let both: Vec<String> = vec!["chalk".into(), "ink".into()];
        assert_eq!((names(), loras.readings()), (both.clone(), 1));
        // What was there stays if the folder is gone.
        folder.close().unwrap();
        assert!(loras.read_again().is_err());
        assert_eq!((names(), loras.readings()), (both, 1));
        assert!(Loras::open(None).unwrap().read_again().is_ok());
    }
}
