//! Files and folders that are written, and what room there is for them.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::WeightsError;

pub(super) fn write_json(path: &Path, value: &Value) -> Result<(), WeightsError> {
    let mut text = format!("{value:#}");
    text.push('\n');
    write(path, text.as_bytes())
}

pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<(), WeightsError> {
    std::fs::write(path, bytes).map_err(|source| WeightsError::Write {
        path: path.to_path_buf(),
        source,
    })
}

pub(super) fn make(folder: &Path) -> Result<(), WeightsError> {
    std::fs::create_dir_all(folder).map_err(|source| WeightsError::Write {
        path: PathBuf::from(folder),
        source,
    })
}

pub(super) fn giga(bytes: u64) -> f64 {
    bytes as f64 / 1e9
}

/// Bytes that are free on the disk of `folder`, where the system tells.
pub(super) fn free_space(folder: &Path) -> Option<u64> {
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::ffi::OsStrExt;
        let path = std::ffi::CString::new(folder.as_os_str().as_bytes()).ok()?;
        // SAFETY: all zeros is a value of this plain structure.
        let mut answer: libc::statvfs = unsafe { std::mem::zeroed() };
        // SAFETY: the path ends with a zero, and the answer is written to a structure that lives here.
        let failed = unsafe { libc::statvfs(path.as_ptr(), &mut answer) } != 0;
        (!failed).then(|| answer.f_bavail * answer.f_frsize)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = folder;
        None
    }
}
