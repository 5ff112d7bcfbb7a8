//! Reading single files, which may be in an object store.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use super::{Store, StoreError, open};

/// Whether a file is in an object store: its address is not a path.
pub fn is_address(file: &Path) -> bool {
    file.to_str().is_some_and(|text| text.contains("://"))
}

/// The content of a file of at most `limit` bytes: a path, or the address of a file in an object store,
/// `s3://bucket/folder/file`.
///
/// # Errors
/// As [`prepose_untrusted::read_regular`]; [`ErrorKind::NotFound`] also for a file that no store has.
pub fn read(file: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let Some((store, name)) = within_store(file)? else {
        return prepose_untrusted::read_regular(file, limit);
    };
    let bytes = store.get(&name).map_err(told)?;
    let bytes =
        bytes.ok_or_else(|| io::Error::new(ErrorKind::NotFound, "there is no such file"))?;
    if bytes.len() as u64 > limit {
        let why = format!(
            "it has {} bytes; at most {limit} are read here",
            bytes.len()
        );
        return Err(io::Error::new(ErrorKind::FileTooLarge, why));
    }
    Ok(bytes)
}

/// The store that a file is in, and its name there; none for a path.
fn within_store(file: &Path) -> io::Result<Option<(Arc<dyn Store>, String)>> {
    /// Stores are opened once: each opening asks whether the store answers.
    static OPENED: Mutex<Option<HashMap<String, Arc<dyn Store>>>> = Mutex::new(None);
    let Some(address) = file.to_str().filter(|_| is_address(file)) else {
        return Ok(None);
    };
    let named = |(folder, name): &(&str, &str)| !folder.ends_with('/') && !name.is_empty();
    let Some((folder, name)) = address.rsplit_once('/').filter(named) else {
        let why = "it names no file; write s3://BUCKET/FOLDER/FILE";
        return Err(io::Error::new(ErrorKind::InvalidInput, why));
    };
    let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    let opened = opened.get_or_insert_default();
    let store = match opened.get(folder) {
        Some(store) => Arc::clone(store),
        None => {
            let store = open(folder).map_err(told)?;
            opened.insert(folder.to_owned(), Arc::clone(&store));
            store
        }
    };
    Ok(Some((store, name.to_owned())))
}

fn told(error: StoreError) -> io::Error {
    io::Error::other(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_as_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a:b");
        std::fs::write(&file, "text").unwrap();
        assert!(!is_address(&file));
        assert_eq!(read(&file, 4).unwrap(), b"text");
        let kind = |file: &Path, limit| read(file, limit).unwrap_err().kind();
        assert_eq!(kind(&file, 3), ErrorKind::FileTooLarge);
        assert_eq!(kind(&folder.path().join("none"), 3), ErrorKind::NotFound);
    }

    #[test]
    fn an_address_is_never_a_path() {
        for address in [
            "nowhere://bucket/file",
            "s3://bucket",
            "s3:///file",
            "s3://bucket/",
        ] {
            assert!(is_address(Path::new(address)));
            let error = read(Path::new(address), 3).unwrap_err();
            assert_ne!(error.kind(), ErrorKind::NotFound, "{address}: {error}");
        }
    }

    #[cfg(feature = "object-store")]
    #[test]
    fn files_of_stores_are_read() {
        let store = open("memory://reading/run/images").unwrap();
        store.put("x.png", b"picture").unwrap();
        let file = Path::new("memory://reading/run/images/x.png");
        assert_eq!(read(file, 7).unwrap(), b"picture");
        assert_eq!(read(file, 6).unwrap_err().kind(), ErrorKind::FileTooLarge);
        let none = file.with_file_name("y.png");
        assert_eq!(read(&none, 7).unwrap_err().kind(), ErrorKind::NotFound);
    }
}
