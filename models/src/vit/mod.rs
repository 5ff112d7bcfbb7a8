//! The vision transformer (Dosovitskiy et al. 2021) that CLIP, DINOv2 and SAM share: patches, blocks, and tables of
//! positions for other sizes than they were trained at.

mod block;
mod patches;
mod positions;

pub(crate) use block::{Activation, Block, BlockNames, BlockShape, Mlp};
pub(crate) use patches::Patches;
pub(crate) use positions::resample;
