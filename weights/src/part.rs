//! One network's parameters: which it has, where each is stored, and how it gets from there into
//! the network.

mod entry;
mod source;

use std::collections::{BTreeMap, HashMap, HashSet, btree_map};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use burn::prelude::Device;
use burn::tensor::{FloatDType, TensorData};
use prepose_formats::TensorFile;
use prepose_models::params::{ParamSource, Params, Wanted, outline_of};
use prepose_models::{ConfigError, wrong_key};
use prepose_untrusted::printable;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::delta::Delta;
use crate::error::{Mismatch, Misshaped, WeightsError};
use crate::family::Family;
use crate::files::Files;
pub(crate) use entry::{Entry, View};
use source::PartSource;

/// How many numbers are made up where a mismatch is allowed, if the file does not have more itself: beyond that it is
/// another network's, and zeros alone could fill the memory.
const MADE_UP: u64 = 1 << 25;

/// Everything about one network of a checkpoint that can be known without reading its weights.
#[derive(Debug)]
pub(crate) struct Part {
    /// As diffusers calls it: `unet`, `vae`, `text_encoder`, `text_encoder_2`.
    pub name: &'static str,
    /// The file or folder, for messages.
    pub path: PathBuf,
    /// diffusers' or transformers' `config.json`.
    pub config: Value,
    /// Where the configuration comes from, for messages.
    pub config_path: PathBuf,
    /// The parameters by their diffusers names.
    pub entries: BTreeMap<String, Entry>,
    /// Tensors in this part's place of the file that no rule maps to a parameter.
    pub strays: Vec<String>,
    /// What LoRAs add.
    pub deltas: HashMap<String, Vec<Delta>>,
}

impl Part {
    pub fn new(name: &'static str, path: &Path, config: Value, config_path: &Path) -> Self {
        Self {
            name,
            path: path.to_path_buf(),
            config,
            config_path: config_path.to_path_buf(),
            entries: BTreeMap::new(),
            strays: Vec::new(),
            deltas: HashMap::new(),
        }
    }

    /// Whether it stands next to a checkpoint, where nothing but a good fit is of use.
    fn stands_alone(&self) -> bool {
        !["unet", "vae", "text_encoder", "text_encoder_2"].contains(&self.name)
    }

    /// Adds the tensor `key` of `file` under the parameter `name`; a second one for the same
    /// parameter is a stray.
    pub fn insert(&mut self, name: String, file: &Arc<TensorFile>, key: &str, view: View) {
        match self.entries.entry(name) {
            btree_map::Entry::Occupied(_) => self.strays.push(key.to_string()),
            btree_map::Entry::Vacant(place) => {
                place.insert(Entry {
                    file: file.clone(),
                    key: key.to_string(),
                    view,
                });
            }
        }
    }

    /// The configuration as the network reads it.
    pub fn config<C: DeserializeOwned>(&self) -> Result<C, WeightsError> {
        serde_json::from_value(self.config.clone()).map_err(|source| {
            let what = match wrong_key::<C>(&self.config) {
                Some((key, value)) => format!("`{}` cannot be {value}", printable(&key)),
                None => format!("the configuration of the {} does not make sense", self.name),
            };
            WeightsError::Json {
                path: self.config_path.clone(),
                what,
                source: Some(source),
            }
        })
    }

    /// A parameter as it is stored, without what LoRAs add; zeros where there is none of that shape.
    pub fn stored(&self, wanted: &Wanted) -> Result<TensorData, WeightsError> {
        let entry = self.entries.get(&wanted.name);
        match entry.filter(|entry| entry.shape() == wanted.shape) {
            Some(entry) => Ok(entry.read()?.0),
            None => Ok(TensorData::zeros::<f32, _>(wanted.shape.clone())),
        }
    }

    /// How many numbers the parameters of these names have.
    pub fn parameters(&self, wanted: impl Fn(&str) -> bool) -> u64 {
        let entries = self.entries.iter().filter(|(name, _)| wanted(name));
        let size = |entry: &Entry| {
            entry
                .shape()
                .iter()
                .map(|&side| side as u64)
                .product::<u64>()
        };
        entries.map(|(_, entry)| size(entry)).sum()
    }

    /// Builds the network: every parameter that it has from a stored tensor of its shape, and every
    /// stored tensor used, or the error that lists what is amiss. With `allow_mismatch`, what is
    /// missing is zero and what is left over is ignored.
    pub fn load<T>(
        &self,
        device: &Device,
        dtype: FloatDType,
        allow_mismatch: bool,
        build: impl Fn(Params) -> Result<T, ConfigError>,
    ) -> Result<T, WeightsError> {
        self.load_some(device, dtype, allow_mismatch, |_| true, build)
    }

    /// As [`load`](Self::load) for a network that takes the `wanted` parameters only.
    pub fn load_some<T>(
        &self,
        device: &Device,
        dtype: FloatDType,
        allow_mismatch: bool,
        wanted: impl Fn(&str) -> bool,
        build: impl Fn(Params) -> Result<T, ConfigError>,
    ) -> Result<T, WeightsError> {
        let refused = |source| WeightsError::Config {
            path: self.config_path.clone(),
            source,
        };
        self.refuse_mismatch(allow_mismatch, wanted, &build)?;
        let mut source = PartSource::new(self);
        let network = build(Params::new(&mut source, device, dtype)).map_err(refused)?;
        source.finish()?;
        Ok(network)
    }

    /// As [`load`](Self::load) for what is made of the parameters that the network `of` has, and takes them itself.
    pub fn load_from_source<N, T>(
        &self,
        allow_mismatch: bool,
        of: impl Fn(Params) -> Result<N, ConfigError>,
        make: impl FnOnce(&mut dyn ParamSource) -> T,
    ) -> Result<T, WeightsError> {
        self.refuse_mismatch(allow_mismatch, |_| true, &of)?;
        let mut source = PartSource::new(self);
        let made = make(&mut source);
        source.finish()?;
        Ok(made)
    }

    /// Refuses tensors that are not those of the network, unless that is allowed.
    fn refuse_mismatch<T>(
        &self,
        allow_mismatch: bool,
        wanted: impl Fn(&str) -> bool,
        build: impl Fn(Params) -> Result<T, ConfigError>,
    ) -> Result<(), WeightsError> {
        let refused = |source| WeightsError::Config {
            path: self.config_path.clone(),
            source,
        };
        // Before any memory is taken: a configuration of another network may ask for far more than there is.
        let contains = |name: &str| self.entries.contains_key(name);
        let parameters = outline_of(&contains, &build).map_err(refused)?;
        let mismatch = self.mismatch(&parameters, wanted);
        if !mismatch.is_empty() {
            if !allow_mismatch || self.made_up(&parameters) > self.parameters(|_| true).max(MADE_UP)
            {
                return Err(mismatch.into());
            }
            tracing::warn!("{mismatch}");
        }
        Ok(())
    }

    /// How many numbers of the network's `parameters` are in no stored tensor of their shape.
    fn made_up(&self, parameters: &[Wanted]) -> u64 {
        let stored = |wanted: &&Wanted| {
            let entry = self.entries.get(&wanted.name);
            entry.is_some_and(|entry| entry.shape() == wanted.shape)
        };
        let size = |wanted: &Wanted| {
            let sides = wanted.shape.iter().map(|side| *side as u64);
            sides.fold(1, u64::saturating_mul)
        };
        let made_up = parameters.iter().filter(|wanted| !stored(wanted));
        made_up.map(size).fold(0, u64::saturating_add)
    }

    /// What differs between the network's parameters and those that are stored, of the `wanted` ones.
    fn mismatch(&self, parameters: &[Wanted], wanted: impl Fn(&str) -> bool) -> Mismatch {
        let (mut missing, mut misshaped) = (Vec::new(), Vec::new());
        let mut used = HashSet::new();
        for Wanted { name, shape } in parameters {
            let Some(entry) = self.entries.get(name) else {
                missing.push(name.clone());
                continue;
            };
            used.insert(name);
            let found = entry.shape();
            if found != *shape {
                misshaped.push(Misshaped {
                    name: entry.key.clone(),
                    expected: shape.clone(),
                    found,
                });
            }
        }
        let left = self.entries.iter();
        let left = left.filter(|(name, _)| wanted(name) && !used.contains(name));
        let mut unused: Vec<String> = left.map(|(_, entry)| entry.key.clone()).collect();
        unused.extend(self.strays.iter().cloned());
        unused.sort();
        unused.dedup();
        Mismatch {
            path: self.path.clone(),
            part: self.name.to_string(),
            missing,
            unused,
            misshaped,
            hint: format!(
                "the configuration is {}; give the one that belongs to these weights{}",
                self.config_path.display(),
                if self.stands_alone() || self.made_up(parameters) > MADE_UP {
                    ""
                } else {
                    "; --allow-mismatch loads what fits"
                }
            ),
        }
    }
}

/// What a checkpoint is made of, before any weight is read.
#[derive(Debug)]
pub(crate) struct Parts {
    pub family: Family,
    pub unet: Part,
    pub vae: Part,
    /// One for SD 1.x, two for SDXL.
    pub text: Vec<Part>,
    /// diffusers' `scheduler_config.json`.
    pub scheduler: Value,
    /// diffusers' `model_index.json`, or as much of it as matters.
    pub index: Value,
    /// Where each text encoder's tokenizer is, if the checkpoint has its own.
    pub tokenizers: Vec<Option<Files>>,
}
