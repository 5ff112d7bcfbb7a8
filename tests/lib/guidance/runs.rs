//! Whole runs of the toybox.

use std::sync::Arc;

use prepose::engine::Engine;
use prepose::guidance::classifier::Classifier;
use prepose::guidance::pos::Pos;
use prepose::guidance::{Guidance, GuidanceConfig, METHODS, Network, Preset, Settings, Target};
use prepose::prompt::scene::Scene;
use prepose::request::Request;
use prepose::sampling::denoise::Hook;
use prepose_weights::steer::SteerFile;
use serde_json::{Value, json};

use super::support::*;
use crate::support::fixture;

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
    let scene = Scene::with_relations(prompt, &[relation.parse().unwrap()]).unwrap();
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
            ..GuidanceConfig::new(&Pos)
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
fn a_picture_is_charged_for_its_own_passes_alone() {
    let engine = engine("toybox");
    let pos = GuidanceConfig {
        steps: Some(2),
        ..GuidanceConfig::new(&Pos)
    };
    let refined = GuidanceConfig {
        refine: Some(true),
        ..pos.clone()
    };
    let one_pass = GuidanceConfig {
        one_pass: true,
        ..pos.clone()
    };
    for config in [pos, refined, one_pass] {
        let settings = config.settings(Network::Toybox).unwrap();
        let guided = PROMPTS.map(|(prompt, relation)| {
            let request = Request {
                steps: 4,
                ..request(prompt, 7, "ddim")
            };
            let target = target_of(&engine, &settings, prompt, relation);
            (request, target)
        });
        let plain = Request {
            prompt: "a dog and a cat".into(),
            ..guided[0].0.clone()
        };
        let mut all = guided.to_vec();
        all.push((plain, Target::default()));
        let passes = |pictures: &[(Request, Target)]| {
            let (requests, targets): (Vec<_>, Vec<_>) = pictures.iter().cloned().unzip();
            let mut guidance = Guidance::new(settings.clone(), targets).unwrap();
            engine.latents(&requests, &mut [&mut guidance]).unwrap();
            guidance.recorded_passes().to_vec()
        };
        let together = passes(&all);
        let alone: Vec<usize> = all.chunks(1).flat_map(passes).collect();
        assert_eq!(together, alone, "{config:?}");
        assert!(together[0] > 0 && together[2] == 0, "{together:?}");
    }
}

#[test]
fn a_picture_without_a_target_is_left_alone() {
    let engine = engine("toybox");
    let (guided, relation) = PROMPTS[0];
    let prompts = [guided, "a dog and a cat"];
    for method in METHODS {
        let mut settings = GuidanceConfig::new(*method)
            .settings(Network::Toybox)
            .unwrap();
        let learned = SteerFile::toybox().unwrap();
        let classifier = Arc::new(Classifier::load(&learned, engine.device()));
        settings.loss = (settings.loss.taught(&classifier)).unwrap_or(settings.loss);
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
