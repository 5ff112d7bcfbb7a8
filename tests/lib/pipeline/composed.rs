//! Prompts that are composed of several.

use prepose::request::{Dtype, ModelRequest, Region, Request};
use serde_json::Value;

use super::{Case, assert_close};
use crate::support::fixture;

fn open() -> (Case, Value) {
    let model = ModelRequest::new(fixture("single-file/sd1").to_string_lossy(), Dtype::F32);
    let text = std::fs::read_to_string(fixture("composed/case.json")).unwrap();
    let info: Value = serde_json::from_str(&text).unwrap();
    let mut case = Case::of(&fixture("composed"), model);
    case.request.scheduler = Some("ddim".into());
    (case, info)
}

/// The request of a case: its parts joined by `AND`.
fn request(case: &Case, parts: &[Value]) -> Request {
    let text = |part: &Value| format!("{} :{}", part["text"].as_str().unwrap(), part["weight"]);
    let prompt: Vec<String> = parts.iter().map(text).collect();
    let regions = parts.iter().enumerate().filter_map(|(number, part)| {
        let bbox = serde_json::from_value(part["box"].clone()).ok()?;
        Some(Region {
            part: number + 1,
            bbox,
        })
    });
    Request {
        prompt: prompt.join(" AND "),
        regions: regions.collect(),
        ..case.request.clone()
    }
}

fn latents(case: &Case, requests: &[Request]) -> Vec<f32> {
    let latents = case.engine.latents(requests, &mut []).unwrap();
    latents.to_data().iter::<f32>().collect()
}

fn deviation(a: &[f32], b: &[f32]) -> f32 {
    let scale = b.iter().fold(0f32, |max, value| max.max(value.abs()));
    let pairs = a.iter().zip(b);
    pairs.fold(0f32, |max, (a, b)| max.max((a - b).abs())) / scale
}

#[test]
fn the_prediction_is_the_papers() {
    let (case, info) = open();
    for (name, parts) in info["cases"].as_object().unwrap() {
        let request = request(&case, parts.as_array().unwrap());
        case.engine.blueprint().check(&mut request.clone()).unwrap();
        let made = case.engine.latents(&[request], &mut []).unwrap();
        assert_close(name, &made, &case.expected(&format!("{name}/latents")));
    }
}

#[test]
fn parts_add_up() {
    let (case, _) = open();
    let of = |prompt: &str, scale| {
        let prompt = prompt.to_string();
        latents(
            &case,
            &[Request {
                prompt,
                guidance_scale: scale,
                ..case.request.clone()
            }],
        )
    };
    let close = |a: &[f32], b: &[f32]| assert!(deviation(a, b) < 1e-4, "{}", deviation(a, b));
    close(&of("a cat AND a cat", 3.0), &of("a cat", 6.0));
    close(
        &of("a cat AND a red dog", 3.0),
        &of("a red dog AND a cat", 3.0),
    );
    close(&of("a cat :2 AND a bench :0", 3.0), &of("a cat", 6.0));
    close(
        &of("a cat AND a bench :-1 AND a bench", 3.0),
        &of("a cat", 3.0),
    );
    // A scale of 1 switches classifier-free guidance off, but not the composition.
    close(
        &of("a cat :2 AND a bench :-0.5", 1.0),
        &of("a cat AND a bench :-.25", 2.0),
    );
    assert!(deviation(&of("a cat AND a bench", 3.0), &of("a cat and a bench", 3.0)) > 1e-2);
}

#[test]
fn regions_keep_to_their_cells() {
    let (case, _) = open();
    let base = Request {
        prompt: "a cat AND a bench".into(),
        ..case.request.clone()
    };
    let with = |regions: &[&str]| {
        let regions = regions
            .iter()
            .map(|region| region.parse().unwrap())
            .collect();
        latents(
            &case,
            &[Request {
                regions,
                ..base.clone()
            }],
        )
    };
    // Two that fill the picture, and one.
    assert_eq!(with(&["2: 0,0,1,1"]), with(&[]));
    assert_eq!(with(&["1: 0,0,0.5,1", "1: 0.5,0,1,1"]), with(&[]));
    assert!(deviation(&with(&["1: 0,0,0.5,1"]), &with(&[])) > 1e-2);
    let refused = |prompt: &str, region: &str| {
        let mut request = Request {
            prompt: prompt.into(),
            regions: vec![region.parse().unwrap()],
            ..case.request.clone()
        };
        case.engine
            .blueprint()
            .check(&mut request)
            .unwrap_err()
            .to_string()
    };
    assert!(refused("a cat AND a dog", "3: 0,0,1,1").contains("has 2"));
    assert!(refused("a cat", "1: 0.5,0.5,0.51,0.51").contains("smaller than a cell"));
    let mut nothing = base.clone();
    nothing.regions.push(Region {
        part: 0,
        .."1: 0,0,1,1".parse().unwrap()
    });
    let error = case.engine.blueprint().check(&mut nothing).unwrap_err();
    assert!(error.to_string().contains("for part 0"), "{error}");
}

#[test]
fn no_picture_depends_on_its_neighbours() {
    let (case, _) = open();
    let of = |prompt: &str, seed| Request {
        prompt: prompt.into(),
        seed,
        ..case.request.clone()
    };
    let requests = [
        of("a cat AND a bench :0.5", 1),
        of("a red dog :2 AND a field", 2),
        of("a cat AND a dog AND a bird", 3),
        of("a cat and a bench", 4),
    ];
    let size = |requests: &[Request]| case.engine.batch_size(requests, 8).unwrap();
    assert_eq!(size(&requests), 2);
    assert_eq!(size(&requests[2..]), 1);
    let both = latents(&case, &requests[..2]);
    let half = both.len() / 2;
    assert!(deviation(&latents(&case, &requests[..1]), &both[..half]) < 1e-5);
    let alone = latents(&case, &requests[1..2]);
    assert!(deviation(&alone, &both[half..]) < 1e-5);
    let mut session = case.engine.begin(&requests[..2], &mut []).unwrap();
    session.advance(2, &mut []).unwrap();
    session.retain(&[1], &mut []);
    session.advance(usize::MAX, &mut []).unwrap();
    assert_close("shrunk", &session.finish().unwrap(), &alone);
    // Even those that no batch would hold together are what they are alone.
    let mixed = latents(&case, &requests[2..]);
    assert!(deviation(&latents(&case, &requests[2..3]), &mixed[..half]) < 1e-5);
}

#[test]
fn prompts_may_change_their_number_of_parts() {
    let (case, _) = open();
    let of = |prompt: &str| {
        latents(
            &case,
            &[Request {
                prompt: prompt.into(),
                ..case.request.clone()
            }],
        )
    };
    let changing = of("a cat[ AND a bench::2]");
    assert!(deviation(&changing, &of("a cat")) > 1e-3);
    assert!(deviation(&changing, &of("a cat AND a bench")) > 1e-3);
    assert!(case.engine.needs(&case.request, 1).unwrap().step > 0);
    let step = |prompt: &str| {
        let request = Request {
            prompt: prompt.into(),
            ..case.request.clone()
        };
        case.engine.needs(&request, 1).unwrap().step
    };
    assert!(step("a cat[ AND a bench::2]") > step("a cat"));
    assert_eq!(step("a cat[ AND a bench::2]"), step("a AND b"));
}

#[test]
fn guidance_reads_the_first_part() {
    let (case, _) = open();
    let guided = |prompt: &str, one_pass: bool| {
        let guide = serde_json::json!({"method": "pos", "one_pass": one_pass, "steps": 2});
        let mut request = Request {
            prompt: prompt.into(),
            guide: Some(serde_json::from_value(guide).unwrap()),
            ..case.request.clone()
        };
        let checked = case.engine.blueprint().check(&mut request);
        checked.map(|()| request).map_err(|error| error.to_string())
    };
    let first = guided("a cat to the left of a dog AND a field", false).unwrap();
    let plain = Request {
        guide: None,
        ..first.clone()
    };
    let found = case.engine.blueprint().positions(&first, "dog").unwrap();
    let alone = Request {
        prompt: "a cat to the left of a dog".into(),
        ..plain.clone()
    };
    assert_eq!(
        found,
        case.engine.blueprint().positions(&alone, "dog").unwrap()
    );
    assert!(deviation(&latents(&case, &[first]), &latents(&case, &[plain])) > 1e-4);
    assert!(
        guided("a field AND a cat to the left of a dog", false)
            .unwrap_err()
            .contains("no relation")
    );
    let error = guided("a cat to the left of a dog AND a field", true).unwrap_err();
    assert!(error.contains("one-pass"), "{error}");
}
