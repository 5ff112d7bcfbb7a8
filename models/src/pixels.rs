//! Pictures as bytes on their way into a network: Pillow's resampling of 8-bit pictures to the byte, crops, normalisation.
//!
//! The published figures of the networks that look at pictures were made with Pillow, which smooths before it shrinks and
//! rounds to bytes after each axis. Other libraries differ from it by more than networks differ between libraries.

use burn::prelude::*;
use burn::tensor::TensorData;
use rayon::prelude::*;
use thiserror::Error;

/// The longest side that a picture may be resized to.
const MOST_SIDE: usize = 1 << 14;
/// Fixed-point digits of the weights.
const PRECISION: u32 = 22;

/// An RGB picture of 8 bits, row by row.
#[derive(Debug, Clone, Copy)]
pub struct Rgb<'a> {
    width: usize,
    height: usize,
    bytes: &'a [u8],
}

/// Why bytes are no picture, or one that cannot be looked at.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PixelsError {
    /// Without pixels, or with another number of bytes.
    #[error(
        "a picture of {width} × {height} pixels cannot have {bytes} bytes; RGB pictures have three bytes for each \
         pixel, and at least one pixel"
    )]
    Size {
        /// In pixels.
        width: usize,
        /// In pixels.
        height: usize,
        /// How many there are.
        bytes: usize,
    },
    /// So narrow that a network would see a strip of immense length, or nothing.
    #[error(
        "a picture of {width} × {height} pixels would be resized to {to_width} × {to_height}; crop it to a less \
         narrow shape"
    )]
    Narrow {
        /// In pixels.
        width: usize,
        /// In pixels.
        height: usize,
        /// What the network would get.
        to_width: usize,
        /// What the network would get.
        to_height: usize,
    },
}

impl<'a> Rgb<'a> {
    /// The picture of `width` × `height` pixels with these `bytes`, three for each pixel.
    ///
    /// # Errors
    /// [`PixelsError::Size`] for no pixels or another number of bytes.
    pub fn new(width: usize, height: usize, bytes: &'a [u8]) -> Result<Self, PixelsError> {
        let expected = width.checked_mul(height).and_then(|n| n.checked_mul(3));
        if bytes.is_empty() || expected != Some(bytes.len()) {
            return Err(PixelsError::Size {
                width,
                height,
                bytes: bytes.len(),
            });
        }
        Ok(Self {
            width,
            height,
            bytes,
        })
    }

    /// Height and width in pixels.
    pub fn size(&self) -> [usize; 2] {
        [self.height, self.width]
    }

    /// Red, green and blue of each pixel, row by row.
    pub fn bytes(&self) -> &[u8] {
        self.bytes
    }

    /// Refuses to become a picture of this height and width if a side would be 0 or longer than 16,384 pixels.
    pub(crate) fn check_target(
        &self,
        [to_height, to_width]: [usize; 2],
    ) -> Result<(), PixelsError> {
        let possible = 1..=MOST_SIDE;
        if possible.contains(&to_height) && possible.contains(&to_width) {
            return Ok(());
        }
        Err(PixelsError::Narrow {
            width: self.width,
            height: self.height,
            to_width,
            to_height,
        })
    }
}

/// A picture that was resized or cropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Resized {
    pub width: usize,
    pub height: usize,
    pub bytes: Vec<u8>,
}

/// Pillow's filters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filter {
    /// `BILINEAR`: a triangle of width 2.
    Bilinear,
    /// `BICUBIC`: Keys' kernel with a = −1/2, of width 4.
    Bicubic,
}

impl Filter {
    fn support(self) -> f64 {
        match self {
            Self::Bilinear => 1.0,
            Self::Bicubic => 2.0,
        }
    }

    fn weight(self, x: f64) -> f64 {
        const A: f64 = -0.5;
        let x = x.abs();
        match self {
            Self::Bilinear if x < 1.0 => 1.0 - x,
            Self::Bicubic if x < 1.0 => ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0,
            Self::Bicubic if x < 2.0 => (((x - 5.0) * x + 8.0) * x - 4.0) * A,
            _ => 0.0,
        }
    }

    /// For each of `to` places along an axis of `from` the first that it is made of, and their weights in fixed point.
    fn taps(self, from: usize, to: usize) -> Vec<(usize, Vec<i64>)> {
        let scale = from as f64 / to as f64;
        let stretch = scale.max(1.0);
        let support = self.support() * stretch;
        let place = |i: usize| {
            let centre = (i as f64 + 0.5) * scale;
            let first = (centre - support + 0.5).max(0.0) as usize;
            let last = ((centre + support + 0.5) as usize).min(from);
            let weight = |x: usize| self.weight((x as f64 - centre + 0.5) / stretch);
            let weights: Vec<f64> = (first..last).map(weight).collect();
            let sum: f64 = weights.iter().sum();
            let fixed = |weight: &f64| {
                let scaled = weight / sum * f64::from(1u32 << PRECISION);
                (scaled + 0.5f64.copysign(scaled)) as i64
            };
            (first, weights.iter().map(fixed).collect())
        };
        (0..to).map(place).collect()
    }
}

/// One channel's value from the fixed-point sum.
fn byte(sum: i64) -> u8 {
    ((sum + (1 << (PRECISION - 1))) >> PRECISION).clamp(0, 255) as u8
}

/// The bytes of `picture` at this height and width as Pillow's `resize` gives them.
///
/// # Errors
/// [`PixelsError::Narrow`] if a side would be 0 or longer than 16,384 pixels.
pub fn resized(picture: &Rgb, size: [usize; 2], filter: Filter) -> Result<Vec<u8>, PixelsError> {
    picture.check_target(size)?;
    Ok(resize(picture, size, filter).bytes)
}

/// `picture` at this height and width as Pillow's `resize` gives it, to the byte.
pub(crate) fn resize(picture: &Rgb, size: [usize; 2], filter: Filter) -> Resized {
    let [height, width] = size;
    let picture_size = picture.size();
    let bytes = picture.bytes;
    let bytes = if vertically_first(picture_size, size) {
        let bytes = vertically(bytes, picture_size, height, filter);
        horizontally(&bytes, picture.width, width, filter)
    } else {
        let bytes = horizontally(bytes, picture.width, width, filter);
        vertically(&bytes, [picture.height, width], height, filter)
    };
    Resized {
        width,
        height,
        bytes,
    }
}

/// Which axis Pillow 13 resizes first. Bytes in between are rounded, so that it matters. Versions before always begin with
/// rows, which is the same for squares that become squares.
fn vertically_first([height, width]: [usize; 2], [to_height, to_width]: [usize; 2]) -> bool {
    // None is longer than `MOST_SIDE` or what a picture can be decoded to.
    let less = |from: usize, to: usize| from as i64 - to as i64;
    to_height < height && less(height, to_height) > 2 * less(width, to_width)
}

/// Rows of `width` pixels made `to` pixels long.
fn horizontally(bytes: &[u8], width: usize, to: usize, filter: Filter) -> Vec<u8> {
    if width == to {
        return bytes.to_vec();
    }
    let taps = filter.taps(width, to);
    let mut resized = vec![0; bytes.len() / width * to];
    let rows = resized.par_chunks_exact_mut(to * 3);
    let rows = rows.zip(bytes.par_chunks_exact(width * 3));
    rows.for_each(|(to, from)| {
        for (pixel, (first, weights)) in to.chunks_exact_mut(3).zip(&taps) {
            let mut sums = [0i64; 3];
            for (from, weight) in from[first * 3..].chunks_exact(3).zip(weights) {
                for (sum, value) in sums.iter_mut().zip(from) {
                    *sum += i64::from(*value) * weight;
                }
            }
            pixel.copy_from_slice(&sums.map(byte));
        }
    });
    resized
}

/// `height` rows of `width` pixels made `to` rows.
fn vertically(bytes: &[u8], [height, width]: [usize; 2], to: usize, filter: Filter) -> Vec<u8> {
    if height == to {
        return bytes.to_vec();
    }
    let taps = filter.taps(height, to);
    let length = width * 3;
    let mut resized = vec![0; to * length];
    let rows = resized.par_chunks_exact_mut(length);
    rows.zip(&taps).for_each(|(to, (first, weights))| {
        let mut sums = vec![0i64; length];
        let from = bytes[first * length..].chunks_exact(length);
        for (from, weight) in from.zip(weights) {
            for (sum, value) in sums.iter_mut().zip(from) {
                *sum += i64::from(*value) * weight;
            }
        }
        to.iter_mut()
            .zip(sums)
            .for_each(|(to, sum)| *to = byte(sum));
    });
    resized
}

impl Resized {
    /// The `height` × `width` pixels from this row and column on.
    ///
    /// # Panics
    /// If they are not all inside.
    pub fn crop(&self, [top, left]: [usize; 2], [height, width]: [usize; 2]) -> Self {
        let rows = (top..top + height).flat_map(|row| {
            let start = (row * self.width + left) * 3;
            self.bytes[start..start + width * 3].iter().copied()
        });
        Self {
            width,
            height,
            bytes: rows.collect(),
        }
    }
}

/// What is subtracted from the channels of a picture in 0..=1, and what they are divided by then.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Normalisation {
    /// Of red, green and blue.
    pub mean: [f32; 3],
    /// Of red, green and blue.
    pub std: [f32; 3],
}

impl Normalisation {
    /// ImageNet's statistics.
    pub const IMAGENET: Self = Self {
        mean: [0.485, 0.456, 0.406],
        std: [0.229, 0.224, 0.225],
    };
    /// Those of CLIP's training pictures.
    pub const CLIP: Self = Self {
        mean: [0.48145466, 0.4578275, 0.40821073],
        std: [0.268_629_54, 0.261_302_6, 0.275_777_1],
    };
}

/// Normalised pictures, f32 `[B, 3, height, width]`, each in the upper left corner; the rest is 0.
pub(crate) fn batch(
    pictures: &[Resized],
    [height, width]: [usize; 2],
    normalisation: &Normalisation,
    device: &Device,
) -> Tensor<4> {
    // A byte has 256 values, each of which is normalised once.
    let table: [[f32; 256]; 3] = std::array::from_fn(|channel| {
        std::array::from_fn(|value| {
            let value = value as f32 * (1.0 / 255.0);
            (value - normalisation.mean[channel]) / normalisation.std[channel]
        })
    });
    let plane = height * width;
    let mut values = vec![0f32; pictures.len() * 3 * plane];
    let places = values.par_chunks_exact_mut((3 * plane).max(1));
    places.zip(pictures).for_each(|(place, picture)| {
        for (channel, plane) in place.chunks_exact_mut(plane).enumerate() {
            let lines = plane.chunks_exact_mut(width);
            let rows = picture.bytes.chunks_exact(picture.width * 3);
            for (line, row) in lines.zip(rows) {
                for (to, pixel) in line.iter_mut().zip(row.chunks_exact(3)) {
                    *to = table[channel][usize::from(pixel[channel])];
                }
            }
        }
    });
    let data = TensorData::new(values, [pictures.len(), 3, height, width]);
    Tensor::from_data(data, (device, burn::tensor::DType::F32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_picture() {
        assert!(Rgb::new(0, 0, &[]).is_err());
        assert!(Rgb::new(2, 1, &[0; 5]).is_err());
        assert!(Rgb::new(usize::MAX, 3, &[0; 9]).is_err());
        let bytes = [7; 6];
        let picture = Rgb::new(2, 1, &bytes).unwrap();
        assert!(picture.check_target([16, 16]).is_ok());
        assert!(picture.check_target([0, 16]).is_err());
        assert!(picture.check_target([16, 20_000]).is_err());
    }

    #[test]
    fn one_colour_stays_as_it_is() {
        let bytes = [9, 200, 255].repeat(35);
        let picture = Rgb::new(5, 7, &bytes).unwrap();
        for size in [[1, 1], [7, 9], [70, 3]] {
            for filter in [Filter::Bilinear, Filter::Bicubic] {
                let resized = resize(&picture, size, filter);
                assert_eq!(resized.bytes, [9, 200, 255].repeat(size[0] * size[1]));
            }
        }
    }
}
