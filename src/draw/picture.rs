//! Pictures as bytes, and reading them from files that somebody else wrote.

use std::io::Cursor;

use image::imageops::{FilterType, resize};
use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder, ImageReader, Limits, Rgb, RgbImage};
use thiserror::Error;

/// Pictures with a longer side are refused before they are decoded.
const MAX_SIDE: u32 = 16_384;
/// Memory that decoding may take; a small file can claim to hold a huge picture.
const MAX_BYTES: u64 = 1 << 30;

/// Why bytes are not a usable picture.
#[derive(Debug, Error)]
pub enum PictureError {
    /// An unknown format, a truncated file, more pixels than are decoded.
    #[error("not a readable PNG, JPEG or WebP picture of at most {MAX_SIDE} pixels a side")]
    Decode(#[from] image::ImageError),
    /// A JPEG that ends in mid-picture; decoders make the rest up in grey.
    #[error("the JPEG is truncated: its end is missing")]
    Truncated,
    /// A picture without pixels.
    #[error("a picture of {width} x {height} pixels shows nothing")]
    Empty {
        /// In pixels.
        width: u32,
        /// In pixels.
        height: u32,
    },
}

/// A picture as bytes: rows from the top, pixels from the left, red, green and blue.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    /// Width in pixels.
    pub width: usize,
    /// Height in pixels.
    pub height: usize,
    /// `width * height * 3` bytes.
    pub rgb: Vec<u8>,
}

impl Picture {
    /// The picture in a file's `bytes`. Greys, palettes, CMYK and 16 bits become 8-bit RGB; transparency is dropped, as
    /// Pillow's `convert("RGB")` does.
    ///
    /// # Errors
    /// [`PictureError`]; a decompression bomb is refused by its header.
    pub fn decode(bytes: &[u8]) -> Result<Self, PictureError> {
        let picture = reader(bytes)?.decode()?.into_rgb8();
        Self::of_size(picture)
    }

    /// The picture in a file's `bytes` the right way up: turned as its EXIF data say. Otherwise as [`decode`](Self::decode).
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    pub fn decode_upright(bytes: &[u8]) -> Result<Self, PictureError> {
        Self::of_size(upright(bytes)?.into_rgb8())
    }

    /// The picture in a file's `bytes` as people see it: the right way up, and what is transparent over `background`.
    /// Otherwise as [`decode`](Self::decode).
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    pub fn decode_as_seen(bytes: &[u8], background: [u8; 3]) -> Result<Self, PictureError> {
        let image = upright(bytes)?;
        if !image.color().has_alpha() {
            return Self::of_size(image.into_rgb8());
        }
        let image = image.into_rgba8();
        Self::of_size(RgbImage::from_fn(image.width(), image.height(), |x, y| {
            let [r, g, b, alpha] = image.get_pixel(x, y).0;
            let [alpha, rest] = [u32::from(alpha), 255 - u32::from(alpha)];
            let over = |front: u8, back: u8| {
                ((u32::from(front) * alpha + u32::from(back) * rest + 127) / 255) as u8
            };
            let [red, green, blue] = background;
            Rgb([over(r, red), over(g, green), over(b, blue)])
        }))
    }

    fn of_size(picture: RgbImage) -> Result<Self, PictureError> {
        let (width, height) = picture.dimensions();
        if width == 0 || height == 0 {
            return Err(PictureError::Empty { width, height });
        }
        Ok(picture.into())
    }

    /// At another size, its shape included (Lanczos).
    pub fn resized(&self, width: usize, height: usize) -> Self {
        let source = RgbImage::from_fn(self.width as u32, self.height as u32, |x, y| {
            let at = (y as usize * self.width + x as usize) * 3;
            Rgb([self.rgb[at], self.rgb[at + 1], self.rgb[at + 2]])
        });
        resize(&source, width as u32, height as u32, FilterType::Lanczos3).into()
    }

    /// The part of it that begins at `(left, top)`.
    ///
    /// # Panics
    /// If it has no such part.
    pub fn cropped(&self, [left, top]: [usize; 2], [width, height]: [usize; 2]) -> Self {
        let rows = (top..top + height).flat_map(|y| {
            let start = (y * self.width + left) * 3;
            &self.rgb[start..start + width * 3]
        });
        Self {
            width,
            height,
            rgb: rows.copied().collect(),
        }
    }

    /// With left and right exchanged.
    pub fn mirrored(&self) -> Self {
        let rows = self.rgb.chunks_exact(self.width * 3);
        let pixels = rows.flat_map(|row| row.rchunks_exact(3)).flatten();
        Self {
            rgb: pixels.copied().collect(),
            ..*self
        }
    }
}

/// Reads a picture within the limits.
fn reader(bytes: &[u8]) -> Result<ImageReader<Cursor<&[u8]>>, PictureError> {
    if is_cut_short(bytes) {
        return Err(PictureError::Truncated);
    }
    let mut reader = ImageReader::new(Cursor::new(bytes))
        .with_guessed_format()
        .map_err(image::ImageError::IoError)?;
    reader.limits(limits());
    Ok(reader)
}

fn limits() -> Limits {
    let mut limits = Limits::default();
    limits.max_image_width = Some(MAX_SIDE);
    limits.max_image_height = Some(MAX_SIDE);
    limits.max_alloc = Some(MAX_BYTES);
    limits
}

/// Reads a picture within the limits and turns it as its EXIF data say.
fn upright(bytes: &[u8]) -> Result<DynamicImage, PictureError> {
    let mut decoder = reader(bytes)?.into_decoder()?;
    // Unlike `ImageReader::decode`, decoders alone do not look at what the whole picture takes.
    limits().reserve(decoder.total_bytes())?;
    // Of data that cannot be read nothing is known.
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let mut image = DynamicImage::from_decoder(decoder)?;
    image.apply_orientation(orientation);
    Ok(image)
}

/// Whether `bytes` are a JPEG without its end-of-image marker. Walks from marker to marker, since what is inside segments
/// (thumbnails) and behind the end (other files, in "motion photos") may look like one.
fn is_cut_short(bytes: &[u8]) -> bool {
    const MARKER: u8 = 0xFF;
    const END_OF_IMAGE: u8 = 0xD9;
    if !bytes.starts_with(&[MARKER, 0xD8, MARKER]) {
        return false;
    }
    let mut at = 2;
    while let Some(&[first, code]) = bytes.get(at..at + 2) {
        at += match (first, code) {
            (MARKER, END_OF_IMAGE) => return false,
            // Within a scan: a byte, one that is escaped, or a restart; or a fill byte before a marker.
            (0..MARKER, _) | (MARKER, MARKER) => 1,
            (MARKER, 0 | 0x01 | 0xD0..=0xD8) => 2,
            // A segment with its length.
            (MARKER, _) => match bytes.get(at + 2..at + 4) {
                Some(&[high, low]) => 2 + usize::from(u16::from_be_bytes([high, low])),
                _ => return true,
            },
        };
    }
    true
}

impl From<RgbImage> for Picture {
    fn from(picture: RgbImage) -> Self {
        Self {
            width: picture.width() as usize,
            height: picture.height() as usize,
            rgb: picture.into_raw(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_transparent_lies_over_the_background() {
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, 3, 1);
        encoder.set_color(png::ColorType::Rgba);
        let mut writer = encoder.write_header().unwrap();
        let pixels = [10, 20, 30, 255, 10, 20, 30, 0, 100, 100, 100, 51];
        writer.write_image_data(&pixels).unwrap();
        writer.finish().unwrap();
        let seen = Picture::decode_as_seen(&bytes, [255, 255, 255]).unwrap();
        assert_eq!(seen.rgb, [10, 20, 30, 255, 255, 255, 224, 224, 224]);
    }

    #[test]
    fn parts_and_mirror_images() {
        let picture = Picture {
            width: 3,
            height: 2,
            rgb: (0..18).collect(),
        };
        let part = picture.cropped([1, 1], [2, 1]);
        assert_eq!((part.width, part.height), (2, 1));
        assert_eq!(part.rgb, [12, 13, 14, 15, 16, 17]);
        let mirrored = picture.mirrored();
        assert_eq!(mirrored.rgb[..9], [6, 7, 8, 3, 4, 5, 0, 1, 2]);
        assert_eq!(mirrored.mirrored(), picture);
    }

    #[test]
    fn only_the_end_of_the_picture_itself_counts() {
        let jpeg = |scan: &[u8], behind: &[u8]| {
            // A segment that holds a thumbnail with markers of its own, then a scan.
            let thumbnail = [0xFF, 0xE1, 0, 8, 0xFF, 0xDA, 0xFF, 0xD9, 0xFF, 0xDA];
            [
                &[0xFF, 0xD8],
                &thumbnail[..],
                &[0xFF, 0xDA, 0, 2],
                scan,
                behind,
            ]
            .concat()
        };
        let scan = [7, 0xFF, 0, 9, 0xFF, 0xD3, 5];
        assert!(is_cut_short(&jpeg(&scan, &[])));
        assert!(!is_cut_short(&jpeg(&scan, &[0xFF, 0xD9])));
        assert!(!is_cut_short(&jpeg(&scan, &[0xFF, 0xD9, 0xFF, 0xDA, 1, 2])));
        assert!(is_cut_short(&jpeg(&scan, &[0xFF])));
        assert!(!is_cut_short(b"\x89PNG"));
    }

    #[test]
    fn what_is_no_picture_is_refused() {
        for bytes in [&b""[..], b"hello", b"\x89PNG\r\n\x1a\n\0\0"] {
            assert!(Picture::decode(bytes).is_err());
        }
        // A header that claims 60,000 x 60,000 pixels.
        let mut bomb = Vec::new();
        let mut encoder = png::Encoder::new(&mut bomb, 60_000, 60_000);
        encoder.set_color(png::ColorType::Rgb);
        drop(encoder.write_header());
        let error = Picture::decode(&bomb).unwrap_err();
        assert!(
            matches!(error, PictureError::Decode(image::ImageError::Limits(_))),
            "{error:?}"
        );
    }
}
