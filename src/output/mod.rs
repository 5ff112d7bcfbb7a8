//! What a run leaves behind: pictures that carry the request that made them, and a manifest.

pub mod attention;
mod drawing;
pub mod files;
pub mod heatmap;
pub mod manifest;
pub mod overlay;
pub mod png;
