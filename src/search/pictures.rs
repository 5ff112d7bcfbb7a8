//! Rewards that look at the picture: the expected picture is decoded and scored, by a detector for example.

use burn::tensor::{Int, Tensor, TensorData};

use super::scorer::Scorer;
use crate::engine::Engine;
use crate::request::Request;
use crate::sampling::denoise::{Hook, HookError, State};

/// Scores the pictures that a batch is expected to become. `score` gets them as f32 [3, height, width] each in 0..=1, in the 256
/// levels of a file, on the engine's device, and answers in their order; higher is better. All of one search show
/// the same prompt.
pub struct PictureScorer<'a, S> {
    engine: &'a Engine,
    request: Request,
    score: S,
    latents: Option<Tensor<4>>,
}

impl<'a, S> PictureScorer<'a, S>
where
    S: FnMut(&[Tensor<3>]) -> Result<Vec<f64>, HookError>,
{
    /// A scorer for one batch of pictures as `request`, decoded as by [`Engine::decode_for`].
    pub fn new(engine: &'a Engine, request: &Request, score: S) -> Self {
        Self {
            engine,
            request: request.clone(),
            score,
            latents: None,
        }
    }
}

impl<S> Scorer for PictureScorer<'_, S>
where
    S: FnMut(&[Tensor<3>]) -> Result<Vec<f64>, HookError>,
{
    fn scores(&mut self) -> Result<Vec<f64>, HookError> {
        let Some(latents) = &self.latents else {
            return Ok(Vec::new());
        };
        let (pictures, tiled) =
            (self.engine).decode_on_device_for(&self.request, latents.clone())?;
        // What had no room once is not tried again.
        self.request.vae_tiling = tiled;
        let pictures: Vec<_> = (pictures.into_iter())
            .map(|picture| (picture.clamp(0.0, 1.0) * 255.0).round() / 255.0)
            .collect();
        (self.score)(&pictures)
    }
}

impl<S> Hook for PictureScorer<'_, S> {
    fn after_step(&mut self, state: &mut State, denoised: &Tensor<4>) -> Result<(), HookError> {
        // After the last step the latents are what is decoded; some schedulers leave a trace of noise in them.
        let finished = state.step + 1 == state.steps;
        self.latents = Some(match finished {
            true => state.latents().clone(),
            false => denoised.clone(),
        });
        Ok(())
    }

    fn retain(&mut self, keep: &[usize]) {
        if let Some(latents) = self.latents.take() {
            let rows: Vec<i32> = keep.iter().map(|row| *row as i32).collect();
            let rows = TensorData::new(rows, [keep.len()]);
            let rows: Tensor<1, Int> = Tensor::from_data(rows, &latents.device());
            self.latents = Some(latents.select(0, rows));
        }
    }
}
