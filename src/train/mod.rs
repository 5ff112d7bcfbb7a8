//! Training on the same device: LoRA, GLIGEN's layers, an IP-Adapter, or the UNet itself.
//!
//! * [`recipe`]: everything that decides what comes out;
//! * [`prepare`]: pictures and captions as latents and states of the text encoders, which are kept in files;
//! * [`trainer`]: the loop: batches, losses, gradients, the optimiser's steps;
//! * [`folder`]: what a training leaves behind, so that it can be killed at any moment and taken up again;
//! * [`run`]: all of it in one call;
//! * [`steer`]: the classifiers that guidance goes by, which are trained on attention maps.
//!
//! How weights move is `prepose-optimizer`'s, what there is to train on `prepose-dataset`'s.

mod cache;
mod error;
pub mod folder;
mod page;
pub mod prepare;
pub mod recipe;
pub mod run;
pub mod steer;
pub mod trainer;

pub use error::TrainError;
pub use prepose_dataset as dataset;
pub use prepose_optimizer as optimizer;
pub use recipe::{Kind, Layers, Recipe};
