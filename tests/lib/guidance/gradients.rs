//! Losses and their gradients.

use std::rc::Rc;

use burn::tensor::{Device, FloatDType, Tensor, TensorData};
use prepose::engine::Engine;
use prepose::guidance::gradient::{MapGradient, NoiseLevel, Reading, Stage};
use prepose::guidance::layout::Layout;
use prepose::guidance::maps::MapGroup;
use prepose::guidance::{GuidanceConfig, Network, Target};
use prepose::request::{Dtype, ModelRequest};
use prepose_models::attention::{LayerInfo, Place};
use prepose_models::ip_adapter::{PictureRow, RegionMask};
use prepose_models::unet::{
    AddedConditioning, MapCotangents, Memory, Objects, PreparedConditioning, UNet,
};
use prepose_weights::{AdapterSpec, AdapterWeights, Checkpoint, LoadOptions};
use serde_json::Value;

use super::support::*;
use crate::support::fixture;

/// A timestep where σ does not matter.
fn level(timestep: f64) -> NoiseLevel {
    NoiseLevel {
        timestep,
        sigma: 1.0,
    }
}

#[test]
fn losses_on_given_maps_and_their_gradients() {
    let expected = Expected::open("guidance");
    let given = expected.tensor::<3>("maps");
    let group = |maps: Tensor<3>| MapGroup {
        size: [8, 6],
        maps: maps.unsqueeze_dim(1),
        selector: None,
        layers: vec![0],
        down: false,
        count: 1,
    };
    let (nothing, before) = (Vec::new(), vec![group(expected.tensor("maps_before"))]);
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
        let mut ways = vec![("", Stage::Update, &nothing)];
        if name.starts_with("boxdiff") {
            ways.push(("/refined", Stage::Refine, &nothing));
        }
        if name.starts_with("conform") {
            ways.push(("/after", Stage::Update, &before));
        }
        for (suffix, stage, before) in ways {
            let groups = vec![group(given.clone())];
            let found = MapGradient::new(loss.as_ref(), groups, before, stage, level(0.0));
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
            if name.starts_with("conform") && suffix.is_empty() {
                // The second sample's objects have one token each: no pair without the step before.
                let gradient = values(&gradient.narrow(0, 1, 1));
                assert_eq!(values(&found.losses)[1], 0.0, "{name}");
                assert!(gradient.iter().all(|value| *value == 0.0), "{name}");
            }
        }
    }
}

/// A head that gives an object next to nothing, or in f16 nothing at all, has no gradient, and the others theirs.
#[test]
fn layout_follows_no_head_that_gives_nothing() {
    const CELLS: usize = 12;
    let seen: Vec<f32> = (0..CELLS).map(|cell| 0.02 * (cell + 1) as f32).collect();
    let (_, config, mut targets) = (cases().into_iter())
        .find(|(name, ..)| name == "layout")
        .unwrap();
    targets.truncate(1);
    let loss = only_pass(&config, &targets);
    let objects = (targets[0].objects.iter()).filter(|object| object.bbox.is_some());
    let objects = objects.count();
    // As the loss's pooling has them: one map for each object.
    let of = |heads: &[f32]| {
        let maps = (heads.iter()).flat_map(|share| seen.iter().map(move |value| value * share));
        let maps = maps.flat_map(|value| std::iter::repeat_n(value, objects));
        let shape = [1, heads.len(), CELLS, objects];
        let maps: Tensor<4> = Tensor::from_data(
            TensorData::new(maps.collect::<Vec<f32>>(), shape),
            &Device::flex(),
        )
        .autodiff()
        .require_grad();
        let group = MapGroup {
            size: [4, 3],
            maps: maps.clone(),
            selector: None,
            layers: vec![0],
            down: true,
            count: 1,
        };
        let losses = loss.losses(&group, None, Stage::Update);
        let gradient = maps.grad(&losses.clone().sum().backward()).unwrap();
        (values(&losses)[0], values(&gradient))
    };
    let (alone, expected) = of(&[1.0]);
    assert!(alone < 1.0 && expected.iter().any(|value| value.abs() > 0.1));
    for little in [0.0, 1e-44, 1e-36] {
        let (both, gradient) = of(&[1.0, little]);
        // Its attention counts as outside.
        assert!(
            (both - (alone + 1.0) / 2.0).abs() < 1e-6,
            "{little:e}: {both}"
        );
        let (first, second) = gradient.split_at(expected.len());
        for (value, expected) in first.iter().zip(&expected) {
            assert!((value - expected / 2.0).abs() < 1e-5, "{little:e}");
        }
        assert!(second.iter().all(|value| *value == 0.0), "{little:e}");
    }
    // Of what is more there is a quotient, the steeper the less it is.
    let (both, gradient) = of(&[1.0, 1e-26]);
    assert!((both - alone).abs() < 1e-5);
    assert!(gradient.iter().all(|value| value.is_finite()));
    assert!(
        gradient[expected.len()..]
            .iter()
            .any(|value| value.abs() > 1e20)
    );
}

/// A tiny network with the fixture's inputs.
#[derive(Clone)]
pub(super) struct Tiny {
    pub engine: Rc<Engine>,
    pub latents: Tensor<4>,
    context: Tensor<3>,
    added: Option<AddedConditioning>,
    pub timestep: f64,
    pub scale: f64,
    resolution: usize,
}

impl Tiny {
    pub fn open(family: &str, expected: &Expected) -> Self {
        Self::open_as(family, expected, Dtype::F32)
    }

    fn open_as(family: &str, expected: &Expected, dtype: Dtype) -> Self {
        let info = &read_json(&fixture("guidance/case.json"))["networks"][family];
        let key = |name: &str| format!("{family}/{name}");
        let added = (family == "sdxl").then(|| AddedConditioning {
            text_embeds: expected.tensor(&key("text_embeds")),
            time_ids: expected.tensor(&key("time_ids")),
        });
        Self {
            engine: Rc::new(engine_of(ModelRequest::new(
                fixture(&format!("{family}-tiny")).to_string_lossy(),
                dtype,
            ))),
            latents: expected.tensor(&key("latents")),
            context: expected.tensor(&key("context")),
            added,
            timestep: info["timestep"].as_f64().unwrap(),
            scale: info["scale"].as_f64().unwrap(),
            resolution: index(&info["resolution"]),
        }
    }

    /// The same with other latents.
    pub fn with_latents(&self, latents: Tensor<4>) -> Self {
        Self {
            latents,
            ..self.clone()
        }
    }

    /// The rows `from..from + count` of the batch.
    pub fn narrow(
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
        self.evaluate_merged(config, targets, from, memory, None)
    }

    /// The same where the network's self-attention merges tokens.
    fn evaluate_merged(
        &self,
        config: &GuidanceConfig,
        targets: &[Target],
        from: usize,
        memory: Memory,
        merging: Option<f64>,
    ) -> (Vec<f32>, Vec<f32>) {
        let (latents, context, added) = self.narrow(from, targets.len());
        let unet = self.engine.unet();
        let prepared = unet.prepare(context, added.as_ref());
        let [_, _, height, width] = latents.dims();
        let config = GuidanceConfig {
            // Layout guidance reads its own layers.
            resolution: (config.method != (&Layout).into()).then_some(self.resolution),
            ..config.clone()
        };
        let settings = config.settings(Network::Toybox).unwrap();
        settings.check(50, unet.config(), [height, width]).unwrap();
        let filter = settings
            .layers
            .resolve(unet.config(), [height, width])
            .unwrap();
        let loss = only_pass(&config, targets);
        let input = latents * self.scale;
        let reading = Reading {
            filter: &filter,
            loss: loss.as_ref(),
            before: &[],
            stage: Stage::Update,
            merging,
            graphs: None,
        };
        let (maps, recording) = reading.run(unet, input, level(self.timestep), &prepared, memory);
        let gradient = recording.sample_gradient(&maps) * self.scale;
        (values(&maps.losses), values(&gradient))
    }
}

fn latent_gradients(family: &str) {
    let expected = Expected::open("guidance");
    let network = Tiny::open(family, &expected);
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

/// How far apart central differences are taken; the latents have unit variance.
const APART: f32 = 0.02;

/// The gradient against the losses themselves, along the coordinates where it is steepest.
fn central_differences(family: &str) {
    let expected = Expected::open("guidance");
    let network = Tiny::open(family, &expected);
    let shape = network.latents.dims();
    for (name, config, targets) in cases() {
        let (_, gradient) = network.evaluate(&config, &targets, 0, Memory::Keep);
        let mut steepest: Vec<usize> = (0..gradient.len()).collect();
        steepest.sort_by(|&a, &b| gradient[b].abs().total_cmp(&gradient[a].abs()));
        let scale = gradient[steepest[0]].abs();
        for &coordinate in &steepest[..3] {
            let loss = |by: f32| {
                let mut moved = values(&network.latents);
                moved[coordinate] += by;
                let moved = TensorData::new(moved, shape);
                let moved = network.with_latents(Tensor::from_data(moved, &Device::flex()));
                let (losses, _) = moved.evaluate(&config, &targets, 0, Memory::Keep);
                losses.iter().map(|loss| f64::from(*loss)).sum::<f64>()
            };
            let difference = (loss(APART) - loss(-APART)) as f32 / (2.0 * APART);
            let error = (difference - gradient[coordinate]).abs() / scale;
            println!(
                "{family} {name}: {difference:.3e}, {:.3e}: {error:.1e}",
                gradient[coordinate]
            );
            assert!(error < 0.02, "{name}, coordinate {coordinate}: {error}");
        }
    }
}

#[test]
fn central_differences_through_sd1() {
    central_differences("sd1");
}

#[test]
fn central_differences_through_sdxl() {
    central_differences("sdxl");
}

/// Through networks in bf16, the gradients are about as far from those in f64 as PyTorch's are in bf16. How far is a matter
/// of chance, and all cases of a network share the roundings of its layers: a case may be three times as far, and all together
/// (the mean of the logarithms) half as far again.
#[test]
fn gradients_in_bf16() {
    let expected = Expected::open("guidance");
    let info = read_json(&fixture("guidance/case.json"));
    for family in ["sd1", "sdxl"] {
        let network = Tiny::open_as(family, &expected, Dtype::Bf16);
        let mut ratios = Vec::new();
        for (name, config, targets) in cases() {
            let (_, gradient) = network.evaluate(&config, &targets, 0, Memory::Keep);
            let key = format!("{family}/{name}/gradient");
            let ours = deviation(&gradient, &expected.values(&key));
            let theirs = &info["relative_deviation_of_bf16_from_f64"][family][&key];
            let theirs = theirs.as_f64().unwrap();
            println!("{family} {name}: {ours:.1e}, PyTorch {theirs:.1e}");
            assert!(f64::from(ours) < 3.0 * theirs, "{family} {name}: {ours}");
            ratios.push((f64::from(ours) / theirs).ln());
        }
        let mean = (ratios.iter().sum::<f64>() / ratios.len() as f64).exp();
        println!("{family}: {mean:.2} of PyTorch's");
        assert!(mean < 1.5, "{family}: {mean} times PyTorch's errors");
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

/// PoS through a network that merges tokens, against tomesd under PyTorch's autograd.
#[test]
fn gradients_through_merged_tokens() {
    let network = Tiny::open("sd1", &Expected::open("guidance"));
    let expected = Expected::open("savings");
    let info = &read_json(&fixture("savings/case.json"))["guided"];
    let (name, merging) = (
        info["case"].as_str().unwrap(),
        info["token_merging"].as_f64(),
    );
    let (_, config, targets) = (cases().into_iter())
        .find(|(case, ..)| case == name)
        .unwrap();
    for memory in [Memory::Keep, Memory::Recompute] {
        let (losses, gradient) = network.evaluate_merged(&config, &targets, 0, memory, merging);
        let errors = [
            deviation(&losses, &expected.values("guided/losses")),
            deviation(&gradient, &expected.values("guided/gradient")),
        ];
        println!(
            "{memory:?}: losses {:.1e}, gradient {:.1e}",
            errors[0], errors[1]
        );
        assert!(errors[0] < 1e-4 && errors[1] < 1e-4, "{errors:?}");
    }
    let (_, whole) = network.evaluate(&config, &targets, 0, Memory::Keep);
    assert!(deviation(&whole, &expected.values("guided/gradient")) > 1e-2);
}

/// PoS through further layers of a network, against PyTorch's autograd: the losses of the first conditioning and their
/// gradient, which is another one with the second. `info` is the case's guidance.
fn agree_with_autograd(
    expected: &Expected,
    unet: &UNet,
    info: &Value,
    [with, without]: [&PreparedConditioning; 2],
    limit: f32,
) {
    let latents = expected.tensor::<4>("gradient/latents");
    let [_, _, height, width] = latents.dims();
    let config: GuidanceConfig = serde_json::from_value(info["config"].clone()).unwrap();
    let config = GuidanceConfig {
        resolution: Some(height.min(width)),
        ..config
    };
    let targets: Vec<Target> = (info["targets"].as_array().unwrap().iter())
        .map(target)
        .collect();
    let settings = config.settings(Network::Toybox).unwrap();
    let filter = settings.layers.resolve(unet.config(), [height, width]);
    let filter = filter.unwrap();
    let loss = only_pass(&config, &targets);
    let reading = Reading {
        filter: &filter,
        loss: loss.as_ref(),
        before: &[],
        stage: Stage::Update,
        merging: None,
        graphs: None,
    };
    for memory in [Memory::Keep, Memory::Recompute] {
        let run = |prepared| {
            let (maps, recording) =
                reading.run(unet, latents.clone(), level(701.0), prepared, memory);
            (
                values(&maps.losses),
                values(&recording.sample_gradient(&maps)),
            )
        };
        let (losses, gradient) = run(with);
        let errors = [
            deviation(&losses, &expected.values("gradient/losses")),
            deviation(&gradient, &expected.values("gradient/gradient")),
        ];
        println!(
            "{memory:?}: losses {:.1e}, gradient {:.1e}",
            errors[0], errors[1]
        );
        assert!(errors[0] < 1e-5 && errors[1] < limit, "{errors:?}");
        let (_, other) = run(without);
        assert!(deviation(&other, &gradient) > 1e-2);
    }
}

/// Through GLIGEN's layers, against PyTorch in f64: its own rounding in f32 is 8e-6 of the gradient.
#[test]
fn gradients_through_gligen() {
    let expected = Expected::open("gligen");
    let key = |name: &str| format!("gradient/{name}");
    let checkpoint = LoadOptions {
        gligen: Some(fixture("gligen/unet/diffusion_pytorch_model.safetensors")),
        ..LoadOptions::default()
    };
    let checkpoint = Checkpoint::open(fixture("single-file/sd1"), &checkpoint).unwrap();
    let unet = checkpoint.load_unet(&Device::flex(), FloatDType::F32);
    let unet = unet.unwrap();
    let info = &read_json(&fixture("gligen/case.json"))["guidance"];
    let objects = Objects {
        phrases: expected.tensor(&key("positive_embeddings")),
        boxes: expected.tensor(&key("boxes")),
        mask: expected.tensor::<2>(&key("masks")).unsqueeze_dim(2),
    };
    let prepared = unet.prepare(expected.tensor(&key("context")), None);
    let prepared = unet.ground(prepared, &objects);
    let ways = [&prepared, &prepared.without_objects()];
    agree_with_autograd(&expected, &unet, info, ways, 1e-5);
}

/// Through layers that attend to pictures of two adapters, two of them with masks.
#[test]
fn gradients_through_pictures() {
    let expected = Expected::open("ip-adapter");
    let key = |name: &str| format!("gradient/{name}");
    let folder = fixture("ip-adapter");
    let adapter = |name: &str| AdapterSpec {
        path: folder.join(name),
        encoder: None,
    };
    let options = LoadOptions {
        adapters: vec![
            adapter("plain_sd1.safetensors"),
            adapter("plus_sd1.safetensors"),
        ],
        ..LoadOptions::default()
    };
    let checkpoint = Checkpoint::open(fixture("single-file/sd1"), &options).unwrap();
    let device = Device::flex();
    let unet = checkpoint.load_unet(&device, FloatDType::F32).unwrap();
    let load = |weights: &AdapterWeights| weights.load(&device, FloatDType::F32).unwrap();
    let adapters: Vec<_> = checkpoint.adapters().iter().map(load).collect();
    let info = &read_json(&folder.join("case.json"))["guidance"];
    let layers = unet.cross_attention_names().count();
    let left = RegionMask::new(192, 128, |x, _| x < 96);
    let disc = crate::pipeline::ip_adapter::disc(192, 128);
    let shown = |number: usize, features: Tensor<3>, scale: f32, region: Option<&RegionMask>| {
        let row = |row| PictureRow {
            tokens: adapters[number].tokens(features.clone().narrow(0, row, 1)),
            scales: vec![scale; layers],
            region: region.cloned(),
        };
        adapters[number].attention(&[row(0), row(1)], [16, 24])
    };
    let features = expected.tensor::<3>(&key("features"));
    let hidden: Tensor<4> = expected.tensor(&key("hidden"));
    let pictures = [
        shown(0, features.clone().narrow(1, 0, 1), 1.0, Some(&left)),
        shown(0, features.narrow(1, 1, 1), 0.7, Some(&disc)),
        shown(1, hidden.squeeze_dim(1), 0.6, None),
    ];
    let plain = unet.prepare(expected.tensor(&key("context")), None);
    let prepared = unet.show(plain.clone(), &pictures);
    agree_with_autograd(&expected, &unet, info, [&prepared, &plain], 1e-5);
}
