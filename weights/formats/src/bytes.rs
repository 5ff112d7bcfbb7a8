//! A file's bytes: mapped from the disk, or in memory.

use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;

use memmap2::Mmap;
use prepose_untrusted::open_regular;

use crate::error::FormatError;

/// What the system maps with a touched page, at most: Linux maps the whole folio of the page cache, which may be of 2 MiB.
const AROUND: usize = 1 << 21;

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

    /// Gives back what was touched with `range`.
    #[cfg(unix)]
    fn release(&self, range: Range<usize>) {
        if let Self::Mapped(map) = self {
            let start = range.start.saturating_sub(AROUND);
            let end = map.len().min(range.end + AROUND);
            // SAFETY: the mapping is a private read-only view of a file, so that a page dropped here
            // is read from the file again when it is touched again.
            // A refusal only means that the pages stay, so it is ignored.
            let _ = unsafe {
                map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, start, end - start)
            };
        }
    }

    #[cfg(not(unix))]
    fn release(&self, _range: Range<usize>) {}
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    /// KiB of the mapping that begins at `start` which count as this process's memory.
    fn resident(start: usize) -> usize {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut lines = maps.lines();
        let begin = format!("{start:x}-");
        lines
            .find(|line| line.trim_start_matches('0').starts_with(&begin))
            .unwrap();
        let rss = lines.find_map(|line| line.strip_prefix("Rss:")).unwrap();
        rss.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// Tensors begin anywhere, and are read in any order.
    #[test]
    fn nothing_stays_of_what_was_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let bytes: Vec<u8> = (0..12_345_678u32).map(|i| (i % 251) as u8).collect();
        std::fs::write(&path, &bytes).unwrap();
        let file = FileBytes::map(&path).unwrap();
        let size = 1_234_567;
        let mut sum = 0;
        for i in [3, 0, 9, 5, 4, 1, 8, 2, 7, 6] {
            let start = i * size;
            let range = start..(start + size).min(bytes.len());
            file.pieces(range.clone(), &mut |piece| {
                sum += piece.iter().map(|&byte| u64::from(byte)).sum::<u64>();
            });
            let stays = resident(file.as_slice().as_ptr() as usize);
            // None of it, as a rule; how much a system maps at once is its own affair.
            assert!(1024 * stays < size, "{stays} KiB after {range:?}");
        }
        let read = &bytes[..10 * size];
        assert_eq!(sum, read.iter().map(|&byte| u64::from(byte)).sum::<u64>());
    }
}
