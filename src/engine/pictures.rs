//! Whole batches: from requests to pictures.

use std::sync::atomic::Ordering;
use std::time::Instant;

use burn::tensor::Tensor;

use super::error::EngineError;
use super::fit::Task;
use super::networks::Engine;
use crate::picture::{Picture, PictureTensor};
use crate::request::Request;
use crate::sampling::denoise::{DenoiseError, Hook, UnetRows};

/// The pictures of a batch, and what they took.
pub struct Generated {
    /// One for each request, in order.
    pub pictures: Vec<Picture>,
    /// Whether they were decoded in tiles: as asked for, or for want of memory.
    pub tiled: bool,
    /// Recorded passes of guidance, of each picture.
    pub recorded_passes: Vec<usize>,
    /// Rows through the network, of each picture.
    pub unet_rows: UnetRows,
    /// Spent on text encoding.
    pub text_seconds: f64,
    /// Spent in the denoising loop.
    pub denoise_seconds: f64,
    /// Spent on decoding.
    pub decode_seconds: f64,
}

impl Engine {
    /// How many of the first `requests` can be made in one batch of at most `most`: they must agree
    /// in all but prompt, negative prompt, boxes, pictures that are shown, seed and start picture, and their texts must fill the
    /// same number of chunks, have as many parts and change at the same steps, so that no picture depends on its neighbours.
    pub fn batch_size(&self, requests: &[Request], most: usize) -> Result<usize, EngineError> {
        let Some(first) = requests.first() else {
            return Ok(0);
        };
        let shape = |request: &Request| self.blueprint().batch_shape(request);
        let first = shape(first)?;
        let mut size = 1;
        while size < requests.len().min(most) && shape(&requests[size])? == first {
            size += 1;
        }
        Ok(size)
    }

    /// Makes one picture for each of `requests`, which must fit into one batch
    /// ([`batch_size`](Self::batch_size)).
    ///
    /// # Errors
    /// A request that fails [`Blueprint::check`](super::Blueprint::check), a hook's error, non-finite latents or pictures, want of memory.
    pub fn generate(
        &self,
        requests: &[Request],
        hooks: &mut [&mut dyn Hook],
    ) -> Result<Generated, EngineError> {
        let started = Instant::now();
        let mut session = self.begin(requests, hooks)?;
        let text_seconds = started.elapsed().as_secs_f64();

        let started = Instant::now();
        session.advance(usize::MAX, hooks)?;
        let recorded_passes = session.recorded_passes();
        let unet_rows = session.unet_rows();
        let latents = session.finish()?;
        let denoise_seconds = started.elapsed().as_secs_f64();

        let started = Instant::now();
        let (pictures, tiled) = self.decode_for(&requests[0], latents)?;
        Ok(Generated {
            pictures,
            tiled,
            recorded_passes,
            unet_rows,
            text_seconds,
            denoise_seconds,
            decode_seconds: started.elapsed().as_secs_f64(),
        })
    }

    /// As [`decode`](Self::decode), in tiles if `request`, which is one of the batch's, asks for them, or if memory runs out
    /// without and the engine may [tile when it is short](Self::tiling_when_short). The pictures, and whether they were decoded
    /// in tiles.
    ///
    /// # Errors
    /// A picture that is not finite, want of memory.
    pub fn decode_for(
        &self,
        request: &Request,
        latents: Tensor<4>,
    ) -> Result<(Vec<Picture>, bool), EngineError> {
        self.decoding(request, |tiling| self.decode(latents.clone(), tiling))
    }

    /// As [`decode_for`](Self::decode_for), but the pictures stay on the device, as those of
    /// [`decode_on_device`](Self::decode_on_device).
    ///
    /// # Errors
    /// Want of memory, a device that fails.
    pub fn decode_on_device_for(
        &self,
        request: &Request,
        latents: Tensor<4>,
    ) -> Result<(Vec<Tensor<3>>, bool), EngineError> {
        self.decoding(request, |tiling| {
            let pictures: Vec<_> = self.decode_on_device(latents.clone(), tiling).collect();
            // A GPU says that memory ran out when it is waited for.
            let waited = self.device.sync();
            waited.map_err(|error| DenoiseError::Device(format!("{error:?}")))?;
            Ok(pictures)
        })
    }

    /// What `decode` makes, which is told whether in tiles, and whether that was so.
    fn decoding<T>(
        &self,
        request: &Request,
        decode: impl Fn(bool) -> Result<T, EngineError>,
    ) -> Result<(T, bool), EngineError> {
        let attempt = |tiling| self.with_memory(Task::Decode, request, 1, || decode(tiling));
        let tiled = request.vae_tiling;
        let may_tile = self.tiles_when_short.load(Ordering::Relaxed);
        match attempt(tiled) {
            Err(EngineError::OutOfMemory(short)) if may_tile && !tiled => {
                tracing::warn!("{short}; trying again in tiles");
                Ok((attempt(true)?, true))
            }
            decoded => Ok((decoded?, tiled)),
        }
    }

    /// The final latents of a batch, f32 [B, C, h, w], in the UNet's scaling.
    pub fn latents(
        &self,
        requests: &[Request],
        hooks: &mut [&mut dyn Hook],
    ) -> Result<Tensor<4>, EngineError> {
        let mut session = self.begin(requests, hooks)?;
        session.advance(usize::MAX, hooks)?;
        session.finish()
    }

    /// Decodes latents, f32 [B, C, h, w] in the UNet's scaling, into pictures, one at a time so that
    /// a batch takes no more memory than a picture.
    ///
    /// # Errors
    /// A picture that is not finite.
    pub fn decode(&self, latents: Tensor<4>, tiling: bool) -> Result<Vec<Picture>, EngineError> {
        self.decode_on_device(latents, tiling)
            .enumerate()
            .map(|(picture, decoded)| {
                Picture::from_tensor(decoded).ok_or(EngineError::NonFinitePicture {
                    picture,
                    dtype: self.dtype,
                })
            })
            .collect()
    }

    /// As [`decode`](Self::decode), but the pictures stay on the device: f32 [3, height, width] each, where 0..=1 is
    /// what can be shown. Each is decoded when it is asked for.
    pub fn decode_on_device(
        &self,
        latents: Tensor<4>,
        tiling: bool,
    ) -> impl Iterator<Item = Tensor<3>> {
        let latents = latents / self.vae.scaling_factor() + self.vae.shift_factor();
        (0..latents.dims()[0]).map(move |index| {
            #[cfg(test)]
            assert!(
                tiling || !self.short_of_memory,
                "out of device memory allocating 64 bytes"
            );
            let one = latents.clone().narrow(0, index, 1);
            let decoded = match tiling {
                true => self.vae.decode_tiled(one),
                false => self.vae.decode(one),
            };
            decoded.squeeze_dim::<3>(0) / 2.0 + 0.5
        })
    }
}
