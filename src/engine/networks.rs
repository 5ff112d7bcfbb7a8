//! The networks of a checkpoint on a device.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use burn::tensor::Device;
use prepose_models::clip::ClipTextModel;
use prepose_models::unet::{GraphUse, Memory, RecordGraphs, StepGraphs, UNet};
use prepose_models::vae::{AutoencoderKl, VaeHalf};

use super::adapters::Adapters;
use super::blueprint::Blueprint;
use super::error::EngineError;
use super::needs::vae_dtype;
use crate::device::OpenDevice;
use crate::dtype::Dtype;
use crate::request::{ModelRequest, Request};

/// A checkpoint on a device.
pub struct Engine {
    pub(super) blueprint: Blueprint,
    /// What was loaded, for requests.
    model: ModelRequest,
    /// Let go of when memory is short.
    pub(super) text_encoders: Mutex<Option<Arc<Vec<ClipTextModel>>>>,
    pub(super) unet: UNet,
    pub(super) adapters: Adapters,
    /// The decoder.
    pub(super) vae: AutoencoderKl,
    /// The encoder, once a picture was to start from another.
    pub(super) vae_encoder: Mutex<Option<AutoencoderKl>>,
    pub(super) device: Device,
    pub(super) opened: OpenDevice,
    pub(super) dtype: Dtype,
    pub(super) guidance_memory: Memory,
    pub(super) graphs: StepGraphs,
    /// Of guided passes.
    pub(super) recordings: RecordGraphs,
    pub(super) tiles_when_short: AtomicBool,
    /// Whether encoding and decoding a whole picture fail as CubeCL does when an allocation is refused.
    #[cfg(test)]
    pub(crate) short_of_memory: bool,
}

impl Engine {
    /// Opens the checkpoint of `model` and loads its networks onto `device`: [`Blueprint::open`] and [`Blueprint::load`]
    /// in one.
    ///
    /// # Errors
    /// As those.
    pub fn open(model: &ModelRequest, device: &OpenDevice) -> Result<Self, EngineError> {
        Blueprint::open(model)?.load(model, device)
    }

    /// `prompt` with the checkpoint's defaults and seed 0, for these networks.
    pub fn request(&self, prompt: &str) -> Request {
        self.blueprint.request(prompt, &self.model)
    }

    /// Chooses what guided steps keep for their gradient: time for memory. Pictures do not change.
    pub fn with_guidance_memory(self, guidance_memory: Memory) -> Self {
        Self {
            guidance_memory,
            ..self
        }
    }

    /// Chooses when UNet calls and guided passes are captured as graphs. Pictures do not change, but for rounding.
    pub fn with_graphs(self, usage: GraphUse) -> Self {
        Self {
            graphs: StepGraphs::new(usage),
            recordings: RecordGraphs::new(usage),
            ..self
        }
    }

    /// Decodes in tiles when memory runs out without, instead of failing: in [`generate`](Self::generate), in searches and
    /// wherever else [`decode_for`](Self::decode_for) is called.
    pub fn tiling_when_short(self, tiles_when_short: bool) -> Self {
        self.tile_when_short(tiles_when_short);
        self
    }

    /// As [`tiling_when_short`](Self::tiling_when_short), of an engine that is shared: for what is decoded from now on.
    pub fn tile_when_short(&self, tiles_when_short: bool) {
        let permission = &self.tiles_when_short;
        permission.store(tiles_when_short, Ordering::Relaxed);
    }

    /// The text encoders, read again if they were let go.
    pub(super) fn text_encoders(&self) -> Result<Arc<Vec<ClipTextModel>>, EngineError> {
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

    pub(super) fn has_text_encoders(&self) -> bool {
        let encoders = self.text_encoders.lock();
        encoders.unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Lets go of the encoders of texts and pictures until the next prompt; whether they were there.
    pub(super) fn release_text_encoders(&self) -> bool {
        let mut encoders = self
            .text_encoders
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let there = encoders.take().is_some() | self.adapters.release();
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

    /// Whether a captured guided pass is there to be replayed.
    pub fn is_guidance_captured(&self) -> bool {
        self.recordings.is_captured()
    }

    /// Lets go of all captured graphs and the memory that they hold.
    pub(super) fn release_graphs(&self) {
        self.graphs.release();
        self.recordings.release();
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
        self.blueprint.steps(request).unwrap_or(0)
    }
}

impl Blueprint {
    /// Loads the networks onto `device`; of the autoencoder only the decoder, and the rest when it is needed.
    ///
    /// # Errors
    /// A network that cannot be loaded.
    pub fn load(self, model: &ModelRequest, device: &OpenDevice) -> Result<Engine, EngineError> {
        let unet = (self.checkpoint).load_unet(&device.device, model.dtype.float())?;
        self.load_around(unet, model, device)
    }

    /// As [`Self::load`], with a UNet of the checkpoint's configuration that is on `device` already.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn load_around(
        self,
        unet: UNet,
        model: &ModelRequest,
        device: &OpenDevice,
    ) -> Result<Engine, EngineError> {
        let float = model.dtype.float();
        let burn_device = &device.device;
        let vae_float = vae_dtype(self.checkpoint.family(), model.dtype).float();
        let checkpoint = &self.checkpoint;
        let text_encoders = checkpoint.load_text_encoders(burn_device, float)?;
        Ok(Engine {
            text_encoders: Mutex::new(Some(Arc::new(text_encoders))),
            unet,
            adapters: Adapters::load(&self, burn_device, model.dtype)?,
            vae: checkpoint.load_vae_half(VaeHalf::Decoder, burn_device, vae_float)?,
            vae_encoder: Mutex::new(None),
            device: burn_device.clone(),
            opened: device.clone(),
            dtype: model.dtype,
            blueprint: self,
            model: model.clone(),
            guidance_memory: Memory::default(),
            graphs: StepGraphs::new(GraphUse::default()),
            recordings: RecordGraphs::new(GraphUse::default()),
            tiles_when_short: AtomicBool::new(false),
            #[cfg(test)]
            short_of_memory: false,
        })
    }
}
