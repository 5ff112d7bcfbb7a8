//! What the networks promise besides parity: half precision, prepared conditioning, the attention
//! hook, and gradients.

mod support;

use burn::prelude::*;
use burn::tensor::{FloatDType, TensorData};
use prepose_kernels::profile;
use prepose_models::attention::{AttentionProbe, LayerInfo, Place};
use prepose_models::clip::{ClipTextModel, HiddenLayer};
use prepose_models::params::{ParamSource, Params};
use prepose_models::unet::{AddedConditioning, Objects, UNet, UNetConfig};
use prepose_models::vae::AutoencoderKl;
use serde_json::json;
use support::{RandomSource, deviation, noise_tensor, tiny_clip, tiny_unet, tiny_vae};

fn device() -> Device {
    Device::flex()
}

fn load_unet(config: &UNetConfig, dtype: FloatDType) -> UNet {
    UNet::load(config, Params::new(&mut RandomSource, &device(), dtype)).unwrap()
}

fn values<const D: usize>(x: Tensor<D>) -> Vec<f32> {
    x.to_data().iter().collect()
}

/// SDXL's conditioning for a batch of 2.
fn sdxl() -> (UNetConfig, AddedConditioning) {
    let config = tiny_unet(json!({
        "addition_embed_type": "text_time",
        "addition_time_embed_dim": 4,
        "projection_class_embeddings_input_dim": 34,
        "use_linear_projection": true,
        "transformer_layers_per_block": [2, 1],
        "upcast_attention": null,
    }));
    let added = AddedConditioning {
        text_embeds: noise_tensor(3, [2, 10], &device()),
        time_ids: Tensor::<1>::from_floats([512.0, 768.0, 0.0, 8.0, 512.0, 768.0], &device())
            .reshape([1, 6])
            .repeat_dim(0, 2),
    };
    (config, added)
}

/// Each type is close to f32: within some forty roundings of its own (2⁻¹¹ in f16, 2⁻⁸ in bf16).
#[test]
fn half_precision_is_close() {
    let (config, added) = sdxl();
    let sample = || noise_tensor(1, [2, 4, 8, 8], &device());
    let context = || noise_tensor(2, [2, 7, 12], &device());
    let latents = || noise_tensor(4, [1, 4, 4, 4], &device());
    let vae_config = tiny_vae(json!({}));
    let tokens = Tensor::<1, Int>::arange(0..9, &device()).reshape([1, 9]);
    let run = |dtype| {
        let unet = load_unet(&config, dtype);
        let noise = unet.forward(sample(), &[500.0], context(), Some(&added));
        let mut source = RandomSource;
        let params = Params::new(&mut source, &device(), dtype);
        let vae = AutoencoderKl::load(&vae_config, params).unwrap();
        let image = vae.decode(latents());
        let moments = vae.encode(image.clone());
        let params = Params::new(&mut source, &device(), dtype);
        let text = ClipTextModel::load(&tiny_clip(json!({})), params).unwrap();
        let text = text.forward(tokens.clone(), &[8], HiddenLayer::Last);
        let outputs = [noise, image, moments.mean];
        let text = [values(text.hidden), values(text.pooled)];
        outputs.into_iter().map(values).chain(text).collect()
    };
    let exact: Vec<Vec<f32>> = run(FloatDType::F32);
    for (dtype, tolerance) in [(FloatDType::F16, 2e-2), (FloatDType::BF16, 0.16)] {
        let half: Vec<Vec<f32>> = run(dtype);
        for (i, (half, exact)) in half.iter().zip(&exact).enumerate() {
            let error = deviation(half, exact);
            println!("{dtype:?} output {i}: {error:.1e}");
            assert!(error > 0.0 && error < tolerance, "{dtype:?} {i}: {error}");
        }
    }
}

/// Upcasting only changes the arithmetic of half precision.
#[test]
fn upcast_attention_runs() {
    let run = |dtype, upcast: bool| {
        let config = tiny_unet(json!({"upcast_attention": upcast}));
        let sample = noise_tensor(1, [1, 4, 8, 8], &device());
        let context = noise_tensor(2, [1, 7, 12], &device());
        values(load_unet(&config, dtype).forward(sample, &[500.0], context, None))
    };
    let exact = run(FloatDType::F32, false);
    assert_eq!(run(FloatDType::F32, true), exact);
    assert!(deviation(&run(FloatDType::F16, true), &exact) < 1e-2);
}

/// One row of a batch does not see the others, and one timestep may stand for all.
#[test]
fn samples_are_independent() {
    let (config, added) = sdxl();
    let unet = load_unet(&config, FloatDType::F32);
    let sample: Tensor<4> = noise_tensor(1, [2, 4, 7, 10], &device());
    let context: Tensor<3> = noise_tensor(2, [2, 7, 12], &device());
    let both = unet.forward(sample.clone(), &[321.5], context.clone(), Some(&added));
    let each = unet.forward(
        sample.clone(),
        &[321.5, 321.5],
        context.clone(),
        Some(&added),
    );
    assert!(deviation(&values(both.clone()), &values(each)) < 1e-6);
    let added = AddedConditioning {
        text_embeds: added.text_embeds.slice_dim(0, 1..2),
        time_ids: added.time_ids.slice_dim(0, 1..2),
    };
    let sample = sample.slice_dim(0, 1..2);
    let second = unet.forward(sample, &[321.5], context.slice_dim(0, 1..2), Some(&added));
    assert!(deviation(&values(second), &values(both.slice_dim(0, 1..2))) < 1e-5);
}

/// The guidance embedding of distilled networks is read, and only by them.
#[test]
fn guidance_scale_of_distilled_networks() {
    let sample = || noise_tensor(1, [1, 4, 8, 8], &device());
    let context = || noise_tensor(2, [1, 7, 12], &device());
    for (config, differs) in [
        (tiny_unet(json!({"time_cond_proj_dim": 6})), true),
        (tiny_unet(json!({})), false),
    ] {
        let unet = load_unet(&config, FloatDType::F32);
        let run = |scale| {
            let prepared = unet.prepare_distilled(context(), None, scale);
            values(unet.forward_prepared(sample(), &[500.0], &prepared))
        };
        assert_eq!(run(7.5) != run(2.0), differs);
    }
}

/// Records every wanted layer.
struct Recorder {
    places: Vec<Place>,
    seen: Vec<(String, Place, [usize; 2], Tensor<4>)>,
}

impl AttentionProbe for Recorder {
    fn wants(&self, layer: &LayerInfo) -> bool {
        self.places.contains(&layer.place)
    }

    fn record(&mut self, layer: &LayerInfo, probabilities: Tensor<4>) {
        let size = [layer.height, layer.width];
        let [_, heads, queries, tokens] = probabilities.dims();
        assert_eq!(heads, layer.heads);
        assert_eq!(queries, size[0] * size[1]);
        assert_eq!(tokens, layer.tokens);
        self.seen
            .push((layer.name.to_string(), layer.place, size, probabilities));
    }
}

#[test]
fn probe_sees_what_it_wants_and_changes_nothing() {
    let (config, added) = sdxl();
    let unet = load_unet(&config, FloatDType::F32);
    let context = noise_tensor(2, [2, 7, 12], &device());
    let prepared = unet.prepare(context, Some(&added));
    let sample: Tensor<4> = noise_tensor(1, [2, 4, 8, 12], &device());
    let plain = unet.forward_prepared(sample.clone(), &[500.0], &prepared);

    let all = [Place::Down, Place::Mid, Place::Up];
    for places in [vec![], vec![Place::Up], all.to_vec()] {
        let mut probe = Recorder {
            places: places.clone(),
            seen: Vec::new(),
        };
        let probed = unet.forward_probed(sample.clone(), &[500.0], &prepared, &mut probe);
        let error = deviation(&values(probed), &values(plain.clone()));
        assert!(error < 1e-6, "{error}");
        for (name, place, size, probabilities) in &probe.seen {
            assert!(places.contains(place), "{name}");
            let expected = if *place == Place::Mid {
                [4, 6]
            } else {
                [8, 12]
            };
            assert_eq!(*size, expected, "{name}");
            for sum in values(probabilities.clone().sum_dim(3)) {
                assert!((sum - 1.0).abs() < 1e-5, "{name}: {sum}");
            }
        }
        let names: Vec<_> = probe.seen.iter().map(|(name, ..)| name.as_str()).collect();
        let wanted = |name: &&str| {
            places.iter().any(|place| match place {
                Place::Down => name.starts_with("down_blocks."),
                Place::Mid => name.starts_with("mid_block."),
                Place::Up => name.starts_with("up_blocks."),
            })
        };
        let expected: Vec<_> = unet.cross_attention_names().filter(wanted).collect();
        assert_eq!(names, expected);
    }
    let names: Vec<_> = unet.cross_attention_names().collect();
    assert_eq!(
        names,
        [
            "down_blocks.0.attentions.0.transformer_blocks.0.attn2",
            "down_blocks.0.attentions.0.transformer_blocks.1.attn2",
            "mid_block.attentions.0.transformer_blocks.0.attn2",
            "up_blocks.1.attentions.0.transformer_blocks.0.attn2",
            "up_blocks.1.attentions.0.transformer_blocks.1.attn2",
            "up_blocks.1.attentions.1.transformer_blocks.0.attn2",
            "up_blocks.1.attentions.1.transformer_blocks.1.attn2",
        ]
    );
}

/// A loss on the output and on the probabilities, as guidance will have them.
fn loss(unet: &UNet, sample: Tensor<4>) -> Tensor<1> {
    let context = noise_tensor(2, [1, 7, 12], &device());
    let prepared = unet.prepare(context, None);
    let mut probe = Recorder {
        places: vec![Place::Down, Place::Up],
        seen: Vec::new(),
    };
    let out = unet.forward_probed(sample, &[500.0], &prepared, &mut probe);
    let out = out.clone() * noise_tensor(9, out.dims(), &device());
    let maps = probe.seen.into_iter().enumerate();
    maps.fold(out.sum(), |loss, (i, (.., map))| {
        let weights = noise_tensor(10 + i as u64, map.dims(), &device());
        loss + (map * weights).square().sum()
    })
}

#[test]
fn gradient_of_the_sample_matches_central_differences() {
    let unet = load_unet(&tiny_unet(json!({})), FloatDType::F32);
    let shape = [1, 4, 5, 6];
    let sample: Tensor<4> = noise_tensor(1, shape, &device());
    // Parameters and conditioning stay on the plain device, where they are constants.
    let tracked = sample.clone().autodiff().require_grad();
    let gradients = loss(&unet, tracked.clone()).backward();
    let gradient = tracked.grad(&gradients).expect("the sample has a gradient");
    let gradient = values(gradient);

    let scale = gradient.iter().fold(0f32, |m, g| m.max(g.abs()));
    assert!(scale > 0.0);
    const STEP: f32 = 1e-2;
    for i in (0..gradient.len()).step_by(17) {
        let at = |step: f32| {
            let mut data = values(sample.clone());
            data[i] += step;
            let data = burn::tensor::TensorData::new(data, shape);
            let sample = Tensor::<4>::from_data(data, &device());
            loss(&unet, sample).into_scalar::<f32>()
        };
        // Fourth order, so that the step can be large enough for f32.
        let near = (at(STEP) - at(-STEP)) / (2.0 * STEP);
        let far = (at(2.0 * STEP) - at(-2.0 * STEP)) / (4.0 * STEP);
        let difference = (4.0 * near - far) / 3.0;
        let error = (difference - gradient[i]).abs() / scale;
        assert!(error < 1e-3, "{i}: {} and {difference}", gradient[i]);
    }
}

/// What a latent distribution's sample is.
#[test]
fn samples_of_a_distribution() {
    let mut source = RandomSource;
    let params = Params::new(&mut source, &device(), FloatDType::F32);
    let vae = AutoencoderKl::load(&tiny_vae(json!({})), params).unwrap();
    let latents = vae.encode(noise_tensor(1, [1, 3, 8, 8], &device()));
    let zero = Tensor::zeros([1, 4, 4, 4], &device());
    assert_eq!(values(latents.sample(zero)), values(latents.mean.clone()));
    let noise: Tensor<4> = noise_tensor(2, [1, 4, 4, 4], &device());
    let expected = latents.mean.clone() + noise.clone() * (latents.logvar.clone() / 2.0).exp();
    assert!(deviation(&values(latents.sample(noise)), &values(expected)) < 1e-6);
}

/// Random parameters with every gate closed.
struct ClosedGates;

impl ParamSource for ClosedGates {
    fn take(&mut self, name: &str, shape: &[usize]) -> TensorData {
        match name.contains(".alpha_") {
            true => TensorData::zeros::<f32, _>(shape.to_vec()),
            false => RandomSource.take(name, shape),
        }
    }

    fn contains(&self, _name: &str) -> bool {
        false
    }
}

/// One object in the first of two samples.
fn one_object() -> Objects {
    let phrase = noise_tensor(5, [12], &device());
    let one = Objects::new(&[(phrase, [0.1, 0.2, 0.5, 0.9])], 12, &device());
    Objects::cat(vec![one.clone(), one.none()])
}

#[test]
fn closed_gates_and_absent_objects_change_nothing() {
    let config = tiny_unet(json!({"attention_type": "gated"}));
    let plain = load_unet(&tiny_unet(json!({})), FloatDType::F32);
    let context = || noise_tensor(2, [2, 7, 12], &device());
    let sample = || noise_tensor(1, [2, 4, 8, 8], &device());
    let run = |unet: &UNet, grounded: bool| {
        let mut prepared = unet.prepare(context(), None);
        if grounded {
            prepared = unet.ground(prepared, &one_object());
        }
        profile::record(|| values(unet.forward_prepared(sample(), &[500.0], &prepared)))
    };
    let (expected, plain_calls) = run(&plain, false);
    let mut source = ClosedGates;
    let params = Params::new(&mut source, &device(), FloatDType::F32);
    let closed = UNet::load(&config, params).unwrap();
    assert_eq!(run(&closed, true).0, expected);
    let open = load_unet(&config, FloatDType::F32);
    let (off, off_calls) = run(&open, false);
    assert_eq!(off, expected);
    // Off they cost nothing: the same kernels run on the same numbers.
    assert_eq!(off_calls.flops(), plain_calls.flops());
    for family in profile::Family::ALL {
        let calls = [&off_calls, &plain_calls].map(|calls| calls.get(family).calls);
        assert_eq!(calls[0], calls[1]);
    }
    let (on, _) = run(&open, true);
    assert!(deviation(&on, &expected) > 1e-2);
    // Another network ignores them.
    assert_eq!(run(&plain, true).0, expected);
}

#[test]
fn objects_do_not_depend_on_their_neighbours() {
    let config = tiny_unet(json!({"attention_type": "gated"}));
    for dtype in [FloatDType::F32, FloatDType::F16, FloatDType::BF16] {
        let unet = load_unet(&config, dtype);
        let context = noise_tensor(2, [2, 7, 12], &device());
        let sample: Tensor<4> = noise_tensor(1, [2, 4, 8, 8], &device());
        let prepared = unet.ground(unet.prepare(context, None), &one_object());
        let both = unet.forward_prepared(sample.clone(), &[500.0], &prepared);
        for row in 0..2 {
            let alone = sample.clone().narrow(0, row, 1);
            let alone = unet.forward_prepared(alone, &[500.0], &prepared.narrow(row, 1));
            let error = deviation(&values(alone), &values(both.clone().narrow(0, row, 1)));
            assert!(error < 1e-5, "{dtype:?}, sample {row}: {error}");
        }
        let [on, off] = [&prepared, &prepared.without_objects()]
            .map(|prepared| values(unet.forward_prepared(sample.clone(), &[500.0], prepared)));
        assert!(deviation(&on, &off) > 1e-2, "{dtype:?}");
    }
}
