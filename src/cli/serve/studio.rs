//! What makes pictures, as the server sees it.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use prepose::detect::OpenDetector;
use prepose::device::OpenDevice;
use prepose::engine::{Blueprint, Defaults, EngineError};
use prepose::guidance::{METHODS, Needs};
use prepose::make::BatchSize;
use prepose::request::{Adapter, ModelRequest};
use prepose::sampling::noise::NoiseKind;
use prepose::sampling::schedulers::SchedulerKind;
use prepose_serve::{Maker, Plan, Refusal, Studio, Taken, Wanted};
use prepose_weights::{Family, TOYBOX};
use serde_json::{Value, json};

use super::inbox::Inbox;
use super::loras::Loras;
use super::maker::Making;
use super::{plan, reading};
use crate::cli::toybox;

/// A checkpoint that requests can name.
pub struct Model {
    /// Its name.
    pub name: String,
    /// Its files.
    pub request: ModelRequest,
    /// The IP-Adapters that fit it.
    pub adapters: Vec<Adapter>,
    family: Family,
    defaults: Defaults,
    factor: usize,
    grounded: bool,
    scheduler: String,
}

impl Model {
    /// Opens a checkpoint.
    pub fn open(name: String, request: ModelRequest) -> Result<Self, EngineError> {
        let blueprint = Blueprint::open(&request)?;
        Ok(Self {
            name,
            adapters: Vec::new(),
            family: blueprint.checkpoint().family(),
            defaults: blueprint.defaults(),
            factor: blueprint.vae_factor(),
            grounded: blueprint.checkpoint().unet_config()?.is_grounded(),
            scheduler: blueprint.scheduler_name(None)?,
            request,
        })
    }
}

/// Gives each checkpoint those of `adapters` that fit it, and the toybox its own if there is none.
///
/// # Errors
/// One that fits none of them.
pub fn give_adapters(models: &mut [Model], adapters: &[Adapter]) -> anyhow::Result<()> {
    for adapter in adapters {
        let mut wrong = None;
        let mut fits = false;
        for model in &mut *models {
            let mut with = model.request.clone();
            with.adapters.push(adapter.clone());
            match Blueprint::open(&with) {
                Ok(_) => {
                    model.adapters.push(adapter.clone());
                    fits = true;
                }
                Err(error) => wrong = Some(error),
            }
        }
        if let Some(error) = wrong.filter(|_| !fits) {
            let path = adapter.path.display().to_string();
            return Err(error).with_context(|| format!("cannot use --ip-adapter {path}"));
        }
    }
    for model in models {
        let mut with = model.request.clone();
        with.adapters = std::mem::take(&mut model.adapters);
        with.show_toybox();
        model.adapters = with.adapters;
    }
    Ok(())
}

/// What both sides share: those that answer, and the one that makes.
pub struct Shared {
    /// The checkpoints; the first is the default one.
    pub models: Vec<Model>,
    /// LoRA files that requests can name.
    pub loras: Loras,
    /// Who looks at finished pictures.
    pub detector: Option<OpenDetector>,
    /// What it knows; none for any phrase.
    pub vocabulary: Option<Vec<String>>,
    /// Where everything runs.
    pub device: OpenDevice,
    /// Pictures at a time.
    pub batch: BatchSize,
    /// Pictures that were sent.
    pub inbox: Arc<Inbox>,
    /// Checkpoints with LoRAs, opened to check requests; the last ones used.
    pub opened: Mutex<Vec<(ModelRequest, Blueprint)>>,
}

/// The studio.
pub struct Shop(pub Arc<Shared>);

/// The files' names.
pub fn names(adapters: &[Adapter]) -> Vec<String> {
    let names = adapters.iter().map(|adapter| adapter.path.file_name());
    let names = names.map(|name| name.unwrap_or_default().to_string_lossy().into_owned());
    names.collect()
}

fn method_facts() -> Value {
    let facts = METHODS.iter().map(|method| {
        let needs = match method.needs() {
            Needs::Relations => "relations",
            Needs::Boxes => "boxes",
            Needs::Objects(_) => "objects",
        };
        let presets: Vec<&str> = method.presets().iter().map(|preset| preset.as_str()).collect();
        json!({
            "name": method.name(), "known_as": method.known_as(), "about": method.about(), "needs": needs,
            "presets": presets, "reads": method.reads(),
        })
    });
    facts.collect()
}

impl Studio for Shop {
    fn about(&self) -> Value {
        use clap::ValueEnum;

        let shared = &self.0;
        let checkpoints = shared.models.iter().enumerate().map(|(at, model)| {
            let Defaults { width, height, steps, guidance_scale } = model.defaults;
            let objects = (model.request.checkpoint == TOYBOX).then(|| toybox::objects().ok()).flatten();
            json!({
                "name": model.name, "default": at == 0, "family": model.family, "width": width, "height": height,
                "factor": model.factor, "steps": steps, "guidance_scale": guidance_scale, "scheduler": model.scheduler, "gligen": model.grounded,
                "adapters": names(&model.adapters),
                "objects": objects,
            })
        });
        let checkpoints: Vec<Value> = checkpoints.collect();
        let schedulers: Vec<String> = SchedulerKind::value_variants()
            .iter()
            .map(ToString::to_string)
            .collect();
        let noises: Vec<String> = NoiseKind::value_variants()
            .iter()
            .filter_map(|kind| Some(kind.to_possible_value()?.get_name().to_owned()))
            .collect();
        let seen = shared.detector.is_some();
        let rewards = [
            ("attention", "attention maps, which need no detector", true),
            ("checker", "the checker's verdict", seen),
            (
                "pse",
                "probability of superiority of the objects' masks",
                seen,
            ),
            ("relations", "each relation by its own rule", seen),
        ];
        let rewards = rewards.map(|(name, about, available)| json!({"name": name, "about": about, "available": available}));
        let loras: Vec<Value> = shared
            .loras
            .files()
            .keys()
            .map(|name| json!({"name": name}))
            .collect();
        json!({
            "version": env!("CARGO_PKG_VERSION"), "device": shared.device.title(), "checkpoints": checkpoints,
            "schedulers": schedulers, "methods": method_facts(), "noises": noises, "rewards": rewards, "loras": loras, "checker": seen,
        })
    }

    fn read(&self, prompt: &str) -> Value {
        let only_toybox = self
            .0
            .models
            .iter()
            .all(|model| model.request.checkpoint == TOYBOX);
        let known = only_toybox.then(|| toybox::objects().ok()).flatten();
        reading::read(prompt, known.as_deref())
    }

    fn plan(&self, wanted: &Wanted) -> Result<Plan, Refusal> {
        plan::plan(&self.0, wanted)
    }

    fn spell(&self, wanted: &Wanted) -> Result<[String; 2], Refusal> {
        let shared = &self.0;
        let named = wanted.request.checkpoint.as_deref();
        let model = shared
            .models
            .iter()
            .find(|model| named == Some(&model.name));
        let adapters = model
            .or(shared.models.first())
            .map(|model| names(&model.adapters));
        Ok(reading::spell(wanted, &adapters.unwrap_or_default()))
    }

    fn take_in(&self, png: &[u8]) -> Result<Taken, Refusal> {
        let kept = self.0.inbox.keep(png).map_err(|error| {
            tracing::error!("{error}");
            Refusal::new(None, "the picture could not be kept on the server's disk")
        })?;
        Ok(Taken {
            image: format!("sha256:{}", kept.hash),
            kept,
        })
    }

    fn refresh_loras(&self) -> Result<(), Refusal> {
        let shared = &self.0;
        shared.loras.read_again().map_err(|error| {
            tracing::error!("{error:#}");
            Refusal::new(
                None,
                "the server cannot read its folder of LoRAs any more (--loras)",
            )
        })?;
        // A file may be another one under its old name.
        let mut opened = shared.opened.lock().unwrap_or_else(PoisonError::into_inner);
        opened.retain(|(networks, _)| networks.loras.is_empty());
        Ok(())
    }

    fn maker(&self) -> Box<dyn Maker> {
        Box::new(Making::new(self.0.clone()))
    }
}
