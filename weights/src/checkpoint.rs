//! A Stable Diffusion checkpoint, opened but not yet loaded.

mod load;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use burn::tensor::FloatDType;
use prepose_formats::TensorFile;
use prepose_models::clip::ClipTextConfig;
use prepose_models::unet::UNetConfig;
use prepose_models::vae::{VaeConfig, VaeHalf};
use serde_json::Value;

use crate::agreement;
use crate::error::WeightsError;
use crate::family::Family;
use crate::files::{Files, MemoryFolder, short_name};
use crate::folder::open_folder;
use crate::gligen::{self, GligenFormat};
use crate::hash::{FileHash, hash_file};
use crate::hub;
use crate::ip_adapter::{self, AdapterSpec, AdapterWeights, NewAdapter};
use crate::lora::{self, LoraFormat, LoraLayer, LoraSpec};
use crate::part::{Part, Parts};
use crate::prediction::Prediction;
use crate::random::RandomCheckpoint;
use crate::single::open_single;
use crate::tokenizer::ClipTokenizer;
use crate::tokenizer_files::tokenizers;
use crate::trained::TrainedTensor;
use crate::vae::open_vae;

/// What to do on the way from a path to networks.
#[derive(Debug, Clone, Default)]
pub struct LoadOptions {
    /// A folder laid out as diffusers does it (`unet/config.json`, `vae/config.json`, …) with the
    /// configuration of a single file whose networks are not of the usual size. A single file says
    /// nothing about heads or groups, so they cannot be guessed.
    pub config: Option<PathBuf>,
    /// An autoencoder to take instead of the checkpoint's own: a file, or a folder with
    /// `config.json`.
    pub vae: Option<PathBuf>,
    /// GLIGEN's layers, to be put into a checkpoint of SD 1.x: a file, or `toybox` for the toybox's own.
    pub gligen: Option<PathBuf>,
    /// IP-Adapters of the UNet.
    pub adapters: Vec<AdapterSpec>,
    /// One more, which is to be trained from nothing.
    pub new_adapter: Option<NewAdapter>,
    /// What the UNet predicts, whatever the checkpoint says.
    pub prediction: Option<Prediction>,
    /// LoRAs, merged in this order.
    pub loras: Vec<LoraSpec>,
    /// Load what fits although tensors are missing (taken as zero), left over or of another shape.
    pub allow_mismatch: bool,
}

/// How many parameters the networks of a checkpoint have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameters {
    /// The text encoders together.
    pub text_encoders: u64,
    /// The UNet.
    pub unet: u64,
    /// From pictures to latents.
    pub vae_encoder: u64,
    /// From latents to pictures.
    pub vae_decoder: u64,
}

/// A folder has its own configuration; another one would be passed over in silence.
fn refuse_config(path: &Path, options: &LoadOptions) -> Result<(), WeightsError> {
    match options.config.as_deref().filter(|config| *config != path) {
        None => Ok(()),
        Some(config) => Err(WeightsError::Folder {
            path: path.to_path_buf(),
            what: format!(
                "the configuration {} is for a single file, and this is a folder with its own",
                config.display()
            ),
            hint: "leave it out".into(),
        }),
    }
}

/// A Stable Diffusion checkpoint: a diffusers folder, a single file, or the one in the binary.
///
/// Opening reads headers and configurations only, and refuses what is broken or cannot be run.
/// Weights are read, checked and given to the networks by `load_unet` and its siblings, one tensor
/// at a time, so that memory holds the network and hardly more.
#[derive(Debug)]
pub struct Checkpoint {
    name: String,
    path: PathBuf,
    parts: Parts,
    loras: Vec<Arc<TensorFile>>,
    adapters: Vec<AdapterWeights>,
    allow_mismatch: bool,
}

impl Checkpoint {
    /// Opens `toybox` (the checkpoint in the binary), a known checkpoint by the name under which it
    /// was pulled, a diffusers folder or a single file. `./toybox` is the folder of that name.
    ///
    /// # Errors
    /// [`WeightsError`] if there is nothing there, if it is damaged or no checkpoint of SD 1.x, SD 2.x or
    /// SDXL, if its configurations make no sense or do not belong together, or if the autoencoder,
    /// an IP-Adapter or a LoRA of the options cannot be used with it.
    pub fn open(path: impl AsRef<Path>, options: &LoadOptions) -> Result<Self, WeightsError> {
        let (name, path, parts) = Self::find(path.as_ref(), options)?;
        Self::with(name, path, parts, options)
    }

    /// Opens what another library holds in this process. Its tensors are read when networks are loaded, also later, and
    /// have to stay as they are.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn from_memory(folder: MemoryFolder, options: &LoadOptions) -> Result<Self, WeightsError> {
        let name = folder.name.clone();
        let path = PathBuf::from(&name);
        refuse_config(&path, options)?;
        let parts = open_folder(Files::Memory(Arc::new(folder)))?;
        Self::with(name, path, parts, options)
    }

    fn with(
        name: String,
        path: PathBuf,
        mut parts: Parts,
        options: &LoadOptions,
    ) -> Result<Self, WeightsError> {
        if let Some(vae) = &options.vae {
            parts.vae = open_vae(vae, parts.family)?;
        }
        if let Some(gligen) = &options.gligen {
            gligen::apply(gligen, &mut parts)?;
        }
        if let Some(prediction) = options.prediction {
            prediction.mark(&mut parts.scheduler);
        }
        agreement::check(&parts)?;
        let loras = lora::apply(&options.loras, &mut parts)?;
        let adapters = options.adapters.iter();
        let adapters = adapters.map(|adapter| AdapterWeights::open(adapter, &parts));
        let new = options.new_adapter.iter();
        let adapters = adapters.chain(new.map(|new| AdapterWeights::new(new, &parts)));
        let adapters = adapters.collect::<Result<_, _>>()?;
        Ok(Self {
            name,
            path,
            parts,
            loras,
            adapters,
            allow_mismatch: options.allow_mismatch,
        })
    }

    fn find(path: &Path, options: &LoadOptions) -> Result<(String, PathBuf, Parts), WeightsError> {
        let given = path.to_string_lossy();
        #[cfg(feature = "toybox")]
        if given == crate::TOYBOX {
            refuse_config(path, options)?;
            let files = crate::toybox::files();
            return Ok((given.into_owned(), path.to_path_buf(), open_folder(files)?));
        }
        let known = hub::catalog(&given);
        let path = match known {
            Some(known) => hub::cached(known).ok_or_else(|| WeightsError::NotPulled {
                name: given.to_string(),
            })?,
            None => path.to_path_buf(),
        };
        let is_folder = std::fs::metadata(&path)
            .map_err(|source| match source.kind() {
                std::io::ErrorKind::NotFound => WeightsError::NotFound {
                    path: path.clone(),
                    hint: hub::not_found_hint(&given),
                },
                _ => WeightsError::Io {
                    path: path.clone(),
                    source,
                },
            })?
            .is_dir();
        let name = match known {
            Some(known) => known.name.to_string(),
            None => short_name(&path, is_folder),
        };
        let parts = if is_folder {
            refuse_config(&path, options)?;
            open_folder(Files::Folder(path.clone()))?
        } else {
            open_single(&path, options)?
        };
        Ok((name, path, parts))
    }

    /// A short name: the file's or folder's, its repository's in the hub's cache, or the known name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it was found; `toybox` for the checkpoint in the binary.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The architecture.
    pub fn family(&self) -> Family {
        self.parts.family
    }

    /// diffusers' `scheduler_config.json`, with the scheduler's class in `_class_name`.
    pub fn scheduler_config(&self) -> &Value {
        &self.parts.scheduler
    }

    /// Whether an empty negative prompt is encoded as zeros instead of as text: diffusers'
    /// `force_zeros_for_empty_prompt`, a habit of SDXL.
    pub fn zeros_for_empty_prompt(&self) -> bool {
        let default = self.family() == Family::Sdxl;
        self.parts
            .index
            .get("force_zeros_for_empty_prompt")
            .and_then(Value::as_bool)
            .unwrap_or(default)
    }

    /// The strength of classifier-free guidance that the checkpoint itself recommends.
    pub fn recommended_guidance_scale(&self) -> Option<f64> {
        self.hint("guidance_scale")?.as_f64()
    }

    /// The kind of network that the checkpoint says it is, where it is of none of the published ones.
    pub fn network_name(&self) -> Option<&str> {
        self.hint("network")?.as_str()
    }

    /// What `model_index.json` says under `_prepose`; diffusers passes over keys that begin with an underscore.
    fn hint(&self, key: &str) -> Option<&Value> {
        self.parts.index.get("_prepose")?.get(key)
    }

    /// The UNet's configuration, as diffusers writes it.
    pub fn unet_config(&self) -> Result<UNetConfig, WeightsError> {
        self.parts.unet.config()
    }

    /// The text encoders' configurations.
    pub fn text_encoder_configs(&self) -> Result<Vec<ClipTextConfig>, WeightsError> {
        self.parts.text.iter().map(Part::config).collect()
    }

    /// The autoencoder's configuration.
    pub fn vae_config(&self) -> Result<VaeConfig, WeightsError> {
        self.parts.vae.config()
    }

    /// A tokenizer for each text encoder: the checkpoint's own, or CLIP's from the binary.
    ///
    /// # Errors
    /// [`WeightsError::Tokenizer`] if the checkpoint's own cannot be used, [`WeightsError::Json`] if a text encoder has
    /// no place for all of its tokens.
    pub fn tokenizers(&self) -> Result<Vec<ClipTokenizer>, WeightsError> {
        let tokenizers = tokenizers(self.parts.family, &self.parts.tokenizers)?;
        for (part, tokenizer) in self.parts.text.iter().zip(&tokenizers) {
            agreement::check_tokenizer(part, tokenizer)?;
        }
        Ok(tokenizers)
    }

    /// How many parameters the networks have.
    pub fn parameters(&self) -> Parameters {
        let Parts {
            text, unet, vae, ..
        } = &self.parts;
        let encoder = |name: &str| VaeHalf::Encoder.has(name);
        Parameters {
            text_encoders: text.iter().map(|part| part.parameters(|_| true)).sum(),
            unet: unet.parameters(|_| true),
            vae_encoder: vae.parameters(encoder),
            vae_decoder: vae.parameters(|name| !encoder(name)),
        }
    }

    /// The bytes of a LoRA for this checkpoint, as [`LoraFormat`] has it. `about` is written into its metadata.
    ///
    /// # Errors
    /// A layer that the UNet does not have, or factors that do not fit it.
    pub fn lora_file(
        &self,
        format: LoraFormat,
        layers: &[LoraLayer],
        about: &BTreeMap<String, String>,
    ) -> Result<Vec<u8>, WeightsError> {
        lora::file(&self.parts, format, layers, about)
    }

    /// The bytes of a file of GLIGEN's layers for this checkpoint in f16, with the names of `format`. `about` is written into
    /// its metadata.
    ///
    /// # Errors
    /// A parameter that is none of such layers.
    pub fn gligen_file(
        &self,
        format: GligenFormat,
        tensors: &[TrainedTensor],
        about: &BTreeMap<String, String>,
    ) -> Result<Vec<u8>, WeightsError> {
        gligen::file(&self.parts, format, tensors, about)
    }

    /// The bytes of a file of an IP-Adapter in f16, as its authors have them. `about` is written into its metadata.
    ///
    /// # Errors
    /// A parameter that is none of an adapter.
    pub fn adapter_file(
        &self,
        tensors: &[TrainedTensor],
        about: &BTreeMap<String, String>,
    ) -> Result<Vec<u8>, WeightsError> {
        ip_adapter::file(&self.parts.unet.path, tensors, about)
    }

    /// A checkpoint of the same networks with random weights.
    ///
    /// # Errors
    /// A configuration that no network can be built from.
    pub fn random(&self, dtype: FloatDType, seed: u64) -> Result<RandomCheckpoint, WeightsError> {
        RandomCheckpoint::like(&self.parts, dtype, seed)
    }

    /// Writes a diffusers folder of this checkpoint, in f16, with `unet` in the place of the UNet's parameters of those names.
    ///
    /// # Errors
    /// As [`RandomCheckpoint::write`].
    pub fn write_trained(
        &self,
        unet: &HashMap<String, Vec<f32>>,
        folder: &Path,
    ) -> Result<(), WeightsError> {
        let layout = RandomCheckpoint::like(&self.parts, FloatDType::F16, 0)?;
        layout.write_trained(&self.parts, unet, folder)
    }

    /// The IP-Adapters, in the order of the options, a new one last.
    pub fn adapters(&self) -> &[AdapterWeights] {
        &self.adapters
    }

    /// SHA-256 of every file that weights come from, LoRAs and then IP-Adapters last. Reads them from end to end.
    ///
    /// # Errors
    /// [`WeightsError::Io`].
    pub fn file_hashes(&self) -> Result<Vec<FileHash>, WeightsError> {
        let parts = std::iter::once(&self.parts.unet)
            .chain(std::iter::once(&self.parts.vae))
            .chain(&self.parts.text);
        let mut files: Vec<&Arc<TensorFile>> = Vec::new();
        let stored = parts.flat_map(|part| part.entries.values().map(|entry| &entry.file));
        for file in stored.chain(&self.loras) {
            if !files.iter().any(|known| Arc::ptr_eq(known, file)) {
                files.push(file);
            }
        }
        let hashes = files.into_iter().map(|file| hash_file(file));
        let mut hashes = hashes.collect::<Result<Vec<_>, _>>()?;
        for adapter in &self.adapters {
            hashes.extend(adapter.file_hashes()?);
        }
        Ok(hashes)
    }
}
