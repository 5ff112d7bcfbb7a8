//! From requests to pictures: text → conditioning → denoise → decode.

mod blueprint;
mod conditioning;
mod error;
mod guide;
mod image;
mod needs;
mod session;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use burn::tensor::{Device, Tensor};
use prepose_models::clip::ClipTextModel;
use prepose_models::unet::{GraphUse, Memory, StepGraphs, UNet};
use prepose_models::vae::{AutoencoderKl, LatentDistribution, VaeHalf};

use blueprint::schedule;
pub use blueprint::{Blueprint, Defaults};
pub use conditioning::final_prompt;
pub use error::EngineError;
pub use needs::{Needs, Task};
pub use session::Session;

use crate::device::OpenDevice;
use crate::picture::Picture;
use crate::request::{Dtype, Request};
use crate::sampling::denoise::{Hook, draw};
use crate::sampling::noise::NoiseSource;
use crate::sampling::schedulers::Schedule;

/// A checkpoint on a device.
pub struct Engine {
    blueprint: Blueprint,
    /// Let go of when memory is short.
    text_encoders: Mutex<Option<Arc<Vec<ClipTextModel>>>>,
    unet: UNet,
    /// The decoder.
    vae: AutoencoderKl,
    /// The encoder, once a picture was to start from another.
    vae_encoder: Mutex<Option<AutoencoderKl>>,
    device: Device,
    opened: OpenDevice,
    dtype: Dtype,
    guidance_memory: Memory,
    graphs: StepGraphs,
    tiles_when_short: bool,
}

/// A finished batch.
pub struct Made {
    /// One for each request, in order.
    pub pictures: Vec<Picture>,
    /// Whether they were decoded in tiles: as asked for, or for want of memory.
    pub tiled: bool,
    /// Recorded passes of guidance, each over the whole batch.
    pub recorded_passes: usize,
    /// Spent on text encoding.
    pub text_seconds: f64,
    /// Spent in the denoising loop.
    pub denoise_seconds: f64,
    /// Spent on decoding.
    pub decode_seconds: f64,
}

impl Engine {
    /// Chooses what guided steps keep for their gradient: time for memory. Pictures do not change.
    pub fn with_guidance_memory(self, guidance_memory: Memory) -> Self {
        Self {
            guidance_memory,
            ..self
        }
    }

    /// Chooses when UNet calls are captured as a graph. Pictures do not change, but for rounding.
    pub fn with_graphs(self, usage: GraphUse) -> Self {
        Self {
            graphs: StepGraphs::new(usage),
            ..self
        }
    }

    /// Decodes in tiles when [`generate`](Self::generate) runs out of memory without, instead of failing.
    pub fn tiling_when_short(self, tiles_when_short: bool) -> Self {
        Self {
            tiles_when_short,
            ..self
        }
    }

    /// The text encoders, read again if they were let go.
    fn text_encoders(&self) -> Result<Arc<Vec<ClipTextModel>>, EngineError> {
        let mut encoders = self
            .text_encoders
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(encoders) = &*encoders {
            return Ok(encoders.clone());
        }
        let checkpoint = &self.blueprint.checkpoint;
        let loaded = Arc::new(checkpoint.load_text_encoders(&self.device, self.dtype.float())?);
        *encoders = Some(loaded.clone());
        Ok(loaded)
    }

    fn has_text_encoders(&self) -> bool {
        let encoders = self.text_encoders.lock();
        encoders.unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Lets go of the text encoders until the next prompt; whether they were there.
    fn release_text_encoders(&self) -> bool {
        let mut encoders = self
            .text_encoders
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let there = encoders.take().is_some();
        drop(encoders);
        if there {
            self.device.memory_cleanup();
            prepose_kernels::release_freed_memory();
        }
        there
    }

    /// The UNet, for measurements.
    pub fn unet(&self) -> &UNet {
        &self.unet
    }

    /// The device the networks are on.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Whether a captured UNet call is there to be replayed.
    pub fn is_captured(&self) -> bool {
        self.graphs.is_captured()
    }

    /// Whether that is the CPU.
    pub fn is_on_cpu(&self) -> bool {
        self.opened.is_cpu()
    }

    /// What was loaded.
    pub fn blueprint(&self) -> &Blueprint {
        &self.blueprint
    }

    /// The name of the scheduler that `request` is sampled with.
    pub fn scheduler_name(&self, request: &Request) -> Result<String, EngineError> {
        self.blueprint.scheduler_name(request.scheduler.as_deref())
    }

    /// The number of UNet calls that `request` takes; 0 for one that would be refused.
    pub fn steps(&self, request: &Request) -> usize {
        schedule(&self.blueprint.checkpoint, request)
            .map_or(0, |(schedule, start)| schedule.len() - start)
    }

    /// How many of the first `requests` can be made in one batch of at most `most`: they must agree
    /// in all but prompt, negative prompt, seed and start picture, and their texts must fill the
    /// same number of chunks, so that no picture depends on its neighbours.
    pub fn batch_size(&self, requests: &[Request], most: usize) -> Result<usize, EngineError> {
        let Some(first) = requests.first() else {
            return Ok(0);
        };
        let shape = |request: &Request| -> Result<_, EngineError> {
            let mut shape = request.clone();
            shape.prompt.clear();
            shape.negative_prompt.clear();
            shape.relations.clear();
            shape.boxes.clear();
            shape.found = None;
            shape.switch = None;
            shape.delay_order = None;
            shape.seed = 0;
            if let Some(init) = &mut shape.init {
                init.path.clear();
                init.sha256 = None;
            }
            Ok((shape, self.chunks(request)?))
        };
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
    /// A request that fails [`Blueprint::check`], a hook's error, non-finite latents or pictures, want of memory.
    pub fn generate(
        &self,
        requests: &[Request],
        hooks: &mut [&mut dyn Hook],
    ) -> Result<Made, EngineError> {
        let started = Instant::now();
        let mut session = self.begin(requests, hooks)?;
        let text_seconds = started.elapsed().as_secs_f64();

        let started = Instant::now();
        session.advance(usize::MAX, hooks)?;
        let recorded_passes = session.recorded_passes();
        let latents = session.finish()?;
        let denoise_seconds = started.elapsed().as_secs_f64();

        let started = Instant::now();
        let mut tiled = requests.first().is_some_and(|request| request.vae_tiling);
        let decoded = self.decode_of(requests, latents.clone(), tiled);
        let pictures = match decoded {
            Err(EngineError::OutOfMemory(short)) if self.tiles_when_short && !tiled => {
                tracing::warn!("{short}; trying again in tiles");
                tiled = true;
                self.decode_of(requests, latents, tiled)?
            }
            decoded => decoded?,
        };
        Ok(Made {
            pictures,
            tiled,
            recorded_passes,
            text_seconds,
            denoise_seconds,
            decode_seconds: started.elapsed().as_secs_f64(),
        })
    }

    fn decode_of(
        &self,
        requests: &[Request],
        latents: Tensor<4>,
        tiling: bool,
    ) -> Result<Vec<Picture>, EngineError> {
        let decode = || self.decode(latents, tiling);
        match requests.first() {
            Some(first) => self.with_memory(Task::Decode, first, 1, decode),
            None => decode(),
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

    /// Pure noise, or the start pictures with noise on them.
    fn first_latents(
        &self,
        requests: &[Request],
        schedule: &Schedule,
        start: usize,
        noise: &mut [NoiseSource],
    ) -> Result<Tensor<4>, EngineError> {
        let first = &requests[0];
        let device = &self.device;
        let factor = self.blueprint.vae_factor();
        let channels = self.vae.config().latent_channels;
        let shape = [channels, first.height / factor, first.width / factor];
        if first.init.is_none() {
            return Ok(draw(noise, shape, device) * schedule.init_noise_sigma());
        }
        let mut pictures = Vec::with_capacity(requests.len());
        for request in requests {
            if let Some(init) = &request.init {
                pictures.push(image::load(init, request.width, request.height, device)?);
            }
        }
        let pictures = Tensor::cat(pictures, 0);
        let distribution = self.encode_pictures(pictures, first.vae_tiling)?;
        // diffusers draws for the autoencoder's distribution first, then the noise to start from.
        let latents = distribution.sample(draw(noise, shape, device));
        let latents = (latents - self.vae.shift_factor()) * self.vae.scaling_factor();
        let fresh = draw(noise, shape, device);
        Ok(schedule.add_noise(latents, fresh, start))
    }

    fn encode_pictures(
        &self,
        pictures: Tensor<4>,
        tiling: bool,
    ) -> Result<LatentDistribution, EngineError> {
        let mut encoder = self
            .vae_encoder
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let encoder = match &mut *encoder {
            Some(encoder) => encoder,
            empty => {
                let checkpoint = &self.blueprint.checkpoint;
                let dtype = needs::vae_dtype(checkpoint.family(), self.dtype).float();
                let half = VaeHalf::Encoder;
                empty.insert(checkpoint.load_vae_half(half, &self.device, dtype)?)
            }
        };
        Ok(match tiling {
            true => encoder.encode_tiled(pictures),
            false => encoder.encode(pictures),
        })
    }
}
