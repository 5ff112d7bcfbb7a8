//! Rows: a dot with its interval, or a bar made of parts.

use super::WIDTH;
use super::drawing::{Anchor, Drawing, Ink, Shape};
use super::legend::{self, Sample};
use super::scale::Axis;
use crate::font;

const ROW: f64 = 30.0;
/// Where the name stands above its row.
const TALL_ROW: f64 = 48.0;
const NAMES: f64 = 190.0;
/// Plots that are less wide have names above their rows.
const ROOM_FOR_NAMES: f64 = 480.0;

/// A row of [`Intervals`].
#[derive(Clone, Debug, PartialEq)]
pub struct Interval {
    /// What it is of.
    pub name: String,
    /// The dot.
    pub value: f64,
    /// The ends of the line through it.
    pub ends: (f64, f64),
    /// Its colour and dot: those of the series with this number.
    pub look: usize,
}

impl Interval {
    /// 42.5 [35.1, 49.9]
    fn text(&self) -> String {
        let (low, high) = self.ends;
        format!("{:.1} [{low:.1}, {high:.1}]", self.value)
    }
}

/// Values with their intervals, one below the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Intervals {
    /// What it shows.
    pub title: String,
    /// Of the values.
    pub x: Axis,
    /// From the top.
    pub rows: Vec<Interval>,
}

impl Intervals {
    /// Draws it.
    pub fn draw(&self) -> Drawing {
        self.draw_within(WIDTH)
    }

    /// Draws it so wide, in pixels.
    pub fn draw_within(&self, width: f64) -> Drawing {
        let mut on = Drawing::new(width, 0.0, &self.title);
        let title = font::fitted(&self.title, 15.0, width - 32.0);
        on.text((16.0, 26.0), &title, 15.0, Anchor::Start, Ink::Text);
        let texts: Vec<String> = self.rows.iter().map(Interval::text).collect();
        let widest = texts.iter().map(|text| font::width(text, 11.0));
        let right = widest.fold(60.0, f64::max) + 12.0;
        let names = self.rows.iter().map(|row| row.name.as_str());
        let rows = Rows::new(names, 46.0, width, right);
        on.height = rows.bottom() + 52.0;
        let place = |value: f64| rows.left + self.x.place(value) * rows.width;
        for (value, text) in self.x.ticks() {
            on.rule(
                (place(value), rows.top),
                (place(value), rows.bottom()),
                Ink::Grid,
            );
            let at = (place(value), rows.bottom() + 17.0);
            on.text(at, &text, 12.0, Anchor::Middle, Ink::Soft);
        }
        let at = (rows.left + rows.width / 2.0, rows.bottom() + 38.0);
        on.text(at, &self.x.label, 13.0, Anchor::Middle, Ink::Text);
        for (i, row) in self.rows.iter().enumerate() {
            let (middle, ink) = (rows.middle(i), Ink::Series(row.look));
            let (low, high) = row.ends;
            on.line(
                vec![(place(low), middle), (place(high), middle)],
                2.0,
                &[],
                ink,
            );
            for end in [low, high] {
                on.line(
                    vec![(place(end), middle - 5.0), (place(end), middle + 5.0)],
                    2.0,
                    &[],
                    ink,
                );
            }
            on.mark((place(row.value), middle), Shape::of(row.look), 5.0, ink);
            let text = &texts[i];
            on.tip(format!("{}: {text}", row.name));
            rows.name(&mut on, i, &row.name, font::width(text, 11.0) + 12.0);
            let line = if rows.stacked {
                rows.line(i)
            } else {
                middle + 4.0
            };
            on.text((width - 16.0, line), text, 11.0, Anchor::End, Ink::Soft);
        }
        on
    }
}

/// Bars of the same length, each made of parts.
#[derive(Clone, Debug, PartialEq)]
pub struct Parts {
    /// What it shows.
    pub title: String,
    /// What the numbers at the foot are.
    pub label: String,
    /// What the parts are, from the left.
    pub parts: Vec<(String, Ink)>,
    /// A name and the size of each part, from the top.
    pub rows: Vec<(String, Vec<usize>)>,
}

impl Parts {
    /// Without the parts that no row has.
    pub fn without_empty(mut self) -> Self {
        let kept: Vec<bool> = (0..self.parts.len())
            .map(|part| {
                self.rows
                    .iter()
                    .any(|(_, sizes)| sizes.get(part).is_some_and(|size| *size > 0))
            })
            .collect();
        let mut keep = kept.iter();
        self.parts.retain(|_| keep.next() == Some(&true));
        for (_, sizes) in &mut self.rows {
            let mut keep = kept.iter();
            sizes.retain(|_| keep.next() == Some(&true));
        }
        self
    }

    /// Draws it.
    pub fn draw(&self) -> Drawing {
        self.draw_within(WIDTH)
    }

    /// Draws it so wide, in pixels.
    pub fn draw_within(&self, width: f64) -> Drawing {
        let mut on = Drawing::new(width, 0.0, &self.title);
        let title = font::fitted(&self.title, 15.0, width - 32.0);
        on.text((16.0, 26.0), &title, 15.0, Anchor::Start, Ink::Text);
        let entries: Vec<_> = self
            .parts
            .iter()
            .map(|(name, ink)| (name.clone(), *ink, Sample::Square))
            .collect();
        let legend = legend::draw(&mut on, (16.0, 36.0), width - 32.0, &entries);
        let rows = Rows::new(
            self.rows.iter().map(|row| row.0.as_str()),
            48.0 + legend,
            width,
            30.0,
        );
        on.height = rows.bottom() + 52.0;
        for (i, (name, sizes)) in self.rows.iter().enumerate() {
            rows.name(&mut on, i, name, 0.0);
            self.bar(&mut on, &rows, i, sizes);
        }
        for i in 0..=5u8 {
            let x = rows.left + f64::from(i) / 5.0 * rows.width;
            on.rule((x, rows.bottom()), (x, rows.bottom() + 4.0), Ink::Axis);
            let text = format!("{} %", u32::from(i) * 20);
            on.text(
                (x, rows.bottom() + 18.0),
                &text,
                12.0,
                Anchor::Middle,
                Ink::Soft,
            );
        }
        let at = (rows.left + rows.width / 2.0, rows.bottom() + 40.0);
        on.text(at, &self.label, 13.0, Anchor::Middle, Ink::Text);
        on
    }

    fn bar(&self, on: &mut Drawing, rows: &Rows, i: usize, sizes: &[usize]) {
        let total: usize = sizes.iter().sum();
        let (mut x, middle) = (rows.left, rows.middle(i));
        for (size, (name, ink)) in sizes.iter().zip(&self.parts).filter(|(size, _)| **size > 0) {
            let share = *size as f64 / total.max(1) as f64;
            let width = share * rows.width;
            // A gap of the ground's colour, so that parts are told apart without their colours.
            let gap = if width > 3.0 { 1.0 } else { 0.0 };
            on.rect((x, middle - 10.0), (width - gap, 20.0), 1.0, *ink);
            on.tip(format!(
                "{}, {name}: {size} of {total} ({:.1} %)",
                self.rows[i].0,
                share * 100.0
            ));
            let text = format!("{:.0}", share * 100.0);
            if font::width(&text, 11.0) + 8.0 <= width {
                let at = (x + (width - gap) / 2.0, middle + 4.0);
                on.text(at, &text, 11.0, Anchor::Middle, Ink::Ground);
            }
            x += width;
        }
    }
}

/// Where rows lie.
struct Rows {
    left: f64,
    top: f64,
    width: f64,
    count: usize,
    /// Names stand above their rows, where there is no room beside them.
    stacked: bool,
}

impl Rows {
    /// Rows in a plot so wide, with so much room on their right where names stand beside them.
    fn new<'a>(
        names: impl Iterator<Item = &'a str> + Clone,
        top: f64,
        width: f64,
        right: f64,
    ) -> Self {
        let widest = names.clone().map(|name| font::width(name, 12.5));
        let stacked = width < ROOM_FOR_NAMES;
        let (left, right) = match stacked {
            true => (24.0, 0.0),
            false => (30.0 + widest.fold(40.0, f64::max).min(NAMES), right),
        };
        Self {
            left,
            top,
            width: width - left - right - 24.0,
            count: names.count(),
            stacked,
        }
    }

    fn row(&self) -> f64 {
        if self.stacked { TALL_ROW } else { ROW }
    }

    fn bottom(&self) -> f64 {
        self.top + self.count as f64 * self.row() + 4.0
    }

    fn middle(&self, row: usize) -> f64 {
        let below_name = if self.stacked { TALL_ROW - ROW } else { 0.0 };
        self.top + row as f64 * self.row() + below_name + ROW / 2.0 + 2.0
    }

    /// The foot of a name that stands above its row.
    fn line(&self, row: usize) -> f64 {
        self.middle(row) - ROW / 2.0 - 2.0
    }

    /// `beside`: what else stands on the name's line.
    fn name(&self, on: &mut Drawing, row: usize, name: &str, beside: f64) {
        let (at, room, anchor) = match self.stacked {
            true => {
                let at = (self.left - 8.0, self.line(row));
                (at, self.width - beside, Anchor::Start)
            }
            false => {
                let at = (self.left - 12.0, self.middle(row) + 4.0);
                (at, NAMES, Anchor::End)
            }
        };
        let text = font::fitted(name, 12.5, room);
        on.text(at, &text, 12.5, anchor, Ink::Text);
        on.tip(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::svg;

    #[test]
    fn bars_are_shares() {
        let parts = Parts {
            title: "t".into(),
            label: "of all".into(),
            parts: vec![("PASS".into(), Ink::Pass), ("FAIL".into(), Ink::Fail)],
            rows: vec![("m".into(), vec![1, 3]), ("none".into(), vec![0, 0])],
        };
        let text = svg::file(&parts.draw());
        assert!(text.contains("m, FAIL: 3 of 4 (75.0 %)") && text.contains(">25</text>"));
    }

    #[test]
    fn intervals_say_their_numbers() {
        let intervals = Intervals {
            title: "t".into(),
            x: Axis::linear("pass rate", 0.0, 100.0),
            rows: vec![Interval {
                name: "a method with a name that is much too long for it".into(),
                value: 50.0,
                ends: (40.0, 60.0),
                look: 0,
            }],
        };
        for width in [WIDTH, crate::plot::NARROW] {
            let drawing = intervals.draw_within(width);
            assert_eq!(drawing.width, width);
            let text = svg::file(&drawing);
            assert!(text.contains("50.0 [40.0, 60.0]") && text.contains("…</text>"));
        }
    }
}
