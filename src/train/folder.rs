//! What a training leaves behind.
//!
//! ```text
//! OUT/training.json          everything that decides what comes out; another training is refused by it
//! OUT/skipped.jsonl          pictures that are of no use, and why
//! OUT/state.safetensors      weights, moments, averages and the place in the data, after the last state that was kept
//! OUT/log.jsonl              a line a step: loss, learning rate, the gradient's length
//! OUT/samples/NN-STEP.png    sample pictures
//! OUT/lock                   locked while a process trains here
//! OUT/cache/                 latents and states of captions
//! OUT/training.html          curves and pictures
//! OUT/lora.safetensors, OUT/pytorch_lora_weights.safetensors, or OUT/checkpoint/, or
//! OUT/gligen.safetensors, OUT/gligen_diffusers.safetensors, or OUT/ip_adapter.safetensors
//! ```

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use prepose_dataset::Skipped;
use prepose_optimizer::rule::Trained;
use prepose_store::files::{FolderLock, append_line, lock, prepare_folder, write_atomically};
use prepose_untrusted::read_text;
use prepose_weights::{Checkpoint, GligenFormat, LoraFormat, LoraLayer, TrainedTensor};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::error::TrainError;
use super::recipe::{Kind, Recipe, differences};
use super::trainer::{Step, Trainer};
use crate::output::png::read_request;
use crate::request::Request;

/// A training's folder, which is this process's alone.
pub struct Folder {
    path: PathBuf,
    _lock: FolderLock,
}

/// What decides what comes out, as it is written down.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// How it is trained.
    pub recipe: Recipe,
    /// The checkpoint's name.
    pub checkpoint: String,
    /// SHA-256 of its files.
    pub checkpoint_sha256: String,
    /// A digest of pictures and captions.
    pub data_sha256: String,
    /// How many pictures there are, and how many samples an epoch has.
    pub pictures: usize,
    /// With mirror images and repeats.
    pub samples: usize,
}

impl Folder {
    /// Makes the folder if there is none, and takes it.
    ///
    /// # Errors
    /// It cannot be made, nothing can be written there, or another process trains in it.
    pub fn new(path: &Path) -> Result<Self, TrainError> {
        prepare_folder(path)?;
        let lock = lock(path)?.ok_or_else(|| TrainError::Taken(path.to_owned()))?;
        // What a kill has left of files that were being written.
        let left = fs::read_dir(path).into_iter().flatten().flatten();
        for entry in
            left.filter(|entry| entry.file_name().to_string_lossy().starts_with(".prepose-"))
        {
            if entry.file_type().is_ok_and(|kind| kind.is_file()) {
                // What cannot be removed is in nobody's way.
                let _ = fs::remove_file(entry.path());
            }
        }
        Ok(Self {
            path: path.to_owned(),
            _lock: lock,
        })
    }

    /// The file of this name in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The file of the state.
    pub fn state(&self) -> PathBuf {
        self.file("state.safetensors")
    }

    fn read(&self, name: &str) -> Result<Option<String>, TrainError> {
        let path = self.file(name);
        match read_text(&path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(TrainError::Read {
                path,
                why: error.to_string(),
            }),
        }
    }

    fn json(&self, value: &impl Serialize) -> Result<Value, TrainError> {
        serde_json::to_value(value).map_err(|error| TrainError::Read {
            path: self.path.clone(),
            why: error.to_string(),
        })
    }

    /// Takes the folder for a training with these settings.
    ///
    /// # Errors
    /// [`TrainError::Differs`] if it has another.
    pub fn claim(&self, settings: &impl Serialize) -> Result<(), TrainError> {
        let here = self.json(settings)?;
        let path = self.file("training.json");
        let Some(there) = self.read("training.json")? else {
            return Ok(write_atomically(&path, format!("{here:#}\n").as_bytes())?);
        };
        let there: Value = serde_json::from_str(&there).map_err(|error| TrainError::Read {
            path,
            why: error.to_string(),
        })?;
        let different = differences(&there, &here);
        match different.is_empty() {
            true => Ok(()),
            false => Err(TrainError::Differs {
                path: self.path.clone(),
                differences: different.join(", "),
            }),
        }
    }

    /// Writes down what is of no use.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn skipped(&self, skipped: &[Skipped]) -> Result<(), TrainError> {
        let lines = skipped
            .iter()
            .map(|one| Ok(self.json(one)?.to_string() + "\n"));
        let text = lines.collect::<Result<String, TrainError>>()?;
        Ok(write_atomically(
            &self.file("skipped.jsonl"),
            text.as_bytes(),
        )?)
    }

    /// The steps of the log up to one; those after it were lost, and are cut off.
    ///
    /// # Errors
    /// It cannot be read or written.
    pub fn steps_until(&self, step: u64) -> Result<Vec<Step>, TrainError> {
        self.lines_until("log.jsonl", |one: &Step| one.step <= step)
    }

    /// The lines of a file of lines that are to be kept, all of which come first; those after them are cut off.
    ///
    /// # Errors
    /// It cannot be read or written.
    pub(super) fn lines_until<T: DeserializeOwned>(
        &self,
        name: &str,
        is_kept: impl Fn(&T) -> bool,
    ) -> Result<Vec<T>, TrainError> {
        let text = self.read(name)?.unwrap_or_default();
        let all = text.lines().map(serde_json::from_str::<T>);
        // A kill may have left half a line at the end.
        let steps: Vec<T> = all.map_while(Result::ok).take_while(is_kept).collect();
        let kept: String = text
            .lines()
            .take(steps.len())
            .flat_map(|line| [line, "\n"])
            .collect();
        if kept != text {
            write_atomically(&self.file(name), kept.as_bytes())?;
        }
        Ok(steps)
    }

    /// Adds a step to the log.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn log(&self, step: &Step) -> Result<(), TrainError> {
        self.line("log.jsonl", step)
    }

    /// Adds a line to a file of lines.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn line(&self, name: &str, value: &impl Serialize) -> Result<(), TrainError> {
        let line = self.json(value)?.to_string();
        Ok(append_line(&self.file(name), &line)?)
    }

    /// The file of a sample picture.
    pub fn sample(&self, prompt: usize, step: u64) -> PathBuf {
        self.file(&format!("samples/{prompt:02}-{step:06}.png"))
    }

    /// Whether the file of a sample picture is there and was made of this request, and not of one from an earlier call. Tiles
    /// are no part of what was asked for: memory may have forced them.
    pub fn has_sample(&self, prompt: usize, step: u64, request: &Request) -> bool {
        read_request(&self.sample(prompt, step)).is_ok_and(|made| {
            let asked = Request {
                vae_tiling: request.vae_tiling,
                ..made
            };
            asked == *request
        })
    }

    /// Writes what has come out in the layouts that others read; the files.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn export(
        &self,
        trainer: &Trainer,
        settings: &Settings,
        checkpoint: &Checkpoint,
    ) -> Result<Vec<PathBuf>, TrainError> {
        let about = about(trainer, settings);
        let files = match settings.recipe.kind {
            Kind::Unet { .. } => return Ok(vec![self.checkpoint(trainer, checkpoint)?]),
            Kind::Lora { .. } => {
                let layers = layers(trainer);
                let file = |format| checkpoint.lora_file(format, &layers, &about);
                vec![
                    ("lora.safetensors", file(LoraFormat::Kohya)?),
                    (
                        "pytorch_lora_weights.safetensors",
                        file(LoraFormat::Diffusers)?,
                    ),
                ]
            }
            Kind::Gligen { .. } => {
                let tensors = tensors(trainer);
                let file = |format| checkpoint.gligen_file(format, &tensors, &about);
                vec![
                    ("gligen.safetensors", file(GligenFormat::Original)?),
                    (
                        "gligen_diffusers.safetensors",
                        file(GligenFormat::Diffusers)?,
                    ),
                ]
            }
            Kind::IpAdapter { .. } => {
                let bytes = checkpoint.adapter_file(&tensors(trainer), &about)?;
                vec![("ip_adapter.safetensors", bytes)]
            }
        };
        let written = files.into_iter().map(|(name, bytes)| {
            write_atomically(&self.file(name), &bytes)?;
            Ok(self.file(name))
        });
        written.collect()
    }

    /// Writes the checkpoint with the trained UNet: it is there whole, or not at all.
    fn checkpoint(
        &self,
        trainer: &Trainer,
        checkpoint: &Checkpoint,
    ) -> Result<PathBuf, TrainError> {
        let values = trainer.trained().iter().zip(trainer.values());
        let values = values.map(|(tensor, values)| (tensor.name.clone(), values.to_vec()));
        let values: HashMap<String, Vec<f32>> = values.collect();
        let (half, whole) = (self.file(".prepose-checkpoint"), self.file("checkpoint"));
        let refused = |path: &Path, error: std::io::Error| TrainError::Read {
            path: path.to_owned(),
            why: error.to_string(),
        };
        for old in [&half, &whole] {
            if old.exists() {
                fs::remove_dir_all(old).map_err(|error| refused(old, error))?;
            }
            if old == &half {
                checkpoint.write_trained(&values, &half)?;
            }
        }
        fs::rename(&half, &whole).map_err(|error| refused(&whole, error))?;
        Ok(whole)
    }
}

fn tensors(trainer: &Trainer) -> Vec<TrainedTensor> {
    let named = trainer.trained().iter().zip(trainer.values());
    let tensor = |(tensor, values): (&Trained, &[f32])| TrainedTensor {
        name: tensor.name.clone(),
        shape: tensor.shape.clone(),
        values: values.to_vec(),
    };
    named.map(tensor).collect()
}

fn layers(trainer: &Trainer) -> Vec<LoraLayer> {
    let named = trainer.trained().iter().zip(trainer.values());
    let named: HashMap<&str, (&Trained, &[f32])> = named
        .map(|(tensor, values)| (tensor.name.as_str(), (tensor, values)))
        .collect();
    let modules = trainer.unet().lora_modules().iter();
    modules
        .filter_map(|module| {
            let factor = |which: &str| {
                let name = format!("{}.lora_{which}.weight", module.path);
                let (tensor, values) = named.get(name.as_str())?;
                Some((tensor.shape.clone(), values.to_vec()))
            };
            Some(LoraLayer {
                name: module.path.clone(),
                down: factor("A")?,
                up: factor("B")?,
                alpha: module.alpha as f32,
            })
        })
        .collect()
}

/// What is said of a LoRA, of GLIGEN's layers or of an IP-Adapter in their metadata, in kohya's words where there are any.
fn about(trainer: &Trainer, settings: &Settings) -> BTreeMap<String, String> {
    let recipe = &settings.recipe;
    let held = match recipe.average {
        Some(_) => "ema",
        None => "raw",
    };
    let pairs = [
        ("ss_learning_rate", recipe.rate.peak.to_string()),
        ("ss_steps", trainer.place().step.to_string()),
        ("ss_max_train_steps", recipe.steps.to_string()),
        ("ss_num_train_images", settings.pictures.to_string()),
        (
            "ss_total_batch_size",
            (recipe.batch * recipe.accumulate).to_string(),
        ),
        ("ss_seed", recipe.seed.0.to_string()),
        ("ss_sd_model_name", settings.checkpoint.clone()),
        ("ss_caption_dropout_rate", recipe.dropout.to_string()),
        ("prepose.weights", held.to_owned()),
        ("prepose.version", env!("CARGO_PKG_VERSION").to_owned()),
    ];
    pairs
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect()
}
