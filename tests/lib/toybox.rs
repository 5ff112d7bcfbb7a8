//! The built-in checkpoint's pictures are diffusers', to one part in 255: `fixtures/toybox`, made by
//! `scripts/reference/make.py toybox` from the folder `weights/toybox`; and so are what its CLIP and its IP-Adapter see in pictures
//! (`fixtures/toybox-clip`).

use std::path::{Path, PathBuf};

use burn::tensor::FloatDType;
use prepose::device;
use prepose::engine::Blueprint;
use prepose::eyes::ClipScorer;
use prepose::picture::Picture;
use prepose::request::{Dtype, ModelRequest, PicturePrompt, Request};
use prepose::sampling::noise::NoiseKind;
use prepose_weights::{EyeWeights, TOYBOX_CLIP};
use serde_json::Value;

use crate::support::fixture;

fn folder() -> PathBuf {
    fixture("toybox")
}

fn read(file: &Path) -> Picture {
    let rgb = image::open(file).unwrap().into_rgb8();
    Picture {
        width: rgb.width() as usize,
        height: rgb.height() as usize,
        rgb: rgb.into_raw(),
    }
}

/// The requests of the fixture, and the file of each one's picture.
fn requests(model: &ModelRequest) -> Vec<(Request, PathBuf)> {
    let text = std::fs::read_to_string(folder().join("case.json")).unwrap();
    let case: serde_json::Value = serde_json::from_str(&text).unwrap();
    let request = |entry: &serde_json::Value| Request {
        prompt: entry["prompt"].as_str().unwrap().into(),
        negative_prompt: String::new(),
        switch: None,
        delay_order: None,
        relations: Vec::new(),
        boxes: Vec::new(),
        regions: Vec::new(),
        pictures: Vec::new(),
        ground: None,
        guide: None,
        found: None,
        seed: entry["seed"].as_u64().unwrap(),
        width: entry["size"][0].as_u64().unwrap() as usize,
        height: entry["size"][1].as_u64().unwrap() as usize,
        steps: entry["steps"].as_u64().unwrap() as usize,
        guidance_scale: entry["guidance_scale"].as_f64().unwrap(),
        guidance_steps: None,
        savings: Default::default(),
        timestep_spacing: None,
        scheduler: Some(entry["scheduler"].as_str().unwrap().into()),
        eta: None,
        clip_skip: 0,
        noise: NoiseKind::Torch,
        init: None,
        vae_tiling: false,
        model: model.clone(),
    };
    let entries = case["requests"].as_array().unwrap();
    let file = |entry: &serde_json::Value| folder().join(entry["file"].as_str().unwrap());
    entries
        .iter()
        .map(|entry| (request(entry), file(entry)))
        .collect()
}

#[test]
fn the_toybox_s_clip_and_adapter_are_transformers_and_diffusers() {
    let case = std::fs::read_to_string(fixture("toybox-clip").join("case.json")).unwrap();
    let case: Value = serde_json::from_str(&case).unwrap();
    let mut model = ModelRequest::new("toybox", Dtype::F32);
    let device = device::open("flex".parse().unwrap()).unwrap();
    let requests = requests(&model);

    let weights = EyeWeights::open(TOYBOX_CLIP).unwrap();
    let scorer = ClipScorer::load(&weights, &device.device, FloatDType::F32).unwrap();
    let pictures = requests.iter().map(|(_, file)| read(file));
    let pictures: Vec<Picture> = pictures.collect();
    let texts = requests.iter().map(|(request, _)| &*request.prompt);
    let pairs: Vec<(&Picture, &str)> = pictures.iter().zip(texts).collect();
    let cosines = scorer.cosines(&pairs).unwrap();
    let expected: Vec<f64> = serde_json::from_value(case["cosines"].clone()).unwrap();
    assert_eq!(cosines.len(), expected.len());
    for (own, other) in cosines.iter().zip(&expected) {
        assert!((own - other).abs() < 1e-5, "{own} {other}");
    }

    model.show_toybox();
    let engine = Blueprint::open(&model)
        .unwrap()
        .load(&model, &device)
        .unwrap();
    let shown = &case["shown"];
    let number = |name: &str| shown[name].as_u64().unwrap() as usize;
    let (mut request, _) = requests[number("request")].clone();
    request.model = model;
    request.pictures = vec![PicturePrompt {
        scale: shown["scale"].as_f64().unwrap(),
        ..PicturePrompt::new(&requests[number("picture")].1)
    }];
    let made = engine.generate(&[request], &mut []).unwrap();
    let expected = read(&fixture("toybox-clip").join("shown.png"));
    let plain = read(&requests[number("request")].1);
    let apart = |one: &Picture, other: &Picture| {
        assert_eq!(one.rgb.len(), other.rgb.len());
        let pairs = one.rgb.iter().zip(&other.rgb);
        pairs.map(|(a, b)| a.abs_diff(*b)).max().unwrap()
    };
    assert!(apart(&made.pictures[0], &expected) <= 1);
    assert!(apart(&made.pictures[0], &plain) > 20);
}

#[test]
fn the_toybox_draws_what_diffusers_draws_with_it() {
    let model = ModelRequest::new("toybox", Dtype::F32);
    let device = device::open("flex".parse().unwrap()).unwrap();
    let engine = Blueprint::open(&model)
        .unwrap()
        .load(&model, &device)
        .unwrap();
    for (request, file) in requests(&model) {
        let made = engine
            .generate(std::slice::from_ref(&request), &mut [])
            .unwrap();
        let expected = image::open(&file).unwrap().into_rgb8();
        let pairs = made.pictures[0].rgb.iter().zip(expected.as_raw());
        let difference = pairs.map(|(a, b)| a.abs_diff(*b)).max().unwrap();
        println!(
            "{} by {:?}: {difference}/255",
            request.prompt, request.scheduler
        );
        assert!(difference <= 1, "{}: {difference}/255", request.prompt);
        assert_eq!(made.pictures[0].rgb.len(), expected.as_raw().len());
    }
}
