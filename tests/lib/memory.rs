//! Memory that runs short, and UNet calls that are captured.

use burn::tensor::Tensor;
use prepose::device;
use prepose::engine::{Blueprint, Engine};
use prepose::request::{Dtype, ModelRequest, PromptSwitch, Request};
use prepose::sampling::denoise::{Hook, HookError, State};
use prepose_models::unet::GraphUse;
use serde_json::json;

fn model() -> ModelRequest {
    ModelRequest::new("toybox", Dtype::F32)
}

fn engine() -> Engine {
    let device = device::open("flex".parse().unwrap()).unwrap();
    let model = model();
    Blueprint::open(&model)
        .unwrap()
        .load(&model, &device)
        .unwrap()
}

fn request(engine: &Engine, prompt: &str, steps: usize) -> Request {
    Request {
        steps,
        ..engine.blueprint().request(prompt, &model())
    }
}

fn values(latents: Tensor<4>) -> Vec<f32> {
    latents.into_data().iter().collect()
}

#[test]
fn captured_calls_draw_the_same_pictures() {
    let plain = engine().with_graphs(GraphUse::Off);
    let captured = engine().with_graphs(GraphUse::Forced);
    let dog = request(&plain, "a dog to the left of a cat", 5);
    let switched = Request {
        switch: Some(PromptSwitch {
            to: "a red cube below a green ball".into(),
            at: 2,
        }),
        ..dog.clone()
    };
    // Back and forth at every step.
    let alternating = request(&plain, "a [red|green] ball", 6);
    let unguided = Request {
        guidance_scale: 1.0,
        ..dog.clone()
    };
    let two = [
        dog.clone(),
        Request {
            seed: 9,
            ..dog.clone()
        },
    ];
    // The same graph is used again, then for other prompts, then others are captured in its place.
    let batches = [
        vec![dog.clone()],
        vec![Request {
            seed: 3,
            ..dog.clone()
        }],
        vec![switched],
        vec![alternating],
        vec![unguided],
        two.to_vec(),
        vec![dog],
    ];
    for batch in &batches {
        let expected = values(plain.latents(batch, &mut []).unwrap());
        let got = values(captured.latents(batch, &mut []).unwrap());
        assert!(captured.is_captured() && !plain.is_captured());
        assert_eq!(got, expected, "{batch:?}");
    }
}

#[test]
fn captured_guidance_draws_the_same_pictures() {
    let plain = engine().with_graphs(GraphUse::Off);
    let captured = engine().with_graphs(GraphUse::Forced);
    let dog = request(&plain, "a dog to the left of a cat", 5);
    let guided = |config: serde_json::Value| Request {
        guide: Some(serde_json::from_value(config).unwrap()),
        ..dog.clone()
    };
    let methods = [
        json!({"method": "pos", "steps": 3}),
        // Records the step's own call.
        json!({"method": "pos", "one_pass": true}),
        // Reads every head of its layers, and repeats steps.
        json!({"method": "layout", "steps": 3}),
        json!({"method": "conform", "steps": 3}),
        json!({"method": "attend-and-excite", "steps": 4}),
    ];
    let mut batches: Vec<_> = methods.into_iter().map(|it| vec![guided(it)]).collect();
    let one = batches[0][0].clone();
    let other = Request {
        prompt: "a red cube above a green ball".into(),
        seed: 9,
        ..one.clone()
    };
    batches.push(vec![other.clone()]);
    batches.push(vec![one.clone(), other]);
    batches.push(vec![one]);
    for batch in &batches {
        let expected = values(plain.latents(batch, &mut []).unwrap());
        let got = values(captured.latents(batch, &mut []).unwrap());
        assert!(captured.is_guidance_captured() && !plain.is_guidance_captured());
        assert_eq!(got, expected, "{batch:?}");
    }
}

#[test]
fn what_only_runs_again_is_not_captured() {
    let engine = engine();
    let mut request = request(&engine, "a dog to the left of a cat", 14);
    request.guide = Some(serde_json::from_value(json!({"method": "pos"})).unwrap());
    engine.latents(&[request], &mut []).unwrap();
    assert!(!engine.is_captured() && !engine.is_guidance_captured());
}

/// Fails as CubeCL does when an allocation is refused.
struct Greedy;

impl Hook for Greedy {
    fn before_unet(&mut self, state: &mut State) -> Result<(), HookError> {
        if state.step == 1 {
            panic!("out of device memory allocating 1073741824 bytes\n  0: backtrace");
        }
        Ok(())
    }
}

#[test]
fn an_allocation_that_is_refused_is_an_error_with_a_way_out() {
    prepose::memory::silence_panics();
    let engine = engine();
    let one = request(&engine, "a dog to the left of a cat", 3);
    let four: Vec<_> = (0..4)
        .map(|seed| Request {
            seed,
            ..one.clone()
        })
        .collect();
    let error = engine.generate(&four, &mut [&mut Greedy]).err().unwrap();
    let short = error.out_of_memory().expect("want of memory");
    assert_eq!(short.shortage.bytes, Some(1 << 30));
    let text = error.to_string();
    let pictures = format!("4 pictures of {0}×{0}", one.width);
    for part in ["flex", &*pictures, "1.0 GiB", "--batch 2", "--size"] {
        // Without the text, which would silence the panic.
        assert!(text.contains(part), "it does not say {part:?}");
    }
    // Nothing is broken by it.
    let made = engine.generate(&four[..2], &mut []).unwrap();
    assert_eq!(made.pictures.len(), 2);
}

#[test]
fn other_panics_stay_panics() {
    struct Broken;
    impl Hook for Broken {
        fn before_unet(&mut self, _: &mut State) -> Result<(), HookError> {
            panic!("a bug")
        }
    }
    let engine = engine();
    let one = request(&engine, "a dog", 2);
    let run = || {
        engine
            .generate(std::slice::from_ref(&one), &mut [&mut Broken])
            .map(|_| ())
    };
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err());
}
