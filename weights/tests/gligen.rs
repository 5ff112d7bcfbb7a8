//! GLIGEN's layers in the layouts in which they are passed around.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use burn::tensor::{FloatDType, Tensor};
use prepose_models::unet::Objects;
use prepose_weights::{
    Checkpoint, Family, GligenFormat, LoadOptions, LoraSpec, TrainedTensor, describe_file,
};
use serde_json::{Value, json};

use crate::support::{
    Expected, Stored, chain, device, failure, fixture, open, read_safetensors, write_safetensors,
};
use crate::wrong_input::copy_folder;

/// The UNet with its layers, in diffusers' names.
fn unet() -> Vec<Stored> {
    read_safetensors(&fixture("gligen/unet/diffusion_pytorch_model.safetensors"))
}

fn is_layer(name: &str) -> bool {
    name.contains(".fuser.") || name.starts_with("position_net.")
}

/// `tensors` in latent-diffusion's names.
fn ldm(tensors: Vec<Stored>) -> Vec<Stored> {
    let text = fs::read_to_string(fixture("gligen/names.json")).unwrap();
    let names: HashMap<String, String> = serde_json::from_str(&text).unwrap();
    let renamed = tensors.into_iter().map(|(name, dtype, shape, bytes)| {
        let name = names.get(&name).cloned().unwrap_or(name);
        (name, dtype, shape, bytes)
    });
    renamed.collect()
}

fn prefixed(prefix: &str, tensors: Vec<Stored>) -> Vec<Stored> {
    let renamed = tensors.into_iter();
    let renamed =
        renamed.map(|(name, dtype, shape, bytes)| (format!("{prefix}{name}"), dtype, shape, bytes));
    renamed.collect()
}

/// The tensors of the plain checkpoint below `from`, below `to`.
fn moved(from: &str, to: &str) -> Vec<Stored> {
    let plain = read_safetensors(&fixture("single-file/sd1-f16.safetensors"));
    let inside = plain.into_iter().filter_map(|(name, dtype, shape, bytes)| {
        let rest = name.strip_prefix(from)?;
        Some((format!("{to}{rest}"), dtype, shape, bytes))
    });
    inside.collect()
}

fn config() -> LoadOptions {
    LoadOptions {
        config: Some(fixture("single-file/sd1")),
        ..LoadOptions::default()
    }
}

fn with_layers(path: PathBuf) -> LoadOptions {
    LoadOptions {
        gligen: Some(path),
        ..config()
    }
}

/// The layouts, below `folder`: each a checkpoint with the options that it is opened with.
fn layouts(folder: &Path) -> Vec<(&'static str, PathBuf, LoadOptions)> {
    let at = |name: &str| folder.join(name);
    copy_folder(&fixture("single-file/sd1"), &at("folder"));
    fs::remove_dir_all(at("folder/unet")).unwrap();
    copy_folder(&fixture("gligen/unet"), &at("folder/unet"));
    let index = at("folder/model_index.json");
    let mut value: Value = serde_json::from_str(&fs::read_to_string(&index).unwrap()).unwrap();
    value["_class_name"] = json!("StableDiffusionGLIGENPipeline");
    fs::write(index, value.to_string()).unwrap();

    let mut single = prefixed("model.diffusion_model.", ldm(unet()));
    single.extend(moved("first_stage_model.", "first_stage_model."));
    single.extend(moved("cond_stage_model.", "cond_stage_model."));
    write_safetensors(&at("single.safetensors"), &single);

    // As the authors' dictionary of dictionaries reads.
    let mut own = prefixed("model.", ldm(unet()));
    own.extend(moved("first_stage_model.", "autoencoder."));
    own.extend(moved("cond_stage_model.", "text_encoder."));
    own.extend(moved("betas", "diffusion.betas"));
    write_safetensors(&at("own.safetensors"), &own);

    let layers = || {
        unet()
            .into_iter()
            .filter(|(name, ..)| is_layer(name))
            .collect::<Vec<_>>()
    };
    write_safetensors(&at("layers.safetensors"), &ldm(layers()));
    write_safetensors(&at("layers-diffusers.safetensors"), &layers());
    write_safetensors(
        &at("layers-prefixed.safetensors"),
        &prefixed("model.diffusion_model.", ldm(layers())),
    );

    let plain = fixture("single-file/sd1-f16.safetensors");
    let in_folder = LoadOptions {
        config: None,
        ..with_layers(at("layers.safetensors"))
    };
    vec![
        ("folder", at("folder"), LoadOptions::default()),
        ("single", at("single.safetensors"), config()),
        ("own", at("own.safetensors"), config()),
        (
            "layers",
            plain.clone(),
            with_layers(at("layers.safetensors")),
        ),
        (
            "layers in diffusers' names",
            plain.clone(),
            with_layers(at("layers-diffusers.safetensors")),
        ),
        (
            "layers below the UNet's prefix",
            plain.clone(),
            with_layers(at("layers-prefixed.safetensors")),
        ),
        (
            "layers of a whole file",
            plain.clone(),
            with_layers(at("single.safetensors")),
        ),
        (
            "layers of the authors' file",
            plain,
            with_layers(at("own.safetensors")),
        ),
        ("layers for a folder", fixture("single-file/sd1"), in_folder),
    ]
}

fn output(checkpoint: &Checkpoint, expected: &Expected) -> Tensor<4> {
    let unet = checkpoint.load_unet(&device(), FloatDType::F32).unwrap();
    let name = |tensor: &str| format!("unet/batch/{tensor}");
    let objects = Objects {
        phrases: expected.tensor(&name("positive_embeddings")),
        boxes: expected.tensor(&name("boxes")),
        mask: expected.tensor::<2>(&name("masks")).unsqueeze_dim(2),
    };
    let prepared = unet.prepare(expected.tensor(&name("context")), None);
    let prepared = unet.ground(prepared, &objects);
    unet.forward_prepared(expected.tensor(&name("sample")), &[601.0], &prepared)
}

#[test]
fn every_layout_is_the_same_network() {
    let expected = Expected::read("gligen/expected.safetensors");
    let folder = tempfile::tempdir().unwrap();
    let mut first = None;
    for (name, path, options) in layouts(folder.path()) {
        println!("{name}");
        let checkpoint = open(&path, &options);
        assert_eq!(checkpoint.family(), Family::Sd1);
        assert!(checkpoint.unet_config().unwrap().is_grounded());
        checkpoint
            .load_text_encoders(&device(), FloatDType::F32)
            .unwrap();
        checkpoint.load_vae(&device(), FloatDType::F32).unwrap();
        let output = output(&checkpoint, &expected);
        expected.compare("unet/batch/out", output.clone(), 2e-5);
        let output = output.into_data();
        match &first {
            None => first = Some(output),
            Some(first) => assert_eq!(&output, first, "{name}"),
        }
    }
    // A LoRA goes into the network around the layers.
    let lora = LoraSpec {
        path: fixture("lora/kohya-sd1.safetensors"),
        weight: 0.8,
    };
    let (_, path, options) = layouts(folder.path()).remove(3);
    let changed = open(
        &path,
        &LoadOptions {
            loras: vec![lora],
            ..options
        },
    );
    let changed = output(&changed, &expected).into_data();
    assert_ne!(Some(&changed), first.as_ref());
    assert!(changed.iter::<f32>().all(f32::is_finite));
}

/// What was trained is written under the names of the published file and under diffusers', and is diffusers' network again.
#[test]
fn trained_layers_are_written_as_others_have_them() {
    let expected = Expected::read("gligen/expected.safetensors");
    let folder = tempfile::tempdir().unwrap();
    let plain = open(&fixture("single-file/sd1-f16.safetensors"), &config());
    let layers = || unet().into_iter().filter(|(name, ..)| is_layer(name));
    let layers: Vec<Stored> = layers().collect();
    let trained = layers.iter().map(|(name, _, shape, bytes)| TrainedTensor {
        name: name.clone(),
        shape: shape.clone(),
        values: (bytes.as_chunks::<2>().0.iter())
            .map(|bits| half::f16::from_le_bytes(*bits).to_f32())
            .collect(),
    });
    let trained: Vec<TrainedTensor> = trained.collect();
    let about = BTreeMap::from([("by".to_string(), "a test".to_string())]);
    let formats = [
        (GligenFormat::Original, ldm(layers.clone())),
        (GligenFormat::Diffusers, layers.clone()),
    ];
    for (format, known) in formats {
        let path = folder.path().join(format!("{format:?}.safetensors"));
        let bytes = plain.gligen_file(format, &trained, &about).unwrap();
        fs::write(&path, bytes).unwrap();
        let mut written = read_safetensors(&path);
        let mut known = known;
        written.sort_by(|a, b| a.0.cmp(&b.0));
        known.sort_by(|a, b| a.0.cmp(&b.0));
        assert_eq!(written.len(), known.len());
        for (written, known) in written.iter().zip(&known) {
            assert_eq!(
                (&written.0, &written.2, &written.3),
                (&known.0, &known.2, &known.3)
            );
        }
        let described = describe_file(&path).unwrap();
        assert_eq!(described.kind.name(), "a file of GLIGEN layers");
        assert_eq!(described.metadata["by"], "a test");
        let again = open(
            &fixture("single-file/sd1-f16.safetensors"),
            &with_layers(path),
        );
        expected.compare("unet/batch/out", output(&again, &expected), 1e-5);
    }
    let stray = TrainedTensor {
        name: "conv_in.weight".into(),
        ..trained[0].clone()
    };
    let refused = plain.gligen_file(GligenFormat::Original, &[stray], &about);
    assert!(chain(&refused.unwrap_err()).contains("conv_in.weight"));
}

#[test]
fn the_layers_are_named_by_info() {
    let folder = tempfile::tempdir().unwrap();
    layouts(folder.path());
    let kind = |name: &str| {
        describe_file(&folder.path().join(name))
            .unwrap()
            .kind
            .name()
    };
    assert_eq!(kind("layers.safetensors"), "a file of GLIGEN layers");
    assert_eq!(
        kind("layers-diffusers.safetensors"),
        "a file of GLIGEN layers"
    );
    assert_eq!(kind("own.safetensors"), "a Stable Diffusion 1.x checkpoint");
}

#[test]
fn wrong_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    layouts(folder.path());
    let at = |name: &str| folder.path().join(name);
    let layers = || read_safetensors(&at("layers.safetensors"));
    let write = |name: &str, tensors: Vec<Stored>| {
        write_safetensors(&at(name), &tensors);
        at(name)
    };
    let plain = fixture("single-file/sd1-f16.safetensors");
    let narrow = write("narrow.safetensors", {
        let mut layers = layers();
        let linear = layers
            .iter_mut()
            .find(|(name, ..)| name.ends_with(".fuser.linear.weight"));
        let (_, _, shape, bytes) = linear.unwrap();
        shape[1] -= 1;
        bytes.truncate(2 * shape[0] * shape[1]);
        layers
    });
    let cut = write("cut.safetensors", layers().into_iter().skip(1).collect());
    let more = write("more.safetensors", {
        let mut layers = layers();
        let (_, dtype, shape, bytes) = layers[0].clone();
        layers.push((
            "input_blocks.9.1.transformer_blocks.0.fuser.alpha_attn".into(),
            dtype,
            shape,
            bytes,
        ));
        layers
    });
    let other = |name: &str, key: &str| {
        let (_, dtype, shape, bytes) = layers().remove(0);
        write(name, vec![(key.into(), dtype, shape, bytes)])
    };
    let pictures = other("pictures.safetensors", "position_net.linears_text.0.weight");
    let points = other("points.safetensors", "position_net.person_embeddings");
    let maps = other(
        "maps.safetensors",
        "position_net.convnext_tiny_backbone.stages.0.0.gamma",
    );
    let sdxl = LoadOptions {
        config: None,
        ..with_layers(at("layers.safetensors"))
    };
    for (path, options, parts) in [
        (
            &plain,
            with_layers(narrow),
            ["another network", "expected [8, 16]"],
        ),
        (&plain, with_layers(cut), ["another network", "missing"]),
        (&plain, with_layers(more), ["another network", "unknown"]),
        (
            &plain,
            with_layers(pictures),
            ["boxes with pictures", "boxes with phrases"],
        ),
        (
            &plain,
            with_layers(points),
            ["key points", "boxes with phrases"],
        ),
        (&plain, with_layers(maps), ["maps", "boxes with phrases"]),
        (
            &plain,
            with_layers(plain.clone()),
            ["not GLIGEN's layers", "boxes with phrases"],
        ),
        (
            &plain,
            with_layers(at("nothing")),
            ["nothing", "cannot be read"],
        ),
        (
            &at("folder"),
            sdxl.clone(),
            ["the checkpoint has its own", "leave out --gligen"],
        ),
        (
            &fixture("single-file/sdxl"),
            sdxl,
            ["Stable Diffusion XL", "1.x"],
        ),
        (
            &at("layers.safetensors"),
            config(),
            ["GLIGEN layers", "--gligen"],
        ),
        (
            &at("points.safetensors"),
            config(),
            ["something else than boxes", "text boxes"],
        ),
    ] {
        let message = chain(&failure(path, &options));
        println!("{message}\n");
        for part in parts {
            assert!(message.contains(part), "{part:?} is not in {message:?}");
        }
    }
}
