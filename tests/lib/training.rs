//! Steps of training against PyTorch's, PEFT's and diffusers' (`fixtures/training-steps`,
//! `fixtures/training-gligen`, `fixtures/training-ip-adapter`).

use std::collections::HashMap;
use std::path::Path;

use burn::tensor::{Device, FloatDType, Tensor, TensorData};
use prepose::train::optimizer::AdamW;
use prepose::train::optimizer::objective::{Target, error, noisy_parts};
use prepose::train::optimizer::rule::{Rule, Trained};
use prepose::train::optimizer::state::numbers;
use prepose_formats::TensorFile;
use prepose_models::ip_adapter::AdapterKind;
use prepose_models::training::{Batch, Choice, Lora, TrainableUNet};
use prepose_models::unet::{Memory, Objects};
use prepose_weights::{AdapterSpec, Checkpoint, LoadOptions, NewAdapter};
use serde_json::Value;

use crate::support::fixture;

struct Case {
    file: TensorFile,
    info: Value,
    /// What names begin with.
    kind: &'static str,
}

impl Case {
    fn open(folder: &str, kind: &'static str) -> Self {
        let read = |name: &str| fixture(folder).join(name);
        Self {
            kind,
            file: TensorFile::open(&read("expected.safetensors")).unwrap(),
            info: serde_json::from_slice(&std::fs::read(read("case.json")).unwrap()).unwrap(),
        }
    }

    /// The elements that the fixture has of a tensor: of a large one not all.
    fn some(&self, values: &[f32]) -> Vec<f32> {
        let number = |key: &str| self.info[key].as_u64().map(|number| number as usize);
        match (number("large"), number("stride")) {
            (Some(large), Some(stride)) if values.len() > large => {
                values.iter().step_by(stride).copied().collect()
            }
            _ => values.to_vec(),
        }
    }

    /// What GLIGEN's layers are told in a step.
    fn objects(&self, step: usize) -> Option<Objects> {
        self.file.info("boxes")?;
        let device = Device::flex();
        let tensor = |name: &str| {
            let [steps, batch, places, width]: [usize; 4] = match name {
                "masks" => [self.shape::<3>(name).as_slice(), &[1]].concat(),
                _ => self.shape::<4>(name).to_vec(),
            }
            .try_into()
            .unwrap();
            let values = self.numbers(name);
            let length = values.len() / steps;
            let values = values[step * length..][..length].to_vec();
            Tensor::<3>::from_data(TensorData::new(values, [batch, places, width]), &device)
        };
        Some(Objects {
            phrases: tensor("positive_embeddings"),
            boxes: tensor("boxes"),
            mask: tensor("masks"),
        })
    }

    /// What an IP-Adapter is shown in a step.
    fn features(&self, step: usize) -> Option<Tensor<3>> {
        let name = format!("{}features", self.kind);
        self.file.info(&name)?;
        let [steps, batch, rows, channels] = self.shape::<4>(&name);
        let values = self.numbers(&name);
        let length = values.len() / steps;
        let values = values[step * length..][..length].to_vec();
        let data = TensorData::new(values, [batch, rows, channels]);
        Some(Tensor::from_data(data, &Device::flex()))
    }

    fn numbers(&self, name: &str) -> Vec<f32> {
        numbers(&self.file, name).unwrap_or_else(|| panic!("{name}"))
    }

    fn shape<const N: usize>(&self, name: &str) -> [usize; N] {
        self.file
            .info(name)
            .unwrap()
            .shape
            .clone()
            .try_into()
            .unwrap()
    }

    fn adam(&self) -> (Rule, f64) {
        let all = &self.info["adam"];
        let settings = all.get(self.kind.trim_end_matches('/')).unwrap_or(all);
        let number = |key: &str| settings[key].as_f64().unwrap();
        let adam = AdamW {
            eps: number("eps"),
            weight_decay: number("weight_decay"),
            ..AdamW::default()
        };
        (Rule::AdamW(adam), number("lr"))
    }
}

fn open(options: LoadOptions) -> Checkpoint {
    Checkpoint::open(Path::new(&fixture("single-file/sd1")), &options).unwrap()
}

/// The checkpoint of GLIGEN's fixture for its layers, of the others their own.
fn checkpoint(choice: &Choice) -> Checkpoint {
    let layers = fixture("gligen/unet/diffusion_pytorch_model.safetensors");
    open(LoadOptions {
        gligen: (*choice == Choice::Gligen).then_some(layers),
        ..LoadOptions::default()
    })
}

fn load(checkpoint: &Checkpoint, choice: &Choice) -> (TrainableUNet, Vec<f32>) {
    let schedule = prepose::sampling::schedulers::Scheduler::from_config(
        &serde_json::json!({
            "_class_name": "DDIMScheduler", "beta_schedule": "scaled_linear", "beta_start": 0.00085, "beta_end": 0.012,
        }),
        None,
    );
    let unet = checkpoint.load_trainable_unet(&Device::flex(), FloatDType::F32, choice, 0);
    (unet.unwrap(), schedule.unwrap().alphas_cumprod().to_vec())
}

/// Trains for as many steps as there are and compares losses and weights; recomputed, gradients are the same to the bit.
fn follow(case: &Case, checkpoint: &Checkpoint, choice: &Choice) {
    let kind = case.kind;
    let (mut unet, alphas) = load(checkpoint, choice);
    let (rule, rate) = case.adam();
    let device = Device::flex();
    let row = |values: &[f32]| {
        Tensor::<1>::from_data(TensorData::new(values.to_vec(), [values.len()]), &device)
    };
    let values = unet
        .values()
        .into_iter()
        .map(|value| value.into_data().iter::<f32>().collect());
    let values: Vec<Vec<f32>> = values.collect();
    let mut trained: Vec<Trained> = (unet.parameters().iter().zip(values))
        .map(|(parameter, values)| {
            let start = numbers(&case.file, &format!("{kind}start/{}", parameter.name));
            Trained::new(
                &rule,
                &parameter.name,
                &parameter.shape,
                start.unwrap_or(values),
            )
        })
        .collect();
    let [steps, batch, channels, height, width] = case.shape("clean");
    let [_, _, tokens, states] = case.shape("context");
    let (clean, noise) = (case.numbers("clean"), case.numbers("noise"));
    let (contexts, timesteps) = (case.numbers("context"), case.numbers("timesteps"));
    let losses = case.numbers(&format!("{kind}losses"));
    let length = channels * height * width;
    for step in 0..steps {
        unet.set_values(trained.iter().map(|tensor| row(&tensor.values)).collect());
        let samples = step * batch..(step + 1) * batch;
        let t: Vec<f64> = timesteps[samples.clone()]
            .iter()
            .map(|t| f64::from(*t))
            .collect();
        let mut noisy = Vec::new();
        for (sample, t) in samples.clone().zip(&t) {
            let part = sample * length..(sample + 1) * length;
            let [a, b] = noisy_parts(f64::from(alphas[*t as usize]));
            noisy.extend(
                clean[part.clone()]
                    .iter()
                    .zip(&noise[part])
                    .map(|(x, n)| a * x + b * n),
            );
        }
        let shape = [batch, channels, height, width];
        let context =
            contexts[step * batch * tokens * states..][..batch * tokens * states].to_vec();
        let context = Tensor::from_data(TensorData::new(context, [batch, tokens, states]), &device);
        let noisy = Tensor::from_data(TensorData::new(noisy, shape), &device);
        let objects = case.objects(step);
        let told = Batch {
            objects: objects.as_ref(),
            shown: case.features(step),
            ..Batch::new(noisy, &t, context)
        };
        let pass = unet.pass(told.clone(), Memory::Keep);
        let again = unet.pass(told, Memory::Recompute);
        again
            .prediction()
            .to_data()
            .assert_eq(&pass.prediction().to_data(), true);
        let numbers: Vec<f32> = pass.prediction().to_data().iter::<f32>().collect();
        assert_eq!(Target::Epsilon.parts(0.5), [0.0, 1.0]);
        let (mut loss, mut cotangent) = (0.0, Vec::new());
        for (row, sample) in numbers.chunks_exact(length).zip(samples) {
            let (one, gradient) = error(
                row,
                &noise[sample * length..(sample + 1) * length],
                1.0,
                batch,
            );
            loss += one / batch as f64;
            cotangent.extend(gradient);
        }
        let expected = f64::from(losses[step]);
        assert!(
            (loss - expected).abs() < 1e-4 * expected,
            "{kind}, step {step}: {loss}, {expected}"
        );
        if step == 0 {
            assert!(
                (loss - expected).abs() < 1e-6 * expected,
                "{kind}: {loss}, {expected}"
            );
        }
        let cotangent = Tensor::<4>::from_data(TensorData::new(cotangent, shape), &device);
        let [gradients, again] = [pass, again].map(|pass| {
            let gradients = pass.gradients(cotangent.clone()).into_iter();
            let gradients = gradients.map(|g| g.into_data().iter::<f32>().collect());
            gradients.collect::<Vec<Vec<f32>>>()
        });
        for ((tensor, gradient), again) in trained.iter().zip(&gradients).zip(&again) {
            assert!(gradient == again, "{kind}{}, step {step}", tensor.name);
        }
        if step == 0 {
            check_gradients(case, &trained, &gradients);
        }
        rule.step_all(&mut trained, &gradients, rate, step as u64 + 1);
    }
    assert!(trained.len() > 10);
    for tensor in &trained {
        let expected = case.numbers(&format!("{kind}after/{}", tensor.name));
        let values = case.some(&tensor.values);
        assert_eq!(values.len(), expected.len(), "{}", tensor.name);
        let off = values.iter().zip(&expected).map(|(a, b)| (a - b).abs());
        let off = off.fold(0.0, f32::max);
        assert!(off < 1e-4, "{kind}, {}: {off}", tensor.name);
    }
}

/// Compares gradients where the fixture has them: each within 10⁻⁴ of its largest element.
fn check_gradients(case: &Case, trained: &[Trained], gradients: &[Vec<f32>]) {
    for (tensor, gradient) in trained.iter().zip(gradients) {
        let name = format!("{}gradient/{}", case.kind, tensor.name);
        let Some(expected) = numbers(&case.file, &name) else {
            let all = case.objects(0).is_some() || case.features(0).is_some();
            assert!(!all, "no {name}");
            continue;
        };
        let largest = expected.iter().fold(0f32, |most, g| most.max(g.abs()));
        let gradient = case.some(gradient);
        let off = gradient.iter().zip(&expected).map(|(a, b)| (a - b).abs());
        let off = off.fold(0.0, f32::max);
        println!("{name}: {:.1e} of {largest:.1e}", off / largest);
        assert!(
            largest > 0.0 && off <= 1e-4 * largest,
            "{name}: {off} of {largest}"
        );
    }
}

#[test]
fn steps_of_gligens_layers_come_to_diffusers_weights() {
    let choice = Choice::Gligen;
    let case = Case::open("training-gligen", "");
    follow(&case, &checkpoint(&choice), &choice);
}

/// The adapter of a kind in the fixture, in the UNet.
fn adapter(kind: &str) -> (Checkpoint, Choice) {
    let path = fixture("ip-adapter").join(format!("{kind}_sd1.safetensors"));
    let checkpoint = open(LoadOptions {
        adapters: vec![AdapterSpec {
            path,
            encoder: None,
        }],
        ..LoadOptions::default()
    });
    let config = checkpoint.adapters()[0].config().clone();
    (checkpoint, Choice::IpAdapter(config))
}

#[test]
fn steps_of_a_plain_ip_adapter_come_to_diffusers_weights() {
    let (checkpoint, choice) = adapter("plain");
    follow(
        &Case::open("training-ip-adapter", "plain/"),
        &checkpoint,
        &choice,
    );
}

#[test]
fn steps_of_a_resampler_come_to_diffusers_weights() {
    let (checkpoint, choice) = adapter("plus");
    follow(
        &Case::open("training-ip-adapter", "plus/"),
        &checkpoint,
        &choice,
    );
}

#[test]
fn a_new_ip_adapter_begins_with_what_the_layers_do_with_texts() {
    let options = LoadOptions {
        new_adapter: Some(NewAdapter {
            kind: AdapterKind::Plus,
            encoder: fixture("ip-adapter/image_encoder"),
        }),
        ..LoadOptions::default()
    };
    let checkpoint = open(options);
    let config = checkpoint.adapters()[0].config().clone();
    let resampler = config.resampler.unwrap();
    let (unet, _) = load(&checkpoint, &Choice::IpAdapter(config));
    let (whole, _) = load(&checkpoint, &Choice::All);
    let values = |unet: &TrainableUNet| -> HashMap<String, Vec<f32>> {
        let all = unet.export().into_iter();
        all.map(|(parameter, data)| (parameter.name, data.iter().collect()))
            .collect()
    };
    let (own, whole) = (values(&unet), values(&whole));
    for which in ["k", "v"] {
        for (number, layer) in [
            (1, "down_blocks.0.attentions.0"),
            (3, "down_blocks.0.attentions.1"),
            (5, "up_blocks.1.attentions.0"),
            (9, "up_blocks.1.attentions.2"),
            (11, "mid_block.attentions.0"),
        ] {
            let name = format!("{layer}.transformer_blocks.0.attn2.to_{which}.weight");
            let of = &own[&format!("ip_adapter.{number}.to_{which}_ip.weight")];
            assert_eq!(*of, whole[&name], "{name}");
        }
    }
    // Norms do nothing, and queries are normal numbers with the deviation 1 / sqrt(channels).
    assert!(
        own["image_proj.norm_out.weight"]
            .iter()
            .all(|value| *value == 1.0)
    );
    assert!(
        own["image_proj.norm_out.bias"]
            .iter()
            .all(|value| *value == 0.0)
    );
    let latents = &own["image_proj.latents"];
    assert_eq!(latents.len(), resampler.latents * resampler.width);
    let squares: f32 = latents.iter().map(|value| value * value).sum();
    let off = squares / resampler.latents as f32 - 1.0;
    assert!(off.abs() < 0.25, "{off}");
    let bound = 1.0 / (resampler.width as f32).sqrt();
    let largest = own["image_proj.proj_out.weight"]
        .iter()
        .fold(0f32, |most, value| most.max(value.abs()));
    assert!(
        (0.9 * bound..=bound).contains(&largest),
        "{largest} of {bound}"
    );
}

#[test]
fn twenty_steps_of_a_lora_come_to_pefts_weights() {
    let case = Case::open("training-steps", "lora/");
    let info = &case.info;
    let targets = info["targets"].as_array().unwrap().iter();
    let lora = Lora {
        targets: targets
            .map(|name| name.as_str().unwrap().to_owned())
            .collect(),
        ..Lora::attention(2, info["alpha"].as_f64().unwrap())
    };
    let choice = Choice::Lora(lora);
    follow(&case, &checkpoint(&choice), &choice);
}

#[test]
fn twenty_steps_of_a_unet_come_to_pytorchs_weights() {
    let case = Case::open("training-steps", "unet/");
    follow(&case, &checkpoint(&Choice::All), &Choice::All);
}
