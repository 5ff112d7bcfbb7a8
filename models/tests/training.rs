//! The gradients of whole networks against PyTorch's: to every parameter, and to every factor of low-rank branches.

mod support;

use std::collections::BTreeMap;

use burn::prelude::*;
use burn::tensor::{DType, FloatDType, TensorData};
use prepose_models::training::{
    Batch, Choice, Lora, Parameter, PartLoss, TrainableUNet, TrainingError, parameters,
};
use prepose_models::unet::{AddedConditioning, Memory, Objects, UNetConfig};
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

    fn batch<'a>(&self, added: Option<&'a AddedConditioning>) -> Batch<'a> {
        let sample = self.expected.tensor("batch/sample");
        let context = self.expected.tensor("batch/context");
        Batch {
            added,
            ..Batch::new(sample, &TIMESTEPS, context)
        }
    }

    /// The loss, and the gradients by name, which are the same to the bit if blocks are computed again.
    fn step(&self, unet: &TrainableUNet) -> (f32, BTreeMap<String, Vec<f32>>) {
        let target: Tensor<4> = self.expected.tensor("batch/target");
        let added = self.added();
        let batch = self.batch(added.as_ref());
        let pass = unet.pass(batch.clone(), Memory::Keep);
        let out = pass.prediction().clone().autodiff().require_grad();
        let each: Tensor<2> = (out.clone() - target)
            .square()
            .flatten::<2>(1, 3)
            .mean_dim(1);
        let weights = Tensor::<1>::from_floats(WEIGHTS, &Device::flex()).unsqueeze_dim(1);
        let loss = (each * weights).mean();
        let cotangent = out.grad_remove(&mut loss.backward()).unwrap();
        let gradients = pass.gradients(cotangent.clone());
        same_again(unet, batch, cotangent, &gradients);
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

/// Fails unless samples that go through the network side by side have the results and, but for rounding, the `gradients` of the batch.
fn in_parts(unet: &TrainableUNet, batch: &Batch, cotangent: &Tensor<4>, gradients: &[Tensor<1>]) {
    let samples = batch.sample.dims()[0];
    for memory in [Memory::Keep, Memory::Recompute] {
        let (rows, parted) = unet.gradients_in_parts(batch, samples, memory, |part, prediction| {
            let cotangent = cotangent.clone().narrow(0, part.start, part.len());
            assert_eq!(prediction.dims(), cotangent.dims());
            PartLoss {
                result: part,
                cotangent,
            }
        });
        assert!(rows.into_iter().eq((0..samples).map(|row| row..row + 1)));
        assert_eq!(parted.len(), gradients.len());
        let values = |gradients: Vec<Tensor<1>>| -> Vec<Vec<f32>> {
            assert!(gradients.iter().all(|gradient| !gradient.is_autodiff()));
            let all = gradients.into_iter().map(Tensor::into_data);
            all.map(|data| data.iter().collect()).collect()
        };
        let (whole, parted) = (values(gradients.to_vec()), values(parted));
        let largest = |of: &[f32]| of.iter().fold(0f32, |most, x| most.max(x.abs()));
        let of_all = whole.iter().map(|of| largest(of)).fold(0.0, f32::max);
        let names = unet.parameters().iter().map(|parameter| &parameter.name);
        for ((name, whole), parted) in names.zip(&whole).zip(&parted) {
            // Some are nothing but rounding, such as those of what a norm takes out again.
            let allowed = 1e-4 * largest(whole) + 1e-6 * of_all;
            for (one, other) in whole.iter().zip(parted) {
                assert!((one - other).abs() <= allowed, "{name}: {other}, not {one}");
            }
        }
    }
}

/// Small networks' batches have parts, by their number of samples alone.
#[test]
fn how_many_parts_a_batch_has() {
    let case = Case::open("sd1");
    let unet = case.load(&Choice::All);
    let parts = |samples, side| unet.parts([samples, 4, side, side]);
    let of = |samples: [usize; 8]| samples.map(|samples| parts(samples, 16));
    assert_eq!(of([1, 3, 4, 12, 24, 31, 32, 100]), [1, 1, 2, 2, 2, 2, 4, 8]);
    // Long operations keep all threads busy.
    assert_eq!(parts(12, 512), 1);
}

/// Fails unless a pass that keeps what comes into blocks alone has the prediction and `gradients` of one that keeps all.
fn same_again(unet: &TrainableUNet, batch: Batch, cotangent: Tensor<4>, gradients: &[Tensor<1>]) {
    in_parts(unet, &batch, &cotangent, gradients);
    let whole = unet.pass(batch.clone(), Memory::Keep);
    let again = unet.pass(batch, Memory::Recompute);
    let predictions = [&whole, &again].map(|pass| pass.prediction().to_data());
    predictions[0].assert_eq(&predictions[1], true);
    let names = unet.parameters().iter().map(|parameter| &parameter.name);
    let again = again.gradients(cotangent);
    assert_eq!(again.len(), gradients.len());
    for ((name, gradient), again) in names.zip(gradients).zip(again) {
        let [one, other] = [gradient.clone(), again].map(|gradient| {
            assert!(!gradient.is_autodiff());
            let bits = gradient.into_data();
            bits.iter::<f32>().map(f32::to_bits).collect::<Vec<_>>()
        });
        assert!(one == other, "{name}");
    }
}

/// As [`same_again`], for all that is trained of every family, one and several timesteps, and sizes that are not even.
#[test]
fn what_is_computed_again_is_the_same_to_the_bit() {
    let text = Choice::Lora(Lora::text(2, 2.0));
    let parts = |parts: &[&str]| Choice::Named(parts.iter().map(|part| part.to_string()).collect());
    let choices = [
        Choice::All,
        branches(),
        text,
        parts(&["up_blocks"]),
        parts(&["time_embedding", "conv_in"]),
        parts(&["downsamplers"]),
        parts(&["conv_out"]),
    ];
    for name in NETWORKS {
        let case = Case::open(name);
        let added = case.added();
        for choice in &choices {
            let mut unet = case.load(choice);
            let values = unet.values().into_iter().enumerate();
            let values = values.map(|(i, value)| value + 0.01 * (1 + i % 3) as f32);
            unet.set_values(values.collect());
            for (height, width, timesteps) in [(8, 8, &TIMESTEPS[..]), (7, 10, &TIMESTEPS[..1])] {
                let sample = wave([2, case.config.in_channels, height, width]);
                let batch = Batch {
                    sample,
                    timesteps,
                    ..case.batch(added.as_ref())
                };
                let pass = unet.pass(batch.clone(), Memory::Keep);
                let cotangent = wave(pass.prediction().dims());
                let gradients = pass.gradients(cotangent.clone());
                let largest = gradients
                    .iter()
                    .map(|g| g.clone().abs().max().into_scalar());
                assert!(largest.fold(0.0, f32::max) > 0.0, "{name}, {choice:?}");
                same_again(&unet, batch, cotangent, &gradients);
            }
        }
    }
}

/// Numbers of no pattern.
fn wave(shape: [usize; 4]) -> Tensor<4> {
    let count = shape.iter().product::<usize>();
    let data: Vec<f32> = (0..count).map(|i| (i as f32 * 1.7).sin()).collect();
    Tensor::from_data(TensorData::new(data, shape), &Device::flex())
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
        let on = unet.pass(case.batch(added.as_ref()), Memory::Keep);
        let on: Vec<f32> = on.prediction().to_data().iter().collect();
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
    let batch = Batch {
        objects: Some(&objects),
        ..Batch::new(sample, &TIMESTEPS, context)
    };
    let pass = unet.pass(batch.clone(), Memory::Keep);
    pass.prediction()
        .to_data()
        .assert_eq(&plain.into_data(), true);
    let cotangent = wave(pass.prediction().dims());
    let gradients = pass.gradients(cotangent.clone());
    same_again(&unet, batch, cotangent, &gradients);
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
        assert!(large.contains(&format!("has rank {rank}, ")), "{large}");
    }
}
