//! Checkpoints of random weights, in the layout of a diffusers folder: for measurements, which need the networks
//! of a published checkpoint and none of what it has learnt.
//!
//! Weights are uniform with variance 1 / fan-in (LeCun et al. 1998, *Efficient BackProp*), which keeps the size
//! of activations from layer to layer; scales of norms lie around 1, biases and embeddings are small. So networks
//! of any depth compute finite numbers of ordinary size, in f16 as well.

mod disk;
mod layout;
mod values;

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use burn::tensor::{FloatDType, TensorData};
use prepose_models::ConfigError;
use prepose_models::clip::{ClipTextConfig, ClipTextModel};
use prepose_models::params::{Params, Wanted, outline_of};
use prepose_models::unet::{UNet, UNetConfig};
use prepose_models::vae::{AutoencoderKl, VaeConfig};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::configs::standard;
use crate::error::WeightsError;
use crate::family::Family;
use crate::part::{Part, Parts};
use crate::tokenizer::clip_files;
use crate::tokenizer_files::paddings;
use disk::{free_space, giga, make, write, write_json};
use layout::{NamedFiles, model_index, tokenizer_files};
use values::{BLOCK, Values};

/// Elements that are made and written at a time.
const CHUNK: usize = 1 << 22;

/// A checkpoint that is still to be written.
pub struct RandomCheckpoint {
    index: Value,
    scheduler: Value,
    networks: Vec<Network>,
    /// Folder and files of each tokenizer.
    tokenizers: Vec<(&'static str, NamedFiles)>,
    dtype: FloatDType,
    seed: u64,
}

/// One network of it.
struct Network {
    /// `unet`, `vae`, `text_encoder`, `text_encoder_2`.
    name: &'static str,
    config: Value,
    tensors: Vec<Wanted>,
}

impl RandomCheckpoint {
    /// The networks of the published checkpoints of `family`.
    ///
    /// # Errors
    /// None but for configurations in this program that are broken.
    pub fn standard(family: Family, dtype: FloatDType, seed: u64) -> Result<Self, WeightsError> {
        let texts: &[&'static str] = match family {
            Family::Sd1 | Family::Sd2 => &["text_encoder"],
            Family::Sdxl => &["text_encoder", "text_encoder_2"],
        };
        let names = ["unet", "vae"].into_iter().chain(texts.iter().copied());
        let configs = names.map(|name| (name, standard(family, name)));
        let networks = configs
            .map(|(name, (config, path))| Network::new(name, config, &path, &|_| false))
            .collect::<Result<_, _>>()?;
        let (scheduler, _) = standard(family, "scheduler");
        let paddings = ["tokenizer", "tokenizer_2"]
            .into_iter()
            .zip(paddings(family));
        Ok(Self {
            index: model_index(family, &scheduler),
            scheduler,
            networks,
            tokenizers: (paddings.take(texts.len()))
                .map(|(folder, padding)| (folder, clip_files(padding)))
                .collect(),
            dtype,
            seed,
        })
    }

    /// The networks and tokenizers of a checkpoint that is there, which gives no weights.
    pub(crate) fn like(parts: &Parts, dtype: FloatDType, seed: u64) -> Result<Self, WeightsError> {
        let networks = [&parts.unet, &parts.vae].into_iter().chain(&parts.text);
        let networks = networks
            .map(|part| {
                let has = |name: &str| part.entries.contains_key(name);
                Network::new(part.name, part.config.clone(), &part.config_path, &has)
            })
            .collect::<Result<_, _>>()?;
        let mut index = model_index(parts.family, &parts.scheduler);
        // What no network or scheduler says of how pictures are made.
        for key in ["_prepose", "force_zeros_for_empty_prompt"] {
            if let Some(value) = parts.index.get(key) {
                index[key] = value.clone();
            }
        }
        let defaults = ["tokenizer", "tokenizer_2"]
            .into_iter()
            .zip(paddings(parts.family));
        let tokenizers = parts.tokenizers.iter().zip(defaults);
        let tokenizers = tokenizers.map(|(files, (folder, padding))| {
            let own = files.as_ref().map(|files| tokenizer_files(files, folder));
            let own = own.transpose()?.filter(|files| !files.is_empty());
            Ok((folder, own.unwrap_or_else(|| clip_files(padding))))
        });
        Ok(Self {
            index,
            scheduler: parts.scheduler.clone(),
            networks,
            tokenizers: tokenizers.collect::<Result<_, WeightsError>>()?,
            dtype,
            seed,
        })
    }

    /// The UNet's configuration.
    ///
    /// # Errors
    /// None but for what has been read already.
    pub fn unet_config(&self) -> Result<UNetConfig, WeightsError> {
        let unet = self.networks.iter().find(|network| network.name == "unet");
        let config = unet.map_or(Value::Null, |network| network.config.clone());
        read(&config, "unet", Path::new("unet/config.json"))
    }

    /// What the weights will take on the disk.
    pub fn bytes(&self) -> u64 {
        self.parameters() * self.width() as u64
    }

    /// The number of parameters of all networks.
    pub fn parameters(&self) -> u64 {
        let networks = self.networks.iter();
        networks
            .flat_map(|network| &network.tensors)
            .map(elements)
            .sum()
    }

    /// Writes the checkpoint to `folder`, which is made. Memory holds a few megabytes of it at a time.
    ///
    /// # Errors
    /// [`WeightsError::Folder`] if the folder is there and not empty or the disk is too small,
    /// [`WeightsError::Write`].
    pub fn write(&self, folder: &Path) -> Result<(), WeightsError> {
        self.write_by(folder, &|network, path| {
            let mut buffer = vec![0; CHUNK * self.width()];
            self.write_tensors(network, path, &mut |tensor, file| {
                let values = Values::of(tensor, network.name, self.seed);
                let count = elements(tensor) as usize;
                for start in (0..count).step_by(CHUNK) {
                    let bytes = &mut buffer[..CHUNK.min(count - start) * self.width()];
                    values.fill(start / BLOCK, self.dtype, bytes);
                    file.write_all(bytes)?;
                }
                Ok(())
            })
        })
    }

    /// Writes the checkpoint with the weights of `parts`, whose layout this is, and those of `unet` instead of the UNet's.
    pub(crate) fn write_trained(
        &self,
        parts: &Parts,
        unet: &HashMap<String, Vec<f32>>,
        folder: &Path,
    ) -> Result<(), WeightsError> {
        let all = [&parts.unet, &parts.vae].into_iter().chain(&parts.text);
        let all: HashMap<&str, &Part> = all.map(|part| (part.name, part)).collect();
        self.write_by(folder, &|network, path| {
            let part = all[network.name];
            self.write_tensors(network, path, &mut |tensor, file| {
                let trained = unet.get(&tensor.name).filter(|_| network.name == "unet");
                let data = match trained {
                    Some(values) => TensorData::new(values.clone(), tensor.shape.clone()),
                    None => part.stored(tensor).map_err(io::Error::other)?,
                };
                file.write_all(data.convert_dtype(self.dtype.into()).as_bytes())
            })
        })
    }

    fn write_by(
        &self,
        folder: &Path,
        tensors: &dyn Fn(&Network, &Path) -> Result<(), WeightsError>,
    ) -> Result<(), WeightsError> {
        let used = std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some());
        if used || folder.is_file() {
            return Err(WeightsError::Folder {
                path: folder.to_path_buf(),
                what: "there is something here already, and it is not overwritten".into(),
                hint: "name a new folder".into(),
            });
        }
        make(folder)?;
        let needed = self.bytes() + (8 << 20);
        if let Some(free) = free_space(folder).filter(|free| *free < needed) {
            return Err(WeightsError::Folder {
                path: folder.to_path_buf(),
                what: format!(
                    "{:.1} GB are needed and {:.1} GB free",
                    giga(needed),
                    giga(free)
                ),
                hint: "choose another disk, or --dtype f16".into(),
            });
        }
        make(&folder.join("scheduler"))?;
        let scheduler = folder.join("scheduler/scheduler_config.json");
        write_json(&scheduler, &self.scheduler)?;
        for (name, files) in &self.tokenizers {
            make(&folder.join(name))?;
            for (file, bytes) in files {
                write(&folder.join(name).join(file), bytes)?;
            }
        }
        for network in &self.networks {
            let below = folder.join(network.name);
            make(&below)?;
            write_json(&below.join("config.json"), &network.config)?;
            let file = match network.name.starts_with("text") {
                true => "model.safetensors",
                false => "diffusion_pytorch_model.safetensors",
            };
            tensors(network, &below.join(file))?;
        }
        // The last, so that what has it is whole.
        write_json(&folder.join("model_index.json"), &self.index)
    }

    fn write_tensors(
        &self,
        network: &Network,
        path: &Path,
        values: &mut dyn FnMut(&Wanted, &mut File) -> io::Result<()>,
    ) -> Result<(), WeightsError> {
        let failed = |source| WeightsError::Write {
            path: path.to_path_buf(),
            source,
        };
        let mut file = File::create(path).map_err(failed)?;
        let header = self.header(network);
        let length = header.len() as u64;
        (file.write_all(&length.to_le_bytes())).map_err(failed)?;
        file.write_all(header.as_bytes()).map_err(failed)?;
        for tensor in &network.tensors {
            values(tensor, &mut file).map_err(failed)?;
        }
        file.sync_all().map_err(failed)
    }

    /// The table of a safetensors file, padded to whole words.
    fn header(&self, network: &Network) -> String {
        let dtype = match self.dtype {
            FloatDType::F16 => "F16",
            FloatDType::BF16 => "BF16",
            _ => "F32",
        };
        let mut table = Map::new();
        table.insert("__metadata__".into(), json!({"format": "pt"}));
        let mut offset = 0;
        for tensor in &network.tensors {
            let end = offset + elements(tensor) * self.width() as u64;
            let entry =
                json!({"dtype": dtype, "shape": tensor.shape, "data_offsets": [offset, end]});
            table.insert(tensor.name.clone(), entry);
            offset = end;
        }
        let mut text = Value::Object(table).to_string();
        text.push_str(&" ".repeat(text.len().next_multiple_of(8) - text.len()));
        text
    }

    /// Bytes of an element.
    fn width(&self) -> usize {
        match self.dtype {
            FloatDType::F16 | FloatDType::BF16 => 2,
            _ => 4,
        }
    }
}

impl Network {
    /// The network of a configuration, of whose parameters `has` says which are there: some networks take what is.
    fn new(
        name: &'static str,
        config: Value,
        path: &Path,
        has: &dyn Fn(&str) -> bool,
    ) -> Result<Self, WeightsError> {
        let tensors = match name {
            "unet" => tensors(name, &config, path, has, |config: &UNetConfig, params| {
                UNet::load(config, params)
            }),
            "vae" => tensors(name, &config, path, has, |config: &VaeConfig, params| {
                AutoencoderKl::load(config, params)
            }),
            _ => tensors(
                name,
                &config,
                path,
                has,
                |config: &ClipTextConfig, params| ClipTextModel::load(config, params),
            ),
        }?;
        Ok(Self {
            name,
            config,
            tensors,
        })
    }
}

/// The tensors of the network that `build` makes.
fn tensors<C: DeserializeOwned, T>(
    name: &str,
    config: &Value,
    path: &Path,
    has: &dyn Fn(&str) -> bool,
    build: impl FnOnce(&C, Params) -> Result<T, ConfigError>,
) -> Result<Vec<Wanted>, WeightsError> {
    let config: C = read(config, name, path)?;
    outline_of(has, |params| build(&config, params)).map_err(|source| WeightsError::Config {
        path: path.to_path_buf(),
        source,
    })
}

fn read<C: DeserializeOwned>(config: &Value, name: &str, path: &Path) -> Result<C, WeightsError> {
    serde_json::from_value(config.clone()).map_err(|source| WeightsError::Json {
        path: path.to_path_buf(),
        what: format!("the configuration of the {name} does not make sense"),
        source: Some(source),
    })
}

fn elements(tensor: &Wanted) -> u64 {
    tensor.shape.iter().map(|&n| n as u64).product()
}
