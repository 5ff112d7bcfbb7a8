//! The networks of the ViT family, block by block and from bytes to results, against transformers.

mod support;

use std::collections::BTreeMap;

use burn::prelude::*;
use burn::tensor::{DType, FloatDType, TensorData};
use prepose_models::clip::HiddenLayer;
use prepose_models::clip_dual::{Clip, ClipConfig};
use prepose_models::clip_vision::{ClipVisionConfig, ClipVisionModel};
use prepose_models::depth_anything::{DepthAnything, DepthAnythingConfig};
use prepose_models::dinov2::{Dinov2, Dinov2Config};
use prepose_models::params::{ParamSource, Params};
use prepose_models::pixels::{Filter, Rgb, resized};
use prepose_models::sam::{Prompt, Sam, SamConfig};
use serde::Deserialize;
use serde_json::Value;
use support::{Expected, FileSource, RandomSource, config, noise_tensor};

/// Largest deviation of what a block gives, as a share of its largest value.
const BLOCK: f32 = 1e-5;
/// The same after a whole network of some dozens of layers.
const WHOLE: f32 = 2e-5;

fn device() -> Device {
    Device::flex()
}

fn expected(name: &str) -> Expected {
    Expected::open(&format!("eyes/{name}"), &device())
}

/// A source of a fixture's parameters, without those that begin with one of `unused`.
fn source(name: &str, unused: &[&str]) -> FileSource {
    let mut source = FileSource::open(&format!("eyes/{name}/model.safetensors"));
    source.leave_out(|name| unused.iter().any(|prefix| name.starts_with(prefix)));
    source
}

fn params(source: &mut dyn ParamSource) -> Params<'_> {
    Params::new(source, &device(), FloatDType::F32)
}

fn clip() -> Clip {
    let mut source = source("clip", &[]);
    let network = Clip::load(
        &config::<ClipConfig>("eyes/clip/config.json"),
        params(&mut source),
    );
    source.finish();
    network.unwrap()
}

fn clip_vision() -> ClipVisionModel {
    let mut source = source("clip-vision", &[]);
    let config = config::<ClipVisionConfig>("eyes/clip-vision/config.json");
    let network = ClipVisionModel::load(&config, params(&mut source));
    source.finish();
    network.unwrap()
}

fn dinov2(offset: f64) -> Dinov2 {
    let mut source = source("dinov2", &["embeddings.mask_token"]);
    let config = Dinov2Config {
        interpolate_offset: offset,
        ..config("eyes/dinov2/config.json")
    };
    let network = Dinov2::load(&config, params(&mut source));
    source.finish();
    network.unwrap()
}

fn depth(kind: &str) -> DepthAnything {
    let unused = [
        "backbone.embeddings.mask_token",
        "neck.fusion_stage.layers.0.residual_layer1",
    ];
    let mut source = source("depth", &unused);
    let mut config: DepthAnythingConfig = config("eyes/depth/config.json");
    config.depth_estimation_type = kind.to_string();
    config.max_depth = (kind == "metric").then_some(20.0);
    let network = DepthAnything::load(&config, params(&mut source));
    source.finish();
    network.unwrap()
}

fn sam() -> Sam {
    let unused = [
        "prompt_encoder.mask_embed",
        "prompt_encoder.shared_embedding",
    ];
    let mut source = source("sam", &unused);
    let network = Sam::load(
        &config::<SamConfig>("eyes/sam/config.json"),
        params(&mut source),
    );
    source.finish();
    network.unwrap()
}

/// The picture that `scripts/reference/cases/eyes_towers.py` makes by the same formula.
fn picture(width: usize, height: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for y in 0..height {
        for x in 0..width {
            for c in 0..3 {
                let value = x * x / 3 + y * 11 + c * 70 + (x / 7 + y / 5) % 2 * 90;
                bytes.push((value % 256) as u8);
            }
        }
    }
    bytes
}

#[derive(Deserialize)]
struct Preparation {
    pictures: Vec<[usize; 2]>,
    depth_sizes: BTreeMap<String, [usize; 2]>,
    depth_shape: [usize; 4],
}

fn preparation() -> Preparation {
    config("eyes/towers/case.json")
}

/// Calls `f` with the fixture's pictures.
fn with_pictures<T>(f: impl FnOnce(&[Rgb]) -> T) -> T {
    let sizes = preparation().pictures;
    let bytes: Vec<_> = sizes
        .iter()
        .map(|[width, height]| picture(*width, *height))
        .collect();
    let pictures = sizes.iter().zip(&bytes);
    let pictures: Vec<Rgb> = pictures
        .map(|([width, height], bytes)| Rgb::new(*width, *height, bytes).unwrap())
        .collect();
    f(&pictures)
}

#[test]
fn pillows_resampling_is_met_to_the_byte() {
    let expected = expected("towers");
    let names = expected.names("resize/");
    assert_eq!(names.len(), 10);
    with_pictures(|pictures| {
        for name in names {
            let parts: Vec<&str> = name.split('/').collect();
            let filter = match parts[1] {
                "bilinear" => Filter::Bilinear,
                _ => Filter::Bicubic,
            };
            let (width, height) = parts[3].split_once('x').unwrap();
            let size = [height.parse().unwrap(), width.parse().unwrap()];
            let own = resized(&pictures[parts[2].parse::<usize>().unwrap()], size, filter);
            let own: Vec<f32> = own.unwrap().into_iter().map(f32::from).collect();
            assert!(own == expected.values(&name), "{name}");
        }
    });
}

#[test]
fn pictures_are_prepared_as_by_the_processors() {
    let expected = expected("towers");
    let (clip, depth) = (clip(), depth("relative"));
    let mut config: SamConfig = config("eyes/sam/config.json");
    config.vision_config.image_size = 48;
    let sam = Sam::load(&config, params(&mut RandomSource)).unwrap();
    with_pictures(|pictures| {
        let batch = clip.vision().prepare(pictures, &device()).unwrap();
        for i in 0..pictures.len() {
            expected.compare(&format!("clip/{i}"), batch.clone().narrow(0, i, 1), 1e-6);
        }
        let batch = sam.prepare(pictures, &device()).unwrap();
        assert_eq!(batch.resized[2], [48, 16]);
        assert_eq!(batch.original[2], [91, 30]);
        expected.compare("sam/2", batch.pictures.narrow(0, 2, 1), 1e-6);
        let pixels = depth.prepare(&pictures[1], &device()).unwrap();
        assert_eq!(pixels.dims(), preparation().depth_shape);
        let values: Vec<f32> = pixels.into_data().iter().collect();
        let some: Vec<f32> = values.into_iter().step_by(211).collect();
        let some = Tensor::<1>::from_data(some.as_slice(), &device());
        expected.compare("depth/1/every_211th", some, 1e-6);
    });
}

#[test]
fn depth_looks_at_the_sizes_that_transformers_chooses() {
    let config: DepthAnythingConfig = config("eyes/depth/config.json");
    for (size, expected) in preparation().depth_sizes {
        let (height, width) = size.split_once('x').unwrap();
        let size = [height.parse().unwrap(), width.parse().unwrap()];
        assert_eq!(config.target(size), expected, "{size:?}");
    }
}

#[test]
fn pictures_that_nothing_is_left_of_are_refused() {
    let bytes = vec![0; 20_000 * 20 * 3];
    let strip = Rgb::new(20_000, 20, &bytes).unwrap();
    let message = clip()
        .vision()
        .prepare(&[strip], &device())
        .unwrap_err()
        .to_string();
    assert!(message.contains("20000 × 20 pixels"), "{message}");
    let message = depth("relative")
        .prepare(&strip, &device())
        .unwrap_err()
        .to_string();
    assert!(message.contains("less narrow"), "{message}");
    assert!(sam().prepare(&[strip], &device()).is_err());
    assert!(Dinov2::prepare(&[strip], 28, &device()).is_ok());
    // A single pixel is a picture.
    let pixel = Rgb::new(1, 1, &[1, 2, 3]).unwrap();
    assert!(clip().vision().prepare(&[pixel], &device()).is_ok());
    assert!(sam().prepare(&[pixel], &device()).is_ok());
    let pixels = depth("relative").prepare(&pixel, &device()).unwrap();
    assert_eq!(pixels.dims(), [1, 3, 518, 518]);
}

#[test]
fn clip_matches() {
    let (network, expected) = (clip(), expected("clip"));
    let pictures: Tensor<4> = expected.tensor("pictures");
    for (i, skip) in [(0, 2), (1, 1), (2, 0)] {
        let hidden = network.vision().forward(pictures.clone(), skip).hidden;
        expected.compare(&format!("vision/hidden{i}"), hidden, BLOCK);
    }
    let encoding = network.vision().forward(pictures.clone(), 0);
    expected.compare("pooled", encoding.pooled, BLOCK);
    let embedded = network.embed_pictures(pictures);
    expected.compare("picture", embedded.clone(), BLOCK);
    let tokens: Vec<i32> = expected
        .values("tokens")
        .iter()
        .map(|id| *id as i32)
        .collect();
    let tokens = Tensor::<2, Int>::from_data(TensorData::new(tokens, [2, 6]), &device());
    let eos: Value = config("eyes/clip/case.json");
    let eos: Vec<usize> = serde_json::from_value(eos["eos"].clone()).unwrap();
    let texts = network.embed_texts(tokens.clone(), &eos);
    expected.compare("text", texts.clone(), BLOCK);
    let logits = embedded.matmul(texts.transpose()) * network.logit_scale().unsqueeze();
    expected.compare("logits", logits, WHOLE);
    let text = network.text().forward(tokens, &eos, HiddenLayer::Last);
    assert_eq!(text.pooled.dims(), [2, 24]);
}

#[test]
fn openclips_picture_encoder_matches() {
    let (network, expected) = (clip_vision(), expected("clip-vision"));
    let pictures: Tensor<4> = expected.tensor("pictures");
    for (i, skip) in [(0, 2), (1, 1), (2, 0)] {
        let hidden = network.forward(pictures.clone(), skip).hidden;
        expected.compare(&format!("vision/hidden{i}"), hidden, BLOCK);
    }
    let embedding = network.forward(pictures, 0).embedding.unwrap();
    expected.compare("embedding", embedding, BLOCK);
}

#[test]
fn dinov2_matches_at_any_size() {
    let (network, expected) = (dinov2(0.0), expected("dinov2"));
    for size in ["square", "wide"] {
        let pictures: Tensor<4> = expected.tensor(&format!("{size}/pictures"));
        let features = network.features(pictures.clone());
        expected.compare(&format!("{size}/features"), features, BLOCK);
        let bare = Dinov2Config {
            apply_layernorm: false,
            ..config("eyes/dinov2/config.json")
        };
        let mut source = source("dinov2", &["embeddings.mask_token"]);
        let bare = Dinov2::load(&bare, params(&mut source)).unwrap();
        for (i, hidden) in bare.taps(pictures, &[1, 2, 3, 4]).into_iter().enumerate() {
            expected.compare(&format!("{size}/hidden{}", i + 1), hidden, BLOCK);
        }
    }
    let pictures = expected.tensor("wide/pictures");
    let features = dinov2(0.1).features(pictures);
    expected.compare("wide/features_offset", features, BLOCK);
}

#[test]
fn depth_matches() {
    let (network, expected) = (depth("relative"), expected("depth"));
    for size in ["square", "wide"] {
        let depths = network.forward(expected.tensor(&format!("{size}/pictures")));
        expected.compare(&format!("{size}/depth"), depths, WHOLE);
    }
    let taps = (0..4).map(|i| expected.tensor(&format!("wide/tap{i}")));
    let depths = network.head(taps.collect(), [70, 84]);
    expected.compare("wide/depth", depths, BLOCK);
    let restored = DepthAnything::restore(expected.tensor("wide/depth"), [61, 47]);
    expected.compare("wide/restored", restored, BLOCK);
    let metric = depth("metric").forward(expected.tensor("square/pictures"));
    expected.compare("square/metric", metric, WHOLE);
}

fn prompts(kind: &str) -> Vec<Prompt> {
    let case: Value = config("eyes/sam/case.json");
    let boxes: Vec<[f32; 4]> = serde_json::from_value(case["boxes"].clone()).unwrap();
    let points: Vec<[f32; 2]> = serde_json::from_value(case["points"].clone()).unwrap();
    let points = vec![(points[0], true), (points[1], false)];
    match kind {
        "boxes" => boxes.into_iter().map(Prompt::of_box).collect(),
        "points" => vec![Prompt {
            corners: None,
            points,
        }],
        _ => vec![Prompt {
            corners: Some(boxes[0]),
            points,
        }],
    }
}

#[test]
fn sam_matches() {
    let (network, expected) = (sam(), expected("sam"));
    let pictures: Tensor<4> = expected.tensor("pictures");
    let mut layer = 0;
    let embedding = network.encode_seen(pictures.clone(), |x| {
        expected.compare(&format!("layer{layer}"), x.clone(), BLOCK);
        layer += 1;
    });
    assert_eq!(layer, 3);
    expected.compare("embedding", embedding, WHOLE);
    let embedding: Tensor<3> = expected.tensor("embedding");
    let second = embedding.narrow(0, 1, 1);
    for kind in ["boxes", "points", "both"] {
        for (name, ambiguous) in [("one", false), ("several", true)] {
            let masks = network.segment(&second, &prompts(kind), ambiguous);
            expected.compare(&format!("{kind}/{name}/masks"), masks.logits, WHOLE);
            expected.compare(&format!("{kind}/{name}/quality"), masks.quality, WHOLE);
        }
    }
    let masks: Tensor<4> = expected.tensor("boxes/several/masks");
    let restored = network.restore(masks.narrow(0, 0, 1), [51, 64], [39, 50]);
    expected.compare("restored", restored, BLOCK);
}

#[test]
fn many_prompts_of_any_kind_are_answered_as_one_by_one() {
    let network = sam();
    let embedding = network.encode(noise_tensor(1, [1, 3, 64, 64], &device()));
    let mut all: Vec<Prompt> = ["boxes", "points", "both", "boxes"].map(prompts).concat();
    let more = (0..30).map(|i| Prompt::of_box([i as f32, 3.0, 60.0, 40.0]));
    all.extend(more);
    let together = network.segment(&embedding, &all, true);
    assert_eq!(together.logits.dims()[..2], [all.len(), 3]);
    for i in [0, 3, 4, 5, 30] {
        let alone = network.segment(&embedding, &all[i..=i], true);
        let row: Vec<f32> = together
            .logits
            .clone()
            .narrow(0, i, 1)
            .into_data()
            .iter()
            .collect();
        let alone: Vec<f32> = alone.logits.into_data().iter().collect();
        assert!(support::deviation(&row, &alone) < 1e-5, "prompt {i}");
    }
}

#[test]
fn a_batch_is_its_pictures() {
    let pictures: Tensor<4> = noise_tensor(5, [3, 3, 64, 64], &device());
    let rows = |x: Tensor<4>, size: [usize; 2]| x.narrow(2, 0, size[0]).narrow(3, 0, size[1]);
    let same = |of: &str, together: Tensor<2>, alone: &dyn Fn(Tensor<4>) -> Tensor<2>, size| {
        for i in 0..3 {
            let own: Vec<f32> = together
                .clone()
                .narrow(0, i, 1)
                .into_data()
                .iter()
                .collect();
            let one = alone(rows(pictures.clone().narrow(0, i, 1), size));
            let one: Vec<f32> = one.into_data().iter().collect();
            assert!(support::deviation(&own, &one) < 1e-5, "{of}, picture {i}");
        }
    };
    let (clip, dinov2, depth, sam) = (clip(), dinov2(0.0), depth("relative"), sam());
    let embed = |x| clip.embed_pictures(x);
    same(
        "CLIP",
        embed(rows(pictures.clone(), [32, 32])),
        &embed,
        [32, 32],
    );
    let features = |x| dinov2.features(x);
    same(
        "DINOv2",
        features(rows(pictures.clone(), [60, 45])),
        &features,
        [60, 45],
    );
    let depths = |x| depth.forward(x).flatten::<2>(1, 2);
    same(
        "depth",
        depths(rows(pictures.clone(), [56, 42])),
        &depths,
        [56, 42],
    );
    let encode = |x| sam.encode(x).flatten::<2>(1, 2);
    same("SAM", encode(pictures.clone()), &encode, [64, 64]);
}

/// Half types stay as near as their eleven and eight bits let them through a few layers.
#[test]
fn half_types_stay_near() {
    for (dtype, tolerance) in [(FloatDType::F16, 1e-2), (FloatDType::BF16, 8e-2)] {
        let half = |source: &mut FileSource| -> Dinov2 {
            let config: Dinov2Config = config("eyes/dinov2/config.json");
            Dinov2::load(&config, Params::new(source, &device(), dtype)).unwrap()
        };
        let network = half(&mut source("dinov2", &[]));
        let features = network.features(expected("dinov2").tensor("wide/pictures"));
        expected("dinov2").compare("wide/features", features, tolerance);
        let config: SamConfig = config("eyes/sam/config.json");
        let mut source = source("sam", &[]);
        let sam = Sam::load(&config, Params::new(&mut source, &device(), dtype)).unwrap();
        let embedding = sam.encode(expected("sam").tensor("pictures"));
        expected("sam").compare("embedding", embedding.clone(), tolerance);
        let masks = sam.segment(&embedding.narrow(0, 1, 1), &prompts("boxes"), false);
        expected("sam").compare("boxes/one/quality", masks.quality, 4.0 * tolerance);
        assert_eq!(masks.logits.dtype(), DType::F32);
    }
}

#[test]
fn configurations_out_of_range_are_refused() {
    let message = |kind: &str, path: &str, value: Value| {
        let mut json: Value = config(&format!("eyes/{kind}/config.json"));
        *json.pointer_mut(path).unwrap_or_else(|| panic!("{path}")) = value;
        let error = match kind {
            "clip" => serde_json::from_value::<ClipConfig>(json).unwrap().check(),
            "clip-vision" => serde_json::from_value::<ClipVisionConfig>(json)
                .unwrap()
                .check(),
            "dinov2" => serde_json::from_value::<Dinov2Config>(json)
                .unwrap()
                .check(),
            "depth" => serde_json::from_value::<DepthAnythingConfig>(json)
                .unwrap()
                .check(),
            _ => serde_json::from_value::<SamConfig>(json).unwrap().check(),
        };
        error.expect_err(path).to_string()
    };
    for (kind, path, value) in [
        ("clip", "/projection_dim", 0.into()),
        ("clip", "/vision_config/patch_size", 0.into()),
        ("clip", "/vision_config/patch_size", 1000.into()),
        ("clip", "/vision_config/num_attention_heads", 7.into()),
        ("clip", "/text_config/hidden_act", "silu".into()),
        ("clip-vision", "/image_size", 100_000.into()),
        ("clip-vision", "/num_hidden_layers", 1_000_000.into()),
        ("dinov2", "/use_swiglu_ffn", true.into()),
        ("dinov2", "/mlp_ratio", 0.into()),
        ("dinov2", "/mlp_ratio", 1e9.into()),
        ("dinov2", "/layer_norm_eps", 0.5.into()),
        (
            "depth",
            "/reassemble_factors",
            serde_json::json!([1, 1, 1, 1]),
        ),
        ("depth", "/reassemble_hidden_size", 17.into()),
        ("depth", "/neck_hidden_sizes", serde_json::json!([1, 2])),
        (
            "depth",
            "/backbone_config/out_indices",
            serde_json::json!([1, 2, 3, 9]),
        ),
        ("depth", "/depth_estimation_type", "absolute".into()),
        ("sam", "/vision_config/window_size", 0.into()),
        ("sam", "/vision_config/window_size", 9.into()),
        ("sam", "/vision_config/use_rel_pos", false.into()),
        ("sam", "/mask_decoder_config/hidden_size", 24.into()),
        ("sam", "/mask_decoder_config/iou_head_depth", 1.into()),
        ("sam", "/mask_decoder_config/num_attention_heads", 0.into()),
    ] {
        let message = message(kind, path, value);
        let key = path.rsplit('/').next().unwrap();
        assert!(
            message.contains(key) || message.contains("mlp_dim"),
            "{message}"
        );
    }
}

#[test]
fn old_configurations_with_nulls_are_read() {
    let mut json: Value = config("eyes/clip/config.json");
    for part in ["text_config", "vision_config"] {
        json[part]["architectures"] = Value::Null;
        json[part]["torch_dtype"] = Value::Null;
    }
    let read: ClipConfig = serde_json::from_value(json).unwrap();
    read.check().unwrap();
}
