//! Letters, lines and frames on pictures.

use image::{Rgb, RgbImage};
use resvg::tiny_skia::{FillRule, Mask, Transform};

use crate::font;
use crate::picture::Picture;

/// Height of a capital letter in pixels at its smallest.
pub const LETTER: usize = 8;

/// How far below its line a letter may reach at its smallest, in pixels.
pub const DESCENT: usize = 3;

/// The font's size whose capitals are as high as `LETTER` at its smallest.
const SIZE: f64 = LETTER as f64 / font::CAPITAL;

/// How many pixels wide `text` is, with capitals `zoom` times as high as at their smallest.
pub fn text_width(text: &str, zoom: usize) -> usize {
    font::width(text, SIZE * zoom as f64).ceil() as usize
}

/// Writes `text`, or as much of its beginning as fits into `width` pixels, with capitals from `top` on that are `zoom`
/// times as high as at their smallest.
pub fn write(
    on: &mut RgbImage,
    text: &str,
    (left, top): (usize, usize),
    zoom: usize,
    width: usize,
    ink: Rgb<u8>,
) {
    let size = SIZE * zoom as f64;
    let place = Transform::from_translate(left as f32, (top + LETTER * zoom) as f32);
    let outlines = font::outlines(&font::fitted(text, size, width as f64), size);
    let Some(outlines) = outlines.and_then(|outlines| outlines.transform(place)) else {
        return;
    };
    let Some(area) = outlines.bounds().round_out() else {
        return;
    };
    let Some(mut covered) = Mask::new(area.width(), area.height()) else {
        return;
    };
    let onto_mask = Transform::from_translate(-area.x() as f32, -area.y() as f32);
    covered.fill_path(&outlines, FillRule::Winding, true, onto_mask);
    let rows = covered.data().chunks_exact(area.width() as usize);
    for (y, row) in (area.y()..).zip(rows) {
        for (x, share) in (area.x()..).zip(row) {
            // Letters may begin left of their place, and go on beyond the picture.
            if let (Ok(x), Ok(y)) = (u32::try_from(x), u32::try_from(y))
                && let Some(pixel) = on.get_pixel_mut_checked(x, y)
            {
                mix(pixel, ink, f64::from(*share) / 255.0);
            }
        }
    }
}

/// Lays ink over a pixel, `share` of it from 0 for nothing to 1 for all.
pub fn mix(pixel: &mut Rgb<u8>, Rgb(ink): Rgb<u8>, share: f64) {
    for (channel, ink) in pixel.0.iter_mut().zip(ink) {
        let mixed = f64::from(*channel) * (1.0 - share) + f64::from(ink) * share;
        *channel = mixed.round() as u8;
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

#[cfg(test)]
mod tests {
    use super::*;

    const WHITE: Rgb<u8> = Rgb([255; 3]);

    /// Where ink is: left, top, right and bottom, the ends not included.
    fn bounds(picture: &RgbImage) -> [u32; 4] {
        let dark = picture.enumerate_pixels().filter(|(_, _, p)| p.0[0] < 128);
        dark.fold([u32::MAX, u32::MAX, 0, 0], |[l, t, r, b], (x, y, _)| {
            [l.min(x), t.min(y), r.max(x + 1), b.max(y + 1)]
        })
    }

    fn written(text: &str, zoom: usize, room: usize) -> RgbImage {
        let mut picture = RgbImage::from_pixel(100, 40, WHITE);
        write(&mut picture, text, (5, 4), zoom, room, Rgb([0; 3]));
        picture
    }

    #[test]
    fn letters_stand_where_they_should() {
        for zoom in [1, 2, 3] {
            let [left, top, right, bottom] = bounds(&written("HH", zoom, 90));
            assert_eq!((top as usize, bottom as usize), (4, 4 + LETTER * zoom));
            assert!(left >= 5 && right as usize <= 5 + text_width("HH", zoom));
            let [_, _, _, bottom] = bounds(&written("pgy", zoom, 90));
            assert!(bottom as usize <= 4 + (LETTER + DESCENT) * zoom, "{bottom}");
        }
    }

    #[test]
    fn what_does_not_fit_is_cut() {
        let [_, _, right, _] = bounds(&written("a very long name of a thing", 1, 60));
        assert!((45..=65).contains(&right), "{right}");
        assert!(written("H", 1, 2) == written("", 1, 90));
        // Beyond the picture there is nothing to write on.
        let mut picture = RgbImage::from_pixel(8, 8, WHITE);
        write(&mut picture, "HHH", (6, 6), 1, 100, Rgb([0; 3]));
        write(&mut picture, "HHH", (60, 60), 1, 100, Rgb([0; 3]));
        assert!(bounds(&picture)[0] >= 6);
    }

    #[test]
    fn letters_beyond_ascii_show() {
        let unknown = written("猫", 2, 90);
        let shown = ["?", "e", "é", "ß", "Ж", "τ", "≥"].map(|text| written(text, 2, 90));
        for (i, one) in shown.iter().enumerate() {
            assert!(*one != unknown && !shown[..i].contains(one), "{i}");
        }
        assert!(unknown != written("", 2, 90));
    }
}
