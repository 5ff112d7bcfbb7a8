//! A file's bytes: mapped from the disk, or in memory.

use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;

use memmap2::Mmap;
use prepose_untrusted::open_regular;

use crate::error::FormatError;

/// The bytes of one file.
pub(crate) enum FileBytes {
    Mapped(Mmap),
    Memory(Cow<'static, [u8]>),
}

impl std::fmt::Debug for FileBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FileBytes({})", self.as_slice().len())
    }
}

impl FileBytes {
    /// Maps the file at `path`.
    pub fn map(path: &Path) -> Result<Self, FormatError> {
        let io = |source| FormatError::Io {
            path: path.to_path_buf(),
            source,
        };
        let file = open_regular(path).map_err(io)?;
        if file.metadata().map_err(io)?.len() == 0 {
            return Ok(Self::Memory(Cow::Borrowed(&[]))); // An empty file cannot be mapped.
        }
        // SAFETY: the mapping is read-only. Should another process cut the file while it is read,
        // the system ends this process (SIGBUS): the accepted price of mapping, here as in every
        // other reader of safetensors.
        let map = unsafe { Mmap::map(&file) }.map_err(io)?;
        Ok(Self::Mapped(map))
    }

    pub fn as_slice(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Memory(bytes) => bytes,
        }
    }

    /// Hands the bytes of `range`, which must lie within the file, to `take` piece by piece. Pieces
    /// hold whole elements of up to 8 bytes.
    ///
    /// Mapped pages count as this process's memory once they are touched. They are given back after
    /// each piece, so that reading a checkpoint costs what is made of it and not the file as well.
    pub fn pieces(&self, range: Range<usize>, take: &mut dyn FnMut(&[u8])) {
        const PIECE: usize = 1 << 20;
        let mut at = range.start;
        while at < range.end {
            let end = range.end.min(at + PIECE);
            take(&self.as_slice()[at..end]);
            self.release(at..end);
            at = end;
        }
    }

    #[cfg(unix)]
    fn release(&self, range: Range<usize>) {
        if let Self::Mapped(map) = self {
            // SAFETY: the mapping is a private read-only view of a file, so that a page dropped here
            // is read from the file again when it is touched again.
            // A refusal only means that the pages stay, so it is ignored.
            let _ = unsafe {
                map.unchecked_advise_range(
                    memmap2::UncheckedAdvice::DontNeed,
                    range.start,
                    range.len(),
                )
            };
        }
    }

    #[cfg(not(unix))]
    fn release(&self, _range: Range<usize>) {}
}
