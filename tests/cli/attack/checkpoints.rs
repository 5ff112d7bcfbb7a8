//! Checkpoints of lies. `weights/tests` tries hundreds in one process; these are those where the whole program counts.

use std::fs;

use serde_json::{Value, json};

use super::{Folder, toybox};

/// Puts `value` at `key` of the JSON file.
fn put(path: &std::path::Path, key: &str, value: Value) {
    let mut config: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    config[key] = value;
    fs::write(path, config.to_string()).unwrap();
}

#[test]
fn numbers_that_the_weights_contradict() {
    let folder = Folder::new();
    let model = toybox(folder.path());
    for (file, key, values) in [
        (
            "unet/config.json",
            "in_channels",
            vec![json!(3), json!(u64::MAX)],
        ),
        (
            "unet/config.json",
            "cross_attention_dim",
            vec![json!(3), json!(1u64 << 31)],
        ),
        (
            "unet/config.json",
            "layers_per_block",
            vec![json!(2), json!(100_000), json!([1u64 << 62, 1u64 << 62])],
        ),
        (
            "unet/config.json",
            "block_out_channels",
            vec![json!([0, 0, 0]), json!(vec![16; 100_000])],
        ),
        ("unet/config.json", "norm_eps", vec![json!(1), json!(1e30)]),
        (
            "vae/config.json",
            "scaling_factor",
            vec![json!(-1), json!(1e30)],
        ),
        (
            "vae/config.json",
            "block_out_channels",
            vec![json!(vec![16; 40])],
        ),
        (
            "text_encoder/config.json",
            "vocab_size",
            vec![json!(0), json!(3)],
        ),
        (
            "text_encoder/config.json",
            "max_position_embeddings",
            vec![json!(3)],
        ),
        (
            "scheduler/scheduler_config.json",
            "steps_offset",
            vec![json!(1_000_000_000), json!(-1)],
        ),
        (
            "scheduler/scheduler_config.json",
            "beta_schedule",
            vec![json!("\u{1b}[31mEvil")],
        ),
        (
            "scheduler/scheduler_config.json",
            "prediction_type",
            vec![json!("\u{1b}[31mEvil".repeat(100_000))],
        ),
    ] {
        let path = model.join(file);
        let sound = fs::read(&path).unwrap();
        let name = file.rsplit('/').next().unwrap();
        for value in values {
            put(&path, key, value);
            folder.refuses(
                &["generate", "a dog", "--checkpoint", "model", "--steps", "2"],
                &[name],
            );
        }
        fs::write(&path, sound).unwrap();
    }
}

#[test]
fn tokenizers_for_longer_texts_than_the_encoder() {
    let folder = Folder::new();
    let model = toybox(folder.path());
    let path = model.join("tokenizer/tokenizer_config.json");
    let sound = fs::read(&path).unwrap();
    for length in [78, 500, 999_999] {
        put(&path, "model_max_length", json!(length));
        for command in ["generate", "parse"] {
            folder.refuses(
                &[command, "a dog", "--checkpoint", "model"],
                &["max_position_embeddings", "77"],
            );
        }
    }
    fs::write(&path, sound).unwrap();
    for (file, text) in [
        ("merges.txt", "a\u{1b}[2J\u{0}b\n".to_string()),
        ("merges.txt", "x".repeat(10 << 20)),
        (
            "vocab.json",
            format!(
                "{{\"{}\": 0}}",
                "\u{1b}[2J".repeat(100_000).replace('\u{1b}', "\\u001b")
            ),
        ),
    ] {
        let path = model.join("tokenizer").join(file);
        let sound = fs::read(&path).unwrap();
        fs::write(&path, text).unwrap();
        folder.refuses(&["parse", "a dog", "--checkpoint", "model"], &["tokenizer"]);
        fs::write(&path, sound).unwrap();
    }
}

/// Names, types and shapes in the header of a safetensors file.
#[test]
fn headers_that_are_long_or_move_the_terminal() {
    let folder = Folder::new();
    let escape = "\\u001b[2J\\u202e";
    let long = "n".repeat(1 << 20);
    let shape = vec!["1"; 1_000_000].join(",");
    for header in [
        format!(r#"{{"{escape}":{{"dtype":"{escape}","shape":[1],"data_offsets":[0,4]}}}}"#),
        format!(r#"{{"{long}":{{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}}}"#),
        format!(r#"{{"a":{{"dtype":"{long}","shape":[1],"data_offsets":[0,4]}}}}"#),
        format!(r#"{{"a":{{"dtype":"F32","shape":[{shape}],"data_offsets":[0,4]}}}}"#),
        r#"{"a":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,4]}}"#.to_string(),
        format!(
            r#"{{"a":{{"dtype":"F32","shape":[1],"data_offsets":[0,{}]}}}}"#,
            u64::MAX
        ),
        "[".repeat(1 << 20),
    ] {
        let length = (header.len() as u64).to_le_bytes();
        let bytes = [&length[..], header.as_bytes(), &[0; 4]].concat();
        folder.write("x.safetensors", bytes);
        folder.refuses(&["info", "x.safetensors"], &["x.safetensors"]);
        folder.refuses(
            &["generate", "a dog", "--lora", "x.safetensors"],
            &["x.safetensors"],
        );
    }
    // A header that is sound, whose texts people are shown.
    let header = format!(
        r#"{{"__metadata__":{{"{escape}":"{escape}{long}"}},"{escape}{long}.a":{{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}}}"#
    );
    let length = (header.len() as u64).to_le_bytes();
    folder.write(
        "x.safetensors",
        [&length[..], header.as_bytes(), &[0; 4]].concat(),
    );
    let output = folder.run(&["info", "x.safetensors"]);
    super::sound(&["info"], &output);
    assert!(output.status.success() && output.stdout.len() < 3000);
}

/// More texts and tensors than the memory has room for.
#[test]
fn headers_of_millions() {
    let folder = Folder::new();
    let texts: Vec<String> = (0..2_000_000).map(|i| format!("\"{i}\":\"\"")).collect();
    let tensors: Vec<String> = (0..200_000)
        .map(|i| format!(r#""{i}":{{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}"#))
        .collect();
    for (header, part) in [
        (
            format!("{{\"__metadata__\":{{{}}}}}", texts.join(",")),
            "metadata",
        ),
        (format!("{{{}}}", tensors.join(",")), "tensors"),
    ] {
        let length = (header.len() as u64).to_le_bytes();
        folder.write("x.safetensors", [&length[..], header.as_bytes()].concat());
        folder.refuses(
            &["info", "x.safetensors"],
            &["x.safetensors", part, "65536"],
        );
    }
}
