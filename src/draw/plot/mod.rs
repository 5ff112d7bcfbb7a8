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
