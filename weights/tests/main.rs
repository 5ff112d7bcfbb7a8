//! Checkpoints, LoRAs and downloads, through the crate's public interface.

mod configurations;
mod containers;
mod detector;
mod hostile_hub;
mod hub;
mod lora;
mod random;
mod support;
mod toybox;
mod toybox_detector;
mod wrong_input;
