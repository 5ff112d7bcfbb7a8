//! Every network against diffusers and transformers, on fixtures with random weights, on the CPU.
//! `--no-capture` prints the deviations.

mod support;

use burn::prelude::*;
use burn::tensor::{FloatDType, TensorData};
use prepose_models::clip::{ClipTextModel, HiddenLayer};
use prepose_models::params::Params;
use prepose_models::unet::{AddedConditioning, MOST_OBJECTS, Objects, PreparedConditioning, UNet};
use prepose_models::vae::AutoencoderKl;
use support::{Expected, FileSource, config};

/// Largest error as a share of the largest reference value, in f32. Ten times what is seen, and
/// above the difference that the reference's own rounding makes (2.5e-6).
const F32: f32 = 2e-5;

fn device() -> Device {
    Device::flex()
}

/// Loads a network with all of its file.
fn load<T>(path: &str, dtype: FloatDType, build: impl FnOnce(Params) -> T) -> T {
    let mut source = FileSource::open(path);
    let network = build(Params::new(&mut source, &device(), dtype));
    source.finish();
    network
}

fn text_encoder(folder: &str, file: &str, dtype: FloatDType) -> ClipTextModel {
    let config = config(&format!("{folder}/config.json"));
    load(&format!("{folder}/{file}"), dtype, |params| {
        ClipTextModel::load(&config, params).unwrap()
    })
}

fn unet(case: &str, file: &str, dtype: FloatDType) -> UNet {
    let config = config(&format!("{case}/unet/config.json"));
    load(&format!("{case}/unet/{file}"), dtype, |params| {
        UNet::load(&config, params).unwrap()
    })
}

fn vae(case: &str, file: &str, dtype: FloatDType) -> AutoencoderKl {
    let config = config(&format!("{case}/vae/config.json"));
    load(&format!("{case}/vae/{file}"), dtype, |params| {
        AutoencoderKl::load(&config, params).unwrap()
    })
}

const MODEL: &str = "diffusion_pytorch_model.safetensors";
const MODEL_FP16: &str = "diffusion_pytorch_model.fp16.safetensors";

/// Checks every hidden layer of a text encoder with `layers` layers, and the pooled output.
fn check_text(expected: &Expected, group: &str, encoder: &ClipTextModel, pooled: &str, tol: f32) {
    let name = |tensor: &str| format!("{group}/{tensor}");
    let tokens = expected.data(&name("tokens"));
    let width = tokens.shape()[1];
    let ids: Vec<i32> = tokens.iter::<f32>().map(|id| id as i32).collect();
    // The end-of-text token has the largest id.
    let eos: Vec<usize> = ids
        .chunks(width)
        .map(|row| {
            let max = row.iter().max();
            row.iter().position(|id| Some(id) == max).unwrap()
        })
        .collect();
    let tokens = Tensor::<2, Int>::from_data(TensorData::new(ids, [eos.len(), width]), &device());
    let encode = |layer| encoder.forward(tokens.clone(), &eos, layer);

    let last = encode(HiddenLayer::Last);
    expected.compare(&name("last"), last.hidden, tol);
    expected.compare(&name(pooled), last.pooled.clone(), tol);
    let layers = encoder.config().num_hidden_layers;
    for n in 0..=layers {
        let layer = HiddenLayer::Skip {
            n,
            final_norm: false,
        };
        let encoding = encode(layer);
        expected.compare(
            &name(&format!("hidden{}", layers - n)),
            encoding.hidden,
            tol,
        );
        expected.compare(&name(pooled), encoding.pooled, tol);
    }
    for n in 1..=2 {
        let layer = HiddenLayer::Skip {
            n,
            final_norm: true,
        };
        let hidden = encode(layer).hidden;
        expected.compare(&name(&format!("clip_skip{n}")), hidden, tol);
    }
}

#[test]
fn sd1_text_encoder() {
    let expected = Expected::open("sd1-tiny", &device());
    let folder = "sd1-tiny/text_encoder";
    let encoder = text_encoder(folder, "model.safetensors", FloatDType::F32);
    check_text(&expected, "text", &encoder, "pooled", F32);
}

#[test]
fn sdxl_text_encoders() {
    let expected = Expected::open("sdxl-tiny", &device());
    let file = "model.fp16.safetensors";
    let encoder = text_encoder("sdxl-tiny/text_encoder", file, FloatDType::F32);
    check_text(&expected, "text", &encoder, "pooled", F32);
    let encoder = text_encoder("sdxl-tiny/text_encoder_2", file, FloatDType::F32);
    check_text(&expected, "text_2", &encoder, "text_embeds", F32);
}

fn check_unet(expected: &Expected, unet: &UNet, case: &str, tolerance: f32) {
    let name = |tensor: &str| format!("unet/{case}/{tensor}");
    let added = (unet.config().addition_embed_type.is_some()).then(|| AddedConditioning {
        text_embeds: expected.tensor(&name("text_embeds")),
        time_ids: expected.tensor(&name("time_ids")),
    });
    let timesteps = expected.values(&name("timesteps"));
    let timesteps: Vec<f64> = timesteps.into_iter().map(f64::from).collect();
    let out = unet.forward(
        expected.tensor(&name("sample")),
        &timesteps,
        expected.tensor(&name("context")),
        added.as_ref(),
    );
    expected.compare(&name("out"), out, tolerance);
}

#[test]
fn sd1_unet() {
    let expected = Expected::open("sd1-tiny", &device());
    let unet = unet("sd1-tiny", MODEL, FloatDType::F32);
    for case in [
        "batch2",
        "float_timestep",
        "first_step",
        "odd_size",
        "two_chunks",
    ] {
        check_unet(&expected, &unet, case, F32);
    }
}

#[test]
fn sdxl_unet() {
    let expected = Expected::open("sdxl-tiny", &device());
    let unet = unet("sdxl-tiny", MODEL_FP16, FloatDType::F32);
    for case in ["batch2", "float_timestep", "odd_size"] {
        check_unet(&expected, &unet, case, F32);
    }
}

fn check_vae(case: &str, file: &str) {
    let expected = Expected::open(case, &device());
    let vae = vae(case, file, FloatDType::F32);
    let image: Tensor<4> = expected.tensor("vae/image");
    let large_image: Tensor<4> = expected.tensor("vae/large_image");
    for (prefix, distribution) in [
        ("", vae.encode(image.clone())),
        ("large_", vae.encode(large_image.clone())),
        ("tiled_", vae.encode_tiled(large_image)),
    ] {
        expected.compare(&format!("vae/{prefix}mean"), distribution.mean, F32);
        expected.compare(&format!("vae/{prefix}logvar"), distribution.logvar, F32);
    }
    let latents: Tensor<4> = expected.tensor("vae/latents");
    let large_latents: Tensor<4> = expected.tensor("vae/large_latents");
    expected.compare("vae/decoded", vae.decode(latents.clone()), F32);
    expected.compare("vae/large_decoded", vae.decode(large_latents.clone()), F32);
    expected.compare("vae/tiled_decoded", vae.decode_tiled(large_latents), F32);

    // What fits in one tile is not cut.
    let image = image.slice_dim(3, 0..32);
    assert_eq!(
        vae.encode_tiled(image.clone()).mean.to_data(),
        vae.encode(image).mean.to_data()
    );
    let latents = latents.slice_dim(3, 0..8);
    assert_eq!(
        vae.decode_tiled(latents.clone()).to_data(),
        vae.decode(latents).to_data()
    );
}

#[test]
fn sd1_vae() {
    check_vae("sd1-tiny", MODEL);
}

#[test]
fn sdxl_vae() {
    check_vae("sdxl-tiny", MODEL_FP16);
}

/// Three objects, none, and as many as there are places; batches whose pictures have different ones; odd sizes.
#[test]
fn gligen() {
    let expected = Expected::open("gligen", &device());
    let unet = unet("gligen", MODEL, FloatDType::F32);
    assert!(unet.is_grounded());
    for case in ["batch", "odd", "thirty", "none"] {
        let name = |tensor: &str| format!("unet/{case}/{tensor}");
        let plain = unet.prepare(expected.tensor(&name("context")), None);
        let objects = Objects {
            phrases: expected.tensor(&name("positive_embeddings")),
            boxes: expected.tensor(&name("boxes")),
            mask: expected.tensor::<2>(&name("masks")).unsqueeze_dim(2),
        };
        let forward = |prepared: &PreparedConditioning| {
            unet.forward_prepared(expected.tensor(&name("sample")), &[601.0], prepared)
        };
        let grounded = unet.ground(plain.clone(), &objects);
        let out = forward(&grounded);
        expected.compare(&name("out"), out.clone(), 1e-5);
        // Off is the network without the layers, not one without objects.
        expected.compare(&name("off"), forward(&plain), 1e-5);

        // The order of the places does not matter, and what a place without an object has neither.
        let turn = |x: Tensor<3>| {
            let first = x.clone().narrow(1, 0, 1);
            Tensor::cat(vec![x.narrow(1, 1, MOST_OBJECTS - 1), first], 1)
        };
        let empty = objects.mask.clone() * -1.0 + 1.0;
        let turned = Objects {
            phrases: turn(objects.phrases.clone() + empty.clone() * 3.0),
            boxes: turn(objects.boxes.clone() + empty * 0.25),
            mask: turn(objects.mask.clone()),
        };
        let turned = forward(&unet.ground(plain, &turned));
        let [out, turned] = [out, turned].map(|x| x.to_data().iter().collect::<Vec<f32>>());
        assert!(support::deviation(&turned, &out) < 1e-5, "{case}");
    }
}
