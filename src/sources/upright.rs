//! Files as pictures: the right way up, and as PNG.

use std::io::Cursor;

use image::metadata::Orientation;
use image::{ImageDecoder, ImageFormat, ImageReader};
use prepose_draw::picture::{Picture, PictureError};

/// A picture and the PNG file of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Upright {
    /// The picture as people see it.
    pub picture: Picture,
    /// A PNG file that decodes to it: the file itself where it is such a PNG.
    pub png: Vec<u8>,
}

/// Reads a file: PNG, JPEG or WebP, turned as its EXIF data say, of any size. Transparency is dropped.
///
/// # Errors
/// No picture.
pub fn read(bytes: Vec<u8>) -> Result<Upright, PictureError> {
    let picture = Picture::decode_upright(&bytes)?;
    let reader = ImageReader::new(Cursor::new(&bytes)).with_guessed_format();
    let reader = reader.map_err(image::ImageError::IoError)?;
    let is_png = reader.format() == Some(ImageFormat::Png);
    let mut decoder = reader.into_decoder()?;
    let transparent = decoder.color_type().has_alpha();
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    drop(decoder);
    if is_png && !transparent && orientation == Orientation::NoTransforms {
        return Ok(Upright {
            picture,
            png: bytes,
        });
    }
    let png = encoded(&picture)?;
    Ok(Upright { picture, png })
}

fn encoded(picture: &Picture) -> Result<Vec<u8>, PictureError> {
    let mut bytes = Vec::new();
    let encoder = image::codecs::png::PngEncoder::new(&mut bytes);
    let (width, height) = (picture.width as u32, picture.height as u32);
    image::ImageEncoder::write_image(
        encoder,
        &picture.rgb,
        width,
        height,
        image::ExtendedColorType::Rgb8,
    )?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two pixels, red and blue.
    fn flag() -> Picture {
        Picture {
            width: 2,
            height: 1,
            rgb: vec![255, 0, 0, 0, 0, 255],
        }
    }

    /// `png` with an eXIf chunk that says how it is turned.
    fn with_orientation(png: &[u8], orientation: u8) -> Vec<u8> {
        let exif = [
            b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0".as_slice(),
            &[orientation, 0, 0, 0],
            &[0; 4],
        ]
        .concat();
        let mut chunk = (exif.len() as u32).to_be_bytes().to_vec();
        let mut content = b"eXIf".to_vec();
        content.extend_from_slice(&exif);
        chunk.extend_from_slice(&content);
        chunk.extend_from_slice(&crc(&content).to_be_bytes());
        // Behind the header, which has 8 and 25 bytes.
        [&png[..33], &chunk, &png[33..]].concat()
    }

    /// PNG's checksum.
    fn crc(bytes: &[u8]) -> u32 {
        let mut crc = u32::MAX;
        for byte in bytes {
            crc ^= u32::from(*byte);
            for _ in 0..8 {
                crc = (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
            }
        }
        !crc
    }

    #[test]
    fn plain_pngs_are_kept_as_they_are() {
        let png = encoded(&flag()).unwrap();
        let read = read(png.clone()).unwrap();
        assert_eq!(
            read,
            Upright {
                picture: flag(),
                png
            }
        );
    }

    #[test]
    fn pictures_are_turned_as_their_data_say() {
        let png = encoded(&flag()).unwrap();
        // 6: a quarter turn clockwise; 3: upside down.
        let turned = read(with_orientation(&png, 6)).unwrap();
        assert_eq!((turned.picture.width, turned.picture.height), (1, 2));
        assert_eq!(turned.picture.rgb, [255, 0, 0, 0, 0, 255]);
        assert_eq!(Picture::decode(&turned.png).unwrap(), turned.picture);
        let over = read(with_orientation(&png, 3)).unwrap();
        assert_eq!(over.picture.rgb, [0, 0, 255, 255, 0, 0]);
    }

    #[test]
    fn other_formats_become_png() {
        let mut webp = Vec::new();
        let encoder = image::codecs::webp::WebPEncoder::new_lossless(&mut webp);
        encoder
            .encode(&flag().rgb, 2, 1, image::ExtendedColorType::Rgb8)
            .unwrap();
        let read_back = read(webp).unwrap();
        assert_eq!(read_back.picture, flag());
        assert_eq!(read_back.png, encoded(&flag()).unwrap());
        let mut alpha = Vec::new();
        let encoder = image::codecs::png::PngEncoder::new(&mut alpha);
        let pixels = [255, 0, 0, 9, 0, 0, 255, 255];
        image::ImageEncoder::write_image(encoder, &pixels, 2, 1, image::ExtendedColorType::Rgba8)
            .unwrap();
        assert_eq!(read(alpha).unwrap().picture, flag());
        assert!(read(b"GIF89a".to_vec()).is_err());
    }
}
