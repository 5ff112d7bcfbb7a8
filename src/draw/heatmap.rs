//! Attention maps as pictures: laid over the picture that they belong to, and sheets of many.

use colorous::INFERNO;
use image::imageops::{FilterType, resize};
use image::{ImageBuffer, Luma, Rgb, RgbImage};

use crate::drawing::{LETTER, write};
use crate::picture::Picture;

/// Share of the map's colours in an overlay; the rest is the picture in grey.
const OPACITY: f32 = 0.65;
/// Pixels between the tiles of a sheet.
const GAP: usize = 4;
/// The colour of captions.
const INK: Rgb<u8> = Rgb([32; 3]);

/// Values of attention over a picture, rows from the top.
#[derive(Clone, Debug, PartialEq)]
pub struct HeatMap {
    /// Columns.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// `width * height` values, none negative.
    pub values: Vec<f32>,
}

impl HeatMap {
    /// The largest value.
    pub fn peak(&self) -> f32 {
        self.values.iter().copied().fold(0.0, f32::max)
    }

    /// The map in colours from black over red to yellow over `picture` in grey, as large as the picture. `peak` has
    /// the brightest colour: the map's own, or one that several maps share to be compared.
    pub fn over(&self, picture: &Picture, peak: f32) -> Picture {
        let scale = if peak > 0.0 { peak.recip() } else { 0.0 };
        let values = self.values.iter().map(|value| value * scale).collect();
        let (width, height) = (self.width as u32, self.height as u32);
        let Some(map) = ImageBuffer::<Luma<f32>, Vec<f32>>::from_raw(width, height, values) else {
            return picture.clone();
        };
        let (width, height) = (picture.width as u32, picture.height as u32);
        let map = resize(&map, width, height, FilterType::CatmullRom);
        let pixels = picture.rgb.chunks_exact(3).zip(map.pixels());
        let rgb = pixels.flat_map(|(pixel, Luma([value]))| {
            let heat = INFERNO.eval_continuous(f64::from(value.clamp(0.0, 1.0)));
            // Rec. 601 brightness.
            let [r, g, b] = [pixel[0], pixel[1], pixel[2]].map(f32::from);
            let grey = 0.299 * r + 0.587 * g + 0.114 * b;
            [heat.r, heat.g, heat.b]
                .map(|heat| (OPACITY * f32::from(heat) + (1.0 - OPACITY) * grey) as u8)
        });
        Picture {
            width: picture.width,
            height: picture.height,
            rgb: rgb.collect(),
        }
    }
}

/// Rows of equally large pictures, each under its caption, or as much of it as fits. `None` without any picture.
pub fn sheet(rows: &[Vec<(String, Picture)>]) -> Option<Picture> {
    let (_, first) = rows.iter().flatten().next()?;
    let zoom = (first.width / 160).max(1);
    // With room for what reaches below the line.
    let strip = (LETTER + GAP) * zoom + GAP;
    let (tile_width, tile_height) = (first.width + GAP, first.height + strip);
    let columns = rows.iter().map(Vec::len).max()?;
    let size = (columns * tile_width + GAP, rows.len() * tile_height + GAP);
    let mut sheet = RgbImage::from_pixel(size.0 as u32, size.1 as u32, Rgb([255; 3]));
    for (y, row) in rows.iter().enumerate() {
        for (x, (caption, picture)) in row.iter().enumerate() {
            let (left, top) = (GAP + x * tile_width, y * tile_height);
            let place = (left, top + GAP);
            write(&mut sheet, caption, place, zoom, first.width, INK);
            let pixels = RgbImage::from_raw(
                picture.width as u32,
                picture.height as u32,
                picture.rgb.clone(),
            );
            if let Some(pixels) = pixels {
                image::imageops::replace(&mut sheet, &pixels, left as i64, (top + strip) as i64);
            }
        }
    }
    Some(Picture {
        width: size.0,
        height: size.1,
        rgb: sheet.into_raw(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grey(width: usize, height: usize) -> Picture {
        Picture {
            width,
            height,
            rgb: vec![128; width * height * 3],
        }
    }

    #[test]
    fn heat_lies_where_the_map_is_high() {
        let map = HeatMap {
            width: 4,
            height: 2,
            values: vec![0.0, 0.0, 0.0, 0.2, 0.0, 0.0, 0.0, 0.2],
        };
        let shown = map.over(&grey(64, 32), map.peak());
        assert_eq!((shown.width, shown.height), (64, 32));
        let red = |x: usize| usize::from(shown.rgb[(16 * 64 + x) * 3]);
        assert!(red(62) > red(2) + 100, "{} and {}", red(62), red(2));
        // A map of zeros is dark everywhere, not a division by zero.
        let nothing = HeatMap {
            values: vec![0.0; 8],
            ..map
        };
        let dark = nothing.over(&grey(64, 32), nothing.peak());
        assert!(dark.rgb.iter().all(|byte| *byte < 60));
    }

    #[test]
    fn a_sheet_holds_all_tiles() {
        let tile = |caption: &str| (caption.to_string(), grey(160, 80));
        let rows = [vec![tile("dog"), tile("step 1")], vec![tile("cat")]];
        let sheet = sheet(&rows).unwrap();
        assert_eq!((sheet.width, sheet.height), (4 + 2 * 164, 4 + 2 * 96));
        // The tile below its strip, and the caption's ink within it.
        assert_eq!(sheet.rgb[(20 * sheet.width + 10) * 3], 128);
        let strip = &sheet.rgb[..16 * sheet.width * 3];
        assert!(strip.contains(&32));
        assert!(super::sheet(&[]).is_none());
    }
}
