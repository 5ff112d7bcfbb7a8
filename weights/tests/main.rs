//! Checkpoints, LoRAs and downloads, through the crate's public interface.

mod configurations;
mod containers;
mod detector;
mod detr;
mod eyes;
mod gligen;
mod hostile_hub;
mod hub;
mod ip_adapter;
mod lora;
mod random;
mod sd2;
mod support;
mod toybox;
mod toybox_detector;
mod wrong_input;
