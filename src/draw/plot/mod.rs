//! Plots. What is drawn is said once, as a [`Drawing`] of lines, areas, marks and text, and becomes SVG that follows the
//! reader's light or dark theme, or that SVG's pixels in the light one.
//!
//! * [`chart`]: curves and dots over two axes;
//! * [`bars`]: rows of intervals, and rows of bars made of parts;
//! * [`drawing`]: what all of them are made of;
//! * [`svg`] and [`png`]: the two ways out.

pub mod bars;
pub mod chart;
pub mod drawing;
mod labels;
mod legend;
pub mod png;
pub mod scale;
pub mod svg;

pub use bars::{Intervals, Parts};
pub use chart::{Chart, Note, Series, Style};
pub use drawing::{Drawing, Ink};
pub use scale::{Axis, Kind};

/// How wide plots are, in pixels.
pub const WIDTH: f64 = 640.0;
/// How wide plots for a phone's screen are: their text is as large, and there is less beside it.
pub const NARROW: f64 = 340.0;

/// Anything that can be drawn.
#[derive(Clone, Debug, PartialEq)]
pub enum Plot {
    /// Curves and dots.
    Chart(Chart),
    /// Rows of intervals.
    Intervals(Intervals),
    /// Rows of bars.
    Parts(Parts),
}

impl Plot {
    /// Draws it so wide, in pixels.
    pub fn draw_within(&self, width: f64) -> Drawing {
        match self {
            Self::Chart(plot) => plot.draw_within(width),
            Self::Intervals(plot) => plot.draw_within(width),
            Self::Parts(plot) => plot.draw_within(width),
        }
    }
}

impl From<Chart> for Plot {
    fn from(plot: Chart) -> Self {
        Self::Chart(plot)
    }
}

impl From<Intervals> for Plot {
    fn from(plot: Intervals) -> Self {
        Self::Intervals(plot)
    }
}

impl From<Parts> for Plot {
    fn from(plot: Parts) -> Self {
        Self::Parts(plot)
    }
}
