//! Depth maps as grey PNG pictures of 8 or 16 bits, or as numpy's `.npy`.

use std::error::Error;
use std::io::Cursor;
use std::path::Path;

use image::{DynamicImage, ImageFormat, ImageReader, Limits};
use prepose_untrusted::read_regular;

use super::ReadError;
use crate::rules::depth::DepthMap;

/// Maps with a longer side are refused before they are decoded.
const MAX_SIDE: u32 = 16_384;
/// The most pixels that a map may claim to have.
const MOST_PIXELS: usize = 1 << 28;
/// The largest file that is read: that many numbers of eight bytes, and a header.
const MOST_BYTES: u64 = (MOST_PIXELS as u64) * 8 + (1 << 16);

/// Reads a depth map; larger values are nearer. The type is told by the file's first bytes.
///
/// # Errors
/// A file that cannot be read, is not one of the two, is not grey or two-dimensional, or has values that are no depths.
pub fn read_depth(path: &Path) -> Result<DepthMap, ReadError> {
    let unusable = |error: Box<dyn Error + Send + Sync>| ReadError::Depth {
        path: path.to_owned(),
        error,
    };
    let bytes = read_regular(path, MOST_BYTES).map_err(|error| unusable(error.into()))?;
    let map = if bytes.starts_with(b"\x93NUMPY") {
        npy(&bytes)
    } else {
        picture(bytes)
    };
    map.map_err(unusable)
}

type Result_ = Result<DepthMap, Box<dyn Error + Send + Sync>>;

fn picture(bytes: Vec<u8>) -> Result_ {
    let mut reader = ImageReader::with_format(Cursor::new(bytes), ImageFormat::Png);
    let mut limits = Limits::default();
    limits.max_image_width = Some(MAX_SIDE);
    limits.max_image_height = Some(MAX_SIDE);
    reader.limits(limits);
    let decoded = reader
        .decode()
        .map_err(|error| format!("neither a PNG nor a .npy file: {error}"))?;
    let (width, height) = (decoded.width() as usize, decoded.height() as usize);
    let values = match decoded {
        DynamicImage::ImageLuma8(map) => map.into_raw().into_iter().map(f64::from).collect(),
        DynamicImage::ImageLuma16(map) => map.into_raw().into_iter().map(f64::from).collect(),
        other => return Err(format!("has {:?} pixels, not grey ones", other.color()).into()),
    };
    Ok(DepthMap::new(width, height, values)?)
}

/// numpy's format, versions 1 to 3, with numbers of any common type in this machine's order or one byte.
fn npy(bytes: &[u8]) -> Result_ {
    const CUT: &str = "a .npy file that was cut off";
    let version = *bytes.get(6).ok_or(CUT)?;
    let length_bytes = if version == 1 { 2 } else { 4 };
    let length = bytes.get(8..8 + length_bytes).ok_or(CUT)?;
    let length = length
        .iter()
        .rev()
        .fold(0usize, |sum, byte| sum << 8 | usize::from(*byte));
    let start = 8 + length_bytes;
    let header = bytes.get(start..start.saturating_add(length)).ok_or(CUT)?;
    let header = String::from_utf8_lossy(header);
    let data = &bytes[start + length..];

    let field = |name: &str| {
        let (_, rest) = header.split_once(&format!("'{name}':"))?;
        Some(rest.trim_start())
    };
    let wrong = || format!("a .npy file with the header {:?}", header.trim());
    let order = field("fortran_order").ok_or_else(wrong)?;
    let (_, shape) = field("shape")
        .and_then(|text| text.split_once('('))
        .ok_or_else(wrong)?;
    let (shape, _) = shape.split_once(')').ok_or_else(wrong)?;
    let sides: Vec<usize> = shape
        .split(',')
        .map(str::trim)
        .filter(|side| !side.is_empty())
        .map(str::parse)
        .collect::<Result<_, _>>()
        .map_err(|_| wrong())?;
    let [height, width] = sides[..] else {
        return Err(format!("has the shape ({shape}), not (height, width)").into());
    };
    let pixels = height
        .checked_mul(width)
        .filter(|pixels| *pixels <= MOST_PIXELS);
    let pixels =
        pixels.ok_or_else(|| format!("has {height} x {width} values, which is too many"))?;

    let kind = field("descr").unwrap_or_default();
    let kind: String = kind
        .chars()
        .filter(|c| *c != '\'')
        .take_while(|c| *c != ',')
        .collect();
    let values: Vec<f64> = match kind.trim() {
        "|u1" => numbers(data, |[byte]| f64::from(byte)),
        "<u2" => numbers(data, |bytes| f64::from(u16::from_le_bytes(bytes))),
        "<i4" => numbers(data, |bytes| f64::from(i32::from_le_bytes(bytes))),
        "<f4" => numbers(data, |bytes| f64::from(f32::from_le_bytes(bytes))),
        "<f8" => numbers(data, f64::from_le_bytes),
        kind => {
            return Err(
                format!("has numbers of type {kind:?}; u1, u2, i4, f4 and f8 are read").into(),
            );
        }
    };
    if values.len() != pixels {
        return Err(CUT.into());
    }
    let values = if order.starts_with("True") {
        let at = |i: usize| values[i % width * height + i / width];
        (0..pixels).map(at).collect()
    } else {
        values
    };
    Ok(DepthMap::new(width, height, values)?)
}

fn numbers<const N: usize>(data: &[u8], read: impl Fn([u8; N]) -> f64) -> Vec<f64> {
    let (numbers, _) = data.as_chunks::<N>();
    numbers.iter().map(|bytes| read(*bytes)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn npy_of(header: &str, data: &[u8]) -> Result_ {
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(data);
        npy(&bytes)
    }

    #[test]
    fn numpy_in_both_orders() {
        let rows = "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3), }\n";
        let map = npy_of(rows, &[1, 2, 3, 4, 5, 6]).unwrap();
        assert_eq!(
            map,
            DepthMap::new(3, 2, vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap()
        );
        let columns = rows.replace("False", "True");
        assert_eq!(npy_of(&columns, &[1, 4, 2, 5, 3, 6]).unwrap(), map);
    }

    #[test]
    fn what_is_no_map() {
        let refuses = |header: &str, data: &[u8], part: &str| {
            let error = npy_of(header, data).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        };
        let header = "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3), }";
        refuses(header, &[1; 5], "cut off");
        refuses(
            &header.replace("(2, 3)", "(6,)"),
            &[1; 6],
            "not (height, width)",
        );
        refuses(&header.replace("|u1", ">f4"), &[1; 24], ">f4");
        refuses(
            &header.replace("2, 3", "999999999, 999999999"),
            &[],
            "too many",
        );
        refuses("{}", &[], "header");
        assert!(npy(b"\x93NUMPY").is_err());
        assert!(picture(b"GIF89a".to_vec()).is_err());
    }
}
