//! Curves and dots over two axes.

use super::WIDTH;
use super::drawing::{Anchor, Drawing, Ink, Shape, dashes};
use super::labels::Taken;
use super::legend::{self, Sample};
use super::scale::Axis;
use crate::font;

const PLOT: f64 = 290.0;
const RIGHT: f64 = 24.0;
const BOTTOM: f64 = 54.0;

/// How the points of a series are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// A line that changes only at the points, first along x and then along y.
    Steps,
    /// As steps, filled a little down to the x axis.
    Filled,
    /// Dots with a line through them.
    Line,
    /// Dots.
    Dots,
}

/// One of several things that are compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// What it is of.
    pub name: String,
    /// Its points, in the order of x.
    pub points: Vec<(f64, f64)>,
    /// Where it is not empty, for each point the ends of its interval along y.
    pub intervals: Vec<(f64, f64)>,
    /// Where it is not empty, for each point the ends of its interval along x.
    pub spans: Vec<(f64, f64)>,
    /// How they are shown.
    pub style: Style,
    /// Its colour, dash and dots: that of the series with this number.
    pub look: usize,
}

impl Series {
    /// Without intervals.
    pub fn new(name: &str, points: Vec<(f64, f64)>, style: Style, look: usize) -> Self {
        Self {
            name: name.into(),
            points,
            intervals: Vec::new(),
            spans: Vec::new(),
            style,
            look,
        }
    }
}

/// Something that is said of a point.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    /// The point.
    pub at: (f64, f64),
    /// Left out where there is no room for it.
    pub text: String,
    /// Whether the point gets a dot of its own.
    pub dot: bool,
}

/// A plot over two axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// What it shows.
    pub title: String,
    /// To the right.
    pub x: Axis,
    /// Upwards.
    pub y: Axis,
    /// What is compared.
    pub series: Vec<Series>,
    /// What is said of points.
    pub notes: Vec<Note>,
}

impl Chart {
    /// Draws it.
    pub fn draw(&self) -> Drawing {
        self.draw_within(WIDTH)
    }

    /// Draws it so wide, in pixels.
    pub fn draw_within(&self, width: f64) -> Drawing {
        let ticks = self.y.ticks();
        let widest = ticks.iter().map(|(_, text)| font::width(text, 12.0));
        let left = 44.0 + widest.fold(0.0, f64::max);
        let mut on = Drawing::new(width, 0.0, &self.title);
        let title = font::fitted(&self.title, 15.0, width - 32.0);
        on.text((16.0, 26.0), &title, 15.0, Anchor::Start, Ink::Text);
        let entries: Vec<_> = self
            .series
            .iter()
            .map(|series| self.entry(series))
            .collect();
        let legend = legend::draw(&mut on, (16.0, 36.0), width - 32.0, &entries);
        let area = Area {
            left,
            top: 36.0 + legend + 18.0,
            width: width - left - RIGHT,
            height: PLOT,
        };
        on.height = area.top + area.height + BOTTOM;
        self.axes(&mut on, &area, &ticks);
        let mut taken = Taken::default();
        for series in &self.series {
            self.draw_series(&mut on, series, &area, &mut taken);
        }
        for note in &self.notes {
            let at = self.place(&area, note.at);
            if note.dot {
                on.mark(at, Shape::Circle, 3.5, Ink::Series(0));
                on.tip(&note.text);
                taken.dot(at, 4.0);
            }
        }
        let bounds = [
            area.left,
            area.top - 14.0,
            area.left + area.width + RIGHT,
            area.top + area.height,
        ];
        for note in &self.notes {
            taken.note(
                &mut on,
                self.place(&area, note.at),
                &note.text,
                bounds,
                Ink::Soft,
            );
        }
        on
    }

    fn marks_lines(&self) -> bool {
        self.series.len() > 1
    }

    fn place(&self, area: &Area, (x, y): (f64, f64)) -> (f64, f64) {
        (
            area.left + self.x.place(x) * area.width,
            area.top + (1.0 - self.y.place(y)) * area.height,
        )
    }

    fn entry(&self, series: &Series) -> (String, Ink, Sample) {
        let sample = match series.style {
            Style::Dots => Sample::Dot,
            Style::Steps | Style::Filled if !self.marks_lines() => Sample::Stroke,
            Style::Line | Style::Steps | Style::Filled => Sample::Line,
        };
        (series.name.clone(), Ink::Series(series.look), sample)
    }

    fn axes(&self, on: &mut Drawing, area: &Area, ticks: &[(f64, String)]) {
        let (right, bottom) = (area.left + area.width, area.top + area.height);
        for (value, text) in ticks {
            let (_, y) = self.place(area, (self.x.range.0, *value));
            on.rule((area.left, y), (right, y), Ink::Grid);
            on.text(
                (area.left - 8.0, y + 4.0),
                text,
                12.0,
                Anchor::End,
                Ink::Soft,
            );
        }
        for (value, text) in self.x.ticks() {
            let (x, _) = self.place(area, (value, self.y.range.0));
            on.rule((x, bottom), (x, bottom + 4.0), Ink::Axis);
            on.text((x, bottom + 18.0), &text, 12.0, Anchor::Middle, Ink::Soft);
        }
        on.rule((area.left, bottom), (right, bottom), Ink::Axis);
        let middle = (area.left + right) / 2.0;
        on.text(
            (middle, bottom + 40.0),
            &self.x.label,
            13.0,
            Anchor::Middle,
            Ink::Text,
        );
        let middle = area.top + area.height / 2.0;
        on.turned_text((24.0, middle), &self.y.label, 13.0, Ink::Text);
    }

    fn draw_series(&self, on: &mut Drawing, series: &Series, area: &Area, taken: &mut Taken) {
        let ink = Ink::Series(series.look);
        let places: Vec<_> = series.points.iter().map(|p| self.place(area, *p)).collect();
        let line = match series.style {
            Style::Steps | Style::Filled => steps(&places),
            Style::Line => places.clone(),
            Style::Dots => Vec::new(),
        };
        if series.style == Style::Filled
            && let (Some(first), Some(last)) = (line.first(), line.last())
        {
            let bottom = area.top + area.height;
            let mut outline = vec![(first.0, bottom)];
            outline.extend(&line);
            outline.push((last.0, bottom));
            on.area(outline, 0.1, ink);
        }
        for pair in line.windows(2) {
            along(pair[0], pair[1], |at| taken.dot(at, 1.5));
        }
        // Along a line without dots some tell which one it is, without its colour.
        // The first has the notes' dots, if there are some.
        let noted = series.look == 0 && self.notes.iter().any(|note| note.dot);
        let marked = self.marks_lines() && !noted && series.style != Style::Line;
        let some = (0..4).filter(|_| marked).filter_map(|part| {
            let share = (f64::from(part) + 0.35 + series.look as f64 * 0.13 % 0.6) / 4.0;
            crossing(&line, area.left + share * area.width)
        });
        let marks: Vec<_> = some.collect();
        on.line(line, 2.0, dashes(series.look), ink);
        on.tip(&series.name);
        for at in marks {
            on.mark(at, Shape::of(series.look), 3.5, ink);
        }
        for (&(x, _), &(low, high)) in series.points.iter().zip(&series.intervals) {
            let (from, to) = (self.place(area, (x, low)), self.place(area, (x, high)));
            on.line(vec![from, to], 1.5, &[], ink);
            for end in [from, to] {
                on.rule((end.0 - 4.0, end.1), (end.0 + 4.0, end.1), ink);
            }
            along(from, to, |at| taken.dot(at, 2.0));
        }
        for (&(_, y), &(low, high)) in series.points.iter().zip(&series.spans) {
            let (from, to) = (self.place(area, (low, y)), self.place(area, (high, y)));
            on.line(vec![from, to], 1.5, &[], ink);
            for end in [from, to] {
                on.rule((end.0, end.1 - 4.0), (end.0, end.1 + 4.0), ink);
            }
            along(from, to, |at| taken.dot(at, 2.0));
        }
        if matches!(series.style, Style::Line | Style::Dots) {
            for (place, (x, y)) in places.iter().zip(&series.points) {
                on.mark(*place, Shape::of(series.look), 5.0, ink);
                on.tip(format!("{}: {}, {}", series.name, short(*x), short(*y)));
                taken.dot(*place, 5.5);
            }
        }
    }
}

struct Area {
    left: f64,
    top: f64,
    width: f64,
    height: f64,
}

/// A line from the first point on: along x to the next, then along y.
fn steps(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut line = Vec::with_capacity(points.len() * 2);
    for (i, &(x, y)) in points.iter().enumerate() {
        if i > 0 {
            line.push((x, points[i - 1].1));
        }
        line.push((x, y));
    }
    line
}

/// Where a line that goes to the right crosses a vertical one.
fn crossing(line: &[(f64, f64)], x: f64) -> Option<(f64, f64)> {
    let pair = line
        .windows(2)
        .find(|pair| pair[0].0 <= x && x < pair[1].0)?;
    let share = (x - pair[0].0) / (pair[1].0 - pair[0].0);
    Some((x, pair[0].1 + share * (pair[1].1 - pair[0].1)))
}

/// Places on the way, a few pixels apart.
fn along(from: (f64, f64), to: (f64, f64), mut at: impl FnMut((f64, f64))) {
    let length = (to.0 - from.0).hypot(to.1 - from.1);
    let count = (length / 5.0).ceil().clamp(1.0, 500.0);
    for i in 0..=count as usize {
        let share = i as f64 / count;
        at((
            from.0 + share * (to.0 - from.0),
            from.1 + share * (to.1 - from.1),
        ));
    }
}

/// Three digits after the point, without zeros at the end.
pub(super) fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::svg;

    #[test]
    fn a_curve_is_steps_over_its_axes() {
        let chart = Chart {
            title: "a".into(),
            x: Axis::linear("coverage", 0.0, 1.0),
            y: Axis::linear("risk", 0.0, 0.2),
            series: vec![Series::new(
                "s",
                vec![(0.5, 0.1), (1.0, 0.2)],
                Style::Steps,
                0,
            )],
            notes: vec![Note {
                at: (0.5, 0.1),
                text: "τ 0.50".into(),
                dot: true,
            }],
        };
        let drawing = chart.draw();
        let text = svg::file(&drawing);
        assert!(text.contains("τ 0.50") && text.contains(">coverage<") && text.contains(">0.20<"));
        assert_eq!(
            steps(&[(0.0, 5.0), (1.0, 2.0)]),
            [(0.0, 5.0), (1.0, 5.0), (1.0, 2.0)]
        );
        assert!(drawing.height > PLOT && drawing.height < 500.0);
    }

    #[test]
    fn notes_do_not_cover_each_other() {
        let note = |x: f64| Note {
            at: (x, 0.5),
            text: "the same place".into(),
            dot: true,
        };
        let chart = Chart {
            title: String::new(),
            x: Axis::linear("", 0.0, 1.0),
            y: Axis::linear("", 0.0, 1.0),
            series: Vec::new(),
            notes: (0..40).map(|i| note(0.5 + f64::from(i) * 1e-3)).collect(),
        };
        let text = svg::file(&chart.draw());
        let shown = text.matches(">the same place</text>").count();
        assert!((2..12).contains(&shown), "{shown}");
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [short(0.5), short(2.0), short(0.12345)],
            ["0.5", "2", "0.123"]
        );
    }
}
