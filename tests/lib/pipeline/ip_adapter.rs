//! Whole runs with pictures as prompts.

use std::path::PathBuf;

use prepose::device;
use prepose::engine::{Blueprint, Engine};
use prepose::guidance::GuidanceConfig;
use prepose::request::{
    Adapter, BlockScale, Dtype, ModelRequest, PicturePrompt, PictureRegion, Request,
};
use prepose_kernels::profile;
use prepose_models::ip_adapter::RegionMask;
use prepose_models::unet::GraphUse;
use serde_json::{Value, json};

use super::gligen::deviation;
use super::{Case, assert_close};
use crate::support::fixture;

fn at(name: &str) -> PathBuf {
    fixture("ip-adapter").join(name)
}

/// The checkpoint of `family` with these adapters.
fn model(family: &str, adapters: &[&str]) -> ModelRequest {
    let folder = fixture("single-file").join(family);
    let mut model = ModelRequest::new(folder.to_string_lossy(), Dtype::F32);
    let adapters = adapters.iter().map(|kind| Adapter {
        path: at(&format!("{kind}_{family}.safetensors")),
        encoder: None,
    });
    model.adapters = adapters.collect();
    model
}

fn open(family: &str, adapters: &[&str]) -> Case {
    Case::of(&fixture("ip-adapter"), model(family, adapters))
}

fn shown(name: &str) -> PicturePrompt {
    PicturePrompt::new(at(&format!("{name}.png")))
}

fn with(case: &Case, pictures: &[PicturePrompt]) -> Request {
    Request {
        pictures: pictures.to_vec(),
        ..case.with_scheduler("ddim")
    }
}

fn latents(engine: &Engine, requests: &[Request]) -> Vec<f32> {
    let latents = engine.latents(requests, &mut []).unwrap();
    latents.to_data().iter::<f32>().collect()
}

fn texts(value: &Value) -> Vec<&str> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|text| text.as_str().unwrap())
        .collect()
}

fn region(name: &str) -> PictureRegion {
    match name {
        "left" => "x,region=0:0:0.5:1",
        "right" => "x,region=0.5:0:1:1",
        _ => {
            return PictureRegion::Mask {
                path: at(name),
                sha256: None,
            };
        }
    }
    .parse::<PicturePrompt>()
    .unwrap()
    .region
    .unwrap()
}

/// What a case of the fixture asks for, in diffusers' terms.
fn pictures(case: &Value) -> Vec<PicturePrompt> {
    let mut pictures = Vec::new();
    for (number, names) in case["pictures"].as_array().unwrap().iter().enumerate() {
        for (index, name) in texts(names).into_iter().enumerate() {
            let mut picture = shown(name);
            picture.adapter = number + 1;
            let scale = &case["scales"][number];
            let scale = scale.get(index).unwrap_or(scale);
            match scale.as_f64() {
                Some(scale) => picture.scale = scale,
                None => picture.blocks = blocks(scale),
            }
            if let Some(name) = case["regions"][number][index].as_str() {
                picture.region = Some(region(name));
            }
            pictures.push(picture);
        }
    }
    pictures
}

fn blocks(scales: &Value) -> Vec<BlockScale> {
    let mut blocks = Vec::new();
    for (place, of_place) in scales.as_object().unwrap() {
        for (block, scales) in of_place.as_object().unwrap() {
            blocks.push(BlockScale {
                block: format!("{place}{}", block.strip_prefix("block_").unwrap()),
                scales: serde_json::from_value(scales.clone()).unwrap(),
            });
        }
    }
    blocks
}

#[test]
fn pictures_are_diffusers() {
    let text = std::fs::read_to_string(at("case.json")).unwrap();
    let info: Value = serde_json::from_str(&text).unwrap();
    let mut seen: Vec<Vec<f32>> = Vec::new();
    for (name, run) in info["pipelines"].as_object().unwrap() {
        let case = open(run["family"].as_str().unwrap(), &texts(&run["adapters"]));
        let request = with(&case, &pictures(run));
        let found = case
            .engine
            .latents(std::slice::from_ref(&request), &mut [])
            .unwrap();
        let expected = case.expected(&format!("pipeline/{name}/latents"));
        assert_close(name, &found, &expected);
        assert!(
            seen.iter().all(|other| deviation(other, &expected) > 1e-3),
            "{name}"
        );
        seen.push(expected);
        if ["sd1/two-adapters", "sdxl/masks"].contains(&name.as_str()) {
            let made = case.engine.generate(&[request], &mut []).unwrap();
            case.check_picture(&format!("pipeline/{name}/picture"), &made.pictures[0]);
        }
    }
    assert_eq!(seen.len(), 11);
}

#[test]
fn scales_softmaxes_and_masks_are_what_they_should_be() {
    let case = open("sd1", &["plain", "plain"]);
    let of = |pictures: &[PicturePrompt]| latents(&case.engine, &[with(&case, pictures)]);
    let scaled = |name: &str, scale| PicturePrompt {
        scale,
        ..shown(name)
    };
    let own = |picture: PicturePrompt| PicturePrompt {
        own_softmax: true,
        ..picture
    };
    let off = of(&[]);
    // Nothing, bit for bit.
    assert_eq!(of(&[scaled("first", 0.0)]), off);
    let later = PicturePrompt {
        last_step: Some(2),
        ..scaled("first", 0.0)
    };
    assert_eq!(of(&[later]), off);
    let once = of(&[shown("first")]);
    assert!(deviation(&once, &off) > 1e-2);
    // Twice half is once, in a softmax each or in that of another adapter.
    let half = || scaled("first", 0.5);
    assert!(deviation(&of(&[own(half()), own(half())]), &once) < 1e-4);
    let second = PicturePrompt {
        adapter: 2,
        ..half()
    };
    assert!(deviation(&of(&[half(), second]), &once) < 1e-4);
    // The same picture twice in one softmax is once; two different ones are not their sum.
    assert!(deviation(&of(&[shown("first"), shown("first")]), &once) < 1e-4);
    let joint = of(&[shown("first"), shown("second")]);
    let apart = of(&[own(shown("first")), own(shown("second"))]);
    assert!(deviation(&joint, &apart) > 1e-3 && deviation(&joint, &once) > 1e-3);
    // A mask that is open everywhere.
    let everywhere = PicturePrompt {
        region: "x,region=0:0:1:1".parse::<PicturePrompt>().unwrap().region,
        ..shown("first")
    };
    assert!(deviation(&of(&[everywhere]), &once) < 1e-4);
    // Which one is left and which one right matters.
    let at = |name: &str, place: &str| PicturePrompt {
        region: Some(region(place)),
        ..shown(name)
    };
    let one = of(&[at("first", "left"), at("second", "right")]);
    let other = of(&[at("second", "left"), at("first", "right")]);
    assert!(deviation(&one, &other) > 1e-3);
    // Steps.
    let some = |first_step, last_step| PicturePrompt {
        first_step,
        last_step,
        ..shown("first")
    };
    assert_eq!(of(&[some(0, Some(9))]), once);
    let (early, late) = (of(&[some(0, Some(4))]), of(&[some(5, None)]));
    for found in [&early, &late] {
        assert!(deviation(found, &once) > 1e-3 && deviation(found, &off) > 1e-3);
    }
    // Without classifier-free guidance there is no unconditional half.
    let unguided = |pictures: &[PicturePrompt]| {
        let request = Request {
            guidance_scale: 1.0,
            ..with(&case, pictures)
        };
        latents(&case.engine, &[request])
    };
    assert!(deviation(&unguided(&[shown("first")]), &unguided(&[])) > 1e-2);
}

#[test]
fn no_picture_depends_on_its_neighbours() {
    let case = open("sd1", &["plus"]);
    let engine = &case.engine;
    let one = Request {
        seed: 1,
        ..with(&case, &[shown("first")])
    };
    let other = PicturePrompt {
        scale: 0.6,
        region: Some(region("left")),
        ..shown("second")
    };
    let other = Request {
        seed: 2,
        prompt: "two red birds".into(),
        ..with(&case, &[other])
    };
    let size = |requests: &[Request]| engine.batch_size(requests, 8).unwrap();
    assert_eq!(size(&[one.clone(), other.clone(), with(&case, &[])]), 2);
    let two = with(&case, &[shown("first"), shown("second")]);
    assert_eq!(size(&[one.clone(), two.clone()]), 1);
    let apart = PicturePrompt {
        own_softmax: true,
        ..shown("second")
    };
    assert_eq!(size(&[two, with(&case, &[shown("first"), apart])]), 1);
    let both = latents(engine, &[one.clone(), other.clone()]);
    let half = both.len() / 2;
    assert!(deviation(&latents(engine, std::slice::from_ref(&one)), &both[..half]) < 1e-5);
    let alone = latents(engine, std::slice::from_ref(&other));
    assert!(deviation(&alone, &both[half..]) < 1e-5);
    // A batch that shrinks on the way.
    let mut session = engine.begin(&[one, other], &mut []).unwrap();
    session.advance(4, &mut []).unwrap();
    session.retain(&[1], &mut []);
    session.advance(usize::MAX, &mut []).unwrap();
    assert_close("shrunk", &session.finish().unwrap(), &alone);
}

#[test]
fn they_go_with_everything_else() {
    let case = open("sd1", &["plain"]);
    let base = Request {
        guidance_scale: 4.0,
        ..with(&case, &[shown("first")])
    };
    let mut seen = vec![latents(&case.engine, std::slice::from_ref(&base))];
    let guided = |method: &str, one_pass| {
        let mut config: GuidanceConfig = serde_json::from_value(json!({"method": method})).unwrap();
        config.one_pass = one_pass;
        config.steps = Some(5);
        Request {
            guide: Some(config),
            ..base.clone()
        }
    };
    let boxes = ["cat: 0.05,0.25,0.35,0.75", "dog: 0.6,0.1,0.95,0.9"];
    let boxdiff = Request {
        boxes: boxes.map(|given| given.parse().unwrap()).to_vec(),
        ..guided("boxdiff", false)
    };
    let switched = Request {
        switch: Some(serde_json::from_value(json!({"to": "two red birds", "at": 3})).unwrap()),
        ..base.clone()
    };
    let composed = Request {
        prompt: "a cat AND a dog :0.5".into(),
        ..base.clone()
    };
    let requests = [
        guided("pos", false),
        guided("pos", true),
        boxdiff,
        switched,
        composed,
    ];
    for request in requests {
        let mut checked = request.clone();
        case.engine.blueprint().check(&mut checked).unwrap();
        assert_eq!(checked.pictures[0].sha256.as_ref().unwrap().len(), 64);
        let plain = Request {
            pictures: Vec::new(),
            ..request.clone()
        };
        let found = latents(&case.engine, &[request]);
        assert!(found.iter().all(|value| value.is_finite()));
        seen.push(latents(&case.engine, &[plain]));
        assert!(
            seen.iter().all(|other| deviation(other, &found) > 1e-4),
            "{checked:?}"
        );
        seen.push(found);
    }
}

/// A captured call is told the pictures and their masks, and is another one where they do not act.
#[test]
fn captured_calls_are_the_same() {
    let case = open("sd1", &["plain"]);
    let masked = |place: &str, last_step| PicturePrompt {
        region: Some(region(place)),
        last_step,
        ..shown("first")
    };
    let requests = [masked("left", Some(5)), masked("right", None)].map(|one| with(&case, &[one]));
    let model = case.request.model.clone();
    let device = device::open("flex".parse().unwrap()).unwrap();
    let engine = Blueprint::open(&model)
        .unwrap()
        .load(&model, &device)
        .unwrap();
    let engine = engine.with_graphs(GraphUse::Forced);
    for request in &requests {
        let expected = latents(&case.engine, std::slice::from_ref(request));
        let found = engine
            .latents(std::slice::from_ref(request), &mut [])
            .unwrap();
        assert_close("captured", &found, &expected);
        assert!(engine.is_captured());
    }
}

/// A step with pictures takes little more memory, and the adapter's weights are counted.
#[test]
fn memory_is_estimated_with_them() {
    let case = open("sd1", &["plain", "plus"]);
    let plain = Blueprint::open(&model("sd1", &[])).unwrap();
    let device = device::open("flex".parse().unwrap()).unwrap();
    let needs = |blueprint: &Blueprint, request: &Request| {
        blueprint
            .needs(request, 1, &device, Default::default())
            .unwrap()
    };
    let own = case.engine.blueprint();
    let without = needs(own, &with(&case, &[]));
    let shown = needs(own, &with(&case, &[shown("first"), shown("second")]));
    let none = needs(&plain, &with(&case, &[]));
    assert_eq!((none.adapters, none.step), (0, without.step));
    assert!(without.adapters > 0 && without.adapters == shown.adapters);
    assert!(shown.step > without.step && shown.step < 2 * without.step);
}

/// An engine that has looked at a file before does not go on with what was in it.
#[test]
fn overwritten_files_are_looked_at_again() {
    let used = open("sd1", &["plain"]);
    let folder = tempfile::tempdir().unwrap();
    let (picture, mask) = (
        folder.path().join("picture.png"),
        folder.path().join("mask.png"),
    );
    let given = PicturePrompt {
        region: Some(PictureRegion::Mask {
            path: mask.clone(),
            sha256: None,
        }),
        ..PicturePrompt::new(picture.clone())
    };
    let made = |case: &Case| {
        let mut request = with(case, std::slice::from_ref(&given));
        let made = latents(&case.engine, std::slice::from_ref(&request));
        case.engine.blueprint().check(&mut request).unwrap();
        (made, request.pictures)
    };
    let mut seen = Vec::new();
    for (name, left) in [("first", true), ("first", false), ("second", false)] {
        std::fs::copy(at(&format!("{name}.png")), &picture).unwrap();
        image::GrayImage::from_fn(48, 32, |x, _| {
            image::Luma([if (x < 24) == left { 255 } else { 0 }])
        })
        .save(&mask)
        .unwrap();
        let again = made(&used);
        assert_eq!(again, made(&open("sd1", &["plain"])), "{name} {left}");
        assert!(!seen.contains(&again), "{name} {left}");
        seen.push(again);
    }
}

#[test]
fn wrong_input_is_refused() {
    let case = open("sd1", &["plain"]);
    let own = case.engine.blueprint();
    let refused = |blueprint: &Blueprint, picture: PicturePrompt| {
        let mut request = with(&case, &[picture]);
        let error = blueprint.check(&mut request).unwrap_err();
        let mut text = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(error) = source {
            text.push_str(&format!(": {error}"));
            source = error.source();
        }
        text
    };
    let given = |text: &str| -> PicturePrompt {
        let first = at("first.png");
        text.replace("FIRST", &first.to_string_lossy())
            .parse()
            .unwrap()
    };
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    std::fs::write(file("text.png"), "not a picture").unwrap();
    let grey = |name: &str, width, height, value| {
        image::GrayImage::from_pixel(width, height, image::Luma([value]))
            .save(file(name))
            .unwrap();
    };
    grey("square.png", 32, 32, 255);
    grey("black.png", 48, 32, 0);
    let masked = |name: &str| PicturePrompt {
        region: Some(PictureRegion::Mask {
            path: file(name),
            sha256: None,
        }),
        ..shown("first")
    };
    let changed = PicturePrompt {
        sha256: Some("0".repeat(64)),
        ..shown("first")
    };
    for (picture, why) in [
        (given("FIRST,adapter=2"), "there is one"),
        (given("FIRST,scale=1e9"), "between -100 and 100"),
        (given("FIRST,steps=10-"), "0 to 9"),
        (given("FIRST,blocks=up7:1"), "up1 (3)"),
        (
            PicturePrompt::new(file("none.png")),
            "cannot use the picture prompt",
        ),
        (
            PicturePrompt::new(file("text.png")),
            "cannot use the picture prompt",
        ),
        (masked("text.png"), "cannot use the mask"),
        (
            masked("square.png"),
            "32x32, which is a different shape from the picture of 48x32",
        ),
        (masked("black.png"), "is empty"),
        (given("FIRST,region=0:0:0.001:0.001"), "is empty"),
        (changed, "has changed"),
    ] {
        let error = refused(own, picture);
        println!("{error}");
        assert!(error.contains(why), "{error:?} lacks {why:?}");
    }
    let plain = Blueprint::open(&model("sd1", &[])).unwrap();
    assert!(refused(&plain, shown("first")).contains("--ip-adapter FILE"));
}

/// The mask of the fixture's second picture at this size: a disc.
pub fn disc(width: usize, height: usize) -> RegionMask {
    let (columns, rows) = (width as f64, height as f64);
    RegionMask::new(width, height, |x, y| {
        let across = (x as f64 - 0.6 * columns).powi(2) / columns.powi(2);
        let down = (y as f64 - 0.4 * rows).powi(2) / rows.powi(2);
        let grey = 255.0 * (1.4 - 8.0 * (across + down)).clamp(0.0, 1.0);
        grey as u8 >= 128
    })
}

#[test]
fn masks_are_diffusers() {
    let bytes = std::fs::read(at("expected.safetensors")).unwrap();
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let mut found = 0;
    for (name, tensor) in file.tensors() {
        let Some(rest) = name.strip_prefix("mask/") else {
            continue;
        };
        let numbers: Vec<usize> = rest
            .split(['x', '/'])
            .map(|part| part.parse().unwrap())
            .collect();
        let expected = tensor.data().chunks_exact(4);
        let expected = expected.map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()));
        let expected: Vec<f32> = expected.collect();
        let mask = disc(numbers[1], numbers[0]).at(numbers[2]);
        assert_eq!(mask.len(), expected.len(), "{name}");
        assert!(deviation(&mask, &expected) < 1e-5, "{name}");
        found += 1;
    }
    assert_eq!(found, 5);
}

/// Off they cost nothing: the same kernels run on the same numbers. On it is one attention more for each layer and step.
#[test]
fn without_pictures_the_same_calls_are_made() {
    let (case, plain) = (open("sd1", &["plain"]), open("sd1", &[]));
    let run = |case: &Case, pictures: &[PicturePrompt]| {
        profile::record(|| latents(&case.engine, &[with(case, pictures)]))
    };
    let calls =
        |profile: &profile::Profile| profile::Family::ALL.map(|family| profile.get(family).calls);
    let (expected, plain_calls) = run(&plain, &[]);
    let (found, off) = run(&case, &[]);
    assert_eq!(found, expected);
    assert_eq!(
        (calls(&off), off.flops()),
        (calls(&plain_calls), plain_calls.flops())
    );
    // The picture is encoded once.
    let (first, _) = run(&case, &[shown("first")]);
    let (second, on) = run(&case, &[shown("first")]);
    assert_eq!(first, second);
    let attention = |profile: &profile::Profile| profile.get(profile::Family::Attention).calls;
    let layers = case.engine.unet().cross_attention_names().count() as u64;
    let steps = case.request.steps as u64;
    assert_eq!(attention(&on) - attention(&off), steps * layers);
}
