//! Acts inside the denoising loop with a hook of one's own: `cargo run --release --example custom_hook`.
//!
//! The hook keeps the colours of the final picture in check, by moving the mean of each latent channel a little towards
//! zero after each step, and tells how far the picture has come.

use std::error::Error;

use burn::tensor::Tensor;
use prepose::device;
use prepose::engine::Engine;
use prepose::make::PictureMaker;
use prepose::request::ModelRequest;
use prepose::sampling::denoise::{Hook, HookError, State};

/// Moves the mean of each channel towards zero.
struct Centre {
    /// How much of the mean is taken away at each step, in 0..=1.
    share: f64,
}

impl Hook for Centre {
    fn after_step(&mut self, state: &mut State, denoised: &Tensor<4>) -> Result<(), HookError> {
        // f32 [B, C, h, w]; `denoised` is what the scheduler expects the final latents to be.
        let latents = state.latents().clone();
        let mean = denoised.clone().mean_dim(3).mean_dim(2);
        let spread: f32 = mean.clone().abs().mean().into_scalar();
        println!(
            "step {:2} of {}: mean {spread:.3}",
            state.step + 1,
            state.steps
        );
        // Multistep schedulers are told of the edit, so that it survives the samples that they remember.
        state.edit_latents(latents - mean * self.share);
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let device = device::open("auto".parse()?)?;
    let model = ModelRequest::new("toybox", device.default_dtype());
    let engine = Engine::open(&model, &device)?;
    let mut request = engine.request("a dog to the left of a cat");
    request.steps = 20;
    let mut centre = Centre { share: 0.05 };
    let batch = PictureMaker::new(&engine, 1).make(&[request], None, &mut [&mut centre])?;
    batch.pictures[0].save("centred.png", &device.title())?;
    println!("centred.png");
    Ok(())
}
