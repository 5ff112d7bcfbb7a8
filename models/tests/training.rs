//! The gradients of whole networks against PyTorch's: to every parameter, and to every factor of low-rank branches.

mod support;

use std::collections::BTreeMap;

use burn::prelude::*;
use burn::tensor::{DType, FloatDType, TensorData};
use prepose_models::training::{Choice, Lora, Parameter, TrainableUNet, TrainingError, parameters};
use prepose_models::unet::{AddedConditioning, Objects, UNetConfig};
use support::{Expected, FileSource, config, deviation};

const NETWORKS: [&str; 3] = ["sd1", "sd2", "sdxl"];

/// The batch of the fixtures.
const TIMESTEPS: [f64; 2] = [17.0, 730.0];
const WEIGHTS: [f32; 2] = [1.0, 0.35];

struct Case {
    config: UNetConfig,
    expected: Expected,
    name: &'static str,
}

impl Case {
    fn open(name: &'static str) -> Self {
        Self {
            config: config(&format!("gradients/{name}/unet/config.json")),
            expected: Expected::open(&format!("gradients/{name}"), &Device::flex()),
            name,
        }
    }

    fn load(&self, choice: &Choice) -> TrainableUNet {
        let file = format!(
            "gradients/{}/unet/diffusion_pytorch_model.safetensors",
            self.name
        );
        let mut source = FileSource::open(&file);
        let (device, dtype) = (Device::flex(), FloatDType::F32);
        let unet = TrainableUNet::load(&self.config, &mut source, &device, dtype, choice, 1);
        source.finish();
        unet.unwrap()
    }

    fn added(&self) -> Option<AddedConditioning> {
        let added = self.config.addition_embed_type.as_ref();
        added.map(|_| AddedConditioning {
            text_embeds: self.expected.tensor("batch/text_embeds"),
            time_ids: self.expected.tensor("batch/time_ids"),
        })
    }

    /// The loss, and the gradients by name.
    fn step(&self, unet: &TrainableUNet) -> (f32, BTreeMap<String, Vec<f32>>) {
        let sample: Tensor<4> = self.expected.tensor("batch/sample");
        let target: Tensor<4> = self.expected.tensor("batch/target");
        let context = self.expected.tensor("batch/context");
        let out = unet.forward(sample, &TIMESTEPS, context, self.added().as_ref());
        let each: Tensor<2> = (out - target).square().flatten::<2>(1, 3).mean_dim(1);
        let weights = Tensor::<1>::from_floats(WEIGHTS, &Device::flex()).unsqueeze_dim(1);
        let loss = (each * weights).mean();
        let mut gradients = loss.backward();
        let gradients = unet.gradients(&mut gradients);
        let named = unet.parameters().iter().zip(gradients);
        let named = named.map(|(parameter, gradient)| {
            assert!(!gradient.is_autodiff());
            (
                parameter.name.clone(),
                gradient.into_data().iter().collect(),
            )
        });
        (loss.into_scalar::<f32>(), named.collect())
    }

    /// Fails unless loss and gradients are those of the fixture, and there are no others.
    fn compare(&self, kind: &str, unet: &TrainableUNet) {
        let (loss, gradients) = self.step(unet);
        let expected = self.expected.values(&format!("{kind}/loss"))[0];
        let error = (loss - expected).abs() / expected;
        assert!(error <= 1e-6, "{}: loss {loss}, not {expected}", self.name);
        let names = self.expected.names(&format!("{kind}/"));
        assert_eq!(names.len(), gradients.len() + 1, "{}", self.name);
        for (name, gradient) in gradients {
            let expected = self.expected.values(&format!("{kind}/{name}"));
            let error = deviation(&gradient, &expected);
            println!("{} {kind} {name}: {error:.1e}", self.name);
            assert!(error <= 1e-4, "{} {kind} {name}: {error:.2e}", self.name);
        }
    }
}

#[test]
fn every_parameter_has_the_gradient_of_pytorch() {
    for name in NETWORKS {
        let case = Case::open(name);
        case.compare("full", &case.load(&Choice::All));
    }
}

fn branches() -> Choice {
    Choice::Lora(Lora::everything(2, 3.0, (1, 2.0)))
}

#[test]
fn every_factor_has_the_gradient_of_pytorch() {
    for name in NETWORKS {
        let case = Case::open(name);
        let mut unet = case.load(&branches());
        let value = |Parameter { name, shape }: &Parameter| {
            let data = case.expected.data(&format!("factor/{name}"));
            assert_eq!(data.shape().as_slice(), shape, "{name}");
            let data: Vec<f32> = data.iter().collect();
            Tensor::<1>::from_data(data.as_slice(), (&Device::flex(), DType::F32))
        };
        let values = unet.parameters().iter().map(value).collect();
        unet.set_values(values);
        case.compare("lora", &unet);
    }
}

/// Some parameters alone have the gradients that they have among all.
#[test]
fn some_parameters_are_trained_alone() {
    let case = Case::open("sd1");
    let (_, all) = case.step(&case.load(&Choice::All));
    let parts = ["mid_block", "attn1.to_k", "time_embedding"];
    let some = Choice::Named(parts.map(String::from).to_vec());
    let (_, some) = case.step(&case.load(&some));
    assert!(!some.is_empty() && some.len() < all.len());
    for (name, gradient) in &some {
        assert!(parts.iter().any(|part| name.contains(part)), "{name}");
        assert!(deviation(gradient, &all[name]) <= 1e-5, "{name}");
    }
}

/// Before the first step a branch adds nothing, and afterwards the network without autodiff is the one that was trained.
#[test]
fn networks_with_branches_predict_alike_on_and_off_the_tape() {
    for name in NETWORKS {
        let case = Case::open(name);
        let sample: Tensor<4> = case.expected.tensor("batch/sample");
        let context: Tensor<3> = case.expected.tensor("batch/context");
        let added = case.added();
        let predict = |unet: &TrainableUNet| {
            let out = unet.network();
            let out = out.forward(sample.clone(), &TIMESTEPS, context.clone(), added.as_ref());
            out.into_data().iter::<f32>().collect::<Vec<_>>()
        };
        let all = predict(&case.load(&Choice::All));
        let mut unet = case.load(&branches());
        assert_eq!(predict(&unet), all, "{name}");
        let changed = unet.values().into_iter().map(|value| value + 0.05);
        let changed = changed.collect();
        unet.set_values(changed);
        let off = predict(&unet);
        assert!(deviation(&off, &all) > 1e-2, "{name}");
        let on = unet.forward(sample.clone(), &TIMESTEPS, context.clone(), added.as_ref());
        let on: Vec<f32> = on.without_autodiff().into_data().iter().collect();
        assert!(deviation(&on, &off) <= 1e-5, "{name}");
    }
}

/// New layers of GLIGEN's have closed gates: whatever they are told, the network says what it said without them, and of all
/// gradients only those of the gates are not zero.
#[test]
fn new_layers_of_gligens_change_nothing_at_first() {
    let case = Case::open("sd1");
    let mut source = FileSource::open("gradients/sd1/unet/diffusion_pytorch_model.safetensors");
    let (device, dtype) = (Device::flex(), FloatDType::F32);
    let unet = TrainableUNet::load(
        &case.config,
        &mut source,
        &device,
        dtype,
        &Choice::Gligen,
        1,
    );
    source.finish();
    let unet = unet.unwrap();
    assert!(unet.config().is_grounded() && !case.config.is_grounded());
    let width = case.config.object_width().unwrap();
    let phrase = Tensor::<1>::ones([width], &device) * 0.3;
    let one = Objects::new(&[(phrase, [0.1, 0.2, 0.5, 0.9])], width, &device);
    let objects = Objects::cat(vec![one.clone(), one.none()]);
    let sample: Tensor<4> = case.expected.tensor("batch/sample");
    let context: Tensor<3> = case.expected.tensor("batch/context");
    let plain = case.load(&Choice::All).network();
    let plain = plain.forward(sample.clone(), &TIMESTEPS, context.clone(), None);
    let told = |objects| unet.forward_grounded(sample, &TIMESTEPS, context, None, objects);
    let said = told(Some(&objects));
    said.clone()
        .without_autodiff()
        .into_data()
        .assert_eq(&plain.into_data(), true);
    let mut tape = said.square().mean().backward();
    let gradients = unet.gradients(&mut tape);
    for (Parameter { name, .. }, gradient) in unet.parameters().iter().zip(gradients) {
        let largest: f32 = gradient.abs().max().into_scalar();
        let is_gate = name.contains("alpha_");
        assert_eq!(largest > 0.0, is_gate, "{name}: {largest}");
    }
}

#[test]
fn what_is_trained_is_known_beforehand_and_exported() {
    let case = Case::open("sdxl");
    for choice in [Choice::All, branches()] {
        let unet = case.load(&choice);
        assert_eq!(
            parameters(&case.config, &choice).unwrap(),
            unet.parameters()
        );
        let exported = unet.export();
        let shape = |data: &TensorData| data.shape().as_slice().to_vec();
        for ((parameter, data), known) in exported.iter().zip(unet.parameters()) {
            assert_eq!(parameter, known);
            assert_eq!(shape(data), known.shape, "{}", known.name);
        }
    }
}

#[test]
fn what_cannot_be_trained_is_told() {
    let case = Case::open("sd1");
    let error = |choice| parameters(&case.config, &choice).unwrap_err();
    let named = |name: &str| vec![name.to_string()];
    let unknown = error(Choice::Named(named("attn3")));
    assert_eq!(unknown, TrainingError::NoParameter("attn3".to_string()));
    let lora = |rank, target: &str| {
        Choice::Lora(Lora {
            rank,
            alpha: 1.0,
            conv: None,
            targets: named(target),
        })
    };
    let unknown = error(lora(2, "o_q"));
    assert_eq!(unknown, TrainingError::NoLayer("o_q".to_string()));
    assert_eq!(error(lora(2, "conv1")), TrainingError::Nothing);
    for rank in [0, 13] {
        let large = error(lora(rank, "to_q")).to_string();
        assert!(large.contains(&format!("rank {rank} beside `")), "{large}");
    }
}
