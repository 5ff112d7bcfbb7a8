//! Stable Diffusion 2.x against diffusers.

use prepose::engine::Blueprint;
use prepose::guidance::Network;
use prepose::request::{Dtype, ModelRequest};
use prepose_weights::Prediction;

use super::{Case, assert_close};
use crate::support::fixture;

#[test]
fn pictures_are_diffusers() {
    let case = Case::open("sd2-tiny");
    let name = "txt2img/v";
    case.check(name, |_| ());
    let made = case
        .engine
        .generate(std::slice::from_ref(&case.request), &mut [])
        .unwrap();
    case.check_picture(&format!("{name}/picture"), &made.pictures[0]);
    assert_eq!(case.engine.blueprint().network(), Network::Sd1);
}

#[test]
fn the_prediction_can_be_said() {
    let mut model = ModelRequest::new(fixture("sd2-tiny").to_string_lossy(), Dtype::F32);
    model.prediction = Some(Prediction::Epsilon);
    let case = Case::of(&fixture("sd2-tiny"), model.clone());
    let latents = case
        .engine
        .latents(std::slice::from_ref(&case.request), &mut [])
        .unwrap();
    assert_close(
        "epsilon",
        &latents,
        &case.expected("txt2img/epsilon/latents"),
    );
    // It is part of the picture's request.
    let json = serde_json::to_value(&model).unwrap();
    assert_eq!(json["prediction"], "epsilon");
    let defaults = Blueprint::open(&model).unwrap().defaults();
    assert_eq!(defaults.guidance_scale, 7.5);
}
