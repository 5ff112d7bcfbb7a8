//! Pictures in rows and columns, with labels.

use image::{Rgb, RgbImage};

use crate::drawing::{DESCENT, LETTER, text_width, write};
use crate::picture::Picture;

/// Between pictures, in pixels.
const GAP: usize = 4;

const INK: Rgb<u8> = Rgb([20; 3]);

/// More lines than this are cut from a label.
const LINES: usize = 8;

/// Pictures in rows and columns; those of a row or column may differ in size.
#[derive(Clone, Debug, Default)]
pub struct Grid {
    /// A label above each column; empty ones take no room.
    pub columns: Vec<String>,
    /// A label left of each row; empty ones take no room.
    pub rows: Vec<String>,
    /// The pictures, row by row.
    pub cells: Vec<Vec<Picture>>,
}

impl Grid {
    /// The sheet: each cell as large as the largest picture. `None` without any picture.
    pub fn draw(&self) -> Option<Picture> {
        let all = || self.cells.iter().flatten();
        let (width, height) = (
            all().map(|cell| cell.width).max()?,
            all().map(|cell| cell.height).max()?,
        );
        let columns = self.cells.iter().map(Vec::len).max()?;
        let zoom = (width / 256).max(1);
        let line = (LETTER + DESCENT + 2) * zoom;
        let above: Vec<Vec<String>> = self
            .columns
            .iter()
            .map(|text| wrapped(text, zoom, width))
            .collect();
        let beside: Vec<Vec<String>> = self
            .rows
            .iter()
            .map(|text| wrapped(text, zoom, width))
            .collect();
        let lines = above.iter().map(Vec::len).max().unwrap_or(0);
        let top = GAP + lines * line;
        let widest = beside
            .iter()
            .flatten()
            .map(|text| text_width(text, zoom))
            .max();
        let left = GAP + widest.map_or(0, |widest| widest + GAP);

        let size = (
            left + columns * (width + GAP),
            top + self.cells.len() * (height + GAP),
        );
        let mut sheet = RgbImage::from_pixel(size.0 as u32, size.1 as u32, Rgb([255; 3]));
        for (column, label) in above.iter().enumerate().take(columns) {
            for (number, text) in label.iter().enumerate() {
                let place = (left + column * (width + GAP), GAP + number * line);
                write(&mut sheet, text, place, zoom, width, INK);
            }
        }
        for (row, cells) in self.cells.iter().enumerate() {
            let y = top + row * (height + GAP);
            for (number, text) in beside.get(row).into_iter().flatten().enumerate() {
                if (number + 1) * line <= height {
                    write(&mut sheet, text, (GAP, y + number * line), zoom, left, INK);
                }
            }
            for (column, cell) in cells.iter().enumerate() {
                let pixels =
                    RgbImage::from_raw(cell.width as u32, cell.height as u32, cell.rgb.clone());
                if let Some(pixels) = pixels {
                    let x = left + column * (width + GAP);
                    image::imageops::replace(&mut sheet, &pixels, x as i64, y as i64);
                }
            }
        }
        Some(Picture {
            width: size.0,
            height: size.1,
            rgb: sheet.into_raw(),
        })
    }
}

/// `text` in lines of at most `width` pixels, as far as its words allow.
fn wrapped(text: &str, zoom: usize, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if text_width(&format!("{line} {word}"), zoom) <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.into()),
        }
    }
    lines.truncate(LINES);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(side: usize, grey: u8) -> Picture {
        Picture {
            width: side,
            height: side,
            rgb: vec![grey; side * side * 3],
        }
    }

    #[test]
    fn pictures_stand_in_their_cells_beside_their_labels() {
        let grid = Grid {
            columns: vec!["seed 0".into(), "seed 1".into()],
            rows: vec!["a dog to the left of a cat".into(), "pos".into()],
            cells: vec![vec![plain(64, 10), plain(64, 20)], vec![plain(32, 30)]],
        };
        let sheet = grid.draw().unwrap();
        let left = sheet.width - 2 * (64 + GAP);
        let top = sheet.height - 2 * (64 + GAP);
        let at = |x: usize, y: usize| sheet.rgb[(y * sheet.width + x) * 3];
        assert_eq!(at(left, top), 10);
        assert_eq!(at(left + 64 + GAP, top), 20);
        assert_eq!(at(left, top + 64 + GAP), 30);
        assert_eq!(at(left + 40, top + 64 + GAP), 255, "the small picture ends");
        let ink = |x: std::ops::Range<usize>, y: std::ops::Range<usize>| {
            x.flat_map(|x| y.clone().map(move |y| (x, y)))
                .any(|(x, y)| at(x, y) < 128)
        };
        assert!(ink(left..left + 64, 0..top), "a label above");
        assert!(ink(0..left, top..top + 64), "a label beside");
    }

    #[test]
    fn without_labels_there_is_no_room_for_any() {
        let grid = Grid {
            cells: vec![vec![plain(8, 0)]],
            ..Grid::default()
        };
        let sheet = grid.draw().unwrap();
        assert_eq!((sheet.width, sheet.height), (8 + 2 * GAP, 8 + 2 * GAP));
        assert!(Grid::default().draw().is_none());
    }
}
