//! What the integration tests share: fixtures, comparisons, and files with faults made to order.

#![allow(dead_code)] // Each test binary uses a part.

pub mod hostile;
pub mod server;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use burn::prelude::*;
use burn::tensor::{DType, FloatDType, TensorData};
use prepose_models::clip::{ClipTextModel, HiddenLayer};
use prepose_models::unet::AddedConditioning;
use prepose_weights::{Checkpoint, LoadOptions, WeightsError};
use safetensors::SafeTensors;

/// A fixture's path.
pub fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../fixtures")
        .join(name)
}

/// Named f32 tensors.
pub struct Expected(BTreeMap<String, TensorData>);

impl Expected {
    pub fn read(name: &str) -> Self {
        let bytes = std::fs::read(fixture(name)).unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        Self(
            file.tensors()
                .into_iter()
                .filter(|(_, view)| view.dtype() == safetensors::Dtype::F32)
                .map(|(name, view)| {
                    let values: Vec<f32> = view
                        .data()
                        .chunks_exact(4)
                        .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
                        .collect();
                    (name, TensorData::new(values, view.shape().to_vec()))
                })
                .collect(),
        )
    }

    pub fn data(&self, name: &str) -> TensorData {
        self.0
            .get(name)
            .unwrap_or_else(|| panic!("no tensor {name}"))
            .clone()
    }

    pub fn tensor<const D: usize>(&self, name: &str) -> Tensor<D> {
        Tensor::from_data(self.data(name), (&device(), DType::F32))
    }

    /// Puts another tensor in the place of `name`.
    pub fn set(&mut self, name: &str, data: TensorData) {
        self.0.insert(name.into(), data);
    }

    /// Fails unless `found` is the tensor `name` within `tolerance` of its largest value.
    pub fn compare<const D: usize>(&self, name: &str, found: Tensor<D>, tolerance: f32) {
        self.compare_data(name, &found.into_data(), tolerance);
    }

    pub fn compare_data(&self, name: &str, found: &TensorData, tolerance: f32) {
        let expected: Vec<f32> = self.data(name).iter::<f32>().collect();
        assert_eq!(found.shape(), self.data(name).shape(), "{name}");
        let scale = expected.iter().fold(0f32, |max, x| max.max(x.abs()));
        let worst = expected
            .iter()
            .zip(found.iter::<f32>())
            .fold(0f32, |max, (e, f)| max.max((e - f).abs()));
        println!("  {name}: {:.1e}", worst / scale);
        assert!(worst <= tolerance * scale, "{name}: {worst} of {scale}");
    }
}

pub fn device() -> Device {
    Device::flex()
}

/// Opens and fails with the whole chain of reasons.
pub fn open(path: &Path, options: &LoadOptions) -> Checkpoint {
    Checkpoint::open(path, options).unwrap_or_else(|error| panic!("{}", chain(&error)))
}

/// An error with all of its sources, as the command line prints it.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(&format!(": {error}"));
        source = error.source();
    }
    text
}

/// What the networks of a checkpoint make of the inputs in `expected`; every output by name.
pub fn outputs(checkpoint: &Checkpoint, expected: &Expected) -> BTreeMap<&'static str, TensorData> {
    let device = device();
    let mut outputs = BTreeMap::new();
    let encoders = checkpoint
        .load_text_encoders(&device, FloatDType::F32)
        .unwrap();
    let unet = checkpoint.load_unet(&device, FloatDType::F32).unwrap();
    let vae = checkpoint.load_vae(&device, FloatDType::F32).unwrap();

    let encode = |encoder: &ClipTextModel, tokens: &str, layer| {
        let tokens = expected.data(tokens);
        let [rows, width] = [tokens.shape()[0], tokens.shape()[1]];
        let ids: Vec<i32> = tokens.iter::<f32>().map(|id| id as i32).collect();
        // The end-of-text token has the largest id.
        let eos: Vec<usize> = ids
            .chunks(width)
            .map(|row| {
                row.iter()
                    .position(|id| Some(id) == row.iter().max())
                    .unwrap()
            })
            .collect();
        encoder.forward(
            Tensor::from_data(TensorData::new(ids, [rows, width]), &device),
            &eos,
            layer,
        )
    };
    let (context, added) = if let [first, second] = encoders.as_slice() {
        let penultimate = HiddenLayer::Skip {
            n: 1,
            final_norm: false,
        };
        let first = encode(first, "text/tokens", penultimate);
        let second = encode(second, "text_2/tokens", penultimate);
        let context = Tensor::cat(vec![first.hidden, second.hidden], 2);
        outputs.insert("context", context.clone().into_data());
        outputs.insert("unet/text_embeds", second.pooled.clone().into_data());
        let added = AddedConditioning {
            text_embeds: second.pooled,
            time_ids: expected.tensor("unet/time_ids"),
        };
        (context, Some(added))
    } else {
        let text = encode(&encoders[0], "text/tokens", HiddenLayer::Last);
        outputs.insert("text/last", text.hidden.clone().into_data());
        (text.hidden, None)
    };
    let out = unet.forward(
        expected.tensor("unet/sample"),
        &[321.0],
        context,
        added.as_ref(),
    );
    outputs.insert("unet/out", out.into_data());
    outputs.insert(
        "vae/decoded",
        vae.decode(expected.tensor("vae/latents")).into_data(),
    );
    outputs.insert(
        "vae/mean",
        vae.encode(expected.tensor("vae/image")).mean.into_data(),
    );
    outputs
}

/// A stored tensor: name, type, shape, bytes.
pub type Stored = (String, &'static str, Vec<usize>, Vec<u8>);

/// Writes a safetensors file.
pub fn write_safetensors(path: &Path, tensors: &[Stored]) {
    let mut header = serde_json::Map::new();
    let mut data: Vec<u8> = Vec::new();
    for (name, dtype, shape, bytes) in tensors {
        let start = data.len();
        data.extend_from_slice(bytes);
        header.insert(
            name.clone(),
            serde_json::json!({"dtype": dtype, "shape": shape, "data_offsets": [start, data.len()]}),
        );
    }
    let header = serde_json::to_vec(&header).unwrap();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(&header);
    file.extend_from_slice(&data);
    std::fs::write(path, file).unwrap();
}

/// A safetensors file taken apart, to be changed and written again; in the order of its names, as `tensors` has another each time.
pub fn read_safetensors(path: &Path) -> Vec<Stored> {
    let bytes = std::fs::read(path).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let mut tensors = file.tensors();
    tensors.sort_by(|one, other| one.0.cmp(&other.0));
    tensors
        .into_iter()
        .map(|(name, view)| {
            let dtype = match view.dtype() {
                safetensors::Dtype::F32 => "F32",
                safetensors::Dtype::F16 => "F16",
                safetensors::Dtype::BF16 => "BF16",
                safetensors::Dtype::I64 => "I64",
                safetensors::Dtype::I32 => "I32",
                other => panic!("{other:?}"),
            };
            (name, dtype, view.shape().to_vec(), view.data().to_vec())
        })
        .collect()
}

/// The error of opening `path` as a checkpoint and loading all of it.
pub fn failure(path: &Path, options: &LoadOptions) -> WeightsError {
    let load = || {
        let checkpoint = Checkpoint::open(path, options)?;
        checkpoint.tokenizers()?;
        checkpoint.load_text_encoders(&device(), FloatDType::F32)?;
        checkpoint.load_unet(&device(), FloatDType::F32)?;
        checkpoint.load_vae(&device(), FloatDType::F32)?;
        Ok(())
    };
    match load() {
        Ok(()) => panic!("{} was loaded", path.display()),
        Err(error) => error,
    }
}
