//! LoRAs merged while loading, against diffusers' merging of the same files.

use std::path::Path;

use crate::support::{
    Expected, Stored, chain, failure, fixture, open, outputs, read_safetensors, write_safetensors,
};
use prepose_weights::{LoadOptions, LoraFormat, LoraLayer, LoraSpec, describe_file};

const TOLERANCE: f32 = 2e-5;

fn spec(name: &str, weight: f32) -> LoraSpec {
    LoraSpec {
        path: fixture(&format!("lora/{name}.safetensors")),
        weight,
    }
}

/// Merges `loras` into the checkpoint of `family` and compares with the group `name`.
fn check(name: &str, family: &str, containers: &[&str], loras: &[LoraSpec]) {
    let expected = Expected::read("lora/expected.safetensors");
    let mut inputs = Expected::read(&format!("single-file/expected-{family}.safetensors"));
    inputs.set("unet/sample", expected.data("sample"));
    for container in containers {
        println!("{name} on {container}");
        let options = LoadOptions {
            config: Some(fixture(&format!("single-file/{family}"))),
            loras: loras.to_vec(),
            ..LoadOptions::default()
        };
        let checkpoint = open(&fixture(&format!("single-file/{container}")), &options);
        assert!(
            checkpoint
                .file_hashes()
                .unwrap()
                .iter()
                .any(|file| file.path == loras[0].path)
        );
        let outputs = outputs(&checkpoint, &inputs);
        let text: &[(&str, &str)] = match family {
            "sd1" => &[("text/last", "text/last")],
            _ => &[("context", "context"), ("unet/text_embeds", "text_embeds")],
        };
        for (output, reference) in text.iter().chain(&[("unet/out", "unet/out")]) {
            expected.compare_data(&format!("{name}/{reference}"), &outputs[output], TOLERANCE);
        }
    }
}

#[test]
fn kohya() {
    check(
        "kohya-sd1",
        "sd1",
        &["sd1", "sd1-f16.safetensors"],
        &[spec("kohya-sd1", 0.8)],
    );
    check(
        "kohya-sdxl",
        "sdxl",
        &["sdxl", "sdxl-f16.safetensors"],
        &[spec("kohya-sdxl", 0.8)],
    );
}

#[test]
fn diffusers() {
    check(
        "diffusers-sd1",
        "sd1",
        &["sd1"],
        &[spec("diffusers-sd1", 0.8)],
    );
    check(
        "diffusers-old-sd1",
        "sd1",
        &["sd1"],
        &[spec("diffusers-old-sd1", 0.8)],
    );
    check(
        "diffusers-sdxl",
        "sdxl",
        &["sdxl-f16.safetensors"],
        &[spec("diffusers-sdxl", 0.8)],
    );
}

/// diffusers' first files called the text encoder's projections as the UNet's (`DIFFUSERS_OLD_TO_PEFT`).
#[test]
fn diffusers_first_text_encoders() {
    let folder = tempfile::tempdir().unwrap();
    let mut tensors = read_safetensors(&fixture("lora/diffusers-sd1.safetensors"));
    for (name, ..) in &mut tensors {
        for (projection, old) in [
            ("q_proj", "to_q"),
            ("k_proj", "to_k"),
            ("v_proj", "to_v"),
            ("out_proj", "to_out"),
        ] {
            for (role, old_role) in [("lora_A", "lora.down"), ("lora_B", "lora.up")] {
                *name = name.replace(
                    &format!(".{projection}.{role}."),
                    &format!(".{old}_{old_role}."),
                );
            }
        }
    }
    let mut names = tensors.iter().map(|(name, ..)| name);
    assert!(names.any(|name| name.ends_with(".self_attn.to_out_lora.up.weight")));
    let path = folder.path().join("old.safetensors");
    write_safetensors(&path, &tensors);
    let lora = LoraSpec { path, weight: 0.8 };
    check("diffusers-sd1", "sd1", &["sd1"], &[lora]);
}

/// `lora_te_` and `lora_te1_` are one text encoder.
#[test]
fn a_weight_named_twice_is_changed_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut tensors = read_safetensors(&fixture("lora/kohya-sd1.safetensors"));
    let again = tensors.iter().filter_map(|(name, dtype, shape, bytes)| {
        let rest = name.strip_prefix("lora_te_")?;
        let name = format!("lora_te1_{rest}");
        Some((name, *dtype, shape.clone(), bytes.clone()))
    });
    let again: Vec<Stored> = again.collect();
    assert!(!again.is_empty());
    tensors.extend(again);
    let path = folder.path().join("twice.safetensors");
    write_safetensors(&path, &tensors);
    let lora = LoraSpec { path, weight: 0.8 };
    check("kohya-sd1", "sd1", &["sd1"], &[lora]);
}

#[test]
fn two_at_once() {
    check(
        "two",
        "sd1",
        &["sd1-f32.safetensors"],
        &[spec("kohya-sd1", 0.8), spec("diffusers-sd1", -0.5)],
    );
}

fn with_lora(path: &Path) -> LoadOptions {
    let lora = LoraSpec {
        path: path.to_path_buf(),
        weight: 1.0,
    };
    LoadOptions {
        loras: vec![lora],
        ..LoadOptions::default()
    }
}

/// The message of merging the file at `path` into the small SD 1.x checkpoint.
fn message(path: &Path) -> String {
    let message = chain(&failure(&fixture("single-file/sd1"), &with_lora(path)));
    println!("{message}\n");
    assert!(message.contains(&*path.to_string_lossy()), "{message}");
    message
}

#[test]
fn what_does_not_fit_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let changed = |change: &dyn Fn(&mut Vec<Stored>)| {
        let mut tensors = read_safetensors(&fixture("lora/kohya-sd1.safetensors"));
        change(&mut tensors);
        let path = folder.path().join("changed.safetensors");
        write_safetensors(&path, &tensors);
        message(&path)
    };
    let of_sdxl = message(&fixture("lora/kohya-sdxl.safetensors"));
    assert!(
        of_sdxl.contains("modules are not in this checkpoint: lora_te2_"),
        "{of_sdxl}"
    );
    assert!(
        of_sdxl.contains("use a LoRA made for Stable Diffusion 1.x"),
        "{of_sdxl}"
    );

    let unknown = changed(&|tensors| {
        for (name, ..) in tensors
            .iter_mut()
            .filter(|(name, ..)| name.starts_with("lora_unet_mid_block_resnets_0_conv1."))
        {
            *name = name.replace("mid_block", "muddle_block");
        }
    });
    assert!(
        unknown.contains("lora_unet_muddle_block_resnets_0_conv1"),
        "{unknown}"
    );

    let first_down = |tensors: &[Stored]| {
        tensors
            .iter()
            .position(|(name, ..)| name.ends_with(".lora_down.weight"))
            .unwrap()
    };
    let misfit = changed(&|tensors| {
        let at = first_down(tensors);
        tensors[at].2.reverse();
    });
    assert!(misfit.contains("do not fit: lora_"), "{misfit}");
    let incomplete = changed(&|tensors| {
        let at = first_down(tensors);
        tensors.remove(at);
    });
    assert!(incomplete.contains("is not complete"), "{incomplete}");
    let nan = changed(&|tensors| {
        let at = first_down(tensors);
        tensors[at].3[..2].copy_from_slice(&0x7e00u16.to_le_bytes());
    });
    assert!(
        nan.contains("NaN or infinite") && nan.contains("lora_down"),
        "{nan}"
    );
    for (tensor, relative) in [
        ("lora_unet_x.dora_scale", "DoRA"),
        ("lora_unet_x.hada_w1_a", "LoHa"),
        ("lora_unet_x.lokr_w1", "LoKr"),
    ] {
        let text = changed(&|tensors| tensors.push((tensor.into(), "F16", vec![1], vec![0, 0])));
        assert!(text.contains(&format!("this is a {relative}")), "{text}");
    }
    let stray =
        changed(&|tensors| tensors.push(("lora_unet_x.bias".into(), "F16", vec![1], vec![0, 0])));
    assert!(
        stray.contains("1 tensors are not part of a LoRA: lora_unet_x.bias"),
        "{stray}"
    );

    let none = message(&fixture("single-file/vae-ldm.safetensors"));
    assert!(
        none.contains("this is an autoencoder (VAE), not a LoRA"),
        "{none}"
    );
}

/// diffusers' conversion to kohya's naming stores the ranks as integers for alphas.
#[test]
fn alphas_may_be_integers() {
    let folder = tempfile::tempdir().unwrap();
    let expected = Expected::read("single-file/expected-sd1.safetensors");
    let merged = |name: &str, alpha: &dyn Fn(usize) -> (&'static str, Vec<u8>)| {
        let mut tensors = read_safetensors(&fixture("lora/kohya-sd1.safetensors"));
        let alphas = tensors
            .iter_mut()
            .filter(|(name, ..)| name.ends_with(".alpha"));
        for (index, (_, dtype, _, bytes)) in alphas.enumerate() {
            (*dtype, *bytes) = alpha(index);
        }
        let path = folder.path().join(name);
        write_safetensors(&path, &tensors);
        outputs(
            &open(&fixture("single-file/sd1"), &with_lora(&path)),
            &expected,
        )
    };
    let floats = merged("floats.safetensors", &|_| {
        ("F32", 5f32.to_le_bytes().to_vec())
    });
    let integers = merged("integers.safetensors", &|index| match index % 5 {
        0 => ("I64", 5i64.to_le_bytes().to_vec()),
        1 => ("I32", 5i32.to_le_bytes().to_vec()),
        2 => ("I16", 5i16.to_le_bytes().to_vec()),
        3 => ("I8", vec![5]),
        _ => ("U8", vec![5]),
    });
    assert_eq!(integers, floats);
}

/// What peft itself writes has no alphas: `adapter_config.json` beside it has them.
#[test]
fn pefts_own_files() {
    let folder = tempfile::tempdir().unwrap();
    let base = fixture("single-file/sd1");
    // With alphas of 2, which its metadata state.
    let stated = folder.path().join("stated.safetensors");
    let bytes = open(&base, &LoadOptions::default())
        .lora_file(
            LoraFormat::Diffusers,
            &layers("diffusers-sd1"),
            &Default::default(),
        )
        .unwrap();
    std::fs::write(&stated, bytes).unwrap();
    let pefts = folder.path().join("adapter_model.safetensors");
    let mut tensors = read_safetensors(&stated);
    for (name, ..) in &mut tensors {
        *name = name.replacen("unet.", "base_model.model.", 1);
    }
    write_safetensors(&pefts, &tensors);
    let config = folder.path().join("adapter_config.json");
    let alone = message(&pefts);
    assert!(alone.contains(&*config.to_string_lossy()), "{alone}");

    let expected = Expected::read("single-file/expected-sd1.safetensors");
    let unet = |path: &Path| {
        let merged = open(&base, &with_lora(path));
        outputs(&merged, &expected).remove("unet/out").unwrap()
    };
    std::fs::write(&config, r#"{"peft_type": "LORA", "r": 3, "lora_alpha": 2}"#).unwrap();
    assert_eq!(unet(&pefts), unet(&stated));
    std::fs::write(&config, r#"{"peft_type": "LORA", "r": 3, "lora_alpha": 3}"#).unwrap();
    assert_ne!(unet(&pefts), unet(&stated));
}

/// Their base lacks what they began with: added to the whole one they would change pictures by that as well.
#[test]
fn loras_that_began_with_the_checkpoints_weights() {
    let folder = tempfile::tempdir().unwrap();
    let pefts = folder.path().join("adapter_model.safetensors");
    let mut tensors = read_safetensors(&fixture("lora/diffusers-sd1.safetensors"));
    for (name, ..) in &mut tensors {
        *name = name.replacen("unet.", "base_model.model.", 1);
    }
    write_safetensors(&pefts, &tensors);
    let begun = |value: &str| {
        let config = format!(r#"{{"r": 4, "lora_alpha": 4, "init_lora_weights": {value}}}"#);
        std::fs::write(folder.path().join("adapter_config.json"), config).unwrap();
        message(&pefts)
    };
    for value in [
        "pissa",
        "pissa_niter_16",
        "OLoRA",
        "loftq",
        "corda",
        "lora_ga",
    ] {
        let refused = begun(&format!("{value:?}"));
        for part in [
            &*value.to_lowercase(),
            "path_initial_model_for_weight_conversion",
        ] {
            assert!(refused.contains(part), "{refused}");
        }
    }
}

#[test]
fn a_weight_of_zero_changes_nothing() {
    let expected = Expected::read("single-file/expected-sd1.safetensors");
    let options = |loras| LoadOptions {
        loras,
        ..LoadOptions::default()
    };
    let path = fixture("single-file/sd1");
    let plain = outputs(&open(&path, &options(Vec::new())), &expected);
    let merged = outputs(
        &open(&path, &options(vec![spec("kohya-sd1", 0.0)])),
        &expected,
    );
    assert_eq!(plain, merged);
}

/// Factors of a file in diffusers' naming, as layers to be written.
fn layers(name: &str) -> Vec<LoraLayer> {
    let file =
        prepose_formats::TensorFile::open(&fixture(&format!("lora/{name}.safetensors"))).unwrap();
    let read = |key: &str| {
        let mut values = Vec::new();
        file.pieces(key, prepose_formats::TensorPart::WHOLE, &mut |bytes| {
            let (words, _) = bytes.as_chunks::<2>();
            values.extend(
                words
                    .iter()
                    .map(|word| half::f16::from_le_bytes(*word).to_f32()),
            );
        });
        (file.info(key).unwrap().shape.clone(), values)
    };
    let names = file
        .names()
        .filter_map(|name| name.strip_suffix(".lora_A.weight"));
    let unet = names.filter_map(|name| Some((name, name.strip_prefix("unet.")?)));
    unet.map(|(key, name)| LoraLayer {
        name: name.to_owned(),
        down: read(&format!("{key}.lora_A.weight")),
        up: read(&format!("{key}.lora_B.weight")),
        // Not the rank, so that an alpha that is lost or counted twice shows.
        alpha: 2.0,
    })
    .collect()
}

/// A change of the first upsampling, a convolution of so many channels.
fn upsampling(channels: usize) -> LoraLayer {
    let values = |count: usize| (0..count).map(|i| (i % 7) as f32 / 100.0).collect();
    LoraLayer {
        name: "up_blocks.0.upsamplers.0.conv".into(),
        down: (vec![3, channels, 3, 3], values(27 * channels)),
        up: (vec![channels, 3, 1, 1], values(3 * channels)),
        alpha: 2.0,
    }
}

/// Both layouts that are written change the UNet alike, and as the factors say.
#[test]
fn what_is_written_is_read() {
    for (family, container, name) in [
        ("sd1", "sd1", "diffusers-sd1"),
        ("sdxl", "sdxl", "diffusers-sdxl"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let options = |loras| LoadOptions {
            config: Some(fixture(&format!("single-file/{family}"))),
            loras,
            ..LoadOptions::default()
        };
        let base = open(
            &fixture(&format!("single-file/{container}")),
            &options(Vec::new()),
        );
        let mut layers = layers(name);
        assert!(layers.len() > 10);
        layers.push(upsampling(16));
        let about = [("ss_steps".to_owned(), "7".to_owned())].into();
        let inputs = {
            let mut inputs = Expected::read(&format!("single-file/expected-{family}.safetensors"));
            inputs.set(
                "unet/sample",
                Expected::read("lora/expected.safetensors").data("sample"),
            );
            inputs
        };
        let plain = outputs(&base, &inputs);
        let mut found = Vec::new();
        for (format, file) in [
            (LoraFormat::Kohya, "kohya"),
            (LoraFormat::Diffusers, "diffusers"),
        ] {
            let path = folder.path().join(format!("{file}.safetensors"));
            std::fs::write(&path, base.lora_file(format, &layers, &about).unwrap()).unwrap();
            let lora = LoraSpec {
                path: path.clone(),
                weight: 1.0,
            };
            let checkpoint = open(
                &fixture(&format!("single-file/{container}")),
                &options(vec![lora]),
            );
            found.push(outputs(&checkpoint, &inputs).remove("unet/out").unwrap());
            let written = prepose_formats::TensorFile::open(&path).unwrap();
            assert_eq!(written.metadata().unwrap()["ss_steps"], "7");
            if format == LoraFormat::Kohya {
                let original = written.names().all(|name| {
                    name.contains("_input_blocks_")
                        || name.contains("_middle_block_")
                        || name.contains("_output_blocks_")
                });
                assert_eq!(original, family == "sdxl");
                // As kohya's own files of these networks have it: fixtures/lora/kohya-*.safetensors.
                let upsampling = match family {
                    "sdxl" => "lora_unet_output_blocks_2_2_conv",
                    _ => "lora_unet_up_blocks_0_upsamplers_0_conv",
                };
                assert!(written.info(&format!("{upsampling}.alpha")).is_some());
                assert_eq!(written.metadata().unwrap()["ss_network_alpha"], "2");
                let scalars = written
                    .tensors()
                    .filter(|(name, _)| name.ends_with(".alpha"));
                assert!(scalars.map(|(_, info)| &info.shape).all(Vec::is_empty));
            }
        }
        assert_eq!(found[0], found[1], "{family}");
        assert_ne!(found[0], plain["unet/out"], "{family}");
    }
}

/// Some files for SDXL have each change of the UNet under both of its names. diffusers leaves the original code's out; here
/// those have another alpha.
#[test]
fn a_change_under_both_names_is_made_once() {
    let folder = tempfile::tempdir().unwrap();
    let base = fixture("single-file/sdxl");
    let options = |loras| LoadOptions {
        config: Some(base.clone()),
        loras,
        ..LoadOptions::default()
    };
    let layers = layers("diffusers-sdxl");
    let once = folder.path().join("once.safetensors");
    let file = open(&base, &options(Vec::new()))
        .lora_file(LoraFormat::Kohya, &layers, &Default::default())
        .unwrap();
    std::fs::write(&once, file).unwrap();

    let stored = |values: &[f32]| -> Vec<u8> {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes());
        bytes.collect()
    };
    let mut tensors = read_safetensors(&once);
    for (name, _, _, bytes) in &mut tensors {
        if name.ends_with(".alpha") {
            *bytes = stored(&[9.0]);
        }
    }
    for layer in &layers {
        let module = format!("lora_unet_{}", layer.name.replace('.', "_"));
        for (role, (shape, values)) in [("lora_down", &layer.down), ("lora_up", &layer.up)] {
            let name = format!("{module}.{role}.weight");
            tensors.push((name, "F32", shape.clone(), stored(values)));
        }
        let alpha = stored(&[layer.alpha]);
        tensors.push((format!("{module}.alpha"), "F32", Vec::new(), alpha));
    }
    let twice = folder.path().join("twice.safetensors");
    write_safetensors(&twice, &tensors);

    let mut inputs = Expected::read("single-file/expected-sdxl.safetensors");
    let sample = Expected::read("lora/expected.safetensors").data("sample");
    inputs.set("unet/sample", sample);
    let unet = |path: &Path| {
        let lora = LoraSpec {
            path: path.to_path_buf(),
            weight: 1.0,
        };
        let merged = open(&base, &options(vec![lora]));
        outputs(&merged, &inputs).remove("unet/out").unwrap()
    };
    assert_eq!(unet(&twice), unet(&once));
    let described = describe_file(&twice).unwrap().lora.unwrap();
    assert_eq!(described.modules, layers.len());
}
