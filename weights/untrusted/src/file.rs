//! Opening files that somebody else named.

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// The largest text that is read whole, in bytes: several times the largest released set of records.
pub const MAX_TEXT: u64 = 1 << 30;

/// The largest picture that is read, in bytes: several times one of 8192 × 8192 pixels.
pub const MAX_PICTURE: u64 = 1 << 30;

/// Opens a regular file for reading. A named pipe, a socket or a device would block for ever or never
/// end, so it is refused at once, as a folder is.
///
/// # Errors
/// The file cannot be opened, or [`ErrorKind::InvalidInput`] with a message that says what it is.
pub fn open_regular(path: &Path) -> io::Result<File> {
    // Asked before opening, as opening a device can have an effect of its own.
    refuse_special(&std::fs::metadata(path)?)?;
    let mut options = File::options();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        // The file may have become a pipe in between; opening one must not wait for a writer.
        options.custom_flags(libc::O_NONBLOCK);
    }
    let file = options.open(path)?;
    refuse_special(&file.metadata()?)?;
    Ok(file)
}

/// The content of a regular file of at most `limit` bytes.
///
/// # Errors
/// As [`open_regular`], or [`ErrorKind::FileTooLarge`].
pub fn read_regular(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = open_regular(path)?;
    let length = file.metadata()?.len();
    if length > limit {
        return Err(too_large(&length.to_string(), limit));
    }
    read_at_most(file, limit)
}

/// The text in a regular file of at most [`MAX_TEXT`] bytes, without a byte order mark.
///
/// # Errors
/// As [`read_regular`], or [`ErrorKind::InvalidData`] with the place where it stops being UTF-8.
pub fn read_text(path: &Path) -> io::Result<String> {
    text(read_regular(path, MAX_TEXT)?)
}

/// As [`read_text`]; `-` is standard input.
///
/// # Errors
/// As [`read_text`]. What is refused because it is a pipe is told of `-`.
pub fn read_text_or_stdin(path: &Path) -> io::Result<String> {
    if path == Path::new("-") {
        return text(read_at_most(io::stdin().lock(), MAX_TEXT)?);
    }
    read_text(path).map_err(|error| match error.kind() {
        ErrorKind::InvalidInput if !path.is_dir() => {
            let message = format!("{error}; give - and pipe it into standard input");
            io::Error::new(ErrorKind::InvalidInput, message)
        }
        _ => error,
    })
}

/// All that `reader` gives if it is at most `limit` bytes. What grows while it is read is cut off one byte beyond.
fn read_at_most(reader: impl Read, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = reader
        .take(limit.saturating_add(1))
        .read_to_end(&mut bytes)?;
    match read as u64 > limit {
        true => Err(too_large(&format!("more than {limit}"), limit)),
        false => Ok(bytes),
    }
}

fn too_large(length: &str, limit: u64) -> io::Error {
    let message = format!("it has {length} bytes; at most {limit} are read here");
    io::Error::new(ErrorKind::FileTooLarge, message)
}

fn text(bytes: Vec<u8>) -> io::Result<String> {
    let mut text = String::from_utf8(bytes).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..good]
            .split(|byte| *byte == b'\n')
            .count();
        let message = format!("line {line} is not UTF-8");
        io::Error::new(ErrorKind::InvalidData, message)
    })?;
    if text.starts_with('\u{feff}') {
        text.drain(..'\u{feff}'.len_utf8());
    }
    Ok(text)
}

/// Refuses everything but a regular file.
///
/// # Errors
/// [`ErrorKind::InvalidInput`] with a message that says what it is.
pub fn refuse_special(metadata: &Metadata) -> io::Result<()> {
    if metadata.is_file() {
        return Ok(());
    }
    let kind = kind(metadata);
    let message = format!("it is {kind}, and only regular files are read");
    Err(io::Error::new(ErrorKind::InvalidInput, message))
}

#[cfg(unix)]
fn kind(metadata: &Metadata) -> &'static str {
    use std::os::unix::fs::FileTypeExt;
    let kind = metadata.file_type();
    if kind.is_dir() {
        "a folder"
    } else if kind.is_fifo() {
        "a named pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

#[cfg(not(unix))]
fn kind(metadata: &Metadata) -> &'static str {
    if metadata.is_dir() {
        "a folder"
    } else {
        "a device"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_are_opened() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("file");
        std::fs::write(&path, "abc").unwrap();
        assert_eq!(read_regular(&path, 3).unwrap(), b"abc");
        let error = read_regular(&path, 2).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FileTooLarge);
        assert!(error.to_string().contains("3 bytes"), "{error}");
        let error = open_regular(home.path()).unwrap_err();
        assert!(error.to_string().contains("a folder"), "{error}");
        let error = read_text_or_stdin(home.path()).unwrap_err();
        assert!(error.to_string().ends_with("files are read"), "{error}");
        let error = open_regular(&home.path().join("none")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
    }

    #[test]
    fn text_is_utf_8() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("file");
        std::fs::write(&path, "ä\n犬").unwrap();
        assert_eq!(read_text(&path).unwrap(), "ä\n犬");
        std::fs::write(&path, b"one\ntwo\xff\n").unwrap();
        let error = read_text(&path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData);
        assert!(error.to_string().contains("line 2"), "{error}");
        let error = read_at_most(io::repeat(0), 1000).unwrap_err();
        assert!(error.to_string().contains("more than 1000"), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn pipes_and_devices_are_refused_at_once() {
        use std::os::unix::ffi::OsStrExt;
        let home = tempfile::tempdir().unwrap();
        let pipe = home.path().join("pipe");
        let name = std::ffi::CString::new(pipe.as_os_str().as_bytes()).unwrap();
        // SAFETY: `name` is a C string that lives until the call returns.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        let error = open_regular(&pipe).unwrap_err();
        assert!(error.to_string().contains("a named pipe"), "{error}");
        let error = read_text_or_stdin(&pipe).unwrap_err();
        assert!(error.to_string().contains("give - and pipe it"), "{error}");
        let error = open_regular(Path::new("/dev/zero")).unwrap_err();
        assert!(error.to_string().contains("a device"), "{error}");
        // A link to a pipe is no better than the pipe.
        let link = home.path().join("link");
        std::os::unix::fs::symlink(&pipe, &link).unwrap();
        let error = open_regular(&link).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }
}
