//! The references: the same operations in Burn's own, for every backend and for autodiff.
//!
//! This is the ground floor: nothing here imports from the rest of the crate.

mod activation;
mod attention;
mod conv;
mod deformable;
mod layout;
mod linear;
mod max_pool;
mod nms;
mod norm;
mod resize;
mod roi_align;

pub use activation::*;
pub use attention::*;
pub use conv::*;
pub use deformable::*;
pub use layout::*;
pub use linear::*;
pub use max_pool::*;
pub use nms::*;
pub use norm::*;
pub use resize::*;
pub use roi_align::*;
