//! Configurations full of numbers that nobody should believe: each is refused by one short message that names the file
//! and the key, before any memory is taken for it, or the network runs.

mod detectors;

use std::fs;
use std::path::Path;

use burn::tensor::{FloatDType, Int, Tensor};
use serde_json::{Value, json};

use crate::support::{chain, device, fixture};
use crate::wrong_input::{Bad, copy_folder, expect};
use prepose_models::clip::HiddenLayer;
use prepose_weights::{Checkpoint, LoadOptions, WeightsError};

/// The JSON file at `path` with `value` for `key`; dots lead into objects. None without such a key.
fn changed(path: &Path, key: &str, value: &Value) -> Option<String> {
    let mut config: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let mut place = &mut config;
    let (inside, last) = key.rsplit_once('.').unwrap_or(("", key));
    for step in inside.split('.').filter(|step| !step.is_empty()) {
        place = place.get_mut(step)?;
    }
    place[last] = value.clone();
    Some(config.to_string())
}

/// `value` for `key` in the configuration of `part` of the checkpoint in `folder`.
fn configured(folder: &Path, part: &str, key: &str, value: Value) {
    let path = folder.join(part).join("config.json");
    let text = changed(&path, key, &value).unwrap();
    fs::write(path, text).unwrap();
}

/// What is put in the place of a number.
fn numbers() -> Vec<Value> {
    vec![
        json!(-1),
        json!(0),
        json!(1),
        json!(3),
        json!(100),
        json!(1_000_000_000),
        json!(1u64 << 31),
        json!(1u64 << 63),
        json!(u64::MAX),
        json!(18_446_744_073_709_551_616f64),
        json!(1e30),
        json!(1e-30),
        json!(0.5),
        json!("four"),
        json!("x".repeat(100_000)),
        json!(true),
        json!([]),
        json!({}),
        json!([0, 0, 0]),
        json!([1, 1, 1]),
        json!([1u64 << 62, 1u64 << 62]),
        json!([u64::MAX, u64::MAX, u64::MAX]),
        json!(vec![16; 10_000]),
        json!([[1e30], [1e30], [1e30], [1e30], [1e30]]),
    ]
}

/// The first words of what is wrong with `load`, or none if all went well. The message has the name of the file, and it
/// is short.
fn refusal(load: impl FnOnce() -> Result<(), WeightsError>, named: &str) -> Option<String> {
    // As it is printed: texts in it can be as long as the file.
    let message = prepose_untrusted::message([chain(&load().err()?)]);
    assert!(message.len() < 3000, "{} bytes: {message}", message.len());
    assert!(message.contains(named), "{named} is not in {message}");
    Some(message)
}

/// Which values a network ran with, by the place that they stand in.
#[derive(Default)]
struct Accepted(Vec<(String, Vec<String>)>);

impl Accepted {
    fn add(&mut self, part: &str, key: &str, value: &Value) {
        let place = format!("{part}: {key}");
        match self.0.last_mut().filter(|(last, _)| *last == place) {
            Some((_, values)) => values.push(value.to_string()),
            None => self.0.push((place, vec![value.to_string()])),
        }
    }

    /// A line a place, as the tests have them.
    fn lines(&self) -> String {
        let lines = self.0.iter();
        let lines = lines.map(|(place, values)| format!("{place} = {}\n", values.join(" ")));
        lines.collect()
    }
}

/// Opens and loads the checkpoint in `folder` and runs each of its networks once.
fn run(folder: &Path, options: &LoadOptions) -> Result<(), WeightsError> {
    let device = device();
    let checkpoint = Checkpoint::open(folder, options)?;
    let tokenizers = checkpoint.tokenizers()?;
    let encoders = checkpoint.load_text_encoders(&device, FloatDType::F32)?;
    let unet = checkpoint.load_unet(&device, FloatDType::F32)?;
    let vae = checkpoint.load_vae(&device, FloatDType::F32)?;
    let tokens = Tensor::<2, Int>::zeros([1, tokenizers[0].max_length()], &device);
    let text = encoders[0].forward(tokens, &[1], HiddenLayer::Last).hidden;
    let latents = Tensor::<4>::ones([1, 4, 8, 8], &device);
    let out = unet.forward(latents, &[321.0], text, None);
    assert_eq!(vae.decode_tiled(out).dims(), [1, 3, 32, 32]);
    Ok(())
}

/// Every number of every configuration of a checkpoint replaced by others. Which of them the network runs with is known,
/// so that a limit that is lost is noticed, and one that is too narrow as well.
#[test]
fn numbers_in_a_checkpoint() {
    let bad = Bad::new();
    let folder = bad.0.path().join("copy");
    copy_folder(&fixture("sd1-tiny"), &folder);
    let mut accepted = Accepted::default();
    for (part, keys) in [
        (
            "unet",
            &[
                "in_channels",
                "out_channels",
                "sample_size",
                "layers_per_block",
                "norm_num_groups",
                "norm_eps",
                "cross_attention_dim",
                "transformer_layers_per_block",
                "attention_head_dim",
                "num_attention_heads",
                "block_out_channels",
                "time_embedding_dim",
                "time_cond_proj_dim",
                "freq_shift",
                "addition_embed_type",
                "down_block_types",
            ][..],
        ),
        (
            "vae",
            &[
                "in_channels",
                "out_channels",
                "latent_channels",
                "layers_per_block",
                "norm_num_groups",
                "sample_size",
                "scaling_factor",
                "shift_factor",
                "block_out_channels",
                "up_block_types",
            ],
        ),
        (
            "text_encoder",
            &[
                "vocab_size",
                "hidden_size",
                "intermediate_size",
                "projection_dim",
                "num_hidden_layers",
                "num_attention_heads",
                "max_position_embeddings",
                "layer_norm_eps",
                "eos_token_id",
            ],
        ),
    ] {
        let path = folder.join(part).join("config.json");
        let sound = fs::read(&path).unwrap();
        for key in keys {
            for value in numbers() {
                configured(&folder, part, key, value.clone());
                for allow_mismatch in [false, true] {
                    let options = LoadOptions {
                        allow_mismatch,
                        ..LoadOptions::default()
                    };
                    let refused = refusal(|| run(&folder, &options), "config.json");
                    if refused.is_none() && !allow_mismatch {
                        accepted.add(part, key, &value);
                    }
                }
            }
            fs::write(&path, &sound).unwrap();
        }
    }
    assert_eq!(accepted.lines(), ACCEPTED);
}

/// Those that tensors cannot contradict, and those that are what the network has.
const ACCEPTED: &str = "\
unet: sample_size = 1 3 100
unet: norm_num_groups = 1
unet: transformer_layers_per_block = 1 [1,1,1]
unet: attention_head_dim = 1 [1,1,1]
unet: num_attention_heads = 1 [1,1,1]
unet: freq_shift = 0 1 1e-30 0.5
vae: in_channels = 3
vae: out_channels = 3
vae: layers_per_block = 1
vae: norm_num_groups = 1
vae: sample_size = 1 3 100
vae: scaling_factor = 1 3 100 0.5
vae: shift_factor = -1 0 1 3 100 1e-30 0.5
text_encoder: projection_dim = 1 3 100
text_encoder: num_hidden_layers = 3
text_encoder: num_attention_heads = 1
text_encoder: eos_token_id = -1 0 1 3 100 1000000000 2147483648
";

/// A message names the key and the value, also where the value has another type than it must have.
#[test]
fn keys_are_named() {
    for (part, key, value, named) in [
        ("unet", "in_channels", json!(0), "`in_channels` is 0"),
        (
            "unet",
            "in_channels",
            json!("four"),
            "`in_channels` cannot be \"four\"",
        ),
        ("unet", "norm_eps", json!(1), "between 1e-12 and 0.01"),
        (
            "unet",
            "layers_per_block",
            json!([128, 128, 128]),
            "`layers_per_block`",
        ),
        (
            "vae",
            "scaling_factor",
            json!(1e30),
            "`scaling_factor` is 1e30",
        ),
        (
            "vae",
            "sample_size",
            json!([]),
            "one side, or width and height",
        ),
        (
            "text_encoder",
            "layer_norm_eps",
            json!(-1),
            "`layer_norm_eps` is -1",
        ),
        (
            "text_encoder",
            "vocab_size",
            json!(-1),
            "`vocab_size` cannot be -1",
        ),
    ] {
        let bad = Bad::new();
        let folder = bad.0.path().join("copy");
        copy_folder(&fixture("sd1-tiny"), &folder);
        let depth = json!([128, 128, 128]);
        if value == depth {
            configured(&folder, part, "transformer_layers_per_block", depth);
        }
        configured(&folder, part, key, value);
        expect(&folder, &LoadOptions::default(), &[named, "config.json"]);
    }
}

/// SDXL's UNet is told the pooled text and sizes; that they have its width is known before it runs.
#[test]
fn what_a_unet_is_told_besides_the_prompt() {
    for (key, value, named) in [
        (
            "addition_time_embed_dim",
            json!(3),
            "`addition_time_embed_dim`",
        ),
        (
            "addition_embed_type",
            json!(null),
            "`addition_embed_type` is null",
        ),
    ] {
        let bad = Bad::new();
        let folder = bad.0.path().join("copy");
        copy_folder(&fixture("sdxl-tiny"), &folder);
        configured(&folder, "unet", key, value);
        expect(&folder, &LoadOptions::default(), &[named]);
    }
    let bad = Bad::new();
    let folder = bad.0.path().join("copy");
    copy_folder(&fixture("sd1-tiny"), &folder);
    for (key, value) in [
        ("addition_embed_type", json!("text_time")),
        ("addition_time_embed_dim", json!(8)),
        ("projection_class_embeddings_input_dim", json!(80)),
    ] {
        configured(&folder, "unet", key, value);
    }
    let told = "it is null in Stable Diffusion 1.x";
    expect(&folder, &LoadOptions::default(), &[told]);
}

/// Tokenizers of nonsense.
#[test]
fn numbers_in_a_tokenizer() {
    let bad = Bad::new();
    let folder = bad.0.path().join("copy");
    copy_folder(&fixture("sd1-tiny"), &folder);
    // It would override what is changed here.
    fs::remove_file(folder.join("tokenizer/special_tokens_map.json")).unwrap();
    let path = folder.join("tokenizer/tokenizer_config.json");
    let sound = fs::read(&path).unwrap();
    for key in [
        "model_max_length",
        "bos_token",
        "eos_token",
        "pad_token",
        "unk_token",
        "added_tokens_decoder",
    ] {
        for value in numbers() {
            fs::write(&path, changed(&path, key, &value).unwrap()).unwrap();
            refusal(|| run(&folder, &LoadOptions::default()), "");
        }
        fs::write(&path, &sound).unwrap();
    }
    let vocab = folder.join("tokenizer/vocab.json");
    for text in [
        "{}",
        "[]",
        "{\"a\": -1}",
        "{\"a\": 4294967296}",
        "{\"<|startoftext|>\": 4294967295, \"<|endoftext|>\": 0}",
    ] {
        fs::write(&vocab, text).unwrap();
        assert!(refusal(|| run(&folder, &LoadOptions::default()), "tokenizer").is_some());
    }
}

#[test]
fn networks_that_do_not_belong_together() {
    let bad = Bad::new();
    let folder = bad.0.path().join("copy");
    copy_folder(&fixture("sd1-tiny"), &folder);
    configured(&folder, "vae", "latent_channels", json!(16));
    let latents = "`in_channels` is 4, but the autoencoder's latents have 16 channels";
    expect(&folder, &LoadOptions::default(), &[latents]);

    configured(&folder, "vae", "latent_channels", json!(4));
    configured(&folder, "text_encoder", "vocab_size", json!(999));
    let checkpoint = Checkpoint::open(&folder, &LoadOptions::default()).unwrap();
    let message = chain(&checkpoint.tokenizers().unwrap_err());
    let tokens = "`vocab_size` is 999, but the tokenizer uses 1000 tokens";
    assert!(message.contains(tokens), "{message}");

    // In the limits and far more than these weights: found before memory is taken for it.
    configured(&folder, "text_encoder", "vocab_size", json!(1000));
    configured(
        &folder,
        "unet",
        "block_out_channels",
        json!([16384, 32768, 65536]),
    );
    expect(
        &folder,
        &LoadOptions::default(),
        &["of another shape", "65536"],
    );
}
