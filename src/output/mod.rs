//! What a run leaves behind: pictures that carry the request that made them, and a manifest.

pub mod attention;
pub mod manifest;
pub mod overlay;
pub mod png;
pub mod sheet;
mod texts;

pub use prepose_draw::heatmap;
pub use prepose_store::files;
