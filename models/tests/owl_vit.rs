//! OWL-ViT block by block against transformers.

mod support;

use burn::prelude::*;
use burn::tensor::{FloatDType, TensorData};
use prepose_models::owl_vit::{OwlVit, OwlVitConfig};
use prepose_models::params::Params;
use prepose_models::pixels::Rgb;
use serde_json::Value;
use support::{Expected, FileSource, config};

/// Largest deviation of what a block gives, as a share of its largest value.
const BLOCK: f32 = 1e-5;

fn device() -> Device {
    Device::flex()
}

fn network() -> OwlVit {
    let mut source = FileSource::open("eyes/owl-vit/model/model.safetensors");
    source.leave_out(|name| {
        name == "owlvit.logit_scale" || name.starts_with("owlvit.visual_projection.")
    });
    let config: OwlVitConfig = config("eyes/owl-vit/model/config.json");
    let params = Params::new(&mut source, &device(), FloatDType::F32);
    let network = OwlVit::load(&config, params).unwrap();
    source.finish();
    network
}

#[test]
fn every_block_is_transformers() {
    let expected = Expected::open("eyes/owl-vit", &device());
    let network = network();
    let pictures: Tensor<4> = expected.tensor("pictures");
    for layers in 0..=2 {
        let states = network.states(pictures.clone(), layers);
        expected.compare(&format!("vision/hidden{layers}"), states, BLOCK);
    }
    let ids: Vec<i32> = expected
        .values("tokens")
        .iter()
        .map(|id| *id as i32)
        .collect();
    let ids = Tensor::<2, Int>::from_data(TensorData::new(ids, [3, 32]), &device());
    let case: Value = config("eyes/owl-vit/case.json");
    let ends: Vec<usize> = serde_json::from_value(case["ends"].clone()).unwrap();
    let texts = network.embed_texts(ids, &ends);
    expected.compare("text", texts.clone(), BLOCK);
    let seen = network.forward(pictures.clone(), &texts);
    expected.compare("logits", seen.logits.clone(), BLOCK);
    expected.compare("boxes", seen.boxes, BLOCK);
    // A picture is seen alone as among others.
    let alone = network.forward(pictures.narrow(0, 1, 1), &texts).logits;
    let error = (alone - seen.logits.narrow(0, 1, 1)).abs().max();
    assert!(error.into_scalar::<f32>() < 1e-5);
}

#[test]
fn missing_keys_are_those_of_the_published_network() {
    let config: OwlVitConfig =
        serde_json::from_str(r#"{"text_config": {"architectures": null}, "vision_config": null}"#)
            .unwrap();
    assert_eq!(config, OwlVitConfig::default());
    assert_eq!(config.text_config.max_position_embeddings, 16);
    assert_eq!((config.side(), config.vision_config.positions()), (24, 577));
    config.check().unwrap();
    for (pointer, value) in [
        ("/projection_dim", 0.into()),
        ("/projection_dim", 24.into()),
        ("/text_config/max_position_embeddings", 2.into()),
        ("/text_config/hidden_act", "silu".into()),
        ("/vision_config/patch_size", 0.into()),
    ] {
        let mut json =
            serde_json::json!({"projection_dim": 512, "text_config": {}, "vision_config": {}});
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        let parent = match parent {
            "" => &mut json,
            parent => json.pointer_mut(parent).unwrap(),
        };
        parent[key] = value;
        let wrong: OwlVitConfig = serde_json::from_value(json).unwrap();
        let message = wrong.check().unwrap_err().to_string();
        assert!(message.contains(key), "{message}");
    }
}

#[test]
fn pictures_of_all_shapes_are_squashed() {
    let network = network();
    for size in [[1, 1], [20_000, 20]] {
        let bytes = vec![100; size[0] * size[1] * 3];
        let picture = Rgb::new(size[0], size[1], &bytes).unwrap();
        let prepared = network.prepare(&[picture], &device()).unwrap();
        assert_eq!(prepared.dims(), [1, 3, 64, 64]);
    }
}
