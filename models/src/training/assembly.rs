//! The network as it is built from tensors, of which some are trained.

use std::collections::HashMap;

use burn::prelude::*;
use burn::tensor::{Bytes, DType, TensorData};
use prepose_kernels as kernels;

use super::LoraModule;
use crate::params::{Factors, ParamSource, TensorSource, Wanted, channels_last};

/// What is not trained, by name: the elements one after the other, in the type that the network computes in. Parameters
/// that are one in the network are one here, by all their names.
pub(super) type Frozen = HashMap<String, Tensor<1>>;

/// The parameters of one network.
pub(super) struct Assembly<'a> {
    pub frozen: &'a Frozen,
    /// By name.
    pub trained: HashMap<&'a str, Tensor<1>>,
    /// By the path of the layer.
    pub modules: &'a HashMap<String, LoraModule>,
}

impl Assembly<'_> {
    fn trained(&self, name: &str, dtype: DType) -> Option<Tensor<1>> {
        let value = self.trained.get(name)?.clone();
        let same = value.dtype() == dtype;
        Some(if same { value } else { value.cast(dtype) })
    }

    fn frozen(&self, name: &str) -> Tensor<1> {
        let value = self.frozen.get(name).cloned();
        value.expect("a network asks for the parameters it was loaded with")
    }
}

impl TensorSource for Assembly<'_> {
    fn take(&mut self, wanted: &Wanted, dtype: DType, filters: bool) -> (Tensor<1>, bool) {
        match self.trained(&wanted.name, dtype) {
            Some(value) => (value, false),
            None => {
                let value = self.frozen(&wanted.name);
                let laid = filters && kernels::prefers_channels_last(&value.device());
                (value, laid)
            }
        }
    }

    fn take_stacked(&mut self, wanted: &[Wanted], dtype: DType) -> Tensor<1> {
        let trained = |wanted: &Wanted| self.trained.contains_key(wanted.name.as_str());
        if !wanted.iter().any(trained) {
            return self.frozen(&joined(wanted));
        }
        let parts = wanted.iter();
        let parts = parts.map(|wanted| self.take(wanted, dtype, false).0);
        Tensor::cat(parts.collect(), 0)
    }

    fn contains(&self, name: &str) -> bool {
        self.trained.contains_key(name) || self.frozen.contains_key(name)
    }

    fn low_rank(&mut self, path: &str, dtype: DType) -> Option<Factors> {
        let LoraModule { rank, alpha, .. } = *self.modules.get(path)?;
        let factor = |which: &str| {
            let value = self.trained(&format!("{path}.lora_{which}.weight"), dtype);
            let value = value.expect("both factors of every branch are trained");
            let length = value.dims()[0];
            (value, length / rank)
        };
        let ((down, inputs), (up, outputs)) = (factor("A"), factor("B"));
        Some(Factors {
            down: down.reshape([rank, inputs]),
            up: up.reshape([outputs, rank]) * (alpha / rank as f64),
        })
    }
}

/// Parameters on their way from a source, kept for all networks to be built later.
pub(super) struct Loading<'a> {
    pub source: &'a mut dyn ParamSource,
    pub device: &'a Device,
    pub frozen: Frozen,
    /// Values of what is trained: they have been taken from the source before.
    pub trained: HashMap<&'a str, Tensor<1>>,
}

impl Loading<'_> {
    fn upload(&self, data: TensorData, dtype: DType) -> Tensor<1> {
        let (bytes, shape, stored) = data.into_parts();
        let flat = [shape.iter().product::<usize>()];
        let data = TensorData::from_bytes(bytes, flat, stored).convert_dtype(dtype);
        let device = self.device;
        device.memory_persistent_allocations(data, |data| Tensor::from_data(data, (device, dtype)))
    }
}

impl TensorSource for Loading<'_> {
    fn take(&mut self, wanted: &Wanted, dtype: DType, filters: bool) -> (Tensor<1>, bool) {
        let Wanted { name, shape } = wanted;
        if let Some(value) = self.trained.get(name.as_str()) {
            return (value.clone(), false);
        }
        let data = self.source.take(name, shape);
        let laid = filters && kernels::prefers_channels_last(self.device);
        let data = match <[usize; 4]>::try_from(shape.as_slice()) {
            Ok(shape) if laid => channels_last(data.convert_dtype(dtype), shape),
            _ => data,
        };
        let value = self.upload(data, dtype);
        self.frozen.insert(name.clone(), value.clone());
        (value, laid)
    }

    fn take_stacked(&mut self, wanted: &[Wanted], dtype: DType) -> Tensor<1> {
        let trained = |wanted: &Wanted| self.trained.contains_key(wanted.name.as_str());
        if wanted.iter().any(trained) {
            let parts = wanted.iter();
            let parts = parts.map(|wanted| self.take(wanted, dtype, false).0);
            return Tensor::cat(parts.collect(), 0);
        }
        let mut bytes = Vec::new();
        for Wanted { name, shape } in wanted {
            let data = self.source.take(name, shape).convert_dtype(dtype);
            bytes.extend_from_slice(data.as_bytes());
        }
        let length = bytes.len() / dtype.size();
        let data = TensorData::from_bytes(Bytes::from_bytes_vec(bytes), [length], dtype);
        let value = self.upload(data, dtype);
        self.frozen.insert(joined(wanted), value.clone());
        value
    }

    fn contains(&self, name: &str) -> bool {
        self.source.contains(name)
    }

    fn low_rank(&mut self, _path: &str, _dtype: DType) -> Option<Factors> {
        None
    }
}

fn joined(wanted: &[Wanted]) -> String {
    let names: Vec<_> = wanted.iter().map(|wanted| wanted.name.as_str()).collect();
    names.join(" ")
}
