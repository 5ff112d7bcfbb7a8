//! The whole engine against diffusers: `fixtures/sd1-tiny` and `fixtures/sdxl-tiny`, made by
//! `scripts/reference/make.py`. Final latents after 10 steps agree to 1e-4 of the largest latent.

mod attention;
mod batches;
mod composed;
mod distilled;
mod fewer_calls;
mod gligen;
mod hooks;
pub mod ip_adapter;
mod references;
mod savings;
mod sd2;

use std::path::Path;

use burn::tensor::Tensor;
use prepose::device;
use prepose::engine::{Blueprint, Engine};
use prepose::picture::Picture;
use prepose::request::{Dtype, ModelRequest, Request};
use prepose::sampling::noise::NoiseKind;
use safetensors::SafeTensors;

use crate::support::fixture;

const TOLERANCE: f32 = 1e-4;

/// A tiny checkpoint with what diffusers made of it.
struct Case {
    engine: Engine,
    request: Request,
    batch_seeds: Vec<u64>,
    expected: Vec<u8>,
}

impl Case {
    fn open(name: &str) -> Self {
        let folder = fixture(name);
        let model = ModelRequest::new(folder.to_string_lossy(), Dtype::F32);
        Self::of(&folder, model)
    }

    /// What diffusers made of `model` as `folder` says.
    fn of(folder: &Path, model: ModelRequest) -> Self {
        let text = std::fs::read_to_string(folder.join("case.json")).unwrap();
        let case: serde_json::Value = serde_json::from_str(&text).unwrap();
        let asked = &case["request"];
        let size = |key: &str| asked[key].as_u64().unwrap() as usize;
        let request = Request {
            prompt: asked["prompt"].as_str().unwrap().into(),
            negative_prompt: asked["negative_prompt"].as_str().unwrap().into(),
            switch: None,
            delay_order: None,
            relations: Vec::new(),
            boxes: Vec::new(),
            regions: Vec::new(),
            pictures: Vec::new(),
            ground: None,
            guide: None,
            found: None,
            seed: case["seed"].as_u64().unwrap(),
            width: size("width"),
            height: size("height"),
            steps: size("num_inference_steps"),
            guidance_scale: asked["guidance_scale"].as_f64().unwrap(),
            guidance_steps: None,
            savings: Default::default(),
            timestep_spacing: None,
            scheduler: None,
            eta: None,
            clip_skip: 0,
            noise: NoiseKind::Torch,
            init: None,
            vae_tiling: false,
            model: model.clone(),
        };
        let seeds = case["batch_seeds"].as_array().cloned().unwrap_or_default();
        let device = device::open("flex".parse().unwrap()).unwrap();
        let blueprint = Blueprint::open(&model).unwrap();
        blueprint.check(&mut request.clone()).unwrap();
        Self {
            engine: blueprint.load(&model, &device).unwrap(),
            request,
            batch_seeds: seeds.iter().map(|seed| seed.as_u64().unwrap()).collect(),
            expected: std::fs::read(folder.join("expected.safetensors")).unwrap(),
        }
    }

    fn expected(&self, name: &str) -> Vec<f32> {
        let file = SafeTensors::deserialize(&self.expected).unwrap();
        let tensor = file.tensor(name).unwrap();
        let bytes = tensor.data().chunks_exact(4);
        bytes
            .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
            .collect()
    }

    /// `change` makes the request of the case `name`; its latents must be diffusers'.
    fn check(&self, name: &str, change: impl Fn(&mut Request)) {
        let mut request = self.request.clone();
        change(&mut request);
        let latents = self.engine.latents(&[request], &mut []).unwrap();
        assert_close(name, &latents, &self.expected(&format!("{name}/latents")));
    }

    /// `picture` must be the one of the case `name`, to a 255th.
    fn check_picture(&self, name: &str, picture: &Picture) {
        let expected = self.expected(name);
        let plane = picture.width * picture.height;
        for (position, pixel) in picture.rgb.chunks_exact(3).enumerate() {
            for (channel, byte) in pixel.iter().enumerate() {
                let value = expected[channel * plane + position] * 255.0;
                assert!(
                    (value - f32::from(*byte)).abs() <= 1.0,
                    "{name}: {value} against {byte}"
                );
            }
        }
    }

    fn with_scheduler(&self, scheduler: &str) -> Request {
        Request {
            scheduler: Some(scheduler.into()),
            ..self.request.clone()
        }
    }
}

fn assert_close(name: &str, actual: &Tensor<4>, expected: &[f32]) {
    let actual: Vec<f32> = actual.to_data().iter::<f32>().collect();
    assert_eq!(actual.len(), expected.len(), "{name}");
    let scale = expected
        .iter()
        .fold(0f32, |max, value| max.max(value.abs()));
    let pairs = actual.iter().zip(expected);
    let error = pairs.fold(0f32, |max, (a, e)| max.max((a - e).abs())) / scale;
    println!("{name}: {error:.1e}");
    assert!(error < TOLERANCE, "{name}: relative error {error:.2e}");
}
