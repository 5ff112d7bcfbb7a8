//! Draws pictures, plots and tables on the host.
//!
//! Owns [`Picture`](picture::Picture) (pictures as bytes, and reading them from files), [`plot`]s as SVG and PNG,
//! [`heatmap`]s over pictures, lettering and frames on pictures ([`drawing`]), and [`table`]s as CSV and Markdown. It
//! knows what things look like and nothing of what they mean: no prompts, no verdicts, no tensors, no files. It imports
//! no other crate of this workspace.

#![warn(clippy::unwrap_used)]

pub mod drawing;
mod font;
pub mod grid;
pub mod heatmap;
pub mod picture;
pub mod plot;
pub mod table;
