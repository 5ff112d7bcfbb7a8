//! What lies beside the networks in a diffusers folder.

use serde_json::{Value, json};

use crate::error::WeightsError;
use crate::family::Family;
use crate::files::Files;

/// Files by their names.
pub(super) type NamedFiles = Vec<(&'static str, Vec<u8>)>;

/// diffusers' `model_index.json`.
pub(super) fn model_index(family: Family, scheduler: &Value) -> Value {
    let nothing = json!([null, null]);
    let diffusers = |class: &Value| json!(["diffusers", class]);
    let transformers = |class: &str| json!(["transformers", class]);
    let common = json!({
        "scheduler": diffusers(&scheduler["_class_name"]),
        "text_encoder": transformers("CLIPTextModel"),
        "tokenizer": transformers("CLIPTokenizer"),
        "unet": diffusers(&json!("UNet2DConditionModel")),
        "vae": diffusers(&json!("AutoencoderKL")),
        "feature_extractor": nothing,
        "image_encoder": nothing,
    });
    let own = match family {
        Family::Sd1 | Family::Sd2 => json!({
            "_class_name": "StableDiffusionPipeline",
            "safety_checker": nothing,
            "requires_safety_checker": false,
        }),
        Family::Sdxl => json!({
            "_class_name": "StableDiffusionXLPipeline",
            "force_zeros_for_empty_prompt": true,
            "text_encoder_2": transformers("CLIPTextModelWithProjection"),
            "tokenizer_2": transformers("CLIPTokenizer"),
        }),
    };
    let entries = [own, common].into_iter().filter_map(|part| match part {
        Value::Object(entries) => Some(entries),
        _ => None,
    });
    Value::Object(entries.flatten().collect())
}

/// The files of a checkpoint's tokenizer, if it has its own.
pub(super) fn tokenizer_files(files: &Files, folder: &str) -> Result<NamedFiles, WeightsError> {
    const NAMES: [&str; 6] = [
        "vocab.json",
        "merges.txt",
        "tokenizer.json",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "added_tokens.json",
    ];
    let there = NAMES
        .into_iter()
        .map(|name| (name, format!("{folder}/{name}")));
    there
        .filter(|(_, path)| files.has(path))
        .map(|(name, path)| Ok((name, files.read(&path)?)))
        .collect()
}
