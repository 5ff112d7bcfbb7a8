//! The guidance methods against PyTorch: `fixtures/guidance` (losses, and gradients through the tiny networks) and
//! `fixtures/guidance-toybox` (whole guided runs), made by `scripts/reference/make.py`.

use std::path::{Path, PathBuf};

use burn::tensor::{Device, Tensor, TensorData};
use prepose::device;
use prepose::engine::{Blueprint, Engine};
use prepose::guidance::boxes::BBox;
use prepose::guidance::maps::MapGroup;
use prepose::guidance::update::{MapGradient, MapLoss, Reading, Stage};
use prepose::guidance::{GuidanceConfig, Target, TargetObject};
use prepose::prompt::scene::StatedRelation;
use prepose::request::{Dtype, ModelRequest};
use prepose_models::attention::{LayerInfo, Place};
use prepose_models::unet::{AddedConditioning, MapCotangents, Memory};
use safetensors::SafeTensors;
use serde_json::Value;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures")
        .join(name)
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The tensors of a fixture.
struct Expected(Vec<u8>);

impl Expected {
    fn open(name: &str) -> Self {
        Self(std::fs::read(fixture(name).join("expected.safetensors")).unwrap())
    }

    fn values(&self, name: &str) -> Vec<f32> {
        let file = SafeTensors::deserialize(&self.0).unwrap();
        let tensor = file.tensor(name).unwrap_or_else(|_| panic!("{name}"));
        let bytes = tensor.data().chunks_exact(4);
        bytes
            .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
            .collect()
    }

    fn tensor<const D: usize>(&self, name: &str) -> Tensor<D> {
        let file = SafeTensors::deserialize(&self.0).unwrap();
        let shape = file.tensor(name).unwrap().shape().to_vec();
        Tensor::from_data(TensorData::new(self.values(name), shape), &Device::flex())
    }
}

fn values<const D: usize>(tensor: &Tensor<D>) -> Vec<f32> {
    tensor.to_data().iter().collect()
}

/// The largest difference, relative to the largest expected value.
fn deviation(actual: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(actual.len(), expected.len());
    let scale = expected.iter().fold(0f32, |m, x| m.max(x.abs()));
    let pairs = actual.iter().zip(expected);
    pairs.fold(0f32, |m, (a, b)| m.max((a - b).abs())) / scale
}

fn index(value: &Value) -> usize {
    value.as_u64().unwrap() as usize
}

fn indices(value: &Value) -> Vec<usize> {
    value.as_array().unwrap().iter().map(index).collect()
}

fn bbox(value: &Value) -> BBox {
    serde_json::from_value(value.clone()).unwrap()
}

fn target(value: &Value) -> Target {
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
    }
}

/// Name, configuration and targets of each case.
fn cases() -> Vec<(String, GuidanceConfig, Vec<Target>)> {
    let all = json(&fixture("guidance/case.json"));
    let cases = all["cases"].as_object().unwrap();
    let case = |(name, case): (&String, &Value)| {
        let config = serde_json::from_value(case["config"].clone()).unwrap();
        let targets = case["targets"].as_array().unwrap().iter().map(target);
        (name.clone(), config, targets.collect())
    };
    cases.iter().map(case).collect()
}

/// The only loss of a case that is applied at once.
fn only_pass(config: &GuidanceConfig, targets: &[Target]) -> Box<dyn MapLoss> {
    let mut passes = config.settings().unwrap().loss.passes(targets).unwrap();
    assert_eq!(passes.len(), 1);
    passes.remove(0)
}

#[test]
fn losses_on_given_maps_and_their_gradients() {
    let expected = Expected::open("guidance");
    let given = expected.tensor::<3>("maps");
    let layer = LayerInfo {
        name: "up_blocks.1.attentions.0.transformer_blocks.0.attn2",
        place: Place::Up,
        index: 0,
        height: 8,
        width: 6,
        heads: 1,
        tokens: given.dims()[2],
    };
    for (name, config, targets) in cases() {
        if name == "layout" {
            continue;
        }
        let loss = only_pass(&config, &targets);
        let stages = match name.starts_with("boxdiff") {
            true => vec![("", Stage::Update), ("/refined", Stage::Refine)],
            false => vec![("", Stage::Update)],
        };
        for (suffix, stage) in stages {
            let group = MapGroup {
                size: [8, 6],
                maps: given.clone().unsqueeze_dim(1),
                selector: None,
                layers: vec![0],
                count: 1,
            };
            let found = MapGradient::new(loss.as_ref(), vec![group], stage);
            let gradient = found.cotangent(&layer).unwrap();
            let key = |what: &str| format!("maps/{name}{suffix}/{what}");
            let errors = [
                deviation(&values(&found.losses), &expected.values(&key("losses"))),
                deviation(&values(&gradient), &expected.values(&key("gradient"))),
            ];
            println!(
                "{name}{suffix}: losses {:.1e}, gradient {:.1e}",
                errors[0], errors[1]
            );
            assert!(
                errors[0] < 1e-5 && errors[1] < 1e-4,
                "{name}{suffix}: {errors:?}"
            );
        }
    }
}

fn engine(checkpoint: &str) -> Engine {
    let model = ModelRequest {
        checkpoint: checkpoint.into(),
        sha256: None,
        config: None,
        vae: None,
        loras: Vec::new(),
        allow_mismatch: false,
        dtype: Dtype::F32,
    };
    let device = device::open("flex".parse().unwrap()).unwrap();
    Blueprint::open(&model)
        .unwrap()
        .load(&model, &device)
        .unwrap()
}

/// A tiny network with the fixture's inputs.
struct Network {
    engine: Engine,
    latents: Tensor<4>,
    context: Tensor<3>,
    added: Option<AddedConditioning>,
    timestep: f64,
    scale: f64,
}

impl Network {
    fn open(family: &str, expected: &Expected) -> Self {
        let info = &json(&fixture("guidance/case.json"))["networks"][family];
        let key = |name: &str| format!("{family}/{name}");
        let added = (family == "sdxl").then(|| AddedConditioning {
            text_embeds: expected.tensor(&key("text_embeds")),
            time_ids: expected.tensor(&key("time_ids")),
        });
        Self {
            engine: engine(&fixture(&format!("{family}-tiny")).to_string_lossy()),
            latents: expected.tensor(&key("latents")),
            context: expected.tensor(&key("context")),
            added,
            timestep: info["timestep"].as_f64().unwrap(),
            scale: info["scale"].as_f64().unwrap(),
        }
    }

    /// The rows `from..from + count` of the batch.
    fn narrow(
        &self,
        from: usize,
        count: usize,
    ) -> (Tensor<4>, Tensor<3>, Option<AddedConditioning>) {
        let added = self.added.as_ref().map(|added| AddedConditioning {
            text_embeds: added.text_embeds.clone().narrow(0, from, count),
            time_ids: added.time_ids.clone().narrow(0, from, count),
        });
        let context = self.context.clone().narrow(0, from, count);
        (self.latents.clone().narrow(0, from, count), context, added)
    }

    /// Losses and gradient with respect to the latents, of samples `from..from + targets.len()`.
    fn evaluate(
        &self,
        config: &GuidanceConfig,
        targets: &[Target],
        from: usize,
        memory: Memory,
    ) -> (Vec<f32>, Vec<f32>) {
        let (latents, context, added) = self.narrow(from, targets.len());
        let unet = self.engine.unet();
        let prepared = unet.prepare(context, added.as_ref());
        let [_, _, height, width] = latents.dims();
        let settings = config.settings().unwrap();
        settings.check(50, unet.config(), [height, width]).unwrap();
        let filter = settings
            .layers
            .resolve(unet.config(), [height, width])
            .unwrap();
        let loss = only_pass(config, targets);
        let input = latents * self.scale;
        let reading = Reading {
            filter: &filter,
            loss: loss.as_ref(),
            stage: Stage::Update,
        };
        let (maps, recording) = reading.run(unet, input, self.timestep, &prepared, memory);
        let gradient = recording.sample_gradient(&maps) * self.scale;
        (values(&maps.losses), values(&gradient))
    }
}

fn latent_gradients(family: &str) {
    let expected = Expected::open("guidance");
    let network = Network::open(family, &expected);
    for (name, config, targets) in cases() {
        let (losses, gradient) = network.evaluate(&config, &targets, 0, Memory::Keep);
        let key = |what: &str| format!("{family}/{name}/{what}");
        let errors = [
            deviation(&losses, &expected.values(&key("losses"))),
            deviation(&gradient, &expected.values(&key("gradient"))),
        ];
        println!(
            "{family} {name}: losses {:.1e}, gradient {:.1e}",
            errors[0], errors[1]
        );
        assert!(errors[0] < 1e-4 && errors[1] < 1e-4, "{name}: {errors:?}");

        // One by one it is the same.
        let half = gradient.len() / 2;
        for b in 0..2 {
            let (loss, alone) = network.evaluate(&config, &targets[b..=b], b, Memory::Recompute);
            let error = deviation(&alone, &gradient[b * half..(b + 1) * half]);
            assert!(error < 1e-5, "{name}, sample {b} alone: {error}");
            assert!(
                (loss[0] - losses[b]).abs() < 1e-5,
                "{name}, sample {b} alone"
            );
        }
    }
}

#[test]
fn gradients_through_sd1() {
    latent_gradients("sd1");
}

#[test]
fn gradients_through_sdxl() {
    latent_gradients("sdxl");
}
