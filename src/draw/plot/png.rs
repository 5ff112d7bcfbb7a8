//! A plot as pixels.

use zeno::{Command, Mask, PathBuilder, Stroke, Style, Vector};

use super::drawing::{Anchor, Drawing, Item, Shape, What};
use super::{Ink, font};
use crate::picture::Picture;

/// Bits of a circle's arcs that a cubic curve needs: 4/3 · (√2 − 1).
const ARC: f64 = 0.552_284_75;

/// The plot on a light ground, each of its pixels `zoom` pixels wide.
pub fn picture(drawing: &Drawing, zoom: f64) -> Picture {
    let width = (drawing.width * zoom).ceil().max(1.0) as usize;
    let height = (drawing.height * zoom).ceil().max(1.0) as usize;
    let ground = Ink::Ground.light();
    let mut picture = Picture {
        width,
        height,
        rgb: ground.repeat(width * height),
    };
    for item in &drawing.items {
        draw(&mut picture, item, zoom);
    }
    picture
}

fn draw(on: &mut Picture, item: &Item, zoom: f64) {
    let scaled = |points: &[(f64, f64)]| -> Vec<(f64, f64)> {
        let scale = |&(x, y): &(f64, f64)| (x * zoom, y * zoom);
        points.iter().map(scale).collect()
    };
    let ink = item.ink.light();
    match &item.what {
        What::Line {
            points,
            width,
            dashes,
        } => {
            let lengths: Vec<f32> = dashes.iter().map(|d| d * zoom as f32).collect();
            let mut stroke = Stroke::new((width * zoom) as f32);
            stroke.join(zeno::Join::Round).cap(zeno::Cap::Butt);
            if !lengths.is_empty() {
                stroke.dash(&lengths, 0.0);
            }
            fill(
                on,
                &polygon(&scaled(points), false),
                stroke.into(),
                1.0,
                ink,
            );
        }
        What::Area { points, opacity } => {
            fill(
                on,
                &polygon(&scaled(points), true),
                zeno::Fill::NonZero.into(),
                *opacity,
                ink,
            );
        }
        What::Mark { at, shape, radius } => {
            let (at, radius) = ((at.0 * zoom, at.1 * zoom), radius * zoom);
            let path = match shape {
                Shape::Circle => circle(at, radius),
                _ => polygon(&shape.corners(at, radius), true),
            };
            fill(on, &path, zeno::Fill::NonZero.into(), 1.0, ink);
        }
        What::Text {
            at: (x, y),
            text,
            size,
            anchor,
            turned,
        } => {
            let width = font::width(text, *size) * zoom;
            let before = match anchor {
                Anchor::Start => 0.0,
                Anchor::Middle => width / 2.0,
                Anchor::End => width,
            };
            let (x, y) = ((x * zoom) as f32, (y * zoom) as f32);
            let place = |at: Vector| match turned {
                false => Vector::new(x + at.x - before as f32, y + at.y),
                true => Vector::new(x + at.y, y - at.x + before as f32),
            };
            let path: Vec<Command> = font::outlines(text, size * zoom)
                .into_iter()
                .map(|command| moved(command, place))
                .collect();
            fill(on, &path, zeno::Fill::NonZero.into(), 1.0, ink);
        }
    }
}

fn moved(command: Command, to: impl Fn(Vector) -> Vector) -> Command {
    match command {
        Command::MoveTo(at) => Command::MoveTo(to(at)),
        Command::LineTo(at) => Command::LineTo(to(at)),
        Command::QuadTo(control, at) => Command::QuadTo(to(control), to(at)),
        Command::CurveTo(first, second, at) => Command::CurveTo(to(first), to(second), to(at)),
        Command::Close => Command::Close,
    }
}

fn polygon(points: &[(f64, f64)], closed: bool) -> Vec<Command> {
    let mut path: Vec<Command> = Vec::with_capacity(points.len() + 1);
    for (i, &(x, y)) in points.iter().enumerate() {
        let to = [x as f32, y as f32];
        match i {
            0 => path.move_to(to),
            _ => path.line_to(to),
        };
    }
    if closed {
        path.close();
    }
    path
}

fn circle((x, y): (f64, f64), r: f64) -> Vec<Command> {
    let at = |dx: f64, dy: f64| [(x + dx * r) as f32, (y + dy * r) as f32];
    let mut path: Vec<Command> = Vec::new();
    path.move_to(at(1.0, 0.0));
    path.curve_to(at(1.0, ARC), at(ARC, 1.0), at(0.0, 1.0));
    path.curve_to(at(-ARC, 1.0), at(-1.0, ARC), at(-1.0, 0.0));
    path.curve_to(at(-1.0, -ARC), at(-ARC, -1.0), at(0.0, -1.0));
    path.curve_to(at(ARC, -1.0), at(1.0, -ARC), at(1.0, 0.0));
    path.close();
    path
}

/// Lays ink over the pixels that a path covers.
fn fill(on: &mut Picture, path: &[Command], style: Style, opacity: f64, ink: [u8; 3]) {
    if path.is_empty() {
        return;
    }
    let (mask, place) = Mask::new(path).style(style).render();
    let (columns, rows) = (place.width as usize, place.height as usize);
    for (row, line) in mask.chunks(columns.max(1)).take(rows).enumerate() {
        let Some(y) = inside(place.top, row, on.height) else {
            continue;
        };
        for (column, &covered) in line.iter().enumerate() {
            let Some(x) = inside(place.left, column, on.width).filter(|_| covered > 0) else {
                continue;
            };
            let share = f64::from(covered) / 255.0 * opacity;
            let at = (y * on.width + x) * 3;
            for (channel, ink) in on.rgb[at..at + 3].iter_mut().zip(ink) {
                let mixed = f64::from(*channel) * (1.0 - share) + f64::from(ink) * share;
                *channel = mixed.round() as u8;
            }
        }
    }
}

/// Where a pixel of a mask lies on the picture, if it does.
fn inside(start: i32, offset: usize, size: usize) -> Option<usize> {
    let at = i64::from(start) + offset as i64;
    usize::try_from(at).ok().filter(|at| *at < size)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(picture: &Picture, x: usize, y: usize) -> [u8; 3] {
        let i = (y * picture.width + x) * 3;
        [picture.rgb[i], picture.rgb[i + 1], picture.rgb[i + 2]]
    }

    #[test]
    fn pixels_are_where_they_should_be() {
        let mut drawing = Drawing::new(20.0, 10.0, "");
        drawing.rect((2.0, 2.0), (4.0, 4.0), 1.0, Ink::Pass);
        drawing.mark((14.0, 5.0), Shape::Circle, 3.0, Ink::Fail);
        let picture = picture(&drawing, 2.0);
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
        let picture = picture(&drawing, 1.0);
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
        let picture = picture(&drawing, 1.0);
        assert_eq!(at(&picture, 0, 0), Ink::Text.light());
        assert_eq!(picture.rgb.len(), 8 * 8 * 3);
    }
}
