//! Letters, lines and frames on pictures.

use font8x8::{BASIC_FONTS, UnicodeFonts};
use image::{Rgb, RgbImage};

use crate::picture::Picture;

/// Pixels of a letter at its smallest.
pub const LETTER: usize = 8;

/// Writes what fits of `text` into `width` pixels, each dot of a letter `zoom` pixels wide. Letters of the basic Latin
/// alphabet show, others become a question mark.
pub fn write(
    on: &mut RgbImage,
    text: &str,
    (left, top): (usize, usize),
    zoom: usize,
    width: usize,
    ink: Rgb<u8>,
) {
    let fitting = width / (LETTER * zoom);
    for (index, letter) in text.chars().take(fitting).enumerate() {
        let glyph = BASIC_FONTS.get(letter).or_else(|| BASIC_FONTS.get('?'));
        for (y, dots) in glyph.unwrap_or_default().iter().enumerate() {
            for x in (0..LETTER).filter(|x| dots >> x & 1 == 1) {
                let corner = (left + (index * LETTER + x) * zoom, top + y * zoom);
                fill(on, corner, (zoom, zoom), ink);
            }
        }
    }
}

/// Fills what lies on the picture of a rectangle.
pub fn fill(
    on: &mut RgbImage,
    (left, top): (usize, usize),
    (width, height): (usize, usize),
    ink: Rgb<u8>,
) {
    for y in top..(top + height).min(on.height() as usize) {
        for x in left..(left + width).min(on.width() as usize) {
            on.put_pixel(x as u32, y as u32, ink);
        }
    }
}

/// The outline of a rectangle, `thick` pixels within its edges.
pub fn frame(
    on: &mut RgbImage,
    (left, top): (usize, usize),
    (width, height): (usize, usize),
    thick: usize,
    ink: Rgb<u8>,
) {
    let (thick_x, thick_y) = (thick.min(width), thick.min(height));
    fill(on, (left, top), (width, thick_y), ink);
    fill(on, (left, top + height - thick_y), (width, thick_y), ink);
    fill(on, (left, top), (thick_x, height), ink);
    fill(on, (left + width - thick_x, top), (thick_x, height), ink);
}

/// A straight line of `thick` by `thick` dots between two points.
pub fn line(on: &mut RgbImage, from: (f64, f64), to: (f64, f64), thick: usize, ink: Rgb<u8>) {
    let (dx, dy) = (to.0 - from.0, to.1 - from.1);
    let dots = dx.abs().max(dy.abs()).ceil().max(1.0);
    for dot in 0..=dots as usize {
        let along = dot as f64 / dots;
        let half = thick as f64 / 2.0;
        let (x, y) = (from.0 + along * dx - half, from.1 + along * dy - half);
        if x >= 0.0 && y >= 0.0 {
            fill(on, (x as usize, y as usize), (thick, thick), ink);
        }
    }
}

/// `picture` with each pixel as a square of `zoom` pixels.
pub fn enlarged(picture: &Picture, zoom: usize) -> RgbImage {
    RgbImage::from_fn(
        (picture.width * zoom) as u32,
        (picture.height * zoom) as u32,
        |x, y| {
            let at = (y as usize / zoom * picture.width + x as usize / zoom) * 3;
            Rgb([picture.rgb[at], picture.rgb[at + 1], picture.rgb[at + 2]])
        },
    )
}
