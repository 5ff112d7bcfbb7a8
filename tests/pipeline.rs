//! The whole engine against diffusers: `fixtures/sd1-tiny` and `fixtures/sdxl-tiny`, made by
//! `scripts/reference/make.py`. Final latents after 10 steps agree to 1e-4 of the largest latent.

use std::path::{Path, PathBuf};

use burn::tensor::Tensor;
use prepose::device;
use prepose::engine::{Blueprint, Engine};
use prepose::request::{DelayedOrder, Dtype, InitImage, ModelRequest, PromptSwitch, Request};
use prepose::sampling::denoise::{Hook, HookError, Rows, State};
use prepose::sampling::noise::NoiseKind;
use prepose_models::attention::{AttentionProbe, LayerInfo};
use prepose_models::unet::Recording;
use safetensors::SafeTensors;

const TOLERANCE: f32 = 1e-4;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures")
        .join(name)
}

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
        let model = ModelRequest {
            checkpoint: folder.to_string_lossy().into_owned(),
            sha256: None,
            config: None,
            vae: None,
            loras: Vec::new(),
            allow_mismatch: false,
            dtype: Dtype::F32,
        };
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
            guide: None,
            found: None,
            seed: case["seed"].as_u64().unwrap(),
            width: size("width"),
            height: size("height"),
            steps: size("num_inference_steps"),
            guidance_scale: asked["guidance_scale"].as_f64().unwrap(),
            scheduler: None,
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

const SCHEDULERS: [&str; 8] = [
    "ddim",
    "pndm",
    "euler",
    "euler_a",
    "dpmpp_2m",
    "dpmpp_2m_karras",
    "unipc",
    "lcm",
];

/// The start picture of the image-to-image cases as a PNG.
fn init_picture(case: &Case, folder: &Path) -> InitImage {
    let (width, height) = (case.request.width, case.request.height);
    let values = case.expected("img2img/image");
    let path = folder.join("init.png");
    let picture = image::RgbImage::from_fn(width as u32, height as u32, |x, y| {
        let at = |c: usize| values[(c * height + y as usize) * width + x as usize];
        image::Rgb([0, 1, 2].map(|c| (at(c) * 255.0).round() as u8))
    });
    picture.save(&path).unwrap();
    InitImage {
        path,
        strength: 0.6,
        sha256: None,
    }
}

#[test]
fn sd1_text_to_image_is_diffusers() {
    let case = Case::open("sd1-tiny");
    for scheduler in SCHEDULERS {
        case.check(&format!("txt2img/{scheduler}"), |r| {
            r.scheduler = Some(scheduler.into())
        });
    }
    case.check("txt2img/ddim_no_guidance", |r| {
        r.scheduler = Some("ddim".into());
        r.guidance_scale = 1.0;
    });
}

#[test]
fn sd1_image_to_image_is_diffusers() {
    let case = Case::open("sd1-tiny");
    let folder = tempfile::tempdir().unwrap();
    let init = init_picture(&case, folder.path());
    for scheduler in SCHEDULERS {
        case.check(&format!("img2img/{scheduler}"), |r| {
            r.scheduler = Some(scheduler.into());
            r.init = Some(init.clone());
        });
    }
}

#[test]
fn sdxl_is_diffusers() {
    let case = Case::open("sdxl-tiny");
    for scheduler in ["euler", "ddim", "dpmpp_2m_karras", "euler_a"] {
        case.check(&format!("txt2img/{scheduler}"), |r| {
            r.scheduler = Some(scheduler.into())
        });
    }
    case.check("txt2img/euler_no_negative", |r| {
        r.scheduler = Some("euler".into());
        r.negative_prompt.clear();
    });
    let folder = tempfile::tempdir().unwrap();
    let init = init_picture(&case, folder.path());
    for scheduler in ["euler", "ddim"] {
        case.check(&format!("img2img/{scheduler}"), |r| {
            r.scheduler = Some(scheduler.into());
            r.init = Some(init.clone());
        });
    }
}

#[test]
fn the_picture_is_diffusers() {
    let case = Case::open("sd1-tiny");
    let request = case.with_scheduler("ddim");
    let made = case.engine.generate(&[request], &mut []).unwrap();
    let expected = case.expected("txt2img/ddim/picture");
    let picture = &made.pictures[0];
    let plane = picture.width * picture.height;
    for (position, pixel) in picture.rgb.chunks_exact(3).enumerate() {
        for (channel, byte) in pixel.iter().enumerate() {
            let value = expected[channel * plane + position] * 255.0;
            assert!(
                (value - f32::from(*byte)).abs() <= 1.0,
                "{value} against {byte}"
            );
        }
    }
}

#[test]
fn a_batch_is_diffusers_and_every_picture_is_its_own() {
    let case = Case::open("sd1-tiny");
    for scheduler in ["ddim", "euler_a"] {
        let requests: Vec<Request> = case
            .batch_seeds
            .iter()
            .map(|seed| Request {
                seed: *seed,
                ..case.with_scheduler(scheduler)
            })
            .collect();
        let latents = case.engine.latents(&requests, &mut []).unwrap();
        let name = format!("txt2img/{scheduler}_batch");
        assert_close(&name, &latents, &case.expected(&format!("{name}/latents")));
    }
    // The same picture alone, first and last, among other prompts.
    let request = case.with_scheduler("euler_a");
    let mut other = request.clone();
    other.prompt = "two red birds".into();
    other.seed = 99;
    let picture = |requests: &[Request], index: usize| {
        case.engine.generate(requests, &mut []).unwrap().pictures[index].clone()
    };
    let alone = picture(std::slice::from_ref(&request), 0);
    assert_eq!(alone, picture(&[request.clone(), other.clone()], 0));
    assert_eq!(alone, picture(&[other.clone(), other, request], 2));
}

#[test]
fn batches_hold_only_what_belongs_together() {
    let case = Case::open("sd1-tiny");
    let request = case.request.clone();
    let same = Request {
        prompt: "another".into(),
        seed: 1,
        ..request.clone()
    };
    let longer = Request {
        prompt: "a bird ".repeat(60),
        ..request.clone()
    };
    let wider = Request {
        width: 64,
        ..request.clone()
    };
    let size = |requests: &[Request], most| case.engine.batch_size(requests, most).unwrap();
    assert_eq!(size(&[request.clone(), same.clone(), same.clone()], 8), 3);
    assert_eq!(size(&[request.clone(), same.clone(), same.clone()], 2), 2);
    assert_eq!(size(&[request.clone(), longer], 8), 1);
    assert_eq!(size(&[request, wider], 8), 1);
}

/// Writes down when it is called, and ends the run at `stop`.
#[derive(Default)]
struct Recorder {
    calls: Vec<String>,
    stop: Option<usize>,
}

impl Hook for Recorder {
    fn before_loop(&mut self, state: &mut State) -> Result<(), HookError> {
        self.calls.push(format!("loop of {}", state.steps));
        Ok(())
    }

    fn before_step(&mut self, state: &mut State) -> Result<(), HookError> {
        self.calls.push(format!("step {}", state.step));
        Ok(())
    }

    fn before_unet(&mut self, _state: &mut State) -> Result<(), HookError> {
        self.calls.push("unet".into());
        Ok(())
    }

    fn after_prediction(
        &mut self,
        _state: &State,
        prediction: Tensor<4>,
    ) -> Result<Tensor<4>, HookError> {
        self.calls.push("prediction".into());
        Ok(prediction)
    }

    fn after_step(&mut self, state: &mut State, denoised: &Tensor<4>) -> Result<(), HookError> {
        assert_eq!(denoised.dims(), state.latents().dims());
        self.calls.push("after".into());
        match self.stop == Some(state.step) {
            true => Err("enough".into()),
            false => Ok(()),
        }
    }
}

#[test]
fn hooks_run_in_order_and_can_stop() {
    let case = Case::open("sd1-tiny");
    let request = Request {
        steps: 3,
        ..case.with_scheduler("ddim")
    };
    let mut recorder = Recorder {
        stop: Some(1),
        ..Recorder::default()
    };
    let error = case
        .engine
        .generate(&[request], &mut [&mut recorder])
        .err()
        .unwrap();
    assert_eq!(error.to_string(), "enough");
    assert_eq!(
        recorder.calls,
        [
            "loop of 3",
            "step 0",
            "unet",
            "prediction",
            "after",
            "step 1",
            "unet",
            "prediction",
            "after"
        ]
    );
}

/// Swaps the conditioning at a step, or edits the latents to the same values.
struct Swap {
    at: usize,
    to: prepose::sampling::denoise::Conditioning,
}

impl Hook for Swap {
    fn before_step(&mut self, state: &mut State) -> Result<(), HookError> {
        let same = state.latents().clone();
        state.edit_latents(same);
        Ok(())
    }

    fn before_unet(&mut self, state: &mut State) -> Result<(), HookError> {
        if state.step == self.at {
            state.set_conditioning(self.to.clone());
        }
        Ok(())
    }
}

#[test]
fn swapping_the_prompt_at_the_first_step_is_the_other_prompt() {
    let case = Case::open("sd1-tiny");
    for scheduler in ["ddim", "pndm", "unipc"] {
        let request = case.with_scheduler(scheduler);
        let other = Request {
            prompt: "two red birds".into(),
            ..request.clone()
        };
        let latents = |request: &Request, hooks: &mut [&mut dyn Hook]| -> Vec<f32> {
            let latents = case
                .engine
                .latents(std::slice::from_ref(request), hooks)
                .unwrap();
            latents.to_data().iter::<f32>().collect()
        };
        let to = case
            .engine
            .conditioning(std::slice::from_ref(&other))
            .unwrap();
        let wanted = latents(&other, &mut []);
        let swapped = |at| latents(&request, &mut [&mut Swap { at, to: to.clone() }]);
        assert_eq!(swapped(0), wanted, "{scheduler}");
        assert_ne!(swapped(5), wanted, "{scheduler}");
        assert_ne!(swapped(5), latents(&request, &mut []), "{scheduler}");
        // The same by request, from either end.
        let switch = PromptSwitch {
            to: other.prompt.clone(),
            at: 5,
        };
        let switched = Request {
            switch: Some(switch),
            ..request.clone()
        };
        assert_eq!(swapped(5), latents(&switched, &mut []), "{scheduler}");
        let delay = DelayedOrder {
            neutral_prompt: request.prompt.clone(),
            steps: 5,
        };
        let delayed = Request {
            delay_order: Some(delay),
            ..other
        };
        assert_eq!(swapped(5), latents(&delayed, &mut []), "{scheduler}");
    }
}

/// Keeps the probabilities of one layer at each step.
#[derive(Default)]
struct Watcher(Vec<Tensor<4>>);

impl AttentionProbe for Watcher {
    fn wants(&self, layer: &LayerInfo) -> bool {
        layer.index == 1
    }

    fn record(&mut self, _layer: &LayerInfo, probabilities: Tensor<4>) {
        self.0.push(probabilities);
    }
}

impl Hook for Watcher {
    fn probe(&mut self, state: &State, rows: Rows) -> Option<&mut dyn AttentionProbe> {
        assert_eq!(rows, Rows::Both);
        (state.step != 1).then_some(self)
    }
}

#[test]
fn a_hook_sees_the_attention_of_the_steps_it_asks_for() {
    let case = Case::open("sdxl-tiny");
    let request = Request {
        steps: 3,
        ..case.request.clone()
    };
    let plain = (case.engine)
        .latents(std::slice::from_ref(&request), &mut [])
        .unwrap();
    let mut watcher = Watcher::default();
    let watched = (case.engine)
        .latents(&[request], &mut [&mut watcher])
        .unwrap();
    assert_close(
        "watched",
        &watched,
        &plain.to_data().try_to_vec::<f32>().unwrap(),
    );
    assert_eq!(watcher.0.len(), 2);
    // Both halves of classifier-free guidance, and a distribution over the tokens.
    assert_eq!(watcher.0[0].dims()[0], 2);
    let sums = watcher.0[0].clone().sum_dim(3).to_data();
    assert!(sums.iter::<f32>().all(|sum| (sum - 1.0).abs() < 1e-5));
}

#[test]
fn a_batch_that_shrinks_on_the_way_makes_the_same_pictures() {
    let case = Case::open("sd1-tiny");
    for scheduler in ["unipc", "euler_a", "dpmpp_2m"] {
        let requests: Vec<Request> = (0..3)
            .map(|seed| Request {
                seed,
                prompt: format!("a cat {seed}"),
                ..case.with_scheduler(scheduler)
            })
            .collect();
        let whole = case.engine.latents(&requests, &mut []).unwrap();
        let mut session = case.engine.begin(&requests, &mut []).unwrap();
        session.advance(2, &mut []).unwrap();
        session.retain(&[2, 0], &mut []);
        session.advance(1, &mut []).unwrap();
        session.retain(&[1], &mut []);
        session.advance(usize::MAX, &mut []).unwrap();
        let expected = whole.narrow(0, 0, 1).to_data().try_to_vec::<f32>().unwrap();
        assert_close(scheduler, &session.finish().unwrap(), &expected);
    }
}

/// Has the conditional half recorded.
#[derive(Default)]
struct OnePass {
    watcher: Watcher,
    gradients: Vec<Tensor<4>>,
}

impl Hook for OnePass {
    fn recorder(&mut self, _state: &State) -> Option<&mut dyn AttentionProbe> {
        Some(&mut self.watcher)
    }

    fn recorded(&mut self, _state: &State, recording: Recording) -> Result<(), HookError> {
        let maps = self.watcher.0.last().unwrap().clone();
        let gradient = recording.sample_gradient(&move |_: &LayerInfo| Some(maps.clone()));
        self.gradients.push(gradient);
        Ok(())
    }
}

#[test]
fn recording_the_conditional_half_does_not_change_the_picture() {
    for name in ["sd1-tiny", "sdxl-tiny"] {
        let case = Case::open(name);
        let request = Request {
            steps: 3,
            ..case.with_scheduler("ddim")
        };
        let unguided = Request {
            guidance_scale: 1.0,
            ..request.clone()
        };
        for request in [request, unguided] {
            let plain = case.engine.latents(std::slice::from_ref(&request), &mut []);
            let expected = plain.unwrap().to_data().try_to_vec::<f32>().unwrap();
            let mut hook = OnePass::default();
            let recorded = case.engine.latents(&[request], &mut [&mut hook]).unwrap();
            assert_close("recorded", &recorded, &expected);
            assert_eq!(hook.gradients.len(), 3);
            let size: f32 = hook.gradients[0].clone().abs().sum().into_scalar();
            assert!(size.is_finite() && size > 0.0);
        }
    }
}
