//! NumPy's archives of arrays, `.npz`: a zip archive of `.npy` files, packed or not.
//!
//! Formats: NumPy's `numpy.lib.format`, versions 1 to 3; PKWARE's APPNOTE 6.3.10.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};

use flate2::Crc;
use flate2::read::DeflateDecoder;
use prepose_untrusted::printable;
use thiserror::Error;

use crate::zip;

/// Arrays are not unpacked beyond this, in bytes: a covariance of 8192 features has as many.
const MOST_BYTES: usize = 1 << 29;
/// Far beyond any header.
const MOST_HEADER: usize = 1 << 12;

/// An array of numbers, row by row.
#[derive(Debug, Clone, PartialEq)]
pub struct Array {
    /// The lengths of its axes.
    pub shape: Vec<usize>,
    /// As many as the product of the lengths.
    pub values: Vec<f64>,
}

/// What is wrong with an archive.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("it cannot be read as an archive of NumPy's arrays: {0}; write it again with numpy.savez")]
pub struct NpzError(String);

impl NpzError {
    fn of(name: &str, what: impl std::fmt::Display) -> Self {
        Self(format!("{}: {what}", printable(name)))
    }
}

/// The arrays of these names, without their `.npy`, in the archive `bytes`: of f64 or f32, little-endian, row by row. What
/// else is in it is not looked at.
///
/// # Errors
/// [`NpzError`] if it is no archive, is damaged, lacks one of them, or has another kind of array under its name.
pub fn read(bytes: &[u8], names: &[&str]) -> Result<BTreeMap<String, Array>, NpzError> {
    let files = zip::directory(bytes).map_err(NpzError)?;
    let mut arrays = BTreeMap::new();
    for name in names {
        let entry = files
            .get(&format!("{name}.npy"))
            .ok_or_else(|| NpzError(format!("it has no array {name:?}, which such a file has")))?;
        let packed = &bytes[entry.range.clone()];
        if entry.size > MOST_BYTES {
            return Err(NpzError::of(name, "it is larger than any that is read"));
        }
        let mut content = Vec::new();
        let read = match entry.method {
            0 => packed.take(entry.size as u64).read_to_end(&mut content),
            8 => DeflateDecoder::new(packed)
                .take(entry.size as u64)
                .read_to_end(&mut content),
            other => {
                return Err(NpzError::of(name, format!("packed by method {other}")));
            }
        };
        if read.ok() != Some(entry.size) {
            return Err(NpzError::of(name, "it is damaged"));
        }
        arrays.insert((*name).to_string(), array(name, &content)?);
    }
    Ok(arrays)
}

/// The array in an `.npy` file.
fn array(name: &str, bytes: &[u8]) -> Result<Array, NpzError> {
    let damaged = || NpzError::of(name, "its header is damaged");
    let rest = bytes.strip_prefix(b"\x93NUMPY").ok_or_else(damaged)?;
    let (length, rest) = match rest {
        [1, _, a, b, rest @ ..] => (usize::from(u16::from_le_bytes([*a, *b])), rest),
        [2 | 3, _, a, b, c, d, rest @ ..] => (u32::from_le_bytes([*a, *b, *c, *d]) as usize, rest),
        _ => return Err(damaged()),
    };
    let header = rest.get(..length.min(MOST_HEADER + 1));
    let header = header.filter(|header| header.len() <= MOST_HEADER);
    let header = std::str::from_utf8(header.ok_or_else(damaged)?).map_err(|_| damaged())?;
    let data = rest.get(length..).ok_or_else(damaged)?;
    let kind = quoted(header, "'descr'").ok_or_else(damaged)?;
    if after(header, "'fortran_order'").is_none_or(|rest| !rest.starts_with("False")) {
        return Err(NpzError::of(name, "its columns come before its rows"));
    }
    let shape = shape(header).ok_or_else(damaged)?;
    let count = shape
        .iter()
        .try_fold(1usize, |all, side| all.checked_mul(*side));
    let values: Vec<f64> = match kind {
        "<f8" => (data.as_chunks::<8>().0.iter())
            .map(|bytes| f64::from_le_bytes(*bytes))
            .collect(),
        "<f4" => (data.as_chunks::<4>().0.iter())
            .map(|bytes| f64::from(f32::from_le_bytes(*bytes)))
            .collect(),
        other => {
            let what = format!("its numbers are {}, not <f8 or <f4", printable(other));
            return Err(NpzError::of(name, what));
        }
    };
    match count == Some(values.len()) {
        true => Ok(Array { shape, values }),
        false => Err(NpzError::of(name, "it has another size than it says")),
    }
}

/// What follows a key of a header.
fn after<'a>(header: &'a str, key: &str) -> Option<&'a str> {
    let (_, rest) = header.split_once(key)?;
    Some(rest.trim_start().strip_prefix(':')?.trim_start())
}

fn quoted<'a>(header: &'a str, key: &str) -> Option<&'a str> {
    let (value, _) = after(header, key)?.strip_prefix('\'')?.split_once('\'')?;
    Some(value)
}

fn shape(header: &str) -> Option<Vec<usize>> {
    let (inside, _) = after(header, "'shape'")?
        .strip_prefix('(')?
        .split_once(')')?;
    let sides = inside.split(',').map(str::trim);
    let sides = sides.filter(|side| !side.is_empty());
    sides.map(|side| side.parse().ok()).collect()
}

/// Writes an archive of these arrays, not packed, as `numpy.load` reads it.
///
/// # Errors
/// What `out` says, or [`io::ErrorKind::InvalidInput`] for an array of 4 GiB or more, or a name of 64 KiB.
pub fn write(out: &mut impl Write, arrays: &[(&str, &Array)]) -> io::Result<()> {
    let mut at = 0usize;
    let mut directory = Vec::new();
    for (name, array) in arrays {
        let name = format!("{name}.npy");
        let content = npy(array);
        let mut sum = Crc::new();
        sum.update(&content);
        let [size, offset] = [small(content.len())?, small(at)?];
        let length = u16::try_from(name.len()).map_err(|_| too_large())?;
        // Version 2.0, no flags, stored, 1 January 1980.
        let mut common = vec![20, 0, 0, 0, 0, 0, 0, 0, 0x21, 0];
        for number in [sum.sum(), size, size] {
            common.extend(number.to_le_bytes());
        }
        common.extend(length.to_le_bytes());
        common.extend([0, 0]);
        out.write_all(b"PK\x03\x04")?;
        out.write_all(&common)?;
        out.write_all(name.as_bytes())?;
        out.write_all(&content)?;
        directory.extend(b"PK\x01\x02\x14\0");
        directory.extend(&common);
        directory.extend([0; 10]);
        directory.extend(offset.to_le_bytes());
        directory.extend(name.as_bytes());
        at += 4 + common.len() + name.len() + content.len();
    }
    let count = u16::try_from(arrays.len()).map_err(|_| too_large())?;
    out.write_all(&directory)?;
    out.write_all(b"PK\x05\x06\0\0\0\0")?;
    out.write_all(&[count.to_le_bytes(), count.to_le_bytes()].concat())?;
    out.write_all(&small(directory.len())?.to_le_bytes())?;
    out.write_all(&small(at)?.to_le_bytes())?;
    out.write_all(&[0, 0])
}

fn small(number: usize) -> io::Result<u32> {
    u32::try_from(number).map_err(|_| too_large())
}

fn too_large() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        "the arrays are too large for one archive",
    )
}

/// An `.npy` file of version 1.
fn npy(array: &Array) -> Vec<u8> {
    let sides = array.shape.iter().map(|side| format!("{side}, "));
    let mut header = format!(
        "{{'descr': '<f8', 'fortran_order': False, 'shape': ({}), }}",
        sides.collect::<String>().trim_end()
    );
    // The numbers begin at a multiple of 64 bytes, a line break before them.
    let padding = 63 - (10 + header.len()) % 64;
    header.extend(std::iter::repeat_n(' ', padding));
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\0".to_vec();
    // A few axes make a short header.
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(array.values.iter().flat_map(|value| value.to_le_bytes()));
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrays() -> [(&'static str, Array); 2] {
        let mu = Array {
            shape: vec![3],
            values: vec![0.5, -1.0, 1e-9],
        };
        let sigma = Array {
            shape: vec![2, 3],
            values: (0..6).map(f64::from).collect(),
        };
        [("mu", mu), ("sigma", sigma)]
    }

    fn written() -> Vec<u8> {
        let arrays = arrays();
        let mut bytes = Vec::new();
        write(
            &mut bytes,
            &arrays.each_ref().map(|(name, array)| (*name, array)),
        )
        .unwrap();
        bytes
    }

    #[test]
    fn what_is_written_is_read() {
        let read = read(&written(), &["mu", "sigma"]).unwrap();
        for (name, array) in arrays() {
            assert_eq!(read[name], array);
        }
    }

    #[test]
    fn numpys_own_archives_are_read() {
        for name in ["packed.npz", "stored.npz"] {
            let path = format!(
                "{}/../../fixtures/quality/{name}",
                env!("CARGO_MANIFEST_DIR")
            );
            let read = read(&std::fs::read(path).unwrap(), &["mu", "sigma"]).unwrap();
            assert_eq!(read["mu"].shape, [5]);
            assert_eq!(read["sigma"].shape, [5, 5]);
            assert_eq!(read["mu"].values, [0.0, 0.25, 0.5, 0.75, 1.0]);
            assert_eq!(read["sigma"].values[6], 1.5);
        }
    }

    #[test]
    fn what_is_none_is_refused() {
        let message = |bytes: &[u8], names: &[&str]| read(bytes, names).unwrap_err().to_string();
        let sound = written();
        assert!(message(b"no archive", &["mu"]).contains("cut short"));
        assert!(message(&sound, &["nu"]).contains("no array \"nu\""));
        let swapped = |from: &[u8], to: &[u8]| {
            let mut bytes = sound.clone();
            let at = bytes.windows(from.len()).position(|part| part == from);
            let at = at.unwrap();
            bytes[at..at + to.len()].copy_from_slice(to);
            bytes
        };
        assert!(message(&swapped(b"<f8", b"<i8"), &["mu"]).contains("<i8"));
        assert!(message(&swapped(b"False", b"True "), &["mu"]).contains("columns"));
        assert!(message(&swapped(b"(3,)", b"(9,)"), &["mu"]).contains("another size"));
        assert!(message(&swapped(b"NUMPY", b"Numpy"), &["mu"]).contains("header"));
        // Cut short or changed anywhere: no panic, whatever comes out.
        for length in 0..sound.len() {
            let _ = read(&sound[..length], &["mu", "sigma"]);
        }
        for at in 0..sound.len() {
            for value in [0, 1, 8, 0x7f, 0xff] {
                let mut changed = sound.clone();
                changed[at] = value;
                let _ = read(&changed, &["mu", "sigma"]);
            }
        }
    }
}
