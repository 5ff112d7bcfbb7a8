//! RT-DETRv2 against transformers, on fixtures with random weights: from the backbone's maps to logits and boxes, of a batch of
//! two. `--no-capture` prints the deviations.

mod support;

use burn::prelude::*;
use burn::tensor::FloatDType;
use prepose_models::params::Params;
use prepose_models::rt_detr::{RtDetr, RtDetrConfig};
use serde_json::{Value, json};
use support::{Expected, FileSource, config, fixture};

fn load(variant: &str) -> RtDetr {
    let config = config(&format!("eyes/rt-detr/{variant}/config.json"));
    let mut source = FileSource::open(&format!("eyes/rt-detr/{variant}/model.safetensors"));
    source.leave_out(|name| {
        let trained = ["denoising_class_embed", "class_embed.0.", "class_embed.1."];
        name.ends_with("n_points_scale") || trained.iter().any(|part| name.contains(part))
    });
    let params = Params::new(&mut source, &Device::flex(), FloatDType::F32);
    let network = RtDetr::load(&config, params).unwrap();
    source.finish();
    network
}

#[test]
fn every_block_matches() {
    for variant in ["basic", "bottleneck"] {
        let expected = Expected::open(&format!("eyes/rt-detr/{variant}"), &Device::flex());
        let network = load(variant);
        let trace = network.trace(expected.tensor("pixels"));
        for (i, map) in trace.maps.into_iter().enumerate() {
            expected.compare(&format!("map{i}"), map, 1e-5);
        }
        for (i, map) in trace.encoded.into_iter().enumerate() {
            expected.compare(&format!("encoded{i}"), map, 1e-5);
        }
        expected.compare("chosen", trace.chosen, 1e-5);
        expected.compare("logits", trace.detected.logits.clone(), 1e-5);
        expected.compare("boxes", trace.detected.boxes, 1e-5);
        // The second of the batch alone.
        let second = expected.tensor::<4>("pixels").narrow(0, 1, 1);
        let alone: Vec<f32> = network.forward(second).logits.to_data().iter().collect();
        let logits = trace.detected.logits.narrow(0, 1, 1);
        let both: Vec<f32> = logits.to_data().iter().collect();
        assert!(support::deviation(&alone, &both) <= 1e-5);
    }
}

#[test]
fn configurations_that_make_no_sense_are_refused() {
    let path = fixture("eyes/rt-detr/basic/config.json");
    let good: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    for (path, value) in [
        ("/model_type", json!("rt_detr")),
        ("/d_model", json!(0)),
        ("/decoder_attention_heads", json!(7)),
        ("/encoder_hidden_dim", json!(usize::MAX)),
        ("/hidden_expansion", json!(1e9)),
        ("/num_queries", json!(0)),
        ("/decoder_method", json!("discrete")),
        ("/encode_proj_layers", json!([0])),
        ("/batch_norm_eps", json!(-1.0)),
        ("/backbone_config/layer_type", json!("wide")),
        ("/backbone_config/hidden_sizes", json!([8])),
        ("/backbone_config/depths", json!([1, 1, 1, 0])),
    ] {
        let mut bad = good.clone();
        *bad.pointer_mut(path).unwrap() = value;
        let config: RtDetrConfig = serde_json::from_value(bad).unwrap();
        let key = path.rsplit('/').next().unwrap();
        let error = config.check().unwrap_err().to_string();
        assert!(error.contains(&format!("`{key}`")), "{error}");
    }
}
