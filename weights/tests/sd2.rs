//! Stable Diffusion 2.x: folders, and single files as Stability writes them.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use burn::tensor::FloatDType;
use prepose_weights::{Family, LoadOptions, Prediction, RandomCheckpoint};
use serde_json::json;

use crate::support::{
    Expected, Stored, chain, device, failure, fixture, open, outputs, read_safetensors,
    write_safetensors,
};
use crate::wrong_input::copy_folder;

const TOLERANCE: f32 = 2e-5;

/// The fixture's networks as one file: OpenCLIP's transformer with its last layer, which is not used, and with
/// transformers' buffer of positions, and the transformers' projections as 1×1 convolutions, as some tools store them.
fn single() -> Vec<Stored> {
    let text = fs::read_to_string(fixture("gligen/names.json")).unwrap();
    let names: HashMap<String, String> = serde_json::from_str(&text).unwrap();
    let unet = read_safetensors(&fixture(
        "sd2-tiny/unet/diffusion_pytorch_model.safetensors",
    ));
    let mut tensors: Vec<Stored> = unet
        .into_iter()
        .map(|(name, dtype, mut shape, bytes)| {
            if name.ends_with("proj_in.weight") || name.ends_with("proj_out.weight") {
                shape.extend([1, 1]);
            }
            (
                format!("model.diffusion_model.{}", names[&name]),
                dtype,
                shape,
                bytes,
            )
        })
        .collect();
    tensors.extend(open_clip());
    tensors
}

fn open_clip() -> Vec<Stored> {
    let text = read_safetensors(&fixture("sd2-tiny/text_encoder/model.safetensors"));
    let find = |name: &str| {
        let found = text.iter().find(|(key, ..)| key == name);
        found.unwrap_or_else(|| panic!("{name}")).clone()
    };
    let mut tensors = Vec::new();
    let mut put = |name: String, (_, dtype, shape, bytes): Stored| {
        tensors.push((
            format!("cond_stage_model.model.{name}"),
            dtype,
            shape,
            bytes,
        ));
    };
    // The last of the three is a copy of the second.
    for (layer, from) in [(0, 0), (1, 1), (2, 1)] {
        let of = |name: &str| format!("text_model.encoder.layers.{from}.{name}");
        for kind in ["weight", "bias"] {
            let mut fused = find(&of(&format!("self_attn.q_proj.{kind}")));
            for other in ["k", "v"] {
                fused
                    .3
                    .extend(find(&of(&format!("self_attn.{other}_proj.{kind}"))).3);
            }
            fused.2[0] *= 3;
            put(
                format!("transformer.resblocks.{layer}.attn.in_proj_{kind}"),
                fused,
            );
            for (ours, theirs) in [
                ("ln_1", "layer_norm1"),
                ("ln_2", "layer_norm2"),
                ("mlp.c_fc", "mlp.fc1"),
                ("mlp.c_proj", "mlp.fc2"),
                ("attn.out_proj", "self_attn.out_proj"),
            ] {
                let found = find(&of(&format!("{theirs}.{kind}")));
                put(
                    format!("transformer.resblocks.{layer}.{ours}.{kind}"),
                    found,
                );
            }
        }
    }
    for (ours, theirs) in [
        (
            "token_embedding.weight",
            "embeddings.token_embedding.weight",
        ),
        (
            "positional_embedding",
            "embeddings.position_embedding.weight",
        ),
        ("ln_final.weight", "final_layer_norm.weight"),
        ("ln_final.bias", "final_layer_norm.bias"),
    ] {
        put(ours.into(), find(&format!("text_model.{theirs}")));
    }
    let bias = find("text_model.final_layer_norm.bias");
    put("text_projection".into(), bias.clone());
    put("logit_scale".into(), bias);
    let positions = (String::new(), "I64", vec![1, 4], vec![0; 32]);
    put(
        "transformer.text_model.embeddings.position_ids".into(),
        positions,
    );
    tensors
}

fn with_config() -> LoadOptions {
    LoadOptions {
        config: Some(fixture("sd2-tiny")),
        vae: Some(fixture("sd2-tiny/vae")),
        ..LoadOptions::default()
    }
}

#[test]
fn folder_and_file_are_one_checkpoint() {
    let expected = Expected::read("sd2-tiny/expected.safetensors");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sd2.safetensors");
    write_safetensors(&path, &single());
    let checkpoints = [
        open(&fixture("sd2-tiny"), &LoadOptions::default()),
        open(&path, &with_config()),
    ];
    let found = checkpoints.map(|checkpoint| {
        assert_eq!(checkpoint.family(), Family::Sd2);
        assert_eq!(
            checkpoint.scheduler_config()["prediction_type"],
            "v_prediction"
        );
        let tokenizers = checkpoint.tokenizers().unwrap();
        assert_eq!((tokenizers.len(), tokenizers[0].pad()), (1, 0));
        outputs(&checkpoint, &expected)
    });
    for (name, data) in &found[0] {
        expected.compare_data(name, data, TOLERANCE);
    }
    assert_eq!(found[0], found[1]);
}

/// A file with `metadata`, and beside it perhaps a YAML file.
fn stated(
    folder: &Path,
    name: &str,
    metadata: Option<(&str, &str)>,
    yaml: Option<&str>,
) -> PathBuf {
    let path = folder.join(name).with_extension("safetensors");
    write_safetensors(&path, &single());
    say(&path, metadata, yaml);
    path
}

/// Puts `metadata` into the file at `path`, and a YAML file beside it.
fn say(path: &Path, metadata: Option<(&str, &str)>, yaml: Option<&str>) {
    if let Some((key, value)) = metadata {
        let bytes = fs::read(path).unwrap();
        let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        let mut header: serde_json::Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
        header["__metadata__"] = json!({key: value});
        let header = serde_json::to_vec(&header).unwrap();
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend_from_slice(&header);
        file.extend_from_slice(&bytes[8 + length..]);
        fs::write(path, file).unwrap();
    }
    if let Some(yaml) = yaml {
        fs::write(path.with_extension("yaml"), yaml).unwrap();
    }
}

#[test]
fn what_it_predicts_is_read_or_asked() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // Of the published size: nothing is loaded.
    let options = |prediction| LoadOptions {
        vae: Some(fixture("single-file/vae-diffusers")),
        prediction,
        ..LoadOptions::default()
    };
    let kind = |path: &Path, prediction| {
        let checkpoint = open(path, &options(prediction));
        let scheduler = checkpoint.scheduler_config()["prediction_type"].clone();
        let size = checkpoint
            .unet_config()
            .unwrap()
            .sample_size
            .and_then(|size| size.first());
        (scheduler.as_str().unwrap().to_string(), size)
    };
    let v = ("v_prediction".to_string(), Some(96));
    let epsilon = ("epsilon".to_string(), Some(64));
    let of_metadata =
        |name, key, value| kind(&stated(folder, name, Some((key, value)), None), None);
    assert_eq!(of_metadata("a", "modelspec.prediction_type", "v"), v);
    assert_eq!(
        of_metadata("b", "modelspec.prediction_type", "epsilon"),
        epsilon
    );
    assert_eq!(
        of_metadata("c", "modelspec.architecture", "stable-diffusion-v2-768-v"),
        v
    );
    assert_eq!(
        of_metadata("d", "modelspec.architecture", "stable-diffusion-v2-512"),
        epsilon
    );
    // As ComfyUI's CheckpointSave writes it.
    assert_eq!(of_metadata("h", "modelspec.predict_key", "v"), v);
    assert_eq!(
        of_metadata("i", "modelspec.predict_key", "epsilon"),
        epsilon
    );
    let of_yaml = |name, yaml| kind(&stated(folder, name, None, Some(yaml)), None);
    assert_eq!(
        of_yaml("e", "model:\n  params:\n    parameterization: \"v\"\n"),
        v
    );
    assert_eq!(
        of_yaml("f", "model:\n  params:\n    scale_factor: 0.18215\n"),
        epsilon
    );
    let silent = stated(folder, "g", None, None);
    assert_eq!(kind(&silent, Some(Prediction::V)), v);
    assert_eq!(kind(&silent, Some(Prediction::Epsilon)), epsilon);
    let message = chain(&failure(&silent, &options(None)));
    for part in [
        "does not say whether",
        "--prediction epsilon",
        "--prediction v",
    ] {
        assert!(message.contains(part), "{part:?} is not in {message:?}");
    }
}

/// Fine-tunes that predict v are of every family, and a configuration may be given that does not know it.
#[test]
fn a_file_that_says_v_predicts_v() {
    let folder = tempfile::tempdir().unwrap();
    let stated_v = Some(("modelspec.prediction_type", "v"));
    let yaml_v = Some("model:\n  params:\n    parameterization: \"v\"\n");
    let yaml = Some("model:\n  params:\n    scale_factor: 0.18215\n");
    let mark: Stored = ("v_pred".into(), "F32", vec![0], Vec::new());
    for (family, file) in [("sd1", "sd1-f32"), ("sdxl", "sdxl-f16")] {
        let plain = read_safetensors(&fixture(&format!("single-file/{file}.safetensors")));
        let marked = [&plain[..], std::slice::from_ref(&mark)].concat();
        for (tensors, metadata, yaml, prediction) in [
            (&plain, None, None, "epsilon"),
            (&plain, None, yaml, "epsilon"),
            (&plain, None, yaml_v, "v_prediction"),
            (&plain, stated_v, None, "v_prediction"),
            (&marked, None, yaml, "v_prediction"),
        ] {
            let path = folder.path().join(family).with_extension("safetensors");
            let _ = fs::remove_file(path.with_extension("yaml"));
            write_safetensors(&path, tensors);
            say(&path, metadata, yaml);
            for config in [None, Some(fixture(&format!("single-file/{family}")))] {
                // Nothing is loaded, so that the networks may have another size than the published one.
                let options = LoadOptions {
                    config,
                    ..LoadOptions::default()
                };
                let checkpoint = open(&path, &options);
                let scheduler = checkpoint.scheduler_config();
                // Where nothing is written, schedulers predict noise.
                let found = scheduler["prediction_type"].as_str().unwrap_or("epsilon");
                assert_eq!(found, prediction, "{family}: {metadata:?}, {yaml:?}");
            }
        }
    }
}

#[test]
fn a_configuration_without_a_scheduler_does_not_say_what_is_predicted() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config");
    copy_folder(&fixture("sd2-tiny"), &config);
    fs::remove_dir_all(config.join("scheduler")).unwrap();
    let options = |prediction| LoadOptions {
        config: Some(config.clone()),
        prediction,
        ..with_config()
    };
    let silent = stated(folder.path(), "silent", None, None);
    let message = chain(&failure(&silent, &options(None)));
    assert!(message.contains("does not say whether"), "{message}");
    let said = Some(("modelspec.prediction_type", "v"));
    for (path, prediction) in [
        (stated(folder.path(), "said", said, None), None),
        (silent, Some(Prediction::V)),
    ] {
        let checkpoint = open(&path, &options(prediction));
        let scheduler = checkpoint.scheduler_config();
        assert_eq!(scheduler["prediction_type"], "v_prediction");
        // The configuration's, which is given.
        let size = checkpoint.unet_config().unwrap().sample_size;
        assert_eq!(size.and_then(|size| size.first()), Some(8));
    }
}

#[test]
fn relatives_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let first = "model.diffusion_model.input_blocks.0.0.weight";
    let with_channels = |channels: usize| {
        let mut tensors = single();
        let conv = tensors.iter_mut().find(|(name, ..)| name == first).unwrap();
        conv.2[1] = channels;
        conv.3.resize(2 * conv.2.iter().product::<usize>(), 0);
        tensors
    };
    let mut variations = single();
    variations.push((
        "embedder.model.visual.proj".into(),
        "F16",
        vec![1],
        vec![0, 0],
    ));
    for (name, tensors, part) in [
        ("depth", with_channels(5), "depths"),
        ("upscaler", with_channels(7), "enlarges"),
        ("inpainting", with_channels(9), "inpainting"),
        ("unclip", variations, "varies pictures"),
    ] {
        let path = folder.path().join(name).with_extension("safetensors");
        write_safetensors(&path, &tensors);
        let message = chain(&failure(&path, &with_config()));
        assert!(message.contains(part), "{name}: {message}");
    }
}

/// SD-Turbo's own file is SD 2.1 in generative-models' naming, which SDXL's refiner has as well. diffusers tells SD 2.x by
/// 1024 columns in this weight; the refiner's texts have 1280 channels.
#[test]
fn generative_models_naming() {
    const TEXTS: &str =
        "model.diffusion_model.input_blocks.2.1.transformer_blocks.0.attn2.to_k.weight";
    let folder = tempfile::tempdir().unwrap();
    let written = |file: &str, columns: usize| {
        let mut tensors = single();
        for (name, _, shape, bytes) in &mut tensors {
            if let Some(rest) = name.strip_prefix("cond_stage_model.model.") {
                *name = format!("conditioner.embedders.0.model.{rest}");
            }
            if *name == TEXTS {
                shape[1] = columns;
                bytes.resize(2 * shape.iter().product::<usize>(), 0);
            }
        }
        let path = folder.path().join(file);
        write_safetensors(&path, &tensors);
        path
    };
    let turbo = written("turbo.safetensors", 1024);
    let checkpoint = open(&turbo, &with_config());
    assert_eq!(checkpoint.family(), Family::Sd2);
    // Every tensor of the text encoder is found, and none is left.
    let encoders = checkpoint.load_text_encoders(&device(), FloatDType::F32);
    assert_eq!(encoders.unwrap().len(), 1);
    let options = |prediction| LoadOptions {
        config: None,
        prediction,
        ..with_config()
    };
    let message = chain(&failure(&turbo, &options(None)));
    assert!(
        message.contains("--prediction epsilon (the 512 ones, SD-Turbo)"),
        "{message}"
    );
    let checkpoint = open(&turbo, &options(Some(Prediction::Epsilon)));
    assert_eq!(checkpoint.scheduler_config()["prediction_type"], "epsilon");

    let refiner = written("refiner.safetensors", 1280);
    let message = chain(&failure(&refiner, &with_config()));
    assert!(
        message.contains("a Stable Diffusion XL refiner"),
        "{message}"
    );
}

/// The embedded configuration makes the published network.
#[test]
fn the_standard_size_is_the_published_one() {
    let networks = RandomCheckpoint::standard(Family::Sd2, FloatDType::F16, 0).unwrap();
    // UNet 865,910,724; text encoder 340,387,840 without its last layer; autoencoder 83,653,863.
    let parameters = 865_910_724 + 340_387_840 + 83_653_863;
    assert_eq!(networks.parameters(), parameters);
}
