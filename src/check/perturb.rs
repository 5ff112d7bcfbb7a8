//! Small changes of a picture under which a verdict should hold.
//!
//! They are Pillow's, to the bit: a detector may well see the difference between two ways to blur. Pillow computes in
//! integers, with coefficients of 22 or 24 fractional bits.

use std::f64::consts::PI;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use prepose_draw::picture::Picture;

/// One change, equal to Pillow's on 8-bit RGB.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Perturbation {
    /// Every channel times a factor: `ImageEnhance.Brightness(image).enhance(factor)`.
    Brightness {
        /// More than 0; 1 changes nothing.
        factor: f64,
    },
    /// `image.filter(ImageFilter.GaussianBlur(radius=sigma))`.
    GaussianBlur {
        /// The standard deviation, in pixels.
        sigma: f64,
    },
    /// Lanczos to `int(size × scale)`, at least one pixel, and back to the size.
    Resize {
        /// More than 0; 1 changes nothing.
        scale: f64,
    },
}

impl Perturbation {
    /// The name in configurations.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Brightness { .. } => "brightness",
            Self::GaussianBlur { .. } => "gaussian_blur",
            Self::Resize { .. } => "resize",
        }
    }

    /// The changed picture, of the same size.
    pub fn apply(&self, picture: &Picture) -> Picture {
        match *self {
            Self::Brightness { factor } => brightness(picture, factor),
            Self::GaussianBlur { sigma } => gaussian_blur(picture, sigma),
            Self::Resize { scale } => {
                let shrink = |side: usize| ((side as f64 * scale) as usize).max(1);
                let small = lanczos(picture, shrink(picture.width), shrink(picture.height));
                lanczos(&small, picture.width, picture.height)
            }
        }
    }
}

/// A blend with black, in f32, cut off at 255 and not rounded.
fn brightness(picture: &Picture, factor: f64) -> Picture {
    let factor = factor as f32;
    // A float becomes a byte by cutting off what is below 0, above 255 and behind the point.
    let rgb = (picture.rgb.iter())
        .map(|&byte| (factor * f32::from(byte)) as u8)
        .collect();
    Picture { rgb, ..*picture }
}

/// Three box blurs a direction, whose widths, with a part of the pixels at their ends, have the wanted variance together
/// (Gwosdek et al. 2011, Theoretical foundations of Gaussian convolution by extended box filtering).
fn gaussian_blur(picture: &Picture, sigma: f64) -> Picture {
    const PASSES: usize = 3;
    let radius = box_radius(sigma as f32, PASSES);
    let blurred = blur_rows(picture, radius, PASSES);
    transposed(&blur_rows(&transposed(&blurred), radius, PASSES))
}

/// The radius of each of some box blurs that come to a Gaussian one; its fraction is the weight of the pixels at the ends.
fn box_radius(sigma: f32, passes: usize) -> f32 {
    let variance = sigma * sigma / passes as f32;
    // Pillow takes the root in f64 and goes on in f32.
    let length = (12.0 * f64::from(variance) + 1.0).sqrt() as f32;
    let whole = ((f64::from(length) - 1.0) / 2.0).floor() as f32;
    let mut part = (2.0 * whole + 1.0) * (whole * (whole + 1.0) - 3.0 * variance);
    part /= 6.0 * (variance - (whole + 1.0) * (whole + 1.0));
    whole + part
}

/// Some box blurs of every row; what lies beyond an edge is as the edge.
fn blur_rows(picture: &Picture, radius: f32, passes: usize) -> Picture {
    let width = picture.width;
    let mut rgb = picture.rgb.clone();
    let whole = radius as usize;
    // The weights of a pixel and of one at an end, with 24 fractional bits.
    let weight = ((1u32 << 24) as f32 / (radius * 2.0 + 1.0)) as u32;
    let end = ((1u32 << 24) - (whole as u32 * 2 + 1) * weight) / 2;
    rgb.par_chunks_mut(width * 3).for_each(|row| {
        let mut line = vec![0u8; width];
        let mut blurred = vec![0u8; width];
        for channel in 0..3 {
            for (value, pixel) in line.iter_mut().zip(row.chunks_exact(3)) {
                *value = pixel[channel];
            }
            for _ in 0..passes {
                blur_line(&line, &mut blurred, whole, weight, end);
                std::mem::swap(&mut line, &mut blurred);
            }
            for (value, pixel) in line.iter().zip(row.chunks_exact_mut(3)) {
                pixel[channel] = *value;
            }
        }
    });
    Picture { rgb, ..*picture }
}

fn blur_line(line: &[u8], blurred: &mut [u8], radius: usize, weight: u32, end: u32) {
    let last = line.len() - 1;
    // `at` counts from `radius + 1` pixels before the line.
    let value = |at: usize| u32::from(line[at.saturating_sub(radius + 1).min(last)]);
    let mut sum: u32 = (0..=2 * radius).map(value).sum();
    for (x, blurred) in blurred.iter_mut().enumerate() {
        // The window around x goes from x - radius to x + radius, and half a weight at each end beyond.
        let (before, after) = (x, x + 2 * radius + 2);
        sum = sum + value(after - 1) - value(before);
        let bulk = sum * weight + (value(before) + value(after)) * end;
        *blurred = ((bulk + (1 << 23)) >> 24) as u8;
    }
}

/// Rows as columns.
fn transposed(picture: &Picture) -> Picture {
    let Picture { width, height, .. } = *picture;
    let mut rgb = vec![0; picture.rgb.len()];
    rgb.par_chunks_mut(height * 3)
        .enumerate()
        .for_each(|(x, column)| {
            for (y, pixel) in column.chunks_exact_mut(3).enumerate() {
                let at = (y * width + x) * 3;
                pixel.copy_from_slice(&picture.rgb[at..at + 3]);
            }
        });
    Picture {
        width: height,
        height: width,
        rgb,
    }
}

/// Pillow's `resize(…, LANCZOS)`.
fn lanczos(picture: &Picture, width: usize, height: usize) -> Picture {
    resize(picture, width, height, &LANCZOS)
}

/// Pillow's `resize(…, BILINEAR)`, as transformers prepares pictures with it; at least one pixel each way.
pub fn bilinear(picture: &Picture, width: usize, height: usize) -> Picture {
    resize(picture, width.max(1), height.max(1), &BILINEAR)
}

/// One axis after the other, each rounded to bytes.
fn resize(picture: &Picture, width: usize, height: usize, filter: &Filter) -> Picture {
    if vertically_first(picture, width, height) {
        return resize_rows(&resize_columns(picture, height, filter), width, filter);
    }
    resize_columns(&resize_rows(picture, width, filter), height, filter)
}

/// Whether Pillow resizes the height first, which changes roundings: from version 13 on where that loses more than
/// twice as many pixels as the width does. Earlier versions never do.
fn vertically_first(picture: &Picture, width: usize, height: usize) -> bool {
    let lost = |from: usize, to: usize| from as i64 - to as i64;
    height < picture.height && lost(picture.height, height) > 2 * lost(picture.width, width)
}

fn resize_columns(picture: &Picture, height: usize, filter: &Filter) -> Picture {
    if height == picture.height {
        return picture.clone();
    }
    transposed(&resize_rows(&transposed(picture), height, filter))
}

/// How a pixel counts by its distance.
struct Filter {
    /// Up to which distance one counts.
    support: f64,
    weight: fn(f64) -> f64,
}

const LANCZOS: Filter = Filter {
    support: 3.0,
    weight: window,
};

const BILINEAR: Filter = Filter {
    support: 1.0,
    weight: |x| (1.0 - x.abs()).max(0.0),
};

/// The fractional bits of a resizing's weights.
const WEIGHT_BITS: u32 = 22;

/// Which pixels make one pixel of a resized row, and how much.
struct Taps {
    first: usize,
    weights: Vec<i32>,
}

fn resize_rows(picture: &Picture, width: usize, filter: &Filter) -> Picture {
    if width == picture.width {
        return picture.clone();
    }
    let taps = taps(picture.width, width, filter);
    let mut rgb = vec![0u8; width * picture.height * 3];
    rgb.par_chunks_mut(width * 3)
        .zip(picture.rgb.par_chunks(picture.width * 3))
        .for_each(|(row, source)| {
            for (pixel, taps) in row.chunks_exact_mut(3).zip(&taps) {
                let mut sums = [1i32 << (WEIGHT_BITS - 1); 3];
                let pixels = source[taps.first * 3..].chunks_exact(3);
                for (&weight, from) in taps.weights.iter().zip(pixels) {
                    for (sum, &byte) in sums.iter_mut().zip(from) {
                        *sum += i32::from(byte) * weight;
                    }
                }
                for (byte, sum) in pixel.iter_mut().zip(sums) {
                    *byte = (sum >> WEIGHT_BITS).clamp(0, 255) as u8;
                }
            }
        });
    Picture {
        width,
        height: picture.height,
        rgb,
    }
}

/// For each pixel of a side of `to` pixels, what it is made of on a side of `from` pixels.
fn taps(from: usize, to: usize, by: &Filter) -> Vec<Taps> {
    let scale = from as f64 / to as f64;
    // A smaller picture is filtered as wide as its pixels are in the larger one.
    let filter = scale.max(1.0);
    let support = by.support * filter;
    (0..to)
        .map(|x| {
            let centre = (x as f64 + 0.5) * scale;
            // Casts cut off at 0 and behind the point.
            let first = (centre - support + 0.5) as usize;
            let last = ((centre + support + 0.5) as usize).min(from);
            let weights: Vec<f64> = (first..last)
                .map(|at| (by.weight)((at as f64 - centre + 0.5) * (1.0 / filter)))
                .collect();
            let total: f64 = weights.iter().fold(0.0, |sum, weight| sum + weight);
            let weights = weights
                .into_iter()
                .map(|weight| if total == 0.0 { weight } else { weight / total })
                .map(|weight| {
                    let half = if weight < 0.0 { -0.5 } else { 0.5 };
                    (half + weight * f64::from(1 << WEIGHT_BITS)) as i32
                })
                .collect();
            Taps { first, weights }
        })
        .collect()
}

/// Lanczos' window of three lobes.
fn window(x: f64) -> f64 {
    let sinc = |x: f64| {
        if x == 0.0 {
            1.0
        } else {
            (x * PI).sin() / (x * PI)
        }
    };
    if (-3.0..3.0).contains(&x) {
        sinc(x) * sinc(x / 3.0)
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::Value;
    use sha2::{Digest, Sha256};

    use super::*;

    fn fixture(name: &str) -> Vec<u8> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/perturb");
        std::fs::read(folder.join(name)).unwrap()
    }

    fn hex(bytes: &[u8]) -> String {
        let digest = Sha256::digest(bytes);
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn every_change_is_pillows_to_the_bit() {
        let case: Value = serde_json::from_slice(&fixture("case.json")).unwrap();
        for case in case["cases"].as_array().unwrap() {
            let kind: Perturbation = serde_json::from_value(case["perturbation"].clone()).unwrap();
            let name = case["picture"].as_str().unwrap();
            let picture = Picture::decode(&fixture(&format!("{name}.png"))).unwrap();
            let changed = kind.apply(&picture);
            assert_eq!(
                (changed.width, changed.height),
                (picture.width, picture.height)
            );
            if let Some(expected) = case["expected"].as_str() {
                let expected = Picture::decode(&fixture(expected)).unwrap().rgb;
                let apart: Vec<i32> = (changed.rgb.iter().zip(&expected))
                    .map(|(a, b)| (i32::from(*a) - i32::from(*b)).abs())
                    .collect();
                let (most, sum) = (apart.iter().max(), apart.iter().sum::<i32>());
                assert_eq!(sum, 0, "{name} {kind:?}: {sum} in all, {most:?} at most");
            }
            let hash = hex(&changed.rgb);
            assert_eq!(hash, case["sha256"].as_str().unwrap(), "{name} {kind:?}");
        }
    }

    #[test]
    fn bilinear_resizing_is_pillows_to_the_bit() {
        let case: Value = serde_json::from_slice(&fixture("case.json")).unwrap();
        for case in case["bilinear"].as_array().unwrap() {
            let name = case["picture"].as_str().unwrap();
            let side = |at: usize| case["size"][at].as_u64().unwrap() as usize;
            let picture = Picture::decode(&fixture(&format!("{name}.png"))).unwrap();
            let small = bilinear(&picture, side(0), side(1));
            assert_eq!((small.width, small.height), (side(0), side(1)));
            assert_eq!(
                hex(&small.rgb),
                case["sha256"].as_str().unwrap(),
                "{name} {case}"
            );
        }
    }

    #[test]
    fn the_smallest_pictures_are_changed_too() {
        let picture = Picture {
            width: 1,
            height: 2,
            rgb: vec![10, 20, 30, 250, 240, 230],
        };
        for kind in [
            Perturbation::Brightness { factor: 1.1 },
            Perturbation::GaussianBlur { sigma: 1.0 },
            Perturbation::Resize { scale: 0.1 },
        ] {
            let changed = kind.apply(&picture);
            assert_eq!((changed.width, changed.height), (1, 2));
            assert_eq!(changed.rgb.len(), 6);
        }
    }
}
