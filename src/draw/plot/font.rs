//! The letters of a plot: measured for both formats, drawn for PNG.

use std::sync::LazyLock;

use ttf_parser::{Face, OutlineBuilder};
use zeno::{Command, PathBuilder};

/// DejaVu Sans without hints: Latin, Greek, Cyrillic and some signs. See `DejaVu-LICENSE.txt`.
const BYTES: &[u8] = include_bytes!("dejavu-sans.ttf");

static FACE: LazyLock<Option<Face<'static>>> = LazyLock::new(|| Face::parse(BYTES, 0).ok());

/// How wide a text of a size is, in pixels. Readers' own fonts are hardly wider than this one.
pub fn width(text: &str, size: f64) -> f64 {
    let Some(face) = FACE.as_ref() else {
        return 0.64 * size * text.chars().count() as f64;
    };
    let units: u32 = text
        .chars()
        .map(|letter| u32::from(advance(face, letter)))
        .sum();
    f64::from(units) * size / f64::from(face.units_per_em())
}

/// The text, or as much of its beginning as fits into `room` pixels, with an ellipsis.
pub fn fitted(text: &str, size: f64, room: f64) -> String {
    if width(text, size) <= room {
        return text.into();
    }
    let mut letters: Vec<char> = text.chars().collect();
    while !letters.is_empty() {
        letters.pop();
        let short: String = letters.iter().collect::<String>() + "…";
        if width(&short, size) <= room {
            return short;
        }
    }
    String::new()
}

fn advance(face: &Face, letter: char) -> u16 {
    // Letters that the font has not are drawn as its first glyph, a box.
    let glyph = face.glyph_index(letter).unwrap_or_default();
    face.glyph_hor_advance(glyph).unwrap_or_default()
}

/// The outlines of a text whose left end stands at the origin of a y axis that points downwards.
pub fn outlines(text: &str, size: f64) -> Vec<Command> {
    let Some(face) = FACE.as_ref() else {
        return Vec::new();
    };
    let scale = (size / f64::from(face.units_per_em())) as f32;
    let mut pen = Pen {
        path: Vec::new(),
        scale,
        x: 0.0,
    };
    for letter in text.chars() {
        face.outline_glyph(face.glyph_index(letter).unwrap_or_default(), &mut pen);
        pen.x += f32::from(advance(face, letter)) * scale;
    }
    pen.path
}

struct Pen {
    path: Vec<Command>,
    scale: f32,
    x: f32,
}

impl Pen {
    fn at(&self, x: f32, y: f32) -> [f32; 2] {
        [self.x + x * self.scale, -y * self.scale]
    }
}

impl OutlineBuilder for Pen {
    fn move_to(&mut self, x: f32, y: f32) {
        let to = self.at(x, y);
        self.path.move_to(to);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let to = self.at(x, y);
        self.path.line_to(to);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let (control, to) = (self.at(x1, y1), self.at(x, y));
        self.path.quad_to(control, to);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let (first, second, to) = (self.at(x1, y1), self.at(x2, y2), self.at(x, y));
        self.path.curve_to(first, second, to);
    }

    fn close(&mut self) {
        self.path.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_font_is_there_and_measures() {
        assert!(FACE.is_some());
        assert!(width("iiii", 12.0) < width("WWWW", 12.0));
        assert_eq!(width("ab", 24.0), 2.0 * width("ab", 12.0));
        for sign in "aZ09τ–→≥".chars() {
            assert!(!outlines(&sign.to_string(), 12.0).is_empty(), "{sign}");
        }
    }

    #[test]
    fn text_is_cut_where_the_room_ends() {
        assert_eq!(fitted("short", 12.0, 100.0), "short");
        let cut = fitted("a very long name of a method", 12.0, 80.0);
        assert!(cut.ends_with('…') && width(&cut, 12.0) <= 80.0, "{cut}");
        assert_eq!(fitted("x", 12.0, 1.0), "");
    }
}
