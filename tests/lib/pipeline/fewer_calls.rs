//! Few steps, and steps that call the network for less.

use prepose::request::{Dtype, ModelRequest, Request};
use prepose::sampling::StepRange;
use serde_json::Value;

use super::{Case, assert_close};
use crate::support::fixture;

fn open() -> (Case, Value) {
    let model = ModelRequest::new(fixture("single-file/sd1").to_string_lossy(), Dtype::F32);
    let text = std::fs::read_to_string(fixture("fewer-calls/case.json")).unwrap();
    let mut case = Case::of(&fixture("fewer-calls"), model);
    case.request.scheduler = Some("ddim".into());
    (case, serde_json::from_str(&text).unwrap())
}

fn guided(first: usize, last: Option<usize>) -> Option<StepRange> {
    Some(StepRange { first, last })
}

#[test]
fn fewer_calls_are_diffusers() {
    let (case, info) = open();
    for (name, given) in info["cases"].as_object().unwrap() {
        let step = |at: usize| {
            given["guidance_steps"][at]
                .as_u64()
                .map(|step| step as usize)
        };
        let request = Request {
            scheduler: given["scheduler"].as_str().map(Into::into),
            steps: given["steps"].as_u64().unwrap() as usize,
            eta: given["eta"].as_f64(),
            guidance_steps: step(0).map(|first| StepRange {
                first,
                last: step(1),
            }),
            ..case.request.clone()
        };
        case.engine.blueprint().check(&mut request.clone()).unwrap();
        let made = case.engine.latents(&[request], &mut []).unwrap();
        assert_close(name, &made, &case.expected(&format!("{name}/latents")));
    }
}

#[test]
fn guidance_in_all_steps_or_none_is_what_it_was() {
    let (case, _) = open();
    let of = |guidance_scale, guidance_steps| {
        let request = Request {
            guidance_scale,
            guidance_steps,
            ..case.request.clone()
        };
        let latents = case.engine.latents(&[request], &mut []).unwrap();
        latents.to_data().iter::<f32>().collect::<Vec<_>>()
    };
    assert_eq!(of(5.0, guided(0, None)), of(5.0, None));
    // Without a negative half there is nothing to leave out.
    assert_eq!(of(1.0, guided(2, Some(3))), of(1.0, None));
    assert_ne!(of(5.0, guided(2, Some(3))), of(5.0, None));
}

#[test]
fn what_cannot_be_is_refused() {
    let (case, _) = open();
    let refused = |change: &dyn Fn(&mut Request)| {
        let mut request = case.request.clone();
        change(&mut request);
        let blueprint = case.engine.blueprint();
        blueprint.check(&mut request).unwrap_err().to_string()
    };
    let late = refused(&|request| request.guidance_steps = guided(6, None));
    assert!(late.contains("begins with step 6"), "{late}");
    let backwards = refused(&|request| request.guidance_steps = guided(3, Some(2)));
    assert!(backwards.contains("not before the first"), "{backwards}");
    let unguided = refused(&|request| {
        request.guidance_scale = 1.0;
        request.guidance_steps = guided(0, Some(2));
    });
    assert!(unguided.contains("above 1"), "{unguided}");
    let composed = refused(&|request| {
        request.prompt = "a cat AND a dog".into();
        request.guidance_steps = guided(0, Some(2));
    });
    assert!(composed.contains("composed"), "{composed}");
    let other = refused(&|request| request.eta = Some(0.5));
    assert!(other.contains("ddim has none"), "{other}");
    let share = refused(&|request| {
        request.scheduler = Some("tcd".into());
        request.eta = Some(1.5);
    });
    assert!(share.contains("from 0 to 1"), "{share}");
}
