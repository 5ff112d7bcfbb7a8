//! A plot as pixels: its SVG, rendered on a light ground.

use resvg::tiny_skia::{Color, Pixmap, Transform};
use resvg::usvg::{self, Options, Tree};
use thiserror::Error;

use super::drawing::{Drawing, Ink};
use super::svg;
use crate::font;
use crate::picture::Picture;

/// A gibibyte of them while they are drawn.
const MAX_PIXELS: u64 = 1 << 28;

/// Why a plot does not become pixels.
#[derive(Debug, Error)]
pub enum RenderError {
    /// One of its sides is nothing, or it is made of more than a million things.
    #[error("the plot cannot be rendered")]
    Svg(#[from] usvg::Error),
    /// More pixels than are drawn.
    #[error("a plot of {width} x {height} pixels is larger than {MAX_PIXELS} pixels")]
    Size {
        /// In pixels.
        width: u32,
        /// In pixels.
        height: u32,
    },
}

/// The plot in its colours for light grounds, each of its pixels `zoom` pixels wide; the same on every machine.
///
/// # Errors
/// [`RenderError`].
pub fn picture(drawing: &Drawing, zoom: f64) -> Result<Picture, RenderError> {
    let options = Options {
        fontdb: font::DATABASE.clone(),
        ..Options::default()
    };
    let tree = Tree::from_str(&svg::light(drawing), &options)?;
    let [width, height] =
        [drawing.width, drawing.height].map(|side| (side * zoom).ceil().max(1.0) as u32);
    let pixels = (u64::from(width) * u64::from(height) <= MAX_PIXELS)
        .then(|| Pixmap::new(width, height))
        .flatten();
    let mut pixels = pixels.ok_or(RenderError::Size { width, height })?;
    // Where the plot ends within a pixel, nothing shines through.
    let [red, green, blue] = Ink::Ground.light();
    pixels.fill(Color::from_rgba8(red, green, blue, u8::MAX));
    let scale = Transform::from_scale(zoom as f32, zoom as f32);
    resvg::render(&tree, scale, &mut pixels.as_mut());
    let rgb = pixels
        .pixels()
        .iter()
        .flat_map(|pixel| [pixel.red(), pixel.green(), pixel.blue()]);
    Ok(Picture {
        width: width as usize,
        height: height as usize,
        rgb: rgb.collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::drawing::{Anchor, Shape};

    fn at(picture: &Picture, x: usize, y: usize) -> [u8; 3] {
        let i = (y * picture.width + x) * 3;
        [picture.rgb[i], picture.rgb[i + 1], picture.rgb[i + 2]]
    }

    #[test]
    fn pixels_are_where_they_should_be() {
        let mut drawing = Drawing::new(20.0, 10.0, "");
        drawing.rect((2.0, 2.0), (4.0, 4.0), 1.0, Ink::Pass);
        drawing.mark((14.0, 5.0), Shape::Circle, 3.0, Ink::Fail);
        let picture = picture(&drawing, 2.0).unwrap();
        assert_eq!((picture.width, picture.height), (40, 20));
        assert_eq!(at(&picture, 8, 8), Ink::Pass.light());
        assert_eq!(at(&picture, 28, 10), Ink::Fail.light());
        assert_eq!(at(&picture, 18, 10), Ink::Ground.light());
    }

    #[test]
    fn text_lies_around_its_place() {
        let mut drawing = Drawing::new(100.0, 100.0, "");
        drawing.turned_text((30.0, 60.0), "HHHHH", 10.0, Ink::Text);
        drawing.text((95.0, 95.0), "HH", 10.0, Anchor::End, Ink::Text);
        let picture = picture(&drawing, 1.0).unwrap();
        let dark = |xs: std::ops::Range<usize>, ys: std::ops::Range<usize>| {
            let dots = ys.flat_map(|y| xs.clone().map(move |x| (x, y)));
            dots.filter(|(x, y)| at(&picture, *x, *y)[0] < 128).count()
        };
        let all = dark(0..100, 0..100);
        let half = font::width("HHHHH", 10.0).ceil() as usize / 2;
        let turned = dark(21..31, 60 - half..60 + half + 1);
        let straight = dark(78..96, 87..96);
        assert!(
            turned > 0 && straight > 0 && turned + straight == all,
            "{turned} {straight} {all}"
        );
        // As much above its place as below.
        let above = dark(21..31, 0..60);
        assert!(
            above.abs_diff(turned / 2) < turned / 8,
            "{above} of {turned}"
        );
    }

    #[test]
    fn what_leaves_the_picture_is_cut() {
        let mut drawing = Drawing::new(8.0, 8.0, "");
        drawing.rect((-4.0, -4.0), (6.0, 6.0), 1.0, Ink::Text);
        drawing.line(vec![(0.0, 7.0), (30.0, 7.0)], 1.0, &[2.0, 2.0], Ink::Text);
        drawing.text((4.0, 4.0), "much too long", 9.0, Anchor::Middle, Ink::Text);
        drawing.turned_text((4.0, 4.0), "much too long", 9.0, Ink::Text);
        let picture = picture(&drawing, 1.0).unwrap();
        assert_eq!(at(&picture, 0, 0), Ink::Text.light());
        assert_eq!(picture.rgb.len(), 8 * 8 * 3);
    }

    #[test]
    fn letters_beyond_ascii_show() {
        let drawn = |text: &str, tip: &str| {
            let mut drawing = Drawing::new(20.0, 20.0, "\u{ffff}");
            drawing.text((2.0, 15.0), text, 12.0, Anchor::Start, Ink::Text);
            drawing.tip(tip);
            picture(&drawing, 1.0).unwrap()
        };
        let nothing = drawn("", "");
        let shown = ["?", "e", "é", "τ", "Ж", "≥", "…"].map(|text| drawn(text, ""));
        for (i, one) in shown.iter().enumerate() {
            assert!(*one != nothing && !shown[..i].contains(one), "{i}");
        }
        let tip = "a tip is for readers with a pointer";
        assert!(shown[1] == drawn("e", tip));
    }

    #[test]
    fn a_plot_without_a_size_is_refused() {
        assert!(picture(&Drawing::new(0.0, 10.0, ""), 1.0).is_err());
        let huge = picture(&Drawing::new(1e6, 1e6, ""), 1.0);
        assert!(matches!(huge, Err(RenderError::Size { .. })), "{huge:?}");
    }
}
