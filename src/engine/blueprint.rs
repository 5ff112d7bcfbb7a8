//! A checkpoint before its weights are read.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use prepose_models::unet::{GraphUse, Memory, StepGraphs};
use prepose_models::vae::VaeHalf;
use prepose_weights::tokenizer::ClipTokenizer;
use prepose_weights::{Checkpoint, Family, LoadOptions, LoraSpec, WeightsError};
use sha2::{Digest, Sha256};

use super::{Engine, EngineError, conditioning, image, needs};
use crate::device::OpenDevice;
use crate::prompt::Prompt;
use crate::request::{ModelRequest, Request, RequestError};
use crate::sampling::noise::NoiseKind;
use crate::sampling::schedulers::{Schedule, Scheduler, SchedulerKind};

/// What a checkpoint is best run with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Defaults {
    /// In pixels.
    pub width: usize,
    /// In pixels.
    pub height: usize,
    /// Denoising steps.
    pub steps: usize,
    /// Classifier-free guidance.
    pub guidance_scale: f64,
}

/// A checkpoint before its weights are read: enough to check a request.
pub struct Blueprint {
    pub(super) checkpoint: Arc<Checkpoint>,
    pub(super) tokenizers: Vec<ClipTokenizer>,
    vae_factor: usize,
    sample_size: usize,
}

impl Blueprint {
    /// Opens the checkpoint of `model`, its tokenizers and its configuration.
    pub fn open(model: &ModelRequest) -> Result<Self, EngineError> {
        let options = LoadOptions {
            config: model.config.clone(),
            vae: model.vae.clone(),
            loras: model
                .loras
                .iter()
                .map(|lora| LoraSpec {
                    path: lora.path.clone(),
                    weight: lora.weight,
                })
                .collect(),
            allow_mismatch: model.allow_mismatch,
        };
        let checkpoint = Checkpoint::open(Path::new(&model.checkpoint), &options)?;
        Ok(Self {
            tokenizers: checkpoint.tokenizers()?,
            vae_factor: checkpoint.vae_config()?.downscale(),
            // diffusers' default for configurations that do not say.
            sample_size: checkpoint
                .unet_config()?
                .sample_size
                .and_then(|size| size.first())
                .unwrap_or(64),
            checkpoint: Arc::new(checkpoint),
        })
    }

    /// The opened checkpoint.
    pub fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }

    /// Starts computing the checkpoint's SHA-256 beside whatever comes next: a single file's own, else
    /// that of the list of the files' hashes, LoRAs included. Gigabytes take seconds.
    pub fn fingerprint(&self) -> JoinHandle<Result<String, WeightsError>> {
        let checkpoint = self.checkpoint.clone();
        std::thread::spawn(move || {
            let mut hashes: Vec<String> = checkpoint
                .file_hashes()?
                .into_iter()
                .map(|file| file.sha256)
                .collect();
            Ok(match hashes.len() {
                1 => hashes.remove(0),
                _ => format!("{:x}", Sha256::digest(hashes.join("\n"))),
            })
        })
    }

    /// Pixels to a latent.
    pub fn vae_factor(&self) -> usize {
        self.vae_factor
    }

    /// What the checkpoint is best run with: diffusers' defaults for the published families, but the
    /// guidance that the checkpoint itself recommends, where it does.
    pub fn defaults(&self) -> Defaults {
        let side = self.sample_size * self.vae_factor;
        Defaults {
            width: side,
            height: side,
            steps: 50,
            guidance_scale: match (
                self.checkpoint.recommended_guidance_scale(),
                self.checkpoint.family(),
            ) {
                (Some(recommended), _) => recommended,
                (None, Family::Sd1) => 7.5,
                (None, Family::Sdxl) => 5.0,
            },
        }
    }

    /// The name of the scheduler of that kind, or of the checkpoint's own.
    ///
    /// # Errors
    /// There is none of that name, or it does not fit the checkpoint.
    pub fn scheduler_name(&self, kind: Option<&str>) -> Result<String, EngineError> {
        let kind = kind.map(str::parse::<SchedulerKind>).transpose()?;
        let scheduler = Scheduler::from_config(self.checkpoint.scheduler_config(), kind)?;
        Ok(scheduler.kind().to_string())
    }

    /// `prompt` with the checkpoint's defaults and seed 0.
    pub fn request(&self, prompt: &str, model: &ModelRequest) -> Request {
        let defaults = self.defaults();
        Request {
            prompt: prompt.to_string(),
            negative_prompt: String::new(),
            switch: None,
            delay_order: None,
            relations: Vec::new(),
            boxes: Vec::new(),
            guide: None,
            found: None,
            seed: 0,
            width: defaults.width,
            height: defaults.height,
            steps: defaults.steps,
            guidance_scale: defaults.guidance_scale,
            scheduler: None,
            clip_skip: 0,
            noise: NoiseKind::default(),
            init: None,
            vae_tiling: false,
            model: model.clone(),
        }
    }

    /// Checks `request` as far as possible without weights, and records the start picture's hash.
    pub fn check(&self, request: &mut Request) -> Result<(), EngineError> {
        request.validate(self.vae_factor())?;
        let (schedule, start) = schedule(&self.checkpoint, request)?;
        let steps = schedule.len() - start;
        request.check_switch(steps)?;
        let mut texts = conditioning::timeline(request, steps)?;
        texts.dedup();
        // Brackets alone are no prompt either; a schedule may be without one for some steps.
        let mut empty = true;
        for (positive, negative) in &texts {
            for tokenizer in &self.tokenizers {
                empty &= parse("prompt", positive, tokenizer)?.is_empty();
                parse("negative prompt", negative, tokenizer)?;
            }
        }
        if empty {
            return Err(RequestError::EmptyPrompt.into());
        }
        self.check_guidance(request, steps)?;
        if let Some(init) = &mut request.init {
            init.sha256 = Some(image::check(init)?);
        }
        Ok(())
    }

    /// Loads the networks onto `device`; of the autoencoder only the decoder, and the rest when it is needed.
    pub fn load(self, model: &ModelRequest, device: &OpenDevice) -> Result<Engine, EngineError> {
        let float = model.dtype.float();
        let burn_device = &device.device;
        let vae_float = needs::vae_dtype(self.checkpoint.family(), model.dtype).float();
        let checkpoint = &self.checkpoint;
        let text_encoders = checkpoint.load_text_encoders(burn_device, float)?;
        Ok(Engine {
            text_encoders: Mutex::new(Some(Arc::new(text_encoders))),
            unet: checkpoint.load_unet(burn_device, float)?,
            vae: checkpoint.load_vae_half(VaeHalf::Decoder, burn_device, vae_float)?,
            vae_encoder: Mutex::new(None),
            device: burn_device.clone(),
            opened: device.clone(),
            dtype: model.dtype,
            blueprint: self,
            guidance_memory: Memory::default(),
            graphs: StepGraphs::new(GraphUse::default()),
            tiles_when_short: false,
        })
    }
}

pub(super) fn parse(
    which: &'static str,
    text: &str,
    tokenizer: &ClipTokenizer,
) -> Result<Prompt, EngineError> {
    Prompt::parse(text, tokenizer).map_err(|source| EngineError::Prompt {
        which,
        text: beginning(text),
        source,
    })
}

/// What an error quotes of a text.
pub(super) fn beginning(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_string(),
    }
}

fn scheduler(checkpoint: &Checkpoint, request: &Request) -> Result<Scheduler, EngineError> {
    let kind = request
        .scheduler
        .as_deref()
        .map(str::parse::<SchedulerKind>)
        .transpose()?;
    Ok(Scheduler::from_config(checkpoint.scheduler_config(), kind)?)
}

/// The schedule of `request` and the index of its first step.
pub(super) fn schedule(
    checkpoint: &Checkpoint,
    request: &Request,
) -> Result<(Schedule, usize), EngineError> {
    let schedule = scheduler(checkpoint, request)?.schedule(request.steps)?;
    let start = match &request.init {
        Some(init) => schedule.start_index(init.strength)?,
        None => 0,
    };
    Ok((schedule, start))
}
