//! What the colours of a plot mean, in as many lines as it needs.

use super::drawing::{Anchor, Drawing, Ink, Shape, dashes};
use crate::font;

/// How an entry is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sample {
    /// A piece of a series' line.
    Line,
    /// A piece of a line without dots.
    Stroke,
    /// A series' dot.
    Dot,
    /// A square of an ink.
    Square,
}

const SIZE: f64 = 12.5;
const LINE: f64 = 20.0;
const GAP: f64 = 18.0;

/// Draws the entries from `(left, top)` on within `room` pixels, and says how high they are.
pub(super) fn draw(
    on: &mut Drawing,
    (left, top): (f64, f64),
    room: f64,
    entries: &[(String, Ink, Sample)],
) -> f64 {
    let (mut x, mut y) = (left, top);
    for (index, (name, ink, sample)) in entries.iter().enumerate() {
        let sign = if matches!(sample, Sample::Line | Sample::Stroke) {
            24.0
        } else {
            14.0
        };
        let text = font::fitted(name, SIZE, room - sign - 6.0);
        let width = sign + 6.0 + font::width(&text, SIZE);
        if x > left && x + width > left + room {
            x = left;
            y += LINE;
        }
        let series = match ink {
            Ink::Series(series) => *series,
            _ => index,
        };
        let middle = y + LINE / 2.0;
        match sample {
            Sample::Stroke => {
                on.line(
                    vec![(x, middle), (x + sign, middle)],
                    2.5,
                    dashes(series),
                    *ink,
                );
            }
            Sample::Line => {
                on.line(
                    vec![(x, middle), (x + sign, middle)],
                    2.0,
                    dashes(series),
                    *ink,
                );
                on.mark((x + sign / 2.0, middle), Shape::of(series), 3.5, *ink);
            }
            Sample::Dot => on.mark((x + 7.0, middle), Shape::of(series), 4.5, *ink),
            Sample::Square => on.rect((x, middle - 6.0), (12.0, 12.0), 1.0, *ink),
        }
        on.text(
            (x + sign + 6.0, middle + 4.5),
            &text,
            SIZE,
            Anchor::Start,
            Ink::Text,
        );
        x += width + GAP;
    }
    match entries.is_empty() {
        true => 0.0,
        false => y + LINE - top,
    }
}
