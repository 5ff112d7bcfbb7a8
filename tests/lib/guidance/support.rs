//! Fixtures and engines.

use std::path::Path;

use burn::tensor::{Device, Tensor, TensorData};
use prepose::device;
use prepose::engine::{Blueprint, Engine};
use prepose::guidance::boxes::BBox;
use prepose::guidance::gradient::MapLoss;
use prepose::guidance::{GuidanceConfig, Network, Target, TargetObject};
use prepose::prompt::scene::StatedRelation;
use prepose::request::{Dtype, ModelRequest};
use safetensors::SafeTensors;
use serde_json::Value;

use crate::support::fixture;

pub fn read_json(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The tensors of a fixture.
pub struct Expected(Vec<u8>);

impl Expected {
    pub fn open(name: &str) -> Self {
        Self(std::fs::read(fixture(name).join("expected.safetensors")).unwrap())
    }

    pub fn values(&self, name: &str) -> Vec<f32> {
        let file = SafeTensors::deserialize(&self.0).unwrap();
        let tensor = file.tensor(name).unwrap_or_else(|_| panic!("{name}"));
        let bytes = tensor.data().chunks_exact(4);
        bytes
            .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
            .collect()
    }

    pub fn tensor<const D: usize>(&self, name: &str) -> Tensor<D> {
        let file = SafeTensors::deserialize(&self.0).unwrap();
        let shape = file.tensor(name).unwrap().shape().to_vec();
        Tensor::from_data(TensorData::new(self.values(name), shape), &Device::flex())
    }
}

pub fn values<const D: usize>(tensor: &Tensor<D>) -> Vec<f32> {
    tensor.to_data().iter().collect()
}

/// The largest difference, relative to the largest expected value; 0 if both are 0 throughout.
pub fn deviation(actual: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(actual.len(), expected.len());
    assert!(actual.iter().all(|x| x.is_finite()));
    let scale = expected.iter().fold(0f32, |m, x| m.max(x.abs()));
    let pairs = actual.iter().zip(expected);
    pairs.fold(0f32, |m, (a, b)| m.max((a - b).abs())) / scale.max(f32::MIN_POSITIVE)
}

pub fn index(value: &Value) -> usize {
    value.as_u64().unwrap() as usize
}

pub fn indices(value: &Value) -> Vec<usize> {
    value.as_array().unwrap().iter().map(index).collect()
}

pub fn bbox(value: &Value) -> BBox {
    serde_json::from_value(value.clone()).unwrap()
}

pub fn target(value: &Value) -> Target {
    let object = |value: &Value| TargetObject {
        positions: indices(&value["positions"]),
        bbox: value.get("box").map(bbox),
    };
    let stated = |value: &Value| StatedRelation {
        subject: index(&value["subject"]),
        relation: value["relation"].as_str().unwrap().parse().unwrap(),
        objects: indices(&value["objects"]),
    };
    Target {
        objects: value["objects"]
            .as_array()
            .unwrap()
            .iter()
            .map(object)
            .collect(),
        relations: value["relations"]
            .as_array()
            .unwrap()
            .iter()
            .map(stated)
            .collect(),
        text: (1..index(&value["end"])).collect(),
        chunk: 77,
    }
}

/// Name, configuration and targets of each case.
pub fn cases() -> Vec<(String, GuidanceConfig, Vec<Target>)> {
    let all = read_json(&fixture("guidance/case.json"));
    let cases = all["cases"].as_object().unwrap();
    let case = |(name, case): (&String, &Value)| {
        let config = serde_json::from_value(case["config"].clone()).unwrap();
        let targets = case["targets"].as_array().unwrap().iter().map(target);
        (name.clone(), config, targets.collect())
    };
    cases.iter().map(case).collect()
}

/// The only loss of a case that is applied at once.
pub fn only_pass(config: &GuidanceConfig, targets: &[Target]) -> Box<dyn MapLoss> {
    let mut passes = config
        .settings(Network::Toybox)
        .unwrap()
        .loss
        .passes(targets)
        .unwrap();
    assert_eq!(passes.len(), 1);
    passes.remove(0)
}

pub fn model(checkpoint: &str) -> ModelRequest {
    ModelRequest::new(checkpoint, Dtype::F32)
}

pub fn engine(checkpoint: &str) -> Engine {
    engine_of(model(checkpoint))
}

pub fn engine_of(model: ModelRequest) -> Engine {
    let device = device::open("flex".parse().unwrap()).unwrap();
    Blueprint::open(&model)
        .unwrap()
        .load(&model, &device)
        .unwrap()
}
