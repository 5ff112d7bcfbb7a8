//! The guidance methods against PyTorch: `fixtures/guidance` (losses, and gradients through the tiny networks) and
//! `fixtures/guidance-toybox` (whole guided runs), made by `scripts/reference/make.py`.

use std::path::{Path, PathBuf};

use burn::tensor::{Device, Tensor, TensorData};
use prepose::device;
use prepose::engine::{Blueprint, Engine};
use prepose::guidance::boxes::{BBox, ObjectBox};
use prepose::guidance::gradient::{MapGradient, MapLoss, Reading, Stage};
use prepose::guidance::maps::MapGroup;
use prepose::guidance::score::{ScoreOptions, pos_scores};
use prepose::guidance::{
    Guidance, GuidanceConfig, Method, Network, Preset, Settings, Target, TargetObject,
};
use prepose::prompt::scene::{Scene, StatedRelation};
use prepose::request::{Dtype, ModelRequest, Request};
use prepose_models::attention::{LayerInfo, Place};
use prepose_models::unet::{AddedConditioning, MapCotangents, Memory};
use safetensors::SafeTensors;
use serde_json::{Value, json};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures")
        .join(name)
}

fn read_json(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The tensors of a fixture.
struct Expected(Vec<u8>);

impl Expected {
    fn open(name: &str) -> Self {
        Self(std::fs::read(fixture(name).join("expected.safetensors")).unwrap())
    }

    fn values(&self, name: &str) -> Vec<f32> {
        let file = SafeTensors::deserialize(&self.0).unwrap();
        let tensor = file.tensor(name).unwrap_or_else(|_| panic!("{name}"));
        let bytes = tensor.data().chunks_exact(4);
        bytes
            .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
            .collect()
    }

    fn tensor<const D: usize>(&self, name: &str) -> Tensor<D> {
        let file = SafeTensors::deserialize(&self.0).unwrap();
        let shape = file.tensor(name).unwrap().shape().to_vec();
        Tensor::from_data(TensorData::new(self.values(name), shape), &Device::flex())
    }
}

fn values<const D: usize>(tensor: &Tensor<D>) -> Vec<f32> {
    tensor.to_data().iter().collect()
}

/// The largest difference, relative to the largest expected value.
fn deviation(actual: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(actual.len(), expected.len());
    let scale = expected.iter().fold(0f32, |m, x| m.max(x.abs()));
    let pairs = actual.iter().zip(expected);
    pairs.fold(0f32, |m, (a, b)| m.max((a - b).abs())) / scale
}

fn index(value: &Value) -> usize {
    value.as_u64().unwrap() as usize
}

fn indices(value: &Value) -> Vec<usize> {
    value.as_array().unwrap().iter().map(index).collect()
}

fn bbox(value: &Value) -> BBox {
    serde_json::from_value(value.clone()).unwrap()
}

fn target(value: &Value) -> Target {
    let object = |value: &Value| TargetObject {
        positions: indices(&value["positions"]),
        bbox: value.get("box").map(bbox),
    };
    let stated = |value: &Value| StatedRelation {
        subject: index(&value["subject"]),
        relation: value["relation"].as_str().unwrap().parse().unwrap(),
        objects: indices(&value["objects"]),
    };
    Target {
        objects: value["objects"]
            .as_array()
            .unwrap()
            .iter()
            .map(object)
            .collect(),
        relations: value["relations"]
            .as_array()
            .unwrap()
            .iter()
            .map(stated)
            .collect(),
        text: (1..index(&value["end"])).collect(),
    }
}

/// Name, configuration and targets of each case.
fn cases() -> Vec<(String, GuidanceConfig, Vec<Target>)> {
    let all = read_json(&fixture("guidance/case.json"));
    let cases = all["cases"].as_object().unwrap();
    let case = |(name, case): (&String, &Value)| {
        let config = serde_json::from_value(case["config"].clone()).unwrap();
        let targets = case["targets"].as_array().unwrap().iter().map(target);
        (name.clone(), config, targets.collect())
    };
    cases.iter().map(case).collect()
}

/// The only loss of a case that is applied at once.
fn only_pass(config: &GuidanceConfig, targets: &[Target]) -> Box<dyn MapLoss> {
    let mut passes = config
        .settings(Network::Toybox)
        .unwrap()
        .loss
        .passes(targets)
        .unwrap();
    assert_eq!(passes.len(), 1);
    passes.remove(0)
}

#[test]
fn losses_on_given_maps_and_their_gradients() {
    let expected = Expected::open("guidance");
    let given = expected.tensor::<3>("maps");
    let layer = LayerInfo {
        name: "up_blocks.1.attentions.0.transformer_blocks.0.attn2",
        place: Place::Up,
        index: 0,
        height: 8,
        width: 6,
        heads: 1,
        tokens: given.dims()[2],
    };
    for (name, config, targets) in cases() {
        if name == "layout" {
            continue;
        }
        let loss = only_pass(&config, &targets);
        let stages = match name.starts_with("boxdiff") {
            true => vec![("", Stage::Update), ("/refined", Stage::Refine)],
            false => vec![("", Stage::Update)],
        };
        for (suffix, stage) in stages {
            let group = MapGroup {
                size: [8, 6],
                maps: given.clone().unsqueeze_dim(1),
                selector: None,
                layers: vec![0],
                count: 1,
            };
            let found = MapGradient::new(loss.as_ref(), vec![group], stage);
            let gradient = found.cotangent(&layer).unwrap();
            let key = |what: &str| format!("maps/{name}{suffix}/{what}");
            let errors = [
                deviation(&values(&found.losses), &expected.values(&key("losses"))),
                deviation(&values(&gradient), &expected.values(&key("gradient"))),
            ];
            println!(
                "{name}{suffix}: losses {:.1e}, gradient {:.1e}",
                errors[0], errors[1]
            );
            assert!(
                errors[0] < 1e-5 && errors[1] < 1e-4,
                "{name}{suffix}: {errors:?}"
            );
        }
    }
}

fn model(checkpoint: &str) -> ModelRequest {
    ModelRequest {
        checkpoint: checkpoint.into(),
        sha256: None,
        config: None,
        vae: None,
        loras: Vec::new(),
        allow_mismatch: false,
        dtype: Dtype::F32,
    }
}

fn engine(checkpoint: &str) -> Engine {
    let model = model(checkpoint);
    let device = device::open("flex".parse().unwrap()).unwrap();
    Blueprint::open(&model)
        .unwrap()
        .load(&model, &device)
        .unwrap()
}

/// A tiny network with the fixture's inputs.
struct Tiny {
    engine: Engine,
    latents: Tensor<4>,
    context: Tensor<3>,
    added: Option<AddedConditioning>,
    timestep: f64,
    scale: f64,
    resolution: usize,
}

impl Tiny {
    fn open(family: &str, expected: &Expected) -> Self {
        let info = &read_json(&fixture("guidance/case.json"))["networks"][family];
        let key = |name: &str| format!("{family}/{name}");
        let added = (family == "sdxl").then(|| AddedConditioning {
            text_embeds: expected.tensor(&key("text_embeds")),
            time_ids: expected.tensor(&key("time_ids")),
        });
        Self {
            engine: engine(&fixture(&format!("{family}-tiny")).to_string_lossy()),
            latents: expected.tensor(&key("latents")),
            context: expected.tensor(&key("context")),
            added,
            timestep: info["timestep"].as_f64().unwrap(),
            scale: info["scale"].as_f64().unwrap(),
            resolution: index(&info["resolution"]),
        }
    }

    /// The rows `from..from + count` of the batch.
    fn narrow(
        &self,
        from: usize,
        count: usize,
    ) -> (Tensor<4>, Tensor<3>, Option<AddedConditioning>) {
        let added = self.added.as_ref().map(|added| AddedConditioning {
            text_embeds: added.text_embeds.clone().narrow(0, from, count),
            time_ids: added.time_ids.clone().narrow(0, from, count),
        });
        let context = self.context.clone().narrow(0, from, count);
        (self.latents.clone().narrow(0, from, count), context, added)
    }

    /// Losses and gradient with respect to the latents, of samples `from..from + targets.len()`.
    fn evaluate(
        &self,
        config: &GuidanceConfig,
        targets: &[Target],
        from: usize,
        memory: Memory,
    ) -> (Vec<f32>, Vec<f32>) {
        let (latents, context, added) = self.narrow(from, targets.len());
        let unet = self.engine.unet();
        let prepared = unet.prepare(context, added.as_ref());
        let [_, _, height, width] = latents.dims();
        let config = GuidanceConfig {
            // Layout guidance reads its own layers.
            resolution: (config.method != Method::Layout).then_some(self.resolution),
            ..config.clone()
        };
        let settings = config.settings(Network::Toybox).unwrap();
        settings.check(50, unet.config(), [height, width]).unwrap();
        let filter = settings
            .layers
            .resolve(unet.config(), [height, width])
            .unwrap();
        let loss = only_pass(&config, targets);
        let input = latents * self.scale;
        let reading = Reading {
            filter: &filter,
            loss: loss.as_ref(),
            stage: Stage::Update,
        };
        let (maps, recording) = reading.run(unet, input, self.timestep, &prepared, memory);
        let gradient = recording.sample_gradient(&maps) * self.scale;
        (values(&maps.losses), values(&gradient))
    }
}

fn latent_gradients(family: &str) {
    let expected = Expected::open("guidance");
    let network = Tiny::open(family, &expected);
    for (name, config, targets) in cases() {
        let (losses, gradient) = network.evaluate(&config, &targets, 0, Memory::Keep);
        let key = |what: &str| format!("{family}/{name}/{what}");
        let errors = [
            deviation(&losses, &expected.values(&key("losses"))),
            deviation(&gradient, &expected.values(&key("gradient"))),
        ];
        println!(
            "{family} {name}: losses {:.1e}, gradient {:.1e}",
            errors[0], errors[1]
        );
        assert!(errors[0] < 1e-4 && errors[1] < 1e-4, "{name}: {errors:?}");

        // One by one it is the same.
        let half = gradient.len() / 2;
        for b in 0..2 {
            let (loss, alone) = network.evaluate(&config, &targets[b..=b], b, Memory::Recompute);
            let error = deviation(&alone, &gradient[b * half..(b + 1) * half]);
            assert!(error < 1e-5, "{name}, sample {b} alone: {error}");
            assert!(
                (loss[0] - losses[b]).abs() < 1e-5,
                "{name}, sample {b} alone"
            );
        }
    }
}

#[test]
fn gradients_through_sd1() {
    latent_gradients("sd1");
}

#[test]
fn gradients_through_sdxl() {
    latent_gradients("sdxl");
}

fn request(prompt: &str, seed: u64, scheduler: &str) -> Request {
    let request = json!({
        "prompt": prompt,
        "seed": seed,
        "scheduler": scheduler,
        "width": 128,
        "height": 128,
        "steps": 20,
        "guidance_scale": 4.0,
        "noise": "torch",
        "model": model("toybox"),
    });
    serde_json::from_value(request).unwrap()
}

/// What `settings` should achieve for a prompt with this relation.
fn target_of(engine: &Engine, settings: &Settings, prompt: &str, relation: &str) -> Target {
    let tokenizers = engine.blueprint().checkpoint().tokenizers().unwrap();
    let scene = Scene::with_relations(prompt, &[relation]).unwrap();
    Target::new(settings, prompt, &scene, &[], &tokenizers[0]).unwrap()
}

/// A prompt and its relation.
const PROMPTS: [(&str, &str); 2] = [
    ("a dog to the left of a cat", "dog | left of | cat"),
    ("a pizza above a book", "pizza | above | book"),
];

#[test]
fn guided_runs_of_the_toybox_are_the_references() {
    let all = read_json(&fixture("guidance-toybox/case.json"));
    let expected = Expected::open("guidance-toybox");
    let engine = engine("toybox");
    let steps = index(&all["steps"]);
    let mut wrong = Vec::new();
    for (name, run) in all["runs"].as_object().unwrap() {
        let config: GuidanceConfig = serde_json::from_value(run["config"].clone()).unwrap();
        let settings = config.settings(Network::Toybox).unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        // All pictures of a run in one batch, though the reference makes them one by one.
        let (requests, targets): (Vec<_>, Vec<_>) = (run["requests"].as_array().unwrap().iter())
            .map(|asked| {
                let prompt = text(&asked["prompt"]);
                let seed = asked["seed"].as_u64().unwrap();
                let request = request(&prompt, seed, &text(&run["scheduler"]));
                let request = Request { steps, ..request };
                let objects = asked["objects"].as_array().unwrap();
                let [a, b] = [text(&objects[0]), text(&objects[1])];
                let relation = format!("{a} | {} | {b}", text(&asked["relation"]));
                (request, target_of(&engine, &settings, &prompt, &relation))
            })
            .unzip();
        let mut guidance = Guidance::new(settings, targets).unwrap();
        let latents = engine.latents(&requests, &mut [&mut guidance]).unwrap();
        let plain = engine.latents(&requests, &mut []).unwrap();
        let expected = expected.values(name);
        let error = deviation(&values(&latents), &expected);
        let effect = deviation(&values(&plain), &expected);
        println!("{name}: {error:.1e} (unguided {effect:.1e})");
        if error >= 1e-3 || effect < 0.05 {
            wrong.push((name, error, effect));
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// The mean loss of each guided step, of a batch that is guided by `config`.
fn losses_by_step(engine: &Engine, config: &GuidanceConfig, scheduler: &str) -> Vec<f32> {
    let settings = config.settings(Network::Toybox).unwrap();
    let targets = PROMPTS.map(|(prompt, relation)| target_of(engine, &settings, prompt, relation));
    let requests = PROMPTS.map(|(prompt, _)| Request {
        steps: 10,
        ..request(prompt, 7, scheduler)
    });
    let mut guidance = Guidance::new(settings, targets.to_vec()).unwrap();
    engine.latents(&requests, &mut [&mut guidance]).unwrap();
    let losses = guidance.losses().iter();
    losses
        .map(|(_, losses)| values(losses).iter().sum::<f32>() / 2.0)
        .collect()
}

#[test]
fn guidance_works_with_every_scheduler() {
    let engine = engine("toybox");
    for scheduler in [
        "ddim",
        "pndm",
        "euler",
        "euler_a",
        "dpmpp_2m",
        "dpmpp_2m_karras",
        "unipc",
    ] {
        let config = |scale, one_pass| GuidanceConfig {
            preset: Preset::Sd14Reference,
            scale: Some(scale),
            steps: Some(5),
            one_pass,
            ..GuidanceConfig::new(Method::Pos)
        };
        let last = |config| losses_by_step(&engine, &config, scheduler)[4];
        let unguided = last(config(1e-9, false));
        let guided = last(config(100.0, false));
        let one_pass = last(config(100.0, true));
        println!("{scheduler}: loss {unguided:.4}, guided {guided:.4}, in one pass {one_pass:.4}");
        assert!(
            guided < 0.95 * unguided,
            "{scheduler}: {guided}, unguided {unguided}"
        );
        assert!(
            one_pass < 0.95 * unguided,
            "{scheduler}: {one_pass}, unguided {unguided}"
        );
    }
}

#[test]
fn a_picture_without_a_target_is_left_alone() {
    let engine = engine("toybox");
    let (guided, relation) = PROMPTS[0];
    let prompts = [guided, "a dog and a cat"];
    for method in [
        Method::Pos,
        Method::BoxDiff,
        Method::AttendAndExcite,
        Method::Layout,
    ] {
        let settings = GuidanceConfig::new(method)
            .settings(Network::Toybox)
            .unwrap();
        let guided = target_of(&engine, &settings, prompts[0], relation);
        let requests = prompts.map(|prompt| Request {
            steps: 4,
            ..request(prompt, 1, "ddim")
        });
        let mut guidance = Guidance::new(settings, vec![guided, Target::default()]).unwrap();
        let latents = engine.latents(&requests, &mut [&mut guidance]).unwrap();
        let plain = engine.latents(&requests, &mut []).unwrap();
        let rows = |row| [latents.clone(), plain.clone()].map(|all| values(&all.narrow(0, row, 1)));
        let [guided, unguided] = rows(0);
        assert!(deviation(&guided, &unguided) > 1e-3, "{method:?}");
        let [alone, plain] = rows(1);
        assert!(deviation(&alone, &plain) < 1e-6, "{method:?}");
    }
}

#[test]
fn scores_follow_the_maps() {
    // Two maps of 4×6: the first object in the left half of the upper row, the second in the lower right corner.
    let mut maps = vec![1e-6f32; 24 * 3];
    for (cell, token) in [(0, 1), (1, 1), (22, 2), (23, 2)] {
        maps[cell * 3 + token] = 0.5;
    }
    let group = MapGroup {
        size: [4, 6],
        maps: Tensor::from_data(TensorData::new(maps, [1, 1, 24, 3]), &Device::flex()),
        selector: None,
        layers: vec![0],
        count: 1,
    };
    let score = |relation: &str| {
        let object = |position| TargetObject {
            positions: vec![position],
            bbox: None,
        };
        let target = Target {
            objects: vec![object(1), object(2)],
            relations: vec![StatedRelation {
                subject: 0,
                relation: relation.parse().unwrap(),
                objects: vec![1],
            }],
            text: vec![1, 2],
        };
        let options = ScoreOptions {
            smoothing: false,
            ..ScoreOptions::default()
        };
        pos_scores(std::slice::from_ref(&group), &[target], options).unwrap()[0].unwrap()
    };
    for right in ["left of", "above", "above left of", "far from"] {
        assert!(score(right) > 0.99, "{right}: {}", score(right));
    }
    for wrong in ["right of", "below", "above right of", "near"] {
        assert!(score(wrong) < 0.01, "{wrong}: {}", score(wrong));
    }
}

#[test]
fn wrong_input_is_refused() {
    let blueprint = Blueprint::open(&model("toybox")).unwrap();
    let tokenizer = &blueprint.checkpoint().tokenizers().unwrap()[0];
    let unet = blueprint.checkpoint().unet_config().unwrap();
    let refused = |config: &str| {
        let config: GuidanceConfig = serde_json::from_str(config).unwrap();
        let settings = match config.settings(Network::Toybox) {
            Ok(settings) => settings,
            Err(error) => return error.to_string(),
        };
        settings.check(20, &unet, [16, 16]).unwrap_err().to_string()
    };
    for (config, says) in [
        (
            r#"{"method": "layout", "preset": "sdxl-reference"}"#,
            "has no preset sdxl-reference",
        ),
        (
            r#"{"method": "pos", "steps": 21}"#,
            "21 steps cannot be guided",
        ),
        (
            r#"{"method": "pos", "steps": 5, "from_step": 16}"#,
            "cannot be guided",
        ),
        (r#"{"method": "pos", "steps": 0}"#, "at least 1"),
        (r#"{"method": "pos", "scale": -1.0}"#, "a positive number"),
        (r#"{"method": "pos", "distance": 1.5}"#, "less than 1"),
        (
            r#"{"method": "boxdiff", "loss": "paper"}"#,
            "does not read the option \"loss\"",
        ),
        (
            r#"{"method": "pos", "one_pass": true, "refine": true}"#,
            "\"refine\"",
        ),
        (
            r#"{"method": "pos", "resolution": 32}"#,
            "there are 4, 8, 16",
        ),
        (
            r#"{"method": "pos", "layers": {"named": ["up_blocks.0"]}}"#,
            "no layer \"up_blocks.0\"",
        ),
    ] {
        assert!(
            refused(config).contains(says),
            "{config}: {}",
            refused(config)
        );
    }
    assert!(serde_json::from_str::<GuidanceConfig>(r#"{"method": "pos", "sclae": 1}"#).is_err());
    assert!(
        serde_json::from_str::<GuidanceConfig>(r#"{"method": "pos", "preset": "best"}"#).is_err()
    );

    let refused = |method, prompt: &str, boxes: &[&str]| {
        let settings = GuidanceConfig::new(method)
            .settings(Network::Toybox)
            .unwrap();
        let boxes: Vec<ObjectBox> = boxes.iter().map(|text| text.parse().unwrap()).collect();
        let scene = Scene::parse(prompt).unwrap();
        let refused = Target::new(&settings, prompt, &scene, &boxes, tokenizer);
        refused.unwrap_err().to_string()
    };
    let beside = "a dog to the left of a cat";
    for (error, says) in [
        (
            refused(Method::Pos, "a dog and a cat", &[]),
            "states no relation",
        ),
        (
            refused(Method::Pos, "a dog behind a cat", &[]),
            "a relation of depth",
        ),
        (refused(Method::Pos, beside, &["dog: 0,0,1,1"]), "\"box\""),
        (
            refused(Method::BoxDiff, "a dog and a cat", &[]),
            "needs a box",
        ),
        (
            refused(Method::BoxDiff, "a dog near a cat", &[]),
            "needs a box",
        ),
        (
            refused(Method::BoxDiff, beside, &["cow: 0,0,1,1"]),
            "not in the prompt",
        ),
        (
            refused(Method::Layout, beside, &["dog: 0,0,1,1", "dog: 0,0,.5,1"]),
            "two boxes",
        ),
    ] {
        assert!(error.contains(says), "{error}");
    }
}
