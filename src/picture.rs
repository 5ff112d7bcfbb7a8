//! Pictures as bytes, and reading them from files that somebody else wrote.

use std::io::Cursor;

use burn::tensor::{Device, Tensor, TensorData};
use image::imageops::{FilterType, resize};
use image::{ImageReader, Limits, Rgb, RgbImage};
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
        if is_cut_short(bytes) {
            return Err(PictureError::Truncated);
        }
        let mut reader = ImageReader::new(Cursor::new(bytes))
            .with_guessed_format()
            .map_err(image::ImageError::IoError)?;
        let mut limits = Limits::default();
        limits.max_image_width = Some(MAX_SIDE);
        limits.max_image_height = Some(MAX_SIDE);
        limits.max_alloc = Some(MAX_BYTES);
        reader.limits(limits);
        let picture = reader.decode()?.into_rgb8();
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

    /// On `device`, f32 [3, height, width] in 0..=1.
    pub fn to_tensor(&self, device: &Device) -> Tensor<3> {
        let plane = self.width * self.height;
        let mut values = vec![0f32; 3 * plane];
        for (position, pixel) in self.rgb.chunks_exact(3).enumerate() {
            for (channel, byte) in pixel.iter().enumerate() {
                values[channel * plane + position] = f32::from(*byte) / 255.0;
            }
        }
        Tensor::from_data(
            TensorData::new(values, [3, self.height, self.width]),
            device,
        )
    }

    /// From f32 [3, height, width], cut off at 0 and 1 and rounded as diffusers does; `None` if a value is not finite.
    pub fn from_tensor(picture: Tensor<3>) -> Option<Self> {
        let [_, height, width] = picture.dims();
        let values: Vec<f32> = picture.into_data().iter::<f32>().collect();
        if values.iter().any(|value| !value.is_finite()) {
            return None;
        }
        let plane = width * height;
        let mut rgb = vec![0u8; 3 * plane];
        for (position, pixel) in rgb.chunks_exact_mut(3).enumerate() {
            for (channel, byte) in pixel.iter_mut().enumerate() {
                let value = values[channel * plane + position].clamp(0.0, 1.0);
                *byte = (value * 255.0).round_ties_even() as u8;
            }
        }
        Some(Self { width, height, rgb })
    }
}

/// Whether `bytes` are a JPEG whose last scan has no end-of-image marker behind it. Neither marker occurs within a scan.
fn is_cut_short(bytes: &[u8]) -> bool {
    const START_OF_SCAN: [u8; 2] = [0xFF, 0xDA];
    const END_OF_IMAGE: [u8; 2] = [0xFF, 0xD9];
    let scan = bytes.windows(2).rposition(|pair| pair == START_OF_SCAN);
    bytes.starts_with(&[0xFF, 0xD8, 0xFF])
        && scan.is_some_and(|scan| !bytes[scan..].windows(2).any(|pair| pair == END_OF_IMAGE))
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
    fn a_picture_goes_to_the_device_and_back() {
        let picture = Picture {
            width: 5,
            height: 3,
            rgb: (0..45).map(|value| value * 5).collect(),
        };
        let tensor = picture.to_tensor(&Device::flex());
        assert_eq!(tensor.dims(), [3, 3, 5]);
        assert_eq!(Picture::from_tensor(tensor.clone()), Some(picture));
        assert_eq!(Picture::from_tensor(tensor / 0.0), None);
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
