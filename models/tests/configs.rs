//! Which configurations are refused, and what the refusal says.

mod support;

use prepose_models::ConfigError;
use prepose_models::unet::UNetConfig;
use serde_json::json;
use support::{tiny_clip, tiny_unet, tiny_vae};

/// The key and the value that a refusal names.
fn refusal(result: Result<(), ConfigError>) -> Option<(String, String)> {
    match result {
        Err(ConfigError::Unsupported { key, value, .. }) => Some((key, value)),
        Err(ConfigError::Invalid { key, value, .. }) => Some((key, value)),
        Ok(()) => None,
    }
}

#[test]
fn unet_configurations_are_checked() {
    let default: UNetConfig = serde_json::from_value(json!({})).unwrap();
    assert_eq!(default, UNetConfig::default());
    for (extra, refused) in [
        (json!({"unknown_key": 1, "sample_size": [96, 64]}), None),
        (
            json!({"attention_head_dim": [2, 4], "cross_attention_dim": [12, 12]}),
            None,
        ),
        (json!({"num_attention_heads": 4}), None),
        (json!({"only_cross_attention": [false, false]}), None),
        (
            json!({"mid_block_scale_factor": 1.0, "class_embed_type": null}),
            None,
        ),
        (
            json!({"class_embed_type": "timestep"}),
            Some("class_embed_type"),
        ),
        (
            json!({"resnet_time_scale_shift": "scale_shift"}),
            Some("resnet_time_scale_shift"),
        ),
        (
            json!({"only_cross_attention": [false, true]}),
            Some("only_cross_attention"),
        ),
        (
            json!({"only_cross_attention": true}),
            Some("only_cross_attention"),
        ),
        (
            json!({"addition_embed_type": "image"}),
            Some("addition_embed_type"),
        ),
        (
            json!({"addition_embed_type": "text_time"}),
            Some("addition_time_embed_dim"),
        ),
        (
            json!({"mid_block_type": "UNetMidBlock2D"}),
            Some("mid_block_type"),
        ),
        (json!({"mid_block_type": null}), Some("mid_block_type")),
        (
            json!({"down_block_types": ["CrossAttnDownBlock2D", "KDownBlock2D"]}),
            Some("down_block_types"),
        ),
        (
            json!({"up_block_types": ["UpBlock2D"]}),
            Some("up_block_types"),
        ),
        (
            json!({"block_out_channels": []}),
            Some("block_out_channels"),
        ),
        (
            json!({"layers_per_block": [1, 2, 3]}),
            Some("layers_per_block"),
        ),
        (json!({"layers_per_block": 0}), Some("layers_per_block")),
        (json!({"attention_head_dim": 3}), Some("attention_head_dim")),
        (json!({"norm_num_groups": 3}), Some("norm_num_groups")),
        (json!({"norm_num_groups": null}), Some("norm_num_groups")),
        (
            json!({"_class_name": "SD3Transformer2DModel"}),
            Some("_class_name"),
        ),
        (json!({"downsample_padding": 0}), Some("downsample_padding")),
    ] {
        let error = refusal(tiny_unet(extra.clone()).check());
        let key = error.as_ref().map(|(key, _)| key.as_str());
        assert_eq!(key, refused, "{extra}: {error:?}");
    }
    let error = tiny_unet(json!({"class_embed_type": "timestep"})).check();
    assert_eq!(
        error.unwrap_err().to_string(),
        "`class_embed_type` is \"timestep\" in the configuration of the UNet; only null is supported"
    );
}

/// `CLIPTextModel.forward` of transformers: `input_ids.argmax(-1)` where `eos_token_id` is 2, else the first end.
#[test]
fn old_configurations_pool_at_the_highest_id() {
    let pooled = |eos: u32, tokens: &[u32], end| {
        tiny_clip(json!({"eos_token_id": eos})).pooled_position(tokens, end)
    };
    // Start 17, end 18, and a token 19 that was added.
    let plain = [17, 3, 4, 18, 18, 18];
    let added = [17, 3, 19, 19, 18, 0];
    assert_eq!((pooled(2, &plain, 3), pooled(18, &plain, 3)), (3, 3));
    assert_eq!((pooled(2, &added, 4), pooled(18, &added, 4)), (2, 4));
}

#[test]
fn other_configurations_are_checked() {
    let vae = |extra| refusal(tiny_vae(extra).check()).map(|(key, _)| key);
    assert_eq!(vae(json!({})), None);
    assert_eq!(vae(json!({"latents_mean": null})), None);
    assert_eq!(
        vae(json!({"latents_mean": [0.1]})).as_deref(),
        Some("latents_mean")
    );
    assert_eq!(vae(json!({"act_fn": "relu"})).as_deref(), Some("act_fn"));
    assert_eq!(
        vae(json!({"up_block_types": ["UpDecoderBlock2D", "AttnUpDecoderBlock2D"]})).as_deref(),
        Some("up_block_types")
    );
    assert_eq!(
        vae(json!({"_class_name": "AutoencoderDC"})).as_deref(),
        Some("_class_name")
    );

    let clip = |extra| refusal(tiny_clip(extra).check()).map(|(key, _)| key);
    assert_eq!(clip(json!({"hidden_act": "gelu"})), None);
    assert_eq!(
        clip(json!({"hidden_act": "relu"})).as_deref(),
        Some("hidden_act")
    );
    assert_eq!(
        clip(json!({"architectures": ["T5EncoderModel"]})).as_deref(),
        Some("architectures")
    );
    assert_eq!(
        clip(json!({"num_attention_heads": 3})).as_deref(),
        Some("num_attention_heads")
    );
}
