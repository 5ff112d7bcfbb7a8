//! The directory of a zip archive, as `torch.save` and NumPy write them.
//!
//! Format: PKWARE's APPNOTE 6.3.10, sections 4.3 and 4.5.

use std::collections::HashMap;
use std::ops::Range;

use prepose_untrusted::printable;

/// A file in an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Where its bytes lie.
    pub range: Range<usize>,
    /// How they are packed: 0 is not at all, 8 is deflate.
    pub method: u16,
    /// How many there are when they are unpacked.
    pub size: usize,
}

/// Where each file of the archive `bytes` lies, which has nothing compressed.
pub(crate) fn entries(bytes: &[u8]) -> Result<HashMap<String, Range<usize>>, String> {
    let all = directory(bytes)?.into_iter();
    let plain = all.filter_map(|(name, entry)| {
        let packed = entry.method != 0 || entry.range.len() != entry.size;
        match packed {
            false => Some(Ok((name, entry.range))),
            true if name.ends_with('/') => None,
            true => Some(Err(format!(
                "{} in it is compressed, which PyTorch never does",
                printable(&name)
            ))),
        }
    });
    plain.collect()
}

/// The files of the archive `bytes`.
pub(crate) fn directory(bytes: &[u8]) -> Result<HashMap<String, Entry>, String> {
    let directory = Directory::find(bytes).ok_or(
        "its zip directory is missing at the end: it is cut short, a download or a copy stopped early",
    )?;
    let broken = || "its zip directory is damaged".to_string();
    let mut files = HashMap::new();
    let mut at = directory.offset;
    for _ in 0..directory.count {
        let fixed = bytes
            .get(at..)
            .and_then(|rest| rest.get(..46))
            .filter(|fixed| fixed.starts_with(b"PK\x01\x02"))
            .ok_or_else(broken)?;
        let method = u16_at(fixed, 10);
        let [name_len, extra_len, comment_len] =
            [28, 30, 32].map(|at| usize::from(u16_at(fixed, at)));
        let variable = bytes
            .get(at + 46..at + 46 + name_len + extra_len)
            .ok_or_else(broken)?;
        let (name, extra) = variable.split_at(name_len);
        let name = String::from_utf8_lossy(name).into_owned();
        let [packed, size, offset] = sizes(fixed, extra).ok_or_else(broken)?;
        at += 46 + name_len + extra_len + comment_len;

        let local = bytes
            .get(offset..)
            .and_then(|rest| rest.get(..30))
            .filter(|local| local.starts_with(b"PK\x03\x04"))
            .ok_or_else(broken)?;
        let start = offset + 30 + usize::from(u16_at(local, 26)) + usize::from(u16_at(local, 28));
        let end = start
            .checked_add(packed)
            .filter(|end| *end <= bytes.len())
            .ok_or_else(broken)?;
        let range = start..end;
        let entry = Entry {
            range,
            method,
            size,
        };
        files.insert(name, entry);
    }
    Ok(files)
}

struct Directory {
    offset: usize,
    count: u64,
}

impl Directory {
    /// From the record that ends the archive, before a comment of at most 64 KiB.
    fn find(bytes: &[u8]) -> Option<Self> {
        let from = bytes.len().saturating_sub(22 + 0xffff);
        let end = from
            + bytes[from..]
                .windows(4)
                .rposition(|window| window == b"PK\x05\x06")?;
        let record = bytes.get(end..end + 22)?;
        let (count, offset) = (u16_at(record, 10), u32_at(record, 16));
        // Large archives keep these in a second record, which a locator right before this one finds.
        let locator = end.checked_sub(20).and_then(|at| bytes.get(at..at + 20));
        if let Some(locator) = locator.filter(|locator| locator.starts_with(b"PK\x06\x07")) {
            let at = usize::try_from(u64_at(locator, 8)).ok()?;
            let record = bytes
                .get(at..)?
                .get(..56)
                .filter(|record| record.starts_with(b"PK\x06\x06"))?;
            return Some(Self {
                offset: u64_at(record, 48).try_into().ok()?,
                count: u64_at(record, 32),
            });
        }
        Some(Self {
            offset: offset as usize,
            count: count.into(),
        })
    }
}

/// Packed size, size and offset of a directory entry; those that need 64 bits are in its extra
/// field.
fn sizes(fixed: &[u8], mut extra: &[u8]) -> Option<[usize; 3]> {
    // In the order in which the extra field holds those that are marked there.
    let mut values = [u32_at(fixed, 24), u32_at(fixed, 20), u32_at(fixed, 42)].map(u64::from);
    while extra.len() >= 4 {
        let (id, len) = (u16_at(extra, 0), usize::from(u16_at(extra, 2)));
        let mut field = extra.get(4..4 + len)?;
        if id == 1 {
            for value in values
                .iter_mut()
                .filter(|value| **value == u64::from(u32::MAX))
            {
                *value = u64::from_le_bytes(*field.first_chunk()?);
                field = &field[8..];
            }
        }
        extra = &extra[4 + len..];
    }
    let [size, packed, offset] = values.map(|value| usize::try_from(value).ok());
    Some([packed?, size?, offset?])
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An archive of one file whose sizes and offset are given in 64 bits, as those of archives
    /// beyond 4 GiB are.
    #[test]
    fn sizes_of_64_bits() {
        let (name, data) = (b"archive/data/0", b"numbers");
        let mut bytes = b"before it ".to_vec();
        let local = bytes.len() as u64;
        bytes.extend_from_slice(b"PK\x03\x04");
        bytes.extend_from_slice(&[0; 22]);
        bytes.extend_from_slice(&(name.len() as u16).to_le_bytes());
        bytes.extend_from_slice(&3u16.to_le_bytes());
        bytes.extend_from_slice(name);
        bytes.extend_from_slice(b"pad");
        let start = bytes.len();
        bytes.extend_from_slice(data);

        let directory = bytes.len() as u64;
        bytes.extend_from_slice(b"PK\x01\x02");
        bytes.extend_from_slice(&[0; 16]);
        bytes.extend_from_slice(&[0xff; 8]); // both sizes
        bytes.extend_from_slice(&(name.len() as u16).to_le_bytes());
        bytes.extend_from_slice(&28u16.to_le_bytes());
        bytes.extend_from_slice(&[0; 10]);
        bytes.extend_from_slice(&[0xff; 4]); // offset
        bytes.extend_from_slice(name);
        bytes.extend_from_slice(&[1, 0, 24, 0]);
        for value in [data.len() as u64, data.len() as u64, local] {
            bytes.extend_from_slice(&value.to_le_bytes());
        }

        let record = bytes.len() as u64;
        bytes.extend_from_slice(b"PK\x06\x06");
        bytes.extend_from_slice(&[0; 20]);
        for value in [1, 1, record - directory, directory] {
            bytes.extend_from_slice(&value.to_le_bytes());
        }
        bytes.extend_from_slice(b"PK\x06\x07\0\0\0\0");
        bytes.extend_from_slice(&record.to_le_bytes());
        bytes.extend_from_slice(&[1, 0, 0, 0]);
        bytes.extend_from_slice(b"PK\x05\x06");
        bytes.extend_from_slice(&[0xff; 16]);
        bytes.extend_from_slice(&[0; 2]);

        let entries = entries(&bytes).unwrap();
        assert_eq!(entries["archive/data/0"], start..start + data.len());
        for len in 0..bytes.len() {
            let _ = super::entries(&bytes[..len]);
        }
    }
}
