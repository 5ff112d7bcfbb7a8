//! The networks of Stable Diffusion in Burn, driven by configuration: CLIP text encoders, the
//! conditional UNet and the autoencoders, for SD 1.x, SDXL and smaller networks of the same shape; and
//! what looks at what they make: torchvision's Faster R-CNN and Mask R-CNN, CLIP, DINOv2, Depth Anything, SAM and Inception.
//! IP-Adapter goes between the two.
//!
//! This crate reads no files. A network is built from a configuration, which deserializes from the
//! `config.json` of diffusers or transformers (detectors: [`rcnn::RcnnConfig`]), and from a [`params::ParamSource`], which hands out
//! parameters by the names they have in a checkpoint. Weights are f32, f16 or bf16; norms, time
//! embeddings and softmax compute in f32, and what goes in and comes out is f32.

#![warn(clippy::unwrap_used)]

pub mod attention;
pub mod bert;
pub mod clip;
pub mod clip_dual;
pub mod clip_vision;
mod config;
pub mod depth_anything;
mod detr;
pub mod dinov2;
mod footprint;
pub mod grounding_dino;
pub mod image_reward;
pub mod inception;
pub mod ip_adapter;
mod layers;
mod low_rank;
pub mod owl_vit;
pub mod params;
pub mod pixels;
pub mod rcnn;
mod resnet;
pub mod rt_detr;
pub mod sam;
pub mod steer;
pub mod swin;
pub mod training;
pub mod unet;
pub mod vae;
mod vit;

pub use config::{ConfigError, OneOrMany, wrong_key};
pub use footprint::Means;
