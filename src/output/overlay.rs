//! A picture with what a detector saw in it and what was decided.

use image::Rgb;

use crate::check::Detection;
use crate::check::spatialbench::Verdict;
use crate::picture::Picture;
use prepose_draw::drawing::{DESCENT, LETTER, enlarged, fill, frame, line, mix, text_width, write};

/// Pictures with a shorter side below this are enlarged, so that letters do not hide them.
const COMFORTABLE: usize = 384;
/// The first and the second object, and other detections.
const COLOURS: [Rgb<u8>; 3] = [Rgb([20, 110, 245]), Rgb([235, 105, 0]), Rgb([120; 3])];
/// Share of an object's colour in the pixels that its mask covers.
const TINT: f64 = 0.35;

/// Why a detection is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The relation's first object, as it was chosen.
    First,
    /// Its second object.
    Second,
    /// Another detection.
    Other,
}

/// What is drawn over a picture.
pub struct Overlay<'a> {
    /// Detections; later ones are drawn over earlier ones.
    pub detections: Vec<(&'a Detection, Role)>,
    /// The verdict, which colours the strip below the picture.
    pub verdict: Verdict,
    /// What stands in the strip, line by line.
    pub lines: Vec<String>,
}

impl Overlay<'_> {
    /// The picture, enlarged if it is small, with frames, masks and a line between both objects, above a strip with the text.
    pub fn over(&self, picture: &Picture) -> Picture {
        let zoom = COMFORTABLE
            .div_ceil(picture.width.min(picture.height).max(1))
            .max(1);
        let (width, height) = (picture.width * zoom, picture.height * zoom);
        let letters = (width.min(height) / 512).max(1);
        let row = (LETTER + DESCENT + 3) * letters;
        let strip = row * self.lines.len() + 4 * letters;

        let mut drawn = enlarged(picture, zoom);
        for (detection, role) in &self.detections {
            let Some(mask) = detection.mask.as_ref().filter(|_| *role != Role::Other) else {
                continue;
            };
            let tint = COLOURS[*role as usize];
            for (x, y, pixel) in drawn.enumerate_pixels_mut() {
                if mask.contains(x as usize / zoom, y as usize / zoom) {
                    mix(pixel, tint, TINT);
                }
            }
        }
        for (detection, role) in &self.detections {
            let ink = COLOURS[*role as usize];
            let thick = if *role == Role::Other { 1 } else { 2 } * letters;
            let scaled = |at: f64| (at.max(0.0) * zoom as f64).round() as usize;
            let bbox = &detection.bbox;
            let corner = (scaled(bbox.x0), scaled(bbox.y0));
            let size = (
                scaled(bbox.x1).min(width).saturating_sub(corner.0),
                scaled(bbox.y1).min(height).saturating_sub(corner.1),
            );
            frame(&mut drawn, corner, size, thick, ink);
            let label = format!("{} {:.2}", detection.label, detection.score);
            let margin = 2 * letters;
            let room = (text_width(&label, letters) + 2 * margin).min(width - corner.0.min(width));
            let lettering = (room, margin + (LETTER + DESCENT) * letters);
            fill(&mut drawn, corner, lettering, ink);
            let place = (corner.0 + margin, corner.1 + margin);
            let room = room.saturating_sub(margin);
            write(&mut drawn, &label, place, letters, room, Rgb([255; 3]));
        }
        let centre = |wanted: Role| {
            let chosen = self.detections.iter().find(|(_, role)| *role == wanted)?;
            let (x, y) = chosen.0.bbox.centre();
            Some((x * zoom as f64, y * zoom as f64))
        };
        if let (Some(first), Some(second)) = (centre(Role::First), centre(Role::Second)) {
            line(&mut drawn, first, second, 2 * letters, Rgb([255; 3]));
            line(&mut drawn, first, second, letters, Rgb([0; 3]));
        }

        let mut whole = image::RgbImage::from_pixel(
            width as u32,
            (height + strip) as u32,
            match self.verdict {
                Verdict::Pass => Rgb([214, 240, 214]),
                Verdict::Fail => Rgb([250, 214, 214]),
                Verdict::Undecidable => Rgb([240, 236, 214]),
            },
        );
        image::imageops::replace(&mut whole, &drawn, 0, 0);
        for (index, text) in self.lines.iter().enumerate() {
            let place = (4 * letters, height + 4 * letters + index * row);
            let room = width.saturating_sub(8 * letters);
            write(&mut whole, text, place, letters, room, Rgb([24; 3]));
        }
        Picture {
            width,
            height: height + strip,
            rgb: whole.into_raw(),
        }
    }
}
