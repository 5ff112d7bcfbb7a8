//! The networks of Stable Diffusion in Burn, driven by configuration: CLIP text encoders, the
//! conditional UNet and the autoencoders, for SD 1.x, SDXL and smaller networks of the same shape.
//!
//! This crate reads no files. A network is built from a configuration, which deserializes from the
//! `config.json` of diffusers or transformers, and from a [`params::ParamSource`].

pub mod params;
