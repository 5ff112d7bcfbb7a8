//! What the tests of the networks share: fixtures, a parameter source, and a measure of error.

#![allow(dead_code)] // Each test file uses a part.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use burn::prelude::*;
use burn::tensor::{DType, TensorData};
use prepose_models::clip::ClipTextConfig;
use prepose_models::params::ParamSource;
use prepose_models::unet::UNetConfig;
use prepose_models::vae::VaeConfig;
use safetensors::{Dtype, SafeTensors};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A file below `fixtures/`.
pub fn fixture(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../fixtures")
        .join(path)
}

/// A configuration below `fixtures/`.
pub fn config<T: DeserializeOwned>(path: &str) -> T {
    let text = std::fs::read_to_string(fixture(path)).expect(path);
    serde_json::from_str(&text).expect(path)
}

/// All float tensors of a safetensors file.
pub fn read(path: &str) -> HashMap<String, TensorData> {
    let bytes = std::fs::read(fixture(path)).expect(path);
    let file = SafeTensors::deserialize(&bytes).expect(path);
    let float = |dtype| match dtype {
        Dtype::F32 => Some(DType::F32),
        Dtype::F16 => Some(DType::F16),
        Dtype::BF16 => Some(DType::BF16),
        _ => None,
    };
    file.iter()
        .filter_map(|(name, view)| {
            let data = TensorData::from_bytes_vec(
                view.data().to_vec(),
                view.shape().to_vec(),
                float(view.dtype())?,
            );
            Some((name.to_string(), data))
        })
        .collect()
}

/// A file of the fixtures as a parameter source. Tensors that were taken are gone from it.
pub struct FileSource {
    tensors: HashMap<String, TensorData>,
    problems: Vec<String>,
}

impl FileSource {
    pub fn open(path: &str) -> Self {
        Self {
            tensors: read(path),
            problems: Vec::new(),
        }
    }

    /// Forgets tensors that inference does not use.
    pub fn leave_out(&mut self, unused: impl Fn(&str) -> bool) {
        self.tensors.retain(|name, _| !unused(name));
    }

    /// Fails unless everything that was asked for was there and everything there was asked for.
    pub fn finish(self) {
        assert!(self.problems.is_empty(), "{:?}", self.problems);
        let unused: Vec<_> = self.tensors.keys().collect();
        assert!(unused.is_empty(), "unused: {unused:?}");
    }
}

/// The names that the autoencoder's attention had in old checkpoints.
fn old_name(name: &str) -> String {
    name.replace("to_q", "query")
        .replace("to_k", "key")
        .replace("to_v", "value")
        .replace("to_out.0", "proj_attn")
}

impl ParamSource for FileSource {
    fn take(&mut self, name: &str, shape: &[usize]) -> TensorData {
        let data = self.tensors.remove(name);
        match data.or_else(|| self.tensors.remove(&old_name(name))) {
            Some(data) if data.shape().as_slice() == shape => data,
            other => {
                let found = other.map(|data| data.shape().clone());
                self.problems
                    .push(format!("{name}: {found:?}, not {shape:?}"));
                TensorData::zeros::<f32, _>(shape.to_vec())
            }
        }
    }

    fn contains(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }
}

/// The tensors of an `expected.safetensors`.
pub struct Expected {
    case: String,
    tensors: HashMap<String, TensorData>,
    device: Device,
}

impl Expected {
    pub fn open(case: &str, device: &Device) -> Self {
        Self {
            case: case.to_string(),
            tensors: read(&format!("{case}/expected.safetensors")),
            device: device.clone(),
        }
    }

    /// The names that begin with `prefix`, in order.
    pub fn names(&self, prefix: &str) -> Vec<String> {
        let names = self.tensors.keys().filter(|name| name.starts_with(prefix));
        let mut names: Vec<String> = names.cloned().collect();
        names.sort();
        names
    }

    pub fn data(&self, name: &str) -> TensorData {
        let data = self.tensors.get(name).cloned();
        data.unwrap_or_else(|| panic!("{} has no {name}", self.case))
    }

    pub fn tensor<const D: usize>(&self, name: &str) -> Tensor<D> {
        Tensor::from_data(self.data(name), (&self.device, DType::F32))
    }

    pub fn values(&self, name: &str) -> Vec<f32> {
        self.data(name).iter().collect()
    }

    /// Fails if `actual` is further from the tensor `name` than `tolerance`; see [`deviation`].
    pub fn compare<const D: usize>(&self, name: &str, actual: Tensor<D>, tolerance: f32) {
        let expected = self.data(name);
        assert_eq!(
            actual.dims().as_slice(),
            expected.shape().as_slice(),
            "{name}"
        );
        assert_eq!(actual.dtype(), DType::F32, "{name}");
        let actual: Vec<f32> = actual.to_data().iter().collect();
        let expected: Vec<f32> = expected.iter().collect();
        let error = deviation(&actual, &expected);
        println!("{}/{name}: {error:.1e}", self.case);
        assert!(error <= tolerance, "{}/{name}: {error:.2e}", self.case);
    }
}

/// The largest absolute error as a share of the largest absolute reference value.
pub fn deviation(actual: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(actual.len(), expected.len());
    let scale = expected.iter().fold(0f32, |m, x| m.max(x.abs()));
    let mut error = 0f32;
    for (a, e) in actual.iter().zip(expected) {
        let difference = (a - e).abs();
        // A NaN must not get lost in a maximum.
        assert!(difference.is_finite(), "{a} instead of {e}");
        error = error.max(difference);
    }
    error / scale
}

/// Pseudo-random parameters for any network, the same for the same name: small weights, scales of
/// norms around 1.
pub struct RandomSource;

impl ParamSource for RandomSource {
    fn take(&mut self, name: &str, shape: &[usize]) -> TensorData {
        let seed = name.bytes().fold(1469598103934665603u64, |hash, byte| {
            (hash ^ byte as u64).wrapping_mul(1099511628211)
        });
        let count: usize = shape.iter().product();
        let inputs: usize = shape.iter().skip(1).product();
        let (mean, spread) = match shape.len() {
            1 if name.ends_with("weight") => (1.0, 0.2),
            1 => (0.0, 0.1),
            _ => (0.0, 1.7 / (inputs as f32).sqrt()),
        };
        let values = noise(seed, count).into_iter().map(|x| mean + spread * x);
        TensorData::new(values.collect::<Vec<f32>>(), shape.to_vec())
    }

    fn contains(&self, _name: &str) -> bool {
        false
    }
}

/// Uniform numbers in `[-1, 1]` (splitmix64).
pub fn noise(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_add(0x9e3779b97f4a7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58476d1ce4e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d049bb133111eb);
        (z ^ (z >> 31)) >> 40
    };
    (0..count)
        .map(|_| next() as f32 / (1u64 << 23) as f32 - 1.0)
        .collect()
}

/// A tensor of [`noise`].
pub fn noise_tensor<const D: usize>(seed: u64, shape: [usize; D], device: &Device) -> Tensor<D> {
    let data = TensorData::new(noise(seed, shape.iter().product()), shape);
    Tensor::from_data(data, (device, DType::F32))
}

/// A configuration from `config`, with the keys of `extra` over it.
fn with<T: DeserializeOwned>(mut config: Value, extra: Value) -> T {
    for (key, value) in extra.as_object().expect("an object") {
        config[key] = value.clone();
    }
    serde_json::from_value(config).expect("a configuration")
}

/// A UNet of two levels, one of them with cross-attention, and `extra`.
pub fn tiny_unet(extra: Value) -> UNetConfig {
    let config = json!({
        "_class_name": "UNet2DConditionModel",
        "block_out_channels": [8, 16],
        "down_block_types": ["CrossAttnDownBlock2D", "DownBlock2D"],
        "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D"],
        "layers_per_block": 1,
        "norm_num_groups": 4,
        "attention_head_dim": 2,
        "cross_attention_dim": 12,
    });
    with(config, extra)
}

/// An autoencoder of two levels, and `extra`.
pub fn tiny_vae(extra: Value) -> VaeConfig {
    let config = json!({
        "block_out_channels": [8, 16],
        "down_block_types": ["DownEncoderBlock2D", "DownEncoderBlock2D"],
        "up_block_types": ["UpDecoderBlock2D", "UpDecoderBlock2D"],
        "norm_num_groups": 4,
    });
    with(config, extra)
}

/// A text encoder of two layers, and `extra`.
pub fn tiny_clip(extra: Value) -> ClipTextConfig {
    let config = json!({
        "vocab_size": 20, "hidden_size": 16, "intermediate_size": 24,
        "num_hidden_layers": 2, "num_attention_heads": 2,
    });
    with(config, extra)
}
