//! Whole runs with GLIGEN's layers.

use std::path::Path;

use prepose::device;
use prepose::engine::{Blueprint, Engine};
use prepose::guidance::boxes::ObjectBox;
use prepose::guidance::grounding::Grounding;
use prepose::guidance::pos::Pos;
use prepose::guidance::{GuidanceConfig, Preset};
use prepose::request::{Dtype, ModelRequest, Request};
use prepose_models::unet::GraphUse;
use serde_json::{Value, json};

use super::{Case, assert_close};
use crate::support::fixture;

pub fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(std::fs::copy(entry.path(), target).unwrap()),
        }
    }
}

/// The plain checkpoint of `single-file` with the fixture's UNet, as diffusers has it.
fn checkpoint(folder: &Path) -> ModelRequest {
    copy(&fixture("single-file/sd1"), folder);
    std::fs::remove_dir_all(folder.join("unet")).unwrap();
    copy(&fixture("gligen/unet"), &folder.join("unet"));
    let index = folder.join("model_index.json");
    let mut value: Value = serde_json::from_str(&std::fs::read_to_string(&index).unwrap()).unwrap();
    value["_class_name"] = json!("StableDiffusionGLIGENPipeline");
    std::fs::write(index, value.to_string()).unwrap();
    ModelRequest::new(folder.to_string_lossy(), Dtype::F32)
}

/// The fixture, and its boxes.
struct Gligen {
    case: Case,
    info: Value,
    boxes: Vec<ObjectBox>,
    _folder: tempfile::TempDir,
}

impl Gligen {
    fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let case = Case::of(&fixture("gligen"), checkpoint(folder.path()));
        let text = std::fs::read_to_string(fixture("gligen/case.json")).unwrap();
        let info: Value = serde_json::from_str(&text).unwrap();
        Self {
            boxes: serde_json::from_value(info["boxes"].clone()).unwrap(),
            case,
            info,
            _folder: folder,
        }
    }

    fn request(&self, share: f64, boxes: usize) -> Request {
        Request {
            boxes: self.boxes[..boxes].to_vec(),
            ground: Some(Grounding { share }),
            ..self.case.with_scheduler("ddim")
        }
    }

    fn latents(&self, requests: &[Request]) -> Vec<f32> {
        let latents = self.case.engine.latents(requests, &mut []).unwrap();
        latents.to_data().iter::<f32>().collect()
    }
}

pub(super) fn deviation(a: &[f32], b: &[f32]) -> f32 {
    let scale = b.iter().fold(0f32, |max, value| max.max(value.abs()));
    let pairs = a.iter().zip(b);
    pairs.fold(0f32, |max, (a, b)| max.max((a - b).abs())) / scale
}

#[test]
fn pictures_are_diffusers() {
    let gligen = Gligen::open();
    let mut seen: Vec<Vec<f32>> = Vec::new();
    for (name, run) in gligen.info["pipelines"].as_object().unwrap() {
        let boxes = run["boxes"].as_u64().unwrap() as usize;
        // Empty places alone are no request: a picture without boxes is one without the layers.
        if boxes == 0 {
            continue;
        }
        let request = Request {
            scheduler: Some(run["scheduler"].as_str().unwrap().into()),
            ..gligen.request(run["share"].as_f64().unwrap(), boxes)
        };
        let latents = gligen.case.engine.latents(&[request], &mut []).unwrap();
        let expected = gligen.case.expected(&format!("pipeline/{name}/latents"));
        assert_close(name, &latents, &expected);
        assert!(
            seen.iter().all(|other| deviation(other, &expected) > 1e-2),
            "{name}"
        );
        seen.push(expected);
    }
    assert_eq!(seen.len(), 4);
    let made = gligen
        .case
        .engine
        .generate(&[gligen.request(0.3, 2)], &mut [])
        .unwrap();
    gligen
        .case
        .check_picture("pipeline/ddim/picture", &made.pictures[0]);
}

#[test]
fn no_picture_depends_on_its_neighbours() {
    let gligen = Gligen::open();
    let one = Request {
        seed: 1,
        ..gligen.request(0.5, 1)
    };
    let three = Request {
        seed: 2,
        prompt: "two red birds".into(),
        ..gligen.request(0.5, 3)
    };
    let plain = Request {
        seed: 3,
        boxes: Vec::new(),
        ground: None,
        ..one.clone()
    };
    let engine = &gligen.case.engine;
    let size = |requests: &[Request]| engine.batch_size(requests, 8).unwrap();
    assert_eq!(size(&[one.clone(), three.clone(), plain.clone()]), 2);
    assert_eq!(
        size(&[
            one.clone(),
            Request {
                ground: Some(Grounding { share: 0.4 }),
                ..one.clone()
            }
        ]),
        1
    );

    let both = gligen.latents(&[one.clone(), three.clone()]);
    let half = both.len() / 2;
    assert!(deviation(&gligen.latents(std::slice::from_ref(&one)), &both[..half]) < 1e-5);
    let alone = gligen.latents(std::slice::from_ref(&three));
    assert!(deviation(&alone, &both[half..]) < 1e-5);
    // A batch that shrinks on the way, before and after the layers are switched off.
    for steps in [2, 7] {
        let mut session = engine
            .begin(&[one.clone(), three.clone()], &mut [])
            .unwrap();
        session.advance(steps, &mut []).unwrap();
        session.retain(&[1], &mut []);
        session.advance(usize::MAX, &mut []).unwrap();
        assert_close("shrunk", &session.finish().unwrap(), &alone);
    }
    // Without classifier-free guidance there is no unconditional half.
    let unguided = Request {
        guidance_scale: 1.0,
        ..three
    };
    let off = Request {
        ground: None,
        boxes: Vec::new(),
        ..unguided.clone()
    };
    assert!(deviation(&gligen.latents(&[unguided]), &gligen.latents(&[off])) > 1e-2);
}

#[test]
fn it_goes_with_everything_else() {
    let gligen = Gligen::open();
    let base = Request {
        guidance_scale: 4.0,
        ..gligen.request(0.6, 2)
    };
    let mut seen = vec![gligen.latents(std::slice::from_ref(&base))];
    let guided = |method: &str, one_pass| {
        let mut config: GuidanceConfig = serde_json::from_value(json!({"method": method})).unwrap();
        config.one_pass = one_pass;
        config.steps = Some(5);
        Request {
            guide: Some(config),
            ..base.clone()
        }
    };
    let in_prompt = |object: &str, number: usize| ObjectBox {
        object: object.into(),
        bbox: gligen.boxes[number].bbox,
    };
    let boxdiff = Request {
        boxes: vec![in_prompt("cat", 0), in_prompt("dog", 1)],
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
    for request in [
        guided("pos", false),
        guided("pos", true),
        boxdiff,
        switched,
        composed,
    ] {
        let mut checked = request.clone();
        gligen.case.engine.blueprint().check(&mut checked).unwrap();
        let latents = gligen.latents(&[request]);
        assert!(latents.iter().all(|value| value.is_finite()));
        assert!(
            seen.iter().all(|other| deviation(other, &latents) > 1e-4),
            "{checked:?}"
        );
        seen.push(latents);
    }
    // The layout of a prompt with one relation.
    let laid_out = Request {
        prompt: "a cat to the left of a dog".into(),
        boxes: Vec::new(),
        ..base.clone()
    };
    let said = Request {
        boxes: [
            ("a cat", "0.05,0.25,0.35,0.75"),
            ("a dog", "0.65,0.25,0.95,0.75"),
        ]
        .map(|(object, corners)| format!("{object}: {corners}").parse().unwrap())
        .to_vec(),
        ..laid_out.clone()
    };
    assert_eq!(gligen.latents(&[laid_out]), gligen.latents(&[said]));
}

/// A captured call is told the objects, and is another one without.
#[test]
fn captured_calls_are_the_same() {
    let gligen = Gligen::open();
    let requests = [gligen.request(0.5, 1), gligen.request(0.5, 3)];
    let expected: Vec<_> = requests
        .iter()
        .map(|one| gligen.latents(std::slice::from_ref(one)))
        .collect();
    let device = device::open("flex".parse().unwrap()).unwrap();
    let model = gligen.case.request.model.clone();
    let engine: Engine = Blueprint::open(&model)
        .unwrap()
        .load(&model, &device)
        .unwrap();
    let engine = engine.with_graphs(GraphUse::Forced);
    for (request, expected) in requests.iter().zip(&expected) {
        let latents = engine
            .latents(std::slice::from_ref(request), &mut [])
            .unwrap();
        assert_close("captured", &latents, expected);
        assert!(engine.is_captured());
    }
}

#[test]
fn wrong_input_is_refused() {
    let gligen = Gligen::open();
    let refused = |blueprint: &Blueprint, request: Request| {
        let error = blueprint.check(&mut request.clone()).unwrap_err();
        error.to_string()
    };
    let own = gligen.case.engine.blueprint();
    let base = gligen.request(0.3, 1);
    let many = Request {
        boxes: vec![gligen.boxes[0].clone(); 31],
        ..base.clone()
    };
    assert!(refused(own, many).contains("31 boxes"));
    let none = Request {
        boxes: Vec::new(),
        prompt: "a cat".into(),
        ..base.clone()
    };
    assert!(refused(own, none).contains("--box"));
    let share = Request {
        ground: Some(Grounding { share: 1.1 }),
        ..base.clone()
    };
    assert!(refused(own, share).contains("between 0 and 1"));
    let toybox = ModelRequest::new("toybox", Dtype::F32);
    let plain = Blueprint::open(&toybox).unwrap();
    let without = Request {
        width: 128,
        height: 128,
        model: toybox,
        ..base.clone()
    };
    assert!(refused(&plain, without).contains("--gligen FILE"));
    // Boxes that are for BoxDiff must name what the prompt names; those of GLIGEN need not.
    let elsewhere = Request {
        boxes: vec!["zebra: 0,0,1,1".parse().unwrap()],
        ..base
    };
    own.check(&mut elsewhere.clone()).unwrap();
    let pos = GuidanceConfig {
        preset: Preset::Default,
        ..GuidanceConfig::new(&Pos)
    };
    let mut with_pos = Request {
        guide: Some(pos),
        ..elsewhere.clone()
    };
    own.check(&mut with_pos).unwrap();
    let boxdiff = serde_json::from_value(json!({"method": "boxdiff"})).unwrap();
    let boxdiff = Request {
        guide: Some(boxdiff),
        ..elsewhere
    };
    assert!(refused(own, boxdiff).contains("zebra"));
}
