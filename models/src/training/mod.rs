//! A UNet whose parameters, or low-rank branches beside them, can be trained.
//!
//! The network is built anew for every step, by name, from tensors: what is frozen lies on the device once and is no part
//! of the tape, what is trained are leaves of it. Stacked parameters (queries, keys and values of self-attention, the time
//! projections) are put together on the tape, so that the gradients come back under the names that a checkpoint has.
//! Keys and values of the prompt, and of pictures, are computed on the tape as well. An IP-Adapter stands beside a network that
//! is frozen as a whole, and is built anew in the same way.

mod assembly;
mod choice;
mod initial;
mod parts;
mod pass;

use std::collections::HashMap;

use burn::prelude::*;
use burn::tensor::{DType, FloatDType, TensorData};
use thiserror::Error;

pub use choice::{Choice, Lora, LoraModule, Parameter, parameters};
pub use parts::PartLoss;
pub use pass::{Batch, TrainingPass};

use crate::config::ConfigError;
use crate::ip_adapter::{IpAdapter, IpAdapterConfig};
use crate::params::{ParamSource, Params};
use crate::unet::{UNet, UNetConfig};
use assembly::{Assembly, Frozen, Loading};
use choice::Plan;
use parts::Pools;

/// Why a network cannot be trained as asked.
#[derive(Debug, Error, Clone, PartialEq)]
pub enum TrainingError {
    /// The network cannot be built at all.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// It is its layers of GLIGEN's that can be trained; the rest was trained without them.
    #[error(
        "in a UNet with GLIGEN layers, only these layers can be trained; to train the rest, use the checkpoint that \
         it was made from"
    )]
    Grounded,
    /// An adapter for another network.
    #[error(
        "the IP-Adapter is for another UNet: its layers or the width of its tokens do not match this one"
    )]
    OtherAdapter,
    /// Nothing has a name with this part.
    #[error("no parameter of the UNet has `{0}` in its name")]
    NoParameter(String),
    /// No layer has this name.
    #[error("no layer of the UNet is called `{0}`, and no layer's path ends in it")]
    NoLayer(String),
    /// All layers that were named are convolutions, which were not asked for.
    #[error(
        "nothing would be trained: the layers are 3 × 3 convolutions, for which no rank is given"
    )]
    Nothing,
    /// A branch that could be as large as its layer.
    #[error(
        "the branch beside `{layer}` has rank {rank}, but the layer has {inputs} inputs and {outputs} outputs; the \
         rank must be from 1 to the smaller of the two"
    )]
    Rank {
        /// The rank that was asked for.
        rank: usize,
        /// The layer's path.
        layer: String,
        /// Outputs of the layer.
        outputs: usize,
        /// Inputs of the layer, those of all taps for a convolution.
        inputs: usize,
    },
}

/// A UNet under training. Values and gradients of parameters are the elements one after the other, in PyTorch's order and
/// in f32, in the order of [`Self::parameters`].
pub struct TrainableUNet {
    config: UNetConfig,
    device: Device,
    dtype: FloatDType,
    frozen: Frozen,
    parameters: Vec<Parameter>,
    modules: Vec<LoraModule>,
    /// The adapter, if it is one that is trained.
    adapter: Option<IpAdapterConfig>,
    by_path: HashMap<String, LoraModule>,
    /// What is trained, f32, on a device without autodiff.
    values: Vec<Tensor<1>>,
    pools: Pools,
}

impl TrainableUNet {
    /// Loads the network to a `device` without autodiff, to compute in `dtype`. Of a branch, `A` is uniform in
    /// ±1/√(inputs), by `seed` and name, and `B` is zero. Where the source has none of GLIGEN's layers they begin as their
    /// authors', with closed gates: the network says what it said without them. An IP-Adapter begins as its authors', too: with
    /// the keys and values that each layer has of the text, and a projector as PyTorch makes it.
    ///
    /// # Errors
    /// [`TrainingError`] if the network cannot be built or not be trained so. Problems with parameters are the source's to
    /// report.
    pub fn load(
        config: &UNetConfig,
        source: &mut dyn ParamSource,
        device: &Device,
        dtype: FloatDType,
        choice: &Choice,
        seed: u64,
    ) -> Result<Self, TrainingError> {
        let Plan {
            config,
            parameters,
            modules,
        } = Plan::new(config, choice)?;
        let own = modules.is_empty();
        let (copied, adapter) = match choice {
            Choice::IpAdapter(adapter) => (copied(&config, adapter)?, Some(adapter.clone())),
            _ => (HashMap::new(), None),
        };
        let value = |parameter: &Parameter| {
            let Parameter { name, shape } = parameter;
            let data: Vec<f32> = match choice {
                Choice::Lora(_) => initial::of_branch(parameter, seed),
                Choice::Gligen if !source.contains(name) => {
                    initial::of_layers(parameter, &parameters, seed)
                }
                Choice::IpAdapter(_) => match copied.get(name) {
                    Some(of) => source.take(of, shape).iter().collect(),
                    None => initial::of_layers(parameter, &parameters, seed),
                },
                _ => source.take(name, shape).iter().collect(),
            };
            let length = data.len();
            Tensor::<1>::from_data(TensorData::new(data, [length]), (device, DType::F32))
        };
        let values: Vec<_> = parameters.iter().map(value).collect();
        let names = parameters.iter().map(|parameter| parameter.name.as_str());
        let trained = match own {
            true => names.zip(values.iter().cloned()).collect(),
            false => HashMap::new(),
        };
        let mut loading = Loading {
            source,
            device,
            frozen: Frozen::new(),
            trained,
        };
        UNet::load(&config, Params::of_tensors(&mut loading, device, dtype))?;
        let frozen = loading.frozen;
        let by_path = modules
            .iter()
            .map(|module| (module.path.clone(), module.clone()));
        let by_path = by_path.collect();
        let mut unet = Self {
            config,
            device: device.clone(),
            dtype,
            frozen,
            parameters,
            modules,
            adapter,
            by_path,
            values: Vec::new(),
            pools: Pools::default(),
        };
        unet.set_values(values);
        Ok(unet)
    }

    /// The network's configuration.
    pub fn config(&self) -> &UNetConfig {
        &self.config
    }

    /// What is trained.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// The layers with a branch; none if it is the network's own parameters that are trained.
    pub fn lora_modules(&self) -> &[LoraModule] {
        &self.modules
    }

    /// The values of what is trained, without autodiff.
    pub fn values(&self) -> Vec<Tensor<1>> {
        self.values.clone()
    }

    /// Puts other values in their place.
    ///
    /// # Panics
    /// If their number or a length is another.
    pub fn set_values(&mut self, values: Vec<Tensor<1>>) {
        self.check(&values);
        let here = |value: Tensor<1>| {
            let value = value.without_autodiff().cast(DType::F32);
            value.to_device(&self.device)
        };
        self.values = values.into_iter().map(here).collect();
    }

    /// Leaves of a new tape.
    fn leaves(&self) -> Vec<Tensor<1>> {
        let values = self.values.iter().cloned();
        values
            .map(|value| value.autodiff().require_grad())
            .collect()
    }

    fn check(&self, values: &[Tensor<1>]) {
        let lengths = values.iter().map(|value| value.dims()[0]);
        let of = |parameter: &Parameter| parameter.shape.iter().product::<usize>();
        let wanted = self.parameters.iter().map(of);
        assert!(lengths.eq(wanted), "values of other parameters");
    }

    /// What is trained, in PyTorch's layout.
    pub fn export(&self) -> Vec<(Parameter, TensorData)> {
        let all = self.parameters.iter().zip(self.values());
        all.map(|(parameter, value)| {
            let data: Vec<f32> = value.into_data().iter().collect();
            let data = TensorData::new(data, parameter.shape.clone());
            (parameter.clone(), data)
        })
        .collect()
    }

    /// The network as it is now, without autodiff.
    pub fn network(&self) -> UNet {
        self.build(&self.values())
    }

    /// The network with other values in the place of what is trained, without autodiff.
    ///
    /// # Panics
    /// If their number or a length is another.
    pub fn network_with(&self, values: Vec<Tensor<1>>) -> UNet {
        self.check(&values);
        self.build(&values)
    }

    /// The adapter with other values, without autodiff; none if it is none that is trained.
    ///
    /// # Panics
    /// As [`Self::network_with`].
    pub fn adapter_with(&self, values: Vec<Tensor<1>>) -> Option<IpAdapter> {
        self.check(&values);
        self.build_adapter(&values)
    }

    fn assembly(&self, values: &[Tensor<1>]) -> Assembly<'_> {
        let names = self
            .parameters
            .iter()
            .map(|parameter| parameter.name.as_str());
        Assembly {
            frozen: &self.frozen,
            trained: names.zip(values.iter().cloned()).collect(),
            modules: &self.by_path,
        }
    }

    fn build_adapter(&self, values: &[Tensor<1>]) -> Option<IpAdapter> {
        let config = self.adapter.as_ref()?;
        let mut assembly = self.assembly(values);
        let params = Params::of_tensors(&mut assembly, &self.device, self.dtype);
        let adapter = IpAdapter::load(config, params);
        Some(adapter.expect("a configuration whose parameters are known"))
    }

    fn build(&self, values: &[Tensor<1>]) -> UNet {
        let mut assembly = self.assembly(values);
        let params = Params::of_tensors(&mut assembly, &self.device, self.dtype);
        UNet::load(&self.config, params).expect("a configuration that it was loaded with")
    }
}

/// The network's parameters that an adapter's begin as, by the adapter's names.
fn copied(
    config: &UNetConfig,
    adapter: &IpAdapterConfig,
) -> Result<HashMap<String, String>, ConfigError> {
    let layers = config.cross_attention_layers(1, 1)?;
    let pairs = adapter.layers.iter().zip(layers).flat_map(|(own, layer)| {
        let pair = |which: &str| {
            let name = format!("ip_adapter.{}.to_{which}_ip.weight", own.number);
            (name, format!("{}.to_{which}.weight", layer.name))
        };
        ["k", "v"].map(pair)
    });
    Ok(pairs.collect())
}
