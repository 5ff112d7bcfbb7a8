//! SD1.5- and SDXL-sized networks against diffusers, on random weights. Needs a folder that
//! `scripts/bench/full_size.py make` wrote (2 or 7 GB) and the memory for one network in f32:
//!
//! ```sh
//! PREPOSE_FULL_SIZE=/scratch/sd15 cargo test --release --test lib full_size -- --ignored --nocapture
//! ```

use std::path::{Path, PathBuf};
use std::time::Instant;

use burn::tensor::{Device, FloatDType, Int, Tensor, TensorData};
use prepose_models::clip::HiddenLayer;
use prepose_models::unet::AddedConditioning;
use prepose_weights::{Checkpoint, Family, LoadOptions};
use safetensors::SafeTensors;

const TOLERANCE: f32 = 1e-4;

struct Expected {
    bytes: Vec<u8>,
}

impl Expected {
    fn names(&self, prefix: &str) -> bool {
        let file = SafeTensors::deserialize(&self.bytes).unwrap();
        file.names().iter().any(|name| name.starts_with(prefix))
    }

    fn data(&self, name: &str) -> TensorData {
        let file = SafeTensors::deserialize(&self.bytes).unwrap();
        let tensor = file.tensor(name).unwrap_or_else(|_| panic!("no {name}"));
        let chunks = tensor.data().chunks_exact(4);
        let values: Vec<f32> = chunks
            .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
            .collect();
        TensorData::new(values, tensor.shape().to_vec())
    }

    fn tensor<const D: usize>(&self, name: &str) -> Tensor<D> {
        Tensor::from_data(self.data(name), &Device::flex())
    }

    fn check<const D: usize>(&self, name: &str, actual: Tensor<D>, started: Instant) {
        let seconds = started.elapsed().as_secs_f64();
        let expected = self.tensor::<D>(name);
        let scale: f32 = expected.clone().abs().max().into_scalar();
        let error: f32 = (actual - expected).abs().max().into_scalar();
        println!(
            "{name:24} relative error {:.1e}   {seconds:.2} s",
            error / scale
        );
        assert!(error / scale < TOLERANCE, "{name}: {}", error / scale);
    }
}

#[test]
#[ignore = "needs a full-size checkpoint in PREPOSE_FULL_SIZE"]
fn full_size_networks_are_diffusers() {
    let folder = std::env::var_os("PREPOSE_FULL_SIZE").expect("PREPOSE_FULL_SIZE names a folder");
    let folder: PathBuf = folder.into();
    let device = Device::flex();
    let checkpoint = Checkpoint::open(&folder, &LoadOptions::default()).unwrap();
    let expected = Expected {
        bytes: std::fs::read(Path::new(&folder).join("expected.safetensors")).unwrap(),
    };
    check_text(&checkpoint, &expected, &device);
    check_vae(&checkpoint, &expected, &device);
    check_unet(&checkpoint, &expected, &device);
}

fn check_text(checkpoint: &Checkpoint, expected: &Expected, device: &Device) {
    let encoders = checkpoint
        .load_text_encoders(device, FloatDType::F32)
        .unwrap();
    let penultimate = HiddenLayer::Skip {
        n: 1,
        final_norm: false,
    };
    for (encoder, prefix) in encoders.iter().zip(["text", "text_2"]) {
        let tokens = expected.tensor::<2>(&format!("{prefix}/tokens"));
        let ids: Vec<i32> = tokens.to_data().iter::<f32>().map(|id| id as i32).collect();
        // CLIP pools at the largest id, which is the end of the text.
        let largest = ids.iter().max().unwrap();
        let eos = ids.iter().position(|id| id == largest).unwrap();
        let shape = [1, ids.len()];
        let tokens = Tensor::<2, Int>::from_data(TensorData::new(ids, shape), device);
        let started = Instant::now();
        let encoded = encoder.forward(tokens.clone(), &[eos], penultimate);
        expected.check(&format!("{prefix}/penultimate"), encoded.hidden, started);
        let pooled = match prefix {
            "text" => "text/pooled",
            _ => "text_2/text_embeds",
        };
        if expected.names(pooled) {
            expected.check(pooled, encoded.pooled, started);
        }
        if prefix == "text" {
            let started = Instant::now();
            let last = encoder.forward(tokens, &[eos], HiddenLayer::Last).hidden;
            expected.check("text/last", last, started);
        }
    }
}

fn check_vae(checkpoint: &Checkpoint, expected: &Expected, device: &Device) {
    let vae = checkpoint.load_vae(device, FloatDType::F32).unwrap();
    let started = Instant::now();
    let decoded = vae.decode(expected.tensor("vae/latents"));
    expected.check("vae/decoded", decoded, started);
    let started = Instant::now();
    let encoded = vae.encode(expected.tensor("vae/image"));
    expected.check("vae/mean", encoded.mean, started);
    expected.check("vae/logvar", encoded.logvar, started);
}

fn check_unet(checkpoint: &Checkpoint, expected: &Expected, device: &Device) {
    let unet = checkpoint.load_unet(device, FloatDType::F32).unwrap();
    for case in ["unet/small", "unet/512"] {
        if !expected.names(&format!("{case}/")) {
            continue;
        }
        let timesteps: Vec<f64> = expected
            .data(&format!("{case}/timesteps"))
            .iter::<f64>()
            .collect();
        let added = (checkpoint.family() == Family::Sdxl).then(|| AddedConditioning {
            text_embeds: expected.tensor(&format!("{case}/text_embeds")),
            time_ids: expected.tensor(&format!("{case}/time_ids")),
        });
        let sample = expected.tensor(&format!("{case}/sample"));
        let context = expected.tensor(&format!("{case}/context"));
        let started = Instant::now();
        let out = unet.forward(sample, &timesteps, context, added.as_ref());
        expected.check(&format!("{case}/out"), out, started);
    }
}
