//! Grounding DINO against transformers, on a fixture with random weights: from the backbone's maps to logits and boxes, alone and
//! in a batch. `--no-capture` prints the deviations.

mod support;

use burn::prelude::*;
use burn::tensor::FloatDType;
use prepose_models::grounding_dino::{GroundingDino, GroundingDinoConfig};
use prepose_models::params::Params;
use serde_json::{Value, json};
use support::{Expected, FileSource, config, fixture};

const CASE: &str = "eyes/grounding-dino";

fn load() -> GroundingDino {
    let config = config(&format!("{CASE}/model/config.json"));
    let mut source = FileSource::open(&format!("{CASE}/model/model.safetensors"));
    source.leave_out(|name| name.contains("swin.layernorm") || name.contains(".pooler."));
    let params = Params::new(&mut source, &Device::flex(), FloatDType::F32);
    let network = GroundingDino::load(&config, params).unwrap();
    source.finish();
    network
}

fn ids(expected: &Expected) -> Vec<u32> {
    expected.values("ids").iter().map(|id| *id as u32).collect()
}

#[test]
fn every_block_matches() {
    let expected = Expected::open(CASE, &Device::flex());
    let trace = load().trace(expected.tensor("pixels"), &ids(&expected));
    for (i, map) in trace.maps.into_iter().enumerate() {
        expected.compare(&format!("map{i}"), map, 1e-5);
    }
    expected.compare("text", trace.text, 1e-5);
    expected.compare("encoded", trace.encoded, 1e-5);
    expected.compare("encoded_text", trace.encoded_text, 1e-5);
    expected.compare("chosen", trace.chosen, 1e-5);
    expected.compare("decoded", trace.decoded, 1e-5);
    expected.compare("logits", trace.grounded.logits, 1e-5);
    expected.compare("boxes", trace.grounded.boxes, 1e-5);
}

#[test]
fn a_batch_is_what_each_picture_alone_is() {
    let expected = Expected::open(CASE, &Device::flex());
    let (network, ids) = (load(), ids(&expected));
    let first = expected.tensor::<4>("pixels");
    let second = first.clone().flip([3]);
    let both = network.forward(Tensor::cat(vec![second.clone(), first.clone()], 0), &ids);
    for (i, picture) in [second, first].into_iter().enumerate() {
        let alone = network.forward(picture, &ids);
        let same = |all: &Tensor<3>, one: Tensor<3>| {
            let own: Vec<f32> = all.clone().narrow(0, i, 1).to_data().iter().collect();
            let one: Vec<f32> = one.to_data().iter().collect();
            let off = support::deviation(&own, &one);
            assert!(off <= 1e-5, "picture {i}: {off:e}");
        };
        same(&both.logits, alone.logits);
        same(&both.boxes, alone.boxes);
    }
}

#[test]
fn the_smallest_and_longest_pictures_have_an_answer() {
    let network = load();
    for [height, width] in [[1, 1], [1, 333], [64, 3]] {
        let picture = Tensor::<4>::ones([1, 3, height, width], &Device::flex());
        let found = network.forward(picture, &[101, 200, 203, 1012, 102]);
        let [_, queries, tokens] = found.logits.dims();
        assert!((1..=20).contains(&queries) && tokens == 5);
        let values: Vec<f32> = found.boxes.to_data().iter().collect();
        assert!(
            values.iter().all(|at| (0.0..=1.0).contains(at)),
            "{values:?}"
        );
    }
}

#[test]
fn configurations_that_make_no_sense_are_refused() {
    let text = std::fs::read_to_string(fixture(&format!("{CASE}/model/config.json"))).unwrap();
    let good: Value = serde_json::from_str(&text).unwrap();
    let refused = |path: &str, value: Value| {
        let mut bad = good.clone();
        *bad.pointer_mut(path).unwrap() = value;
        let config: GroundingDinoConfig = serde_json::from_value(bad).unwrap();
        let key = path.rsplit('/').next().unwrap();
        let error = config.check().unwrap_err().to_string();
        assert!(error.contains(&format!("`{key}`")), "{error}");
    };
    for (path, value) in [
        ("/model_type", json!("mm-grounding-dino")),
        ("/d_model", json!(33)),
        ("/num_queries", json!(0)),
        ("/num_feature_levels", json!(9)),
        ("/encoder_attention_heads", json!(3)),
        ("/encoder_ffn_dim", json!(usize::MAX)),
        ("/max_text_len", json!(100_000)),
        ("/layer_norm_eps", json!(0.0)),
        ("/two_stage", json!(false)),
        ("/positional_embedding_temperature", json!(-1.0)),
        ("/backbone_config/window_size", json!(0)),
        ("/backbone_config/num_heads", json!([1, 2])),
        ("/backbone_config/out_indices", json!([4, 2])),
        ("/text_config/hidden_act", json!("relu")),
        ("/text_config/num_attention_heads", json!(5)),
    ] {
        refused(path, value);
    }
    serde_json::from_value::<GroundingDinoConfig>(good.clone())
        .unwrap()
        .check()
        .unwrap();
}
