//! The recorded forward pass and its gradient: against Burn's autodiff through the plain forward
//! pass, against differences, and against itself in all its variants.

mod support;

use std::collections::BTreeMap;

use burn::prelude::*;
use burn::tensor::{FloatDType, TensorData};
use prepose_models::attention::{AttentionProbe, LayerInfo};
use prepose_models::params::Params;
use prepose_models::unet::{
    AddedConditioning, GraphUse, Kept, MapCotangents, Memory, Objects, PreparedConditioning,
    RecordGraphs, RecordOptions, Recording, Reuse, UNet, UNetConfig,
};
use support::{FileSource, config, deviation, noise_tensor};

const TOKENS: usize = 9;

fn device() -> Device {
    Device::flex()
}

fn values<const D: usize>(x: Tensor<D>) -> Vec<f32> {
    x.to_data().iter().collect()
}

/// A network of the fixtures and a batch for it.
struct Case {
    unet: UNet,
    conditioning: PreparedConditioning,
    sample: Tensor<4>,
    timesteps: Vec<f64>,
    /// The share of tokens that self-attention merges.
    merging: Option<f64>,
}

impl Case {
    fn new(name: &str, dtype: FloatDType) -> Self {
        let file = match name {
            "sdxl-tiny" => "diffusion_pytorch_model.fp16.safetensors",
            _ => "diffusion_pytorch_model.safetensors",
        };
        let mut source = FileSource::open(&format!("{name}/unet/{file}"));
        let config: UNetConfig = config(&format!("{name}/unet/config.json"));
        let unet = UNet::load(&config, Params::new(&mut source, &device(), dtype)).unwrap();
        let added = config.addition_embed_type.as_ref().map(|_| {
            let ids = [64.0, 96.0, 0.0, 8.0, 64.0, 96.0];
            AddedConditioning {
                text_embeds: noise_tensor(3, [2, 40], &device()),
                time_ids: Tensor::<1>::from_floats(ids, &device())
                    .reshape([1, 6])
                    .repeat_dim(0, 2),
            }
        });
        let context = config.cross_attention_dim.first().unwrap();
        // Wide, so that the attention of random weights is not flat. Of the fixture with GLIGEN's
        // layers the narrow network has twice the depth, and rounding grows with it; a trained
        // network's is sharp on what its text encoder gives, which has the size 1, and on three
        // times that so sharp that rounding nothing but the input to f16 moves f32's gradient by 8 %.
        let spread = if config.is_grounded() || name == TOYBOX {
            1.0
        } else {
            3.0
        };
        let context = noise_tensor(2, [2, TOKENS, context], &device()) * spread;
        let mut conditioning = unet.prepare(context, added.as_ref());
        if unet.is_grounded() {
            // Two objects, and one.
            let object = |seed, corners| (noise_tensor(seed, [16], &device()), corners);
            let objects = [
                object(4, [0.1, 0.2, 0.4, 0.9]),
                object(5, [0.5, 0.0, 1.0, 0.6]),
            ];
            let rows = [2, 1].map(|count| Objects::new(&objects[..count], 16, &device()));
            conditioning = unet.ground(conditioning, &Objects::cat(rows.to_vec()));
        }
        Self {
            conditioning,
            unet,
            // Odd, so that skip connections are cropped.
            sample: noise_tensor(1, [2, 4, 9, 10], &device()),
            timesteps: vec![601.0, 280.5],
            merging: None,
        }
    }

    /// The second sample alone.
    fn second(self) -> Self {
        Self {
            conditioning: self.conditioning.narrow(1, 1),
            sample: self.sample.narrow(0, 1, 1),
            timesteps: vec![self.timesteps[1]],
            merging: self.merging,
            unet: self.unet,
        }
    }

    fn gradient(&self, loss: &Loss, memory: Memory) -> Vec<f32> {
        let mut maps = Maps::of(loss);
        let options = RecordOptions {
            memory,
            whole: false,
            merging: self.merging,
        };
        let recording = self.unet.record(
            self.sample.clone(),
            &self.timesteps,
            &self.conditioning,
            &mut maps,
            options,
        );
        assert_eq!(maps.seen.len(), loss.layers.len());
        assert!(recording.output().is_none());
        let gradient = recording.sample_gradient(&loss.cotangents(&maps));
        assert_eq!(gradient.dims(), self.sample.dims());
        values(gradient)
    }

    /// The same by Burn's autodiff.
    fn autodiff(&self, loss: &Loss) -> Vec<f32> {
        let sample = self.sample.clone().autodiff().require_grad();
        let gradients = self.loss(loss, sample.clone()).backward();
        values(sample.grad(&gradients).expect("a gradient"))
    }

    fn loss(&self, loss: &Loss, sample: Tensor<4>) -> Tensor<1> {
        let mut maps = Maps::of(loss);
        let mut reuse = Reuse {
            merging: self.merging,
            ..Reuse::default()
        };
        let (times, told) = (&self.timesteps, &self.conditioning);
        (self.unet).forward_reusing(sample, times, told, &mut maps, &mut reuse);
        let terms = maps.seen.iter();
        let terms = terms.map(|(&layer, map)| loss.term(layer, map.clone()));
        terms.reduce(|a, b| a + b).expect("a map")
    }
}

/// The sum over some layers of `w · mean(map)²`, where `w` are random weights of some tokens, and
/// the mean is over the heads or not taken.
struct Loss {
    layers: Vec<usize>,
    mean: bool,
}

impl Loss {
    fn weights(&self, layer: usize, shape: [usize; 4]) -> Tensor<4> {
        let [batch, heads, queries, tokens] = shape;
        let some = (0..tokens).map(|token| (token % 4 != 0) as u8 as f32);
        let some = TensorData::new(some.collect::<Vec<_>>(), [1, 1, 1, tokens]);
        // The same for every sample, so that a sample alone has the same loss.
        let weights = noise_tensor(10 + layer as u64, [1, heads, queries, tokens], &device());
        (weights * Tensor::from_data(some, &device())).repeat_dim(0, batch)
    }

    fn read(&self, map: Tensor<4>) -> Tensor<4> {
        if self.mean { map.mean_dim(1) } else { map }
    }

    fn term(&self, layer: usize, map: Tensor<4>) -> Tensor<1> {
        let map = self.read(map.cast(FloatDType::F32));
        let weights = self.weights(layer, map.dims());
        (map.square() * weights).sum()
    }

    fn cotangents(&self, maps: &Maps) -> impl MapCotangents {
        |layer: &LayerInfo| {
            let map = maps.seen.get(&layer.index)?.clone().cast(FloatDType::F32);
            let heads = if self.mean { layer.heads } else { 1 };
            let map = self.read(map);
            let weights = self.weights(layer.index, map.dims());
            Some(map * weights * (2.0 / heads as f64))
        }
    }
}

/// The probabilities of a loss's layers.
struct Maps {
    layers: Vec<usize>,
    seen: BTreeMap<usize, Tensor<4>>,
}

impl Maps {
    fn of(loss: &Loss) -> Self {
        Self {
            layers: loss.layers.clone(),
            seen: BTreeMap::new(),
        }
    }
}

impl AttentionProbe for Maps {
    fn wants(&self, layer: &LayerInfo) -> bool {
        self.layers.contains(&layer.index)
    }

    fn record(&mut self, layer: &LayerInfo, probabilities: Tensor<4>) {
        let [_, heads, queries, tokens] = probabilities.dims();
        let size = layer.height * layer.width;
        assert_eq!([heads, queries, tokens], [layer.heads, size, layer.tokens]);
        self.seen.insert(layer.index, probabilities);
    }
}

const CASES: [&str; 3] = ["sd1-tiny", "sdxl-tiny", "gligen"];
/// Trained weights, where numbers are as large as they get.
const TOYBOX: &str = "../weights/toybox";

/// Losses that end everywhere: in each layer alone, in some and in all, with and without the mean.
fn losses(unet: &UNet) -> Vec<Loss> {
    let count = unet.cross_attention_names().count();
    let mut losses: Vec<_> = (0..count)
        .map(|layer| Loss {
            layers: vec![layer],
            mean: layer % 2 == 0,
        })
        .collect();
    let some: Vec<_> = (0..count - 1).step_by(3).collect();
    for layers in [some, (0..count).collect()] {
        losses.push(Loss {
            layers,
            mean: false,
        });
    }
    losses
}

#[test]
fn equals_autodiff() {
    for name in CASES {
        let case = Case::new(name, FloatDType::F32);
        for loss in losses(&case.unet) {
            let expected = case.autodiff(&loss);
            assert!(expected.iter().any(|x| x.abs() > 1e-6));
            for memory in [Memory::Keep, Memory::Recompute] {
                let error = deviation(&case.gradient(&loss, memory), &expected);
                println!("{name}, layers {:?}, {memory:?}: {error:.1e}", loss.layers);
                assert!(error < 1e-4, "{name} {:?} {memory:?}: {error}", loss.layers);
            }
        }
    }
}

#[test]
fn equals_differences() {
    for name in CASES {
        let case = Case::new(name, FloatDType::F32);
        let loss = losses(&case.unet).pop().unwrap();
        let gradient = case.gradient(&loss, Memory::Keep);
        let scale = gradient.iter().fold(0f32, |m, g| m.max(g.abs()));
        const STEP: f32 = 2e-2;
        for i in (3..gradient.len()).step_by(101) {
            let at = |step: f32| {
                let mut data = values(case.sample.clone());
                data[i] += step;
                let data = TensorData::new(data, case.sample.dims());
                let loss = case.loss(&loss, Tensor::from_data(data, &device()));
                loss.into_scalar::<f32>()
            };
            // Fourth order, so that the step can be large enough for f32.
            let near = (at(STEP) - at(-STEP)) / (2.0 * STEP);
            let far = (at(2.0 * STEP) - at(-2.0 * STEP)) / (4.0 * STEP);
            let difference = (4.0 * near - far) / 3.0;
            let error = (difference - gradient[i]).abs() / scale;
            println!("{name} {i}: {error:.1e}");
            assert!(error < 2e-3, "{i}: {} and {difference}", gradient[i]);
        }
    }
}

#[test]
fn batched_equals_one_by_one() {
    for name in CASES {
        for (dtype, tolerance) in [(FloatDType::F32, 1e-5), (FloatDType::F16, 3e-2)] {
            let case = Case::new(name, dtype);
            let loss = losses(&case.unet).pop().unwrap();
            let both = case.gradient(&loss, Memory::Keep);
            let second = case.second().gradient(&loss, Memory::Keep);
            let error = deviation(&second, &both[both.len() / 2..]);
            println!("{name} {dtype:?}: {error:.1e}");
            assert!(error < tolerance, "{name}: {error}");
        }
    }
}

/// Half precision stays near f32, however small the loss is.
#[test]
fn half_precision_is_close() {
    for name in CASES.into_iter().chain([TOYBOX]) {
        let exact = Case::new(name, FloatDType::F32);
        let loss = losses(&exact.unet).pop().unwrap();
        let exact = exact.gradient(&loss, Memory::Keep);
        for (dtype, tolerance) in [(FloatDType::F16, 3e-2), (FloatDType::BF16, 0.4)] {
            let case = Case::new(name, dtype);
            for factor in [1.0, 1e-8] {
                let mut maps = Maps::of(&loss);
                let recording = case.unet.record(
                    case.sample.clone(),
                    &case.timesteps,
                    &case.conditioning,
                    &mut maps,
                    RecordOptions::default(),
                );
                let cotangents = loss.cotangents(&maps);
                let small = |layer: &LayerInfo| Some(cotangents.cotangent(layer)? * factor);
                let gradient = recording.sample_gradient(&small);
                assert_eq!(gradient.dtype(), burn::tensor::DType::F32);
                let error = deviation(&values(gradient / factor), &exact);
                println!("{name} {dtype:?}, {factor:.0e}: {error:.1e}");
                assert!(error < tolerance, "{name} {dtype:?}, {factor}: {error}");
            }
        }
    }
}

/// A recording of the whole network gives its output and the same gradient.
#[test]
fn whole_output_equals_forward() {
    for name in CASES {
        let case = Case::new(name, FloatDType::F32);
        let plain =
            case.unet
                .forward_prepared(case.sample.clone(), &case.timesteps, &case.conditioning);
        for loss in losses(&case.unet) {
            let expected = case.gradient(&loss, Memory::Keep);
            for memory in [Memory::Keep, Memory::Recompute] {
                let options = RecordOptions {
                    memory,
                    whole: true,
                    merging: None,
                };
                let mut maps = Maps::of(&loss);
                let recording = case.unet.record(
                    case.sample.clone(),
                    &case.timesteps,
                    &case.conditioning,
                    &mut maps,
                    options,
                );
                let output = recording.output().expect("the output").clone();
                assert!(deviation(&values(output), &values(plain.clone())) < 1e-6);
                let gradient = values(recording.sample_gradient(&loss.cotangents(&maps)));
                assert!(deviation(&gradient, &expected) < 1e-6);
            }
        }
    }
}

/// The same through merged tokens, sample by sample.
#[test]
fn merged_tokens_have_the_gradients_of_autodiff() {
    for name in ["sd1-tiny", "gligen"] {
        let plain = Case::new(name, FloatDType::F32);
        let loss = losses(&plain.unet).pop().unwrap();
        let whole = plain.gradient(&loss, Memory::Keep);
        let case = Case {
            merging: Some(0.5),
            ..plain
        };
        let expected = case.autodiff(&loss);
        assert!(deviation(&whole, &expected) > 1e-3, "{name} merges nothing");
        for memory in [Memory::Keep, Memory::Recompute] {
            let error = deviation(&case.gradient(&loss, memory), &expected);
            println!("{name} {memory:?}: {error:.1e}");
            assert!(error < 1e-4, "{name} {memory:?}: {error}");
        }
        let second = case.second().gradient(&loss, Memory::Keep);
        assert!(deviation(&second, &expected[expected.len() / 2..]) < 1e-4);
    }
}

/// A call that leaves something is a whole one, bit for bit, and on the same input so is one that takes it.
#[test]
fn what_is_reused_on_the_same_input_is_what_it_was() {
    for name in CASES {
        let case = Case::new(name, FloatDType::F32);
        let (unet, sample) = (&case.unet, &case.sample);
        let plain = unet.forward_prepared(sample.clone(), &case.timesteps, &case.conditioning);
        let plain = values(plain);
        let call = |reuse: &mut Reuse| {
            let mut nobody = prepose_models::attention::NoProbe;
            let (times, told) = (&case.timesteps, &case.conditioning);
            values(unet.forward_reusing(sample.clone(), times, told, &mut nobody, reuse))
        };
        assert!(call(&mut Reuse::default()) == plain, "{name}");
        for branch in 0..unet.config().branches().unwrap() {
            let mut reuse = Reuse {
                branch,
                deep: Kept::Wanted,
                pictures: 2,
                ..Reuse::default()
            };
            for which in ["left", "taken"] {
                assert!(
                    call(&mut reuse) == plain,
                    "{name}, branch {branch}, {which}"
                );
            }
        }
        let mut reuse = Reuse {
            cross: Kept::Wanted,
            pictures: 2,
            ..Reuse::default()
        };
        let left = call(&mut reuse);
        assert!(deviation(&left, &plain) < 1e-6, "{name}");
        assert!(reuse.cross.get().is_some());
        assert!(call(&mut reuse) == left, "{name}");
    }
}

/// No wanted layer, or no cotangent, is no gradient.
#[test]
fn nothing_wanted() {
    let case = Case::new("sd1-tiny", FloatDType::F32);
    let nothing = |_: &LayerInfo| None;
    for layers in [vec![], vec![0, 5]] {
        let mut maps = Maps::of(&Loss {
            layers,
            mean: false,
        });
        let recording = case.unet.record(
            case.sample.clone(),
            &case.timesteps,
            &case.conditioning,
            &mut maps,
            RecordOptions::default(),
        );
        let gradient = recording.sample_gradient(&nothing);
        assert_eq!(gradient.dims(), case.sample.dims());
        assert!(values(gradient).iter().all(|&x| x == 0.0));
    }
}

/// Maps, output and gradient of a recording.
type Numbers = (Vec<Vec<f32>>, Option<Vec<f32>>, Vec<f32>);

/// Those of a recording that may be by graphs, for a loss.
fn numbers(recording: Recording, maps: &Maps, loss: &Loss) -> Numbers {
    let output = recording.output().cloned().map(values);
    let gradient = values(recording.sample_gradient(&loss.cotangents(maps)));
    let maps = maps.seen.values().cloned().map(values).collect();
    (maps, output, gradient)
}

/// Captured recordings are ordinary ones to the bit, whatever comes after what.
#[test]
fn captured_equals_ordinary() {
    for name in CASES {
        let case = Case::new(name, FloatDType::F32);
        let unet = &case.unet;
        let graphs = RecordGraphs::new(GraphUse::Forced);
        let record = |graphs, step: usize, rows, loss: &Loss, options| {
            let sample = case.sample.clone().narrow(0, 0, rows) * (1.0 - 0.2 * step as f64);
            // Another prompt at every other step.
            let conditioning = case.conditioning.narrow(step / 2 % 2 * (2 - rows), rows);
            let timestep = 900.0 - 150.0 * step as f64;
            let mut maps = Maps::of(loss);
            let recording = RecordGraphs::record(
                graphs,
                unet,
                sample,
                timestep,
                &conditioning,
                &mut maps,
                options,
            );
            (recording, maps)
        };
        let all = losses(unet);
        for loss in [&all[0], &all[1], &all[all.len() - 2], &all[all.len() - 1]] {
            for (rows, whole) in [(2, false), (2, true), (1, false)] {
                let options = RecordOptions {
                    whole,
                    ..RecordOptions::default()
                };
                for step in 0..4 {
                    let both = [None, Some(&graphs)].map(|graphs| {
                        let (recording, maps) = record(graphs, step, rows, loss, options);
                        numbers(recording, &maps, loss)
                    });
                    assert!(
                        both[0] == both[1],
                        "{name} {:?}, step {step}, {rows} rows, {whole}",
                        loss.layers
                    );
                    assert!(graphs.is_captured());
                }
            }
        }

        // Other cotangents than those of the capture, then none at all.
        let loss = &all[all.len() - 1];
        let options = RecordOptions::default();
        for fewer in [&all[1], &all[0], loss] {
            let both = [None, Some(&graphs)].map(|graphs| {
                let (recording, maps) = record(graphs, 1, 2, loss, options);
                let cotangents = loss.cotangents(&maps);
                let read = |layer: &LayerInfo| fewer.layers.contains(&layer.index);
                values(recording.sample_gradient(&|layer: &LayerInfo| {
                    cotangents.cotangent(layer).filter(|_| read(layer))
                }))
            });
            assert!(both[0] == both[1], "{name} {:?}", fewer.layers);
        }
        let (recording, _) = record(Some(&graphs), 2, 2, loss, options);
        let gradient = recording.sample_gradient(&|_: &LayerInfo| None);
        assert!(values(gradient).iter().all(|&x| x == 0.0));

        // Two at once, of which one is an ordinary one, and maps that are read after another pass.
        let expected = [0, 3].map(|step| {
            let (recording, maps) = record(None, step, 2, loss, options);
            numbers(recording, &maps, loss)
        });
        let (first, first_maps) = record(Some(&graphs), 0, 2, loss, options);
        let (second, second_maps) = record(Some(&graphs), 3, 2, loss, options);
        assert!(!graphs.is_captured(), "a recording has the graphs");
        assert!(numbers(second, &second_maps, loss) == expected[1]);
        assert!(numbers(first, &first_maps, loss) == expected[0]);
        assert!(graphs.is_captured());
        let (first, first_maps) = record(Some(&graphs), 0, 2, loss, options);
        drop(first);
        let (second, second_maps) = record(Some(&graphs), 3, 2, loss, options);
        assert!(numbers(second, &second_maps, loss) == expected[1]);
        let first_maps: Vec<_> = first_maps.seen.into_values().map(values).collect();
        assert!(first_maps == expected[0].0);

        // Let go of while a recording has them, they are still there for it.
        let (first, first_maps) = record(Some(&graphs), 0, 2, loss, options);
        graphs.release();
        assert!(numbers(first, &first_maps, loss) == expected[0]);
        assert!(!graphs.is_captured());

        // What is left to ordinary passes.
        for (memory, merging) in [(Memory::Recompute, None), (Memory::Keep, Some(0.5))] {
            let options = RecordOptions {
                memory,
                whole: false,
                merging,
            };
            let both = [None, Some(&graphs)].map(|graphs| {
                let (recording, maps) = record(graphs, 1, 2, loss, options);
                numbers(recording, &maps, loss)
            });
            assert!(both[0] == both[1] && !graphs.is_captured());
        }
    }
}
