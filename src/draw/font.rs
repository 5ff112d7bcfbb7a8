//! The font of everything that is drawn: measured for SVG, and drawn where there are pixels.

use std::sync::{Arc, LazyLock};

use resvg::tiny_skia::{Path, PathBuilder};
use resvg::usvg::fontdb::{Database, FaceInfo, ID, Language, Source, Stretch, Style, Weight};
use ttf_parser::{Face, OutlineBuilder};

/// DejaVu Sans without hints: Latin, Greek, Cyrillic and some signs. See `font/DejaVu-LICENSE.txt`.
const BYTES: &[u8] = include_bytes!("font/dejavu-sans.ttf");

static FACE: LazyLock<Option<Face<'static>>> = LazyLock::new(|| Face::parse(BYTES, 0).ok());

/// The only font that SVG is rendered with: a machine's own would make other pictures. It is described here since the
/// file lacks a PostScript name, without which it would not be loaded.
pub static DATABASE: LazyLock<Arc<Database>> = LazyLock::new(|| {
    let mut fonts = Database::new();
    fonts.push_face_info(FaceInfo {
        id: ID::dummy(),
        source: Source::Binary(Arc::new(BYTES)),
        index: 0,
        families: vec![("DejaVu Sans".into(), Language::English_UnitedStates)],
        post_script_name: "DejaVuSans".into(),
        style: Style::Normal,
        weight: Weight::NORMAL,
        stretch: Stretch::Normal,
        monospaced: false,
    });
    Arc::new(fonts)
});

/// Height of a capital letter in a font of size 1.
pub const CAPITAL: f64 = 0.729;

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
    // No room shows more, and a name may be as long as a book.
    let mut letters: Vec<char> = text.chars().take(500).collect();
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
    // The font's first glyph stands for letters that it has not.
    let glyph = face.glyph_index(letter).unwrap_or_default();
    face.glyph_hor_advance(glyph).unwrap_or_default()
}

/// The outlines of a text whose left end stands at the origin of a y axis that points downwards; `None` where nothing
/// of it shows.
pub fn outlines(text: &str, size: f64) -> Option<Path> {
    let face = FACE.as_ref()?;
    let scale = (size / f64::from(face.units_per_em())) as f32;
    let mut pen = Pen {
        path: PathBuilder::new(),
        scale,
        x: 0.0,
    };
    for letter in text.chars() {
        let advance = f32::from(advance(face, letter));
        match face.glyph_index(letter) {
            Some(glyph) => {
                face.outline_glyph(glyph, &mut pen);
            }
            None => pen.unknown(advance, f32::from(face.units_per_em())),
        }
        pen.x += advance * scale;
    }
    pen.path.finish()
}

struct Pen {
    path: PathBuilder,
    scale: f32,
    x: f32,
}

impl Pen {
    fn at(&self, x: f32, y: f32) -> (f32, f32) {
        (self.x + x * self.scale, -y * self.scale)
    }

    /// An empty box, where the font has no letter; its own sign for that shows nothing.
    fn unknown(&mut self, advance: f32, em: f32) {
        let (side, top, edge) = (0.1 * advance, CAPITAL as f32 * em, 0.08 * em);
        for (inset, clockwise) in [(0.0, true), (edge, false)] {
            let (left, right) = (side + inset, advance - side - inset);
            let (low, high) = (inset, top - inset);
            // The inner edge the other way round, so that the box is hollow.
            let (second, fourth) = match clockwise {
                true => ((left, high), (right, low)),
                false => ((right, low), (left, high)),
            };
            self.move_to(left, low);
            self.line_to(second.0, second.1);
            self.line_to(right, high);
            self.line_to(fourth.0, fourth.1);
            self.close();
        }
    }
}

impl OutlineBuilder for Pen {
    fn move_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.at(x, y);
        self.path.move_to(x, y);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.at(x, y);
        self.path.line_to(x, y);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let ((x1, y1), (x, y)) = (self.at(x1, y1), self.at(x, y));
        self.path.quad_to(x1, y1, x, y);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let ((x1, y1), (x2, y2), (x, y)) = (self.at(x1, y1), self.at(x2, y2), self.at(x, y));
        self.path.cubic_to(x1, y1, x2, y2, x, y);
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
        assert_eq!(DATABASE.len(), 1);
        let capital = outlines("H", 1.0).unwrap().bounds();
        assert!((f64::from(capital.height()) - CAPITAL).abs() < 1e-3);
        assert!(width("iiii", 12.0) < width("WWWW", 12.0));
        assert_eq!(width("ab", 24.0), 2.0 * width("ab", 12.0));
        for sign in "aZ09τ–→≥".chars() {
            assert!(outlines(&sign.to_string(), 12.0).is_some(), "{sign}");
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
