//! The learned loss: the classifier against PyTorch (`fixtures/steer`), and its gradient through a tiny network.

use std::path::Path;
use std::sync::Arc;

use burn::tensor::{Device, Tensor, TensorData};
use prepose::engine::Blueprint;
use prepose::guidance::classifier::{Classifier, classes, inputs};
use prepose::guidance::gradient::{MapLoss, NoiseLevel, Reading, Stage};
use prepose::guidance::maps::MapGroup;
use prepose::guidance::steer::{Steer, SteerPos};
use prepose::guidance::{GuidanceConfig, GuidanceError, Method, Network, Target, TargetObject};
use prepose::prompt::scene::{Relation, StatedRelation};
use prepose_models::steer::cross_entropy;
use prepose_models::unet::Memory;
use prepose_weights::steer::{SteerConfig, SteerFile, read_layers};
use serde_json::Value;

use super::gradients::Tiny;
use super::support::*;
use crate::support::{fixture, root};

fn case() -> Value {
    read_json(&fixture("steer/case.json"))
}

/// The fixture's network; it reads any number of maps.
fn file(expected: &Expected) -> SteerFile {
    let config = SteerConfig {
        size: serde_json::from_value(case()["size"].clone()).unwrap(),
        layers: Vec::new(),
        timesteps: serde_json::from_value(case()["timesteps"].clone()).unwrap(),
        classes: classes(),
        checkpoint: "tiny".into(),
        checkpoint_sha256: String::new(),
        pictures: 1,
        wrong_words: true,
    };
    let parameters = SteerFile::parameters(&config).into_iter();
    let values = parameters.map(|(name, _)| expected.values(&format!("net/{name}")));
    SteerFile {
        values: values.collect(),
        config,
    }
}

#[test]
fn scores_losses_and_gradients_as_in_pytorch() {
    let expected = Expected::open("steer");
    let case = case();
    let classifier = Classifier::load(&file(&expected), &Device::flex());
    let layers = case["layers"].as_array().unwrap().iter().enumerate();
    let groups: Vec<MapGroup> = layers
        .map(|(number, size)| {
            let size = indices(size);
            let maps: Tensor<4> = expected.tensor(&format!("maps/{number}"));
            MapGroup {
                size: [size[0], size[1]],
                maps: maps.autodiff().require_grad(),
                selector: None,
                layers: vec![number],
                down: true,
                count: 1,
            }
        })
        .collect();
    let pairs = case["pairs"].as_array().unwrap().iter().map(indices);
    let pairs: Vec<(usize, [usize; 2])> = pairs.map(|pair| (pair[0], [pair[1], pair[2]])).collect();
    let (steps, wanted) = (indices(&case["steps"]), indices(&case["wanted"]));
    let scores = classifier
        .net()
        .forward(inputs(&groups, &pairs), &steps, None);
    let losses = cross_entropy(scores.clone(), &wanted);
    let gradients = losses.clone().sum().backward();
    let mut errors = vec![
        deviation(&values(&scores.inner()), &expected.values("scores")),
        deviation(&values(&losses.inner()), &expected.values("losses")),
    ];
    for (number, group) in groups.iter().enumerate() {
        let gradient = values(&group.maps.grad(&gradients).unwrap());
        errors.push(deviation(
            &gradient,
            &expected.values(&format!("gradient/{number}")),
        ));
    }
    println!("{errors:?}");
    assert!(errors.iter().all(|error| *error < 1e-5), "{errors:?}");
}

fn targets(relations: &[Relation]) -> Vec<Target> {
    let object = |positions: &[usize]| TargetObject {
        positions: positions.to_vec(),
        bbox: None,
    };
    let one = Target {
        objects: vec![object(&[2]), object(&[4, 5])],
        relations: relations
            .iter()
            .map(|relation| StatedRelation::of_two(0, *relation, 1))
            .collect(),
        text: (1..7).collect(),
        chunk: 77,
    };
    vec![one.clone(), one]
}

fn passes(method: impl Into<Method>, relations: &[Relation]) -> Vec<Box<dyn MapLoss>> {
    passes_of(&GuidanceConfig::new(method), &targets(relations))
}

fn passes_of(config: &GuidanceConfig, targets: &[Target]) -> Vec<Box<dyn MapLoss>> {
    passes_for(Network::Toybox, config, targets)
}

fn passes_for(
    network: Network,
    config: &GuidanceConfig,
    targets: &[Target],
) -> Vec<Box<dyn MapLoss>> {
    let classifier = Classifier::load(&file(&Expected::open("steer")), &Device::flex());
    let settings = config.settings(network).unwrap();
    let loss = settings.loss.taught(&Arc::new(classifier)).unwrap();
    loss.passes(targets).unwrap()
}

/// Losses and the gradient with respect to the latents.
fn evaluate(tiny: &Tiny, loss: &dyn MapLoss) -> (f64, Vec<f32>) {
    evaluate_at(tiny, loss, 1.0)
}

/// The same at noise level `sigma`.
fn evaluate_at(tiny: &Tiny, loss: &dyn MapLoss, sigma: f64) -> (f64, Vec<f32>) {
    let (latents, context, added) = tiny.narrow(0, 2);
    let unet = tiny.engine.unet();
    let prepared = unet.prepare(context, added.as_ref());
    let [_, _, height, width] = latents.dims();
    let settings = GuidanceConfig::new(&Steer)
        .settings(Network::Toybox)
        .unwrap();
    let filter = settings.layers.resolve_in(unet, [height, width]).unwrap();
    let reading = Reading {
        filter: &filter,
        loss,
        before: &[],
        stage: Stage::Update,
        merging: None,
        graphs: None,
    };
    let input = latents * tiny.scale;
    let level = NoiseLevel {
        timestep: tiny.timestep,
        sigma,
    };
    let (maps, recording) = reading.run(unet, input, level, &prepared, Memory::Keep);
    let gradient = recording.sample_gradient(&maps) * tiny.scale;
    let losses = values(&maps.losses);
    (losses.into_iter().map(f64::from).sum(), values(&gradient))
}

/// How far apart central differences are taken; the latents have unit variance.
const APART: f32 = 0.005;

#[test]
fn whole_gradients_are_central_differences() {
    let tiny = Tiny::open("sd1", &Expected::open("guidance"));
    let shape = tiny.latents.dims();
    let both = [
        ("steer", passes(&Steer, &[Relation::LeftOf])),
        ("steer+pos", passes(&SteerPos, &[Relation::Above])),
    ];
    for (name, passes) in both {
        let loss = passes[0].as_ref();
        let (_, gradient) = evaluate(&tiny, loss);
        let mut steepest: Vec<usize> = (0..gradient.len()).collect();
        steepest.sort_by(|&a, &b| gradient[b].abs().total_cmp(&gradient[a].abs()));
        let scale = gradient[steepest[0]].abs();
        assert!(scale > 0.0, "{name}");
        for &coordinate in &steepest[..3] {
            let loss = |by: f32| {
                let mut moved = values(&tiny.latents);
                moved[coordinate] += by;
                let moved = Tensor::from_data(TensorData::new(moved, shape), &Device::flex());
                evaluate(&tiny.with_latents(moved), loss).0
            };
            let difference = (loss(APART) - loss(-APART)) as f32 / (2.0 * APART);
            let error = (difference - gradient[coordinate]).abs() / scale;
            println!(
                "{name}: {difference:.4e}, {:.4e}: {error:.1e}",
                gradient[coordinate]
            );
            assert!(error < 0.02, "{name}, coordinate {coordinate}: {error}");
        }
    }
}

/// On SDXL PoS's step is in σ's space, and the classifier's is not.
#[test]
fn beside_pos_the_classifier_keeps_its_scale_at_every_noise_level() {
    let tiny = Tiny::open("sd1", &Expected::open("guidance"));
    let config = GuidanceConfig::new(&SteerPos);
    let at = |passes: &[Box<dyn MapLoss>], sigma| evaluate_at(&tiny, passes[0].as_ref(), sigma).0;
    let classifier = at(&passes(&Steer, &[Relation::LeftOf]), 1.0);
    let both = |network| passes_for(network, &config, &targets(&[Relation::LeftOf]));
    let (sd1, sdxl) = (both(Network::Sd1), both(Network::Sdxl));
    let step = config.settings(Network::Sdxl).unwrap().step_size;
    let factor = |sigma| step.factor(0, 50, sigma, 1.0);
    for sigma in [5.134, 13.12] {
        assert_eq!(at(&sd1, sigma), at(&sd1, 0.0));
        // What the classifier counts more than at σ = 0, where it counts 5 / 20 000.
        let more = (at(&sdxl, sigma) - at(&sdxl, 0.0)) / classifier;
        let moved = factor(sigma) * (more + 5.0 / 20_000.0);
        assert!((moved / 5.0 - 1.0).abs() < 0.01, "{sigma}: {moved}");
    }
    assert!(at(&sdxl, f64::INFINITY).is_finite());
}

#[test]
fn relations_take_turns() {
    use Relation::{Above, AboveLeft, LeftOf, Near};
    assert_eq!(passes(&Steer, &[LeftOf]).len(), 1);
    assert_eq!(passes(&Steer, &[LeftOf, Above]).len(), 2);
    // A diagonal is two.
    assert_eq!(passes(&Steer, &[AboveLeft, LeftOf]).len(), 3);
    assert_eq!(passes(&SteerPos, &[LeftOf, Above]).len(), 1);
    let settings = GuidanceConfig::new(&Steer).settings(Network::Sd1).unwrap();
    let refused = settings.loss.passes(&targets(&[Near])).err();
    assert!(matches!(
        refused,
        Some(GuidanceError::NotLearned { relation: Near, .. })
    ));
}

#[test]
fn relations_act_once_without_turns_whatever_the_neighbours_have() {
    use Relation::{Above, LeftOf};
    let mut batch = targets(&[LeftOf]);
    batch.truncate(1);
    batch.extend(targets(&[LeftOf, Above]));
    let acting = |refine| {
        let config = GuidanceConfig {
            refine,
            ..GuidanceConfig::new(&Steer)
        };
        let passes = passes_of(&config, &batch);
        passes.iter().map(|pass| pass.acts_on()).collect::<Vec<_>>()
    };
    // In turn, the only relation of the first has every turn.
    assert_eq!(acting(None), [[true, true, true], [true, true, true]]);
    assert_eq!(
        acting(Some(false)),
        [[true, true, true], [false, true, true]]
    );
}

#[test]
fn files_are_read_back_and_refused() {
    let mut file = file(&Expected::open("steer"));
    let unet = |family: &str| {
        let text = std::fs::read_to_string(fixture(family).join("unet/config.json")).unwrap();
        serde_json::from_str(&text).unwrap()
    };
    file.config.layers = read_layers(&unet("sd1-tiny")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("steer.safetensors");
    std::fs::write(&path, file.to_bytes().unwrap()).unwrap();
    let read = SteerFile::open(&path).unwrap();
    assert_eq!(read.config, file.config);
    for (read, given) in read.values.iter().zip(&file.values) {
        assert!(deviation(read, given) < 1e-3);
    }
    read.check(&path, &unet("sd1-tiny")).unwrap();
    let other = read
        .check(&path, &unet("sdxl-tiny"))
        .unwrap_err()
        .to_string();
    assert!(
        other.contains("maps of") && other.contains("train steer"),
        "{other}"
    );

    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    assert!(SteerFile::open(&path).is_err());
    let lora = fixture("steer").join("expected.safetensors");
    let wrong = SteerFile::open(Path::new(&lora)).unwrap_err().to_string();
    assert!(
        wrong.contains("which maps it reads") && wrong.contains("train steer"),
        "{wrong}"
    );
}

/// The file that a method goes by is recorded, and no other takes its place.
#[test]
fn classifiers_are_recorded() {
    let toybox = root().join("weights/toybox");
    let model = model(&toybox.to_string_lossy());
    let blueprint = Blueprint::open(&model).unwrap();
    let own = toybox.join("steer/steer.safetensors");
    let sha256 = prepose_weights::sha256_file(&own).unwrap();
    let mut config = GuidanceConfig::new(&Steer);
    blueprint.record_classifier(&mut config).unwrap();
    assert_eq!(config.classifier_sha256.as_ref(), Some(&sha256));

    // One that is named, and then replaced.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.safetensors");
    let mut bytes = std::fs::read(&own).unwrap();
    std::fs::write(&path, &bytes).unwrap();
    config.classifier = Some(path.clone());
    blueprint.record_classifier(&mut config).unwrap();
    assert_eq!(config.classifier_sha256, Some(sha256));
    // The lowest bit of the last number.
    let last = bytes.len() - 2;
    bytes[last] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let mut request = blueprint.request("a dog above a cat", &model);
    request.guide = Some(config.clone());
    for error in [
        blueprint.record_classifier(&mut config).unwrap_err(),
        blueprint.check(&mut request).unwrap_err(),
    ] {
        let error = error.to_string();
        assert!(
            error.contains("has changed since it was recorded"),
            "{error}"
        );
    }
}
