//! SD1.5- and SDXL-sized networks against diffusers, on random weights. Needs a folder that
//! `scripts/bench/full_size.py make` wrote (2 or 7 GB) and the memory for one network in f32:
//!
//! ```sh
//! PREPOSE_FULL_SIZE=/scratch/sd15 cargo test --release --test lib full_size -- --ignored --nocapture
//! ```
//!
//! Detectors against transformers need a folder that `scripts/bench/full_size_detectors.py` wrote, in
//! `PREPOSE_FULL_SIZE_DETECTOR`.

use std::path::{Path, PathBuf};
use std::time::Instant;

use burn::tensor::{Device, FloatDType, Int, Tensor, TensorData};
use prepose_models::clip::HiddenLayer;
use prepose_models::unet::AddedConditioning;
use prepose_weights::{
    Checkpoint, DetrKind, Family, GroundingDinoWeights, LoadOptions, RtDetrWeights, detr_kind,
};
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
        let error = self.error(name, actual);
        println!("{name:24} relative error {error:.1e}   {seconds:.2} s");
        assert!(error < TOLERANCE, "{name}: {error}");
    }

    /// The largest error as a share of the largest element.
    fn error<const D: usize>(&self, name: &str, actual: Tensor<D>) -> f32 {
        let expected = self.tensor::<D>(name);
        let scale: f32 = expected.clone().abs().max().into_scalar();
        let error: f32 = (actual - expected).abs().max().into_scalar();
        error / scale
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

/// The share of the largest element by which a detector's maps may be off.
const DETECTOR: f32 = 1e-3;

#[test]
#[ignore = "needs a full-size detector in PREPOSE_FULL_SIZE_DETECTOR"]
fn full_size_detector_is_transformers() {
    let folder = std::env::var_os("PREPOSE_FULL_SIZE_DETECTOR").expect(
        "PREPOSE_FULL_SIZE_DETECTOR names a folder of scripts/bench/full_size_detectors.py",
    );
    let folder: PathBuf = folder.into();
    let expected = Expected {
        bytes: std::fs::read(folder.join("expected.safetensors")).unwrap(),
    };
    let device = Device::flex();
    let (model, kind) = detr_kind(&folder.join("model")).expect("a detector");
    let pixels = expected.tensor::<4>("pixels");
    let close = |name: &str, error: f32| {
        println!("{name:24} relative error {error:.1e}");
        assert!(error < DETECTOR, "{name}: {error}");
    };
    let (chosen, boxes, seconds) = match kind {
        DetrKind::GroundingDino => {
            let network = GroundingDinoWeights::open(&model).unwrap();
            let network = network.load(&device).unwrap();
            let ids: Vec<u32> = expected
                .data("ids")
                .iter::<f32>()
                .map(|id| id as u32)
                .collect();
            network.forward(pixels.clone(), &ids);
            let started = Instant::now();
            let trace = network.trace(pixels, &ids);
            let boxes = trace.grounded.boxes;
            let seconds = {
                boxes.to_data();
                started.elapsed().as_secs_f64()
            };
            close("encoded", expected.error("encoded", trace.encoded));
            close(
                "encoded_text",
                expected.error("encoded_text", trace.encoded_text),
            );
            (trace.chosen, boxes, seconds)
        }
        DetrKind::RtDetr => {
            let network = RtDetrWeights::open(&model).unwrap();
            let network = network.load(&device).unwrap();
            network.forward(pixels.clone());
            let started = Instant::now();
            let trace = network.trace(pixels);
            let boxes = trace.detected.boxes;
            let seconds = {
                boxes.to_data();
                started.elapsed().as_secs_f64()
            };
            for (i, map) in trace.encoded.into_iter().enumerate() {
                let name = format!("encoded{i}");
                let error = expected.error(&name, map);
                close(&name, error);
            }
            (trace.chosen, boxes, seconds)
        }
        DetrKind::OwlVit => panic!("the script makes detectors of the DETR family"),
    };
    println!("{seconds:.2} s");
    // Rounding may exchange two queries whose scores are as good as equal.
    for (name, own) in [("chosen", chosen), ("boxes", boxes)] {
        let wanted: Vec<f32> = expected.data(name).iter().collect();
        let own: Vec<f32> = own.to_data().iter().collect();
        let same = own.chunks(4).zip(wanted.chunks(4));
        let same = same.filter(|(a, b)| a.iter().zip(*b).all(|(a, b)| (a - b).abs() < DETECTOR));
        let (same, all) = (same.count(), wanted.len() / 4);
        println!("{name:24} {same} of {all} boxes within {DETECTOR}");
        assert!(100 * same > 98 * all, "{name}: {same} of {all}");
    }
}
