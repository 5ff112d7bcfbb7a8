//! One network's parameters: which it has, where each is stored, and how it gets from there into
//! the network.

use std::collections::{BTreeMap, HashMap, HashSet, btree_map};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use burn::prelude::Device;
use burn::tensor::{FloatDType, TensorData};
use prepose_models::ConfigError;
use prepose_models::params::{ParamSource, Params};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::{Mismatch, Misshaped, WeightsError};
use crate::lora::Delta;
use crate::tensors::TensorFile;

/// How a stored tensor becomes a parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum View {
    /// As it is.
    Whole,
    /// One of several equal parts along the first axis: fused query, key and value.
    Rows { index: usize, of: usize },
    /// With its two axes exchanged: stored input first.
    Transposed,
    /// Without trailing axes of 1: a 1×1 convolution that is a linear layer here.
    Linear,
}

/// A stored tensor under the name by which the network asks for it.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub file: Arc<TensorFile>,
    pub key: String,
    pub view: View,
}

impl Entry {
    /// The shape that the network sees.
    pub fn shape(&self) -> Vec<usize> {
        let mut shape = self
            .file
            .info(&self.key)
            .map(|info| info.shape.clone())
            .unwrap_or_default();
        match self.view {
            View::Whole => {}
            View::Rows { of, .. } => {
                if let Some(rows) = shape.first_mut() {
                    // Not divisible: leave the shape, which then fits nothing and is reported.
                    if *rows % of == 0 {
                        *rows /= of;
                    }
                }
            }
            View::Transposed => shape.reverse(),
            View::Linear => {
                while shape.len() > 2 && shape.last() == Some(&1) {
                    shape.pop();
                }
            }
        }
        shape
    }

    /// The values, and whether all are finite.
    fn read(&self) -> Result<(TensorData, bool), WeightsError> {
        let part = match self.view {
            View::Rows { index, of } => (index, of),
            _ => (0, 1),
        };
        let values = self.file.read(&self.key, part)?;
        let data = match self.view {
            View::Transposed => transpose(values.data),
            View::Linear => values.data.reshape_to(self.shape()),
            _ => values.data,
        };
        Ok((data, values.finite))
    }
}

/// Gives the same values another shape of the same size.
trait ReshapeTo {
    fn reshape_to(self, shape: Vec<usize>) -> Self;
}

impl ReshapeTo for TensorData {
    fn reshape_to(self, shape: Vec<usize>) -> Self {
        let (bytes, _, dtype) = self.into_parts();
        TensorData::from_bytes(bytes, shape, dtype)
    }
}

/// A matrix with its axes exchanged, in f32.
fn transpose(data: TensorData) -> TensorData {
    let [rows, columns] = [data.shape()[0], data.shape()[1]];
    let values: Vec<f32> = data.iter::<f32>().collect();
    let mut out = vec![0.0; values.len()];
    for (row, line) in values.chunks_exact(columns).enumerate() {
        for (column, value) in line.iter().enumerate() {
            out[column * rows + row] = *value;
        }
    }
    TensorData::new(out, [columns, rows])
}

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
        ["detector", "tiny vae"].contains(&self.name)
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
        serde_json::from_value(self.config.clone()).map_err(|source| WeightsError::Json {
            path: self.config_path.clone(),
            what: format!("the configuration of the {} does not make sense", self.name),
            source: Some(source),
        })
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
        build: impl FnOnce(Params) -> Result<T, ConfigError>,
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
        build: impl FnOnce(Params) -> Result<T, ConfigError>,
    ) -> Result<T, WeightsError> {
        let mut source = PartSource {
            part: self,
            used: HashSet::new(),
            missing: Vec::new(),
            misshaped: Vec::new(),
            non_finite: Vec::new(),
            error: None,
        };
        let network = build(Params::new(&mut source, device, dtype)).map_err(|source| {
            WeightsError::Config {
                path: self.config_path.clone(),
                source,
            }
        })?;
        source.finish(allow_mismatch, wanted)?;
        Ok(network)
    }
}

/// The source that networks are built from, keeping account of what they take.
struct PartSource<'a> {
    part: &'a Part,
    used: HashSet<String>,
    missing: Vec<String>,
    misshaped: Vec<Misshaped>,
    non_finite: Vec<String>,
    error: Option<WeightsError>,
}

impl PartSource<'_> {
    fn read(&mut self, name: &str, entry: &Entry) -> Result<TensorData, WeightsError> {
        let (data, finite) = entry.read()?;
        if !finite {
            self.non_finite.push(entry.key.clone());
        }
        match self.part.deltas.get(name) {
            Some(deltas) => crate::lora::merge(data, deltas),
            None => Ok(data),
        }
    }

    fn finish(
        self,
        allow_mismatch: bool,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<(), WeightsError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let part = self.part;
        let mut unused: Vec<String> = part.strays.clone();
        unused.extend(
            part.entries
                .iter()
                .filter(|(name, _)| wanted(name) && !self.used.contains(*name))
                .map(|(_, entry)| entry.key.clone()),
        );
        unused.sort();
        unused.dedup();
        let mismatch = Mismatch {
            path: part.path.clone(),
            part: part.name.to_string(),
            missing: self.missing,
            unused,
            misshaped: self.misshaped,
            hint: format!(
                "the configuration is {}; give the one that belongs to these weights{}",
                part.config_path.display(),
                if part.stands_alone() {
                    ""
                } else {
                    "; --allow-mismatch loads what fits"
                }
            ),
        };
        if !mismatch.is_empty() {
            if !allow_mismatch {
                return Err(mismatch.into());
            }
            tracing::warn!("{mismatch}");
        }
        if !self.non_finite.is_empty() {
            return Err(WeightsError::NonFinite {
                path: part.path.clone(),
                part: part.name.to_string(),
                tensors: self.non_finite,
            });
        }
        Ok(())
    }
}

impl ParamSource for PartSource<'_> {
    fn take(&mut self, name: &str, shape: &[usize]) -> TensorData {
        let zeros = || TensorData::zeros::<f32, _>(shape.to_vec());
        let part = self.part;
        let Some(entry) = part.entries.get(name) else {
            self.missing.push(name.to_string());
            return zeros();
        };
        self.used.insert(name.to_string());
        let found = entry.shape();
        if found != shape {
            self.misshaped.push(Misshaped {
                name: entry.key.clone(),
                expected: shape.to_vec(),
                found,
            });
            return zeros();
        }
        // After the first failure there is nothing to gain from reading on.
        if self.error.is_some() {
            return zeros();
        }
        self.read(name, entry).unwrap_or_else(|error| {
            self.error = Some(error);
            zeros()
        })
    }

    fn contains(&self, name: &str) -> bool {
        self.part.entries.contains_key(name)
    }
}
