//! A checkpoint before its weights are read.

mod checks;
mod classifier;

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use prepose_weights::tokenizer::ClipTokenizer;
use prepose_weights::{
    AdapterSpec, Checkpoint, Family, LoadOptions, LoraSpec, MemoryFolder, NewAdapter, WeightsError,
};
use sha2::{Digest, Sha256};

use crate::engine::adapters::SeenPictures;
use crate::engine::error::EngineError;
use crate::engine::texts::{final_prompt, parse, parts, schedule};
use crate::guidance::boxes::ObjectBox;
use crate::guidance::{GuidanceConfig, GuidanceError, Needs, Network, Settings, Target};
use crate::prompt::scene::Scene;
use crate::request::{ModelRequest, Request, Savings};
use crate::sampling::noise::NoiseKind;
use crate::sampling::schedulers::{Scheduler, SchedulerKind};

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

/// How many of the last layers of a text encoder are left out whatever the request says: SDXL was trained on the
/// penultimate layer.
pub(in crate::engine) fn always_skipped(family: Family) -> usize {
    match family {
        Family::Sd1 | Family::Sd2 => 0,
        Family::Sdxl => 1,
    }
}

/// What goes into the networks of `model` besides its checkpoint.
fn options(model: &ModelRequest) -> LoadOptions {
    LoadOptions {
        config: model.config.clone(),
        vae: model.vae.clone(),
        gligen: model.gligen.clone(),
        adapters: model
            .adapters
            .iter()
            .map(|adapter| AdapterSpec {
                path: adapter.path.clone(),
                encoder: adapter.encoder.clone(),
            })
            .collect(),
        new_adapter: None,
        prediction: model.prediction,
        loras: model
            .loras
            .iter()
            .map(|lora| LoraSpec {
                path: lora.path.clone(),
                weight: lora.weight,
            })
            .collect(),
        allow_mismatch: model.allow_mismatch,
    }
}

/// A checkpoint before its weights are read: enough to check a request.
pub struct Blueprint {
    pub(in crate::engine) checkpoint: Arc<Checkpoint>,
    pub(in crate::engine) tokenizers: Vec<ClipTokenizer>,
    vae_factor: usize,
    sample_size: usize,
    /// Whether the UNet has GLIGEN's layers, or will.
    grounded: bool,
    /// Whether the UNet takes the guidance scale itself, as LCM's: it was distilled from classifier-free guidance.
    pub(in crate::engine) distilled: bool,
    pub(in crate::engine) seen: SeenPictures,
}

impl Blueprint {
    /// Opens the checkpoint of `model`, its tokenizers and its configuration.
    pub fn open(model: &ModelRequest) -> Result<Self, EngineError> {
        Self::open_with_new(model, None)
    }

    /// The same with a new IP-Adapter besides, which is all zeros until it is replaced
    /// ([`Engine::replace_adapter`](super::Engine::replace_adapter)).
    pub fn open_with_new(
        model: &ModelRequest,
        new: Option<NewAdapter>,
    ) -> Result<Self, EngineError> {
        let options = LoadOptions {
            new_adapter: new,
            ..options(model)
        };
        Self::of(Checkpoint::open(Path::new(&model.checkpoint), &options)?)
    }

    /// The same of networks that another library holds in this process; `model` says what else goes into them.
    pub fn from_memory(folder: MemoryFolder, model: &ModelRequest) -> Result<Self, EngineError> {
        Self::of(Checkpoint::from_memory(folder, &options(model))?)
    }

    fn of(checkpoint: Checkpoint) -> Result<Self, EngineError> {
        Ok(Self {
            tokenizers: checkpoint.tokenizers()?,
            vae_factor: checkpoint.vae_config()?.downscale(),
            // diffusers' default for configurations that do not say.
            sample_size: checkpoint
                .unet_config()?
                .sample_size
                .and_then(|size| size.first())
                .unwrap_or(64),
            grounded: checkpoint.unet_config()?.is_grounded(),
            distilled: checkpoint.unet_config()?.time_cond_proj_dim.is_some(),
            checkpoint: Arc::new(checkpoint),
            seen: SeenPictures::default(),
        })
    }

    /// The same for a UNet that gets GLIGEN's layers later ([`Engine::replace_unet`](super::Engine::replace_unet)).
    pub fn to_be_grounded(self) -> Self {
        Self {
            grounded: true,
            ..self
        }
    }

    /// The opened checkpoint.
    pub fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }

    /// Starts computing the checkpoint's SHA-256 beside whatever comes next: a single file's own, else
    /// that of the list of the files' hashes, LoRAs and IP-Adapters included. Gigabytes take seconds.
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
                (None, Family::Sd1 | Family::Sd2) => 7.5,
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

    /// The number of UNet calls that `request` takes.
    ///
    /// # Errors
    /// A scheduler that does not fit the checkpoint, or a strength out of range.
    pub fn steps(&self, request: &Request) -> Result<usize, EngineError> {
        let (schedule, start) = schedule(&self.checkpoint, request)?;
        Ok(schedule.len() - start)
    }

    /// The noise level σ of each UNet call that `request` takes.
    ///
    /// # Errors
    /// As [`steps`](Self::steps).
    pub fn noise_levels(&self, request: &Request) -> Result<Vec<f64>, EngineError> {
        let (schedule, start) = schedule(&self.checkpoint, request)?;
        Ok((start..schedule.len()).map(|i| schedule.sigma(i)).collect())
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
            regions: Vec::new(),
            pictures: Vec::new(),
            ground: None,
            guide: None,
            found: None,
            seed: 0,
            width: defaults.width,
            height: defaults.height,
            steps: defaults.steps,
            guidance_scale: defaults.guidance_scale,
            guidance_steps: None,
            savings: Savings::default(),
            scheduler: None,
            timestep_spacing: None,
            eta: None,
            clip_skip: 0,
            noise: NoiseKind::default(),
            init: None,
            vae_tiling: false,
            model: model.clone(),
        }
    }

    /// The phrases and boxes that GLIGEN's layers are told in `request`; none if they are off.
    ///
    /// # Errors
    /// A network without such layers, no boxes and no layout.
    pub(in crate::engine) fn grounded(
        &self,
        request: &Request,
    ) -> Result<Option<Vec<ObjectBox>>, EngineError> {
        let Some(grounding) = &request.ground else {
            return Ok(None);
        };
        if !self.grounded {
            return Err(GuidanceError::NotGrounded.into());
        }
        if !request.boxes.is_empty() {
            let given = || Err(GuidanceError::GroundingNeedsBoxes);
            return Ok(Some(grounding.objects(&request.boxes, given)?));
        }
        let scene = self.scene(request)?;
        Ok(Some(grounding.objects(&[], || Ok(scene))?))
    }

    /// The prompt that the run of `request` ends with, from which objects and relations are read: of a composed one its
    /// first part.
    ///
    /// # Errors
    /// A schedule that cannot be followed.
    pub fn final_text(&self, request: &Request) -> Result<String, EngineError> {
        let text = final_prompt(request, self.steps(request)?)?;
        let first = parts(&text)?.into_iter().next();
        Ok(first.map_or(text, |part| part.text))
    }

    /// The objects and relations of the prompt that the run of `request` ends with, or the relations that the
    /// request gives instead.
    ///
    /// # Errors
    /// A scene that contradicts itself, relations between things that the prompt does not name.
    pub fn scene(&self, request: &Request) -> Result<Scene, EngineError> {
        let prompt = self.final_text(request)?;
        let scene = match request.relations.is_empty() {
            true => Scene::parse(&prompt),
            false => Scene::with_relations(&prompt, &request.relations),
        };
        scene.map_err(|source| EngineError::Scene { prompt, source })
    }

    /// Token positions of a phrase of the prompt that the run of `request` ends with, at its first occurrence.
    ///
    /// # Errors
    /// A phrase that the prompt does not have.
    pub fn positions(&self, request: &Request, phrase: &str) -> Result<Vec<usize>, EngineError> {
        let text = self.final_text(request)?;
        let tokenizer = &self.tokenizers[0];
        let found = parse("prompt", &text, tokenizer)?.find(phrase, 0, tokenizer);
        let found = found.map_err(GuidanceError::from)?;
        Ok(found.positions)
    }

    /// The objects that guidance and search see in `request`, by name, with their token positions.
    ///
    /// # Errors
    /// As [`scene`](Self::scene).
    pub fn objects(&self, request: &Request) -> Result<Vec<(String, Vec<usize>)>, EngineError> {
        let scene = self.scene(request)?;
        let text = self.final_text(request)?;
        let tokenizer = &self.tokenizers[0];
        let prompt = parse("prompt", &text, tokenizer)?;
        let objects = scene.objects.iter().map(|object| {
            let policy = Default::default();
            let positions = prompt.positions_of(object, policy);
            let positions = positions.map_err(GuidanceError::from)?;
            Ok((object.phrase.clone(), positions))
        });
        objects.collect()
    }

    /// What guidance takes its step sizes from.
    pub fn network(&self) -> Network {
        match (self.checkpoint.network_name(), self.checkpoint.family()) {
            (Some("toybox"), _) => Network::Toybox,
            // For SD 2.x no others are published.
            (_, Family::Sd1 | Family::Sd2) => Network::Sd1,
            (_, Family::Sdxl) => Network::Sdxl,
        }
    }

    /// What `config` should achieve in `request`.
    pub(crate) fn target(
        &self,
        request: &Request,
        config: &GuidanceConfig,
    ) -> Result<(Settings, Target), EngineError> {
        let settings = config.settings(self.network())?;
        let scene = self.scene(request)?;
        let text = self.final_text(request)?;
        // The meter of a search looks at relations, whatever boxes there are for guidance.
        let boxes = match &request.guide {
            Some(guide) if guide.method == config.method => match request.ground {
                // They may be for GLIGEN's layers alone.
                Some(_) if guide.method.needs() != Needs::Boxes => &[],
                _ => &*request.boxes,
            },
            _ => &[],
        };
        let target = Target::new(&settings, &text, &scene, boxes, &self.tokenizers[0])?;
        Ok((settings, target))
    }
}
