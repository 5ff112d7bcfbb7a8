//! Captions and pictures as a training reads them, and another UNet in the place of the checkpoint's.

use std::sync::PoisonError;

use burn::tensor::{DType, Tensor};
use prepose_models::unet::UNet;
use prepose_models::vae::LatentDistribution;
use prepose_weights::Family;

use super::conditioning::hidden_layer;
use super::error::EngineError;
use super::networks::Engine;
use super::texts::literal;
use crate::picture::{Picture, PictureTensor};
use crate::sampling::schedulers::Scheduler;

/// What the UNet is told of a caption.
#[derive(Clone, Debug)]
pub struct CaptionStates {
    /// Hidden states of the text encoders, [1, N, C], f32.
    pub context: Tensor<3>,
    /// SDXL's pooled text, [1, C], f32.
    pub pooled: Option<Tensor<2>>,
}

impl Engine {
    /// A caption through the text encoders, as diffusers' training scripts have it: brackets and `BREAK` are text, what is
    /// beyond the first 77 tokens is cut off, and an empty caption is the empty text, also where an empty negative prompt is
    /// zeros.
    ///
    /// # Errors
    /// The encoders cannot be loaded, or a tokenizer failed.
    pub fn caption_states(&self, caption: &str) -> Result<CaptionStates, EngineError> {
        let family = self.blueprint.checkpoint.family();
        let layer = hidden_layer(family, 0);
        let (mut contexts, mut pooled) = (Vec::new(), None);
        let encoders = self.text_encoders()?;
        for (tokenizer, encoder) in self.blueprint.tokenizers.iter().zip(&*encoders) {
            let prompt = literal("caption", caption, tokenizer)?;
            let chunk = prompt.first();
            let encoding = self.encode_chunk(encoder, chunk, layer);
            contexts.push(encoding.hidden.cast(DType::F32));
            pooled = Some(encoding.pooled.cast(DType::F32));
        }
        Ok(CaptionStates {
            context: Tensor::cat(contexts, 2),
            pooled: pooled.filter(|_| family == Family::Sdxl),
        })
    }

    /// A phrase as GLIGEN's layers are told it: the first text encoder's pooled state, `[C]`, f32. It is read as captions are.
    ///
    /// # Errors
    /// As [`Self::caption_states`].
    pub fn phrase_state(&self, phrase: &str) -> Result<Tensor<1>, EngineError> {
        let prompt = literal("phrase", phrase, &self.blueprint.tokenizers[0])?;
        Ok(self.pooled(prompt.first())?.cast(DType::F32))
    }

    /// What the autoencoder says of a picture whose sides are multiples of its factor, not yet scaled.
    ///
    /// # Errors
    /// The encoder cannot be loaded.
    pub fn picture_latents(&self, picture: &Picture) -> Result<LatentDistribution, EngineError> {
        let picture = picture.to_tensor(&self.device).unsqueeze() * 2.0 - 1.0;
        self.encode_picture(picture, false)
    }

    /// What the UNet works on is `(latents − shift) · scale` of the autoencoder's: shift and scale.
    pub fn latent_scaling(&self) -> [f64; 2] {
        [self.vae.shift_factor(), self.vae.scaling_factor()]
    }

    /// The checkpoint's noise schedule.
    ///
    /// # Errors
    /// One that cannot be used.
    pub fn noise_schedule(&self) -> Result<Scheduler, EngineError> {
        let config = self.blueprint.checkpoint.scheduler_config();
        Ok(Scheduler::from_config(config, None)?)
    }

    /// Lets go of what encodes texts and pictures, until the next of them.
    pub fn release_encoders(&self) {
        self.release_text_encoders();
        let encoder = self.vae_encoder.lock();
        *encoder.unwrap_or_else(PoisonError::into_inner) = None;
        self.device.memory_cleanup();
        prepose_kernels::release_freed_memory();
    }

    /// Makes pictures with another UNet from now on, which is of the same configuration but for GLIGEN's layers.
    pub fn replace_unet(&mut self, unet: UNet) {
        self.release_graphs();
        self.unet = unet;
    }
}
