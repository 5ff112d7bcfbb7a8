//! IP-Adapters from the layouts that they are published in, and what is said of files that do not fit.

use std::fs;
use std::path::{Path, PathBuf};

use burn::tensor::{FloatDType, Tensor};
use prepose_models::ip_adapter::AdapterKind;
use prepose_weights::{AdapterSpec, AdapterWeights, Checkpoint, LoadOptions, describe_file};

use crate::support::{
    Expected, Stored, chain, device, failure, fixture, open, read_safetensors, write_safetensors,
};

const F32: FloatDType = FloatDType::F32;

fn expected() -> Expected {
    Expected::read("ip-adapter/expected.safetensors")
}

fn adapter(name: &str) -> PathBuf {
    fixture(&format!("ip-adapter/{name}"))
}

fn checkpoint(family: &str) -> PathBuf {
    fixture(&format!("single-file/{family}"))
}

fn with(path: PathBuf, encoder: Option<PathBuf>) -> LoadOptions {
    LoadOptions {
        adapters: vec![AdapterSpec { path, encoder }],
        ..LoadOptions::default()
    }
}

/// The tokens of the fixture's pictures, and of none.
fn tokens(weights: &AdapterWeights, pixels: Tensor<4>) -> [Tensor<3>; 2] {
    let encoder = weights.load_encoder(&device(), F32).unwrap();
    let network = weights.load(&device(), F32).unwrap();
    let nothing = encoder.forward(pixels.zeros_like().narrow(0, 0, 1), 1);
    let shown = encoder.forward(pixels, 1);
    match network.config().kind {
        AdapterKind::Plain => {
            let shown: Tensor<3> = shown.embedding.unwrap().unsqueeze_dim(1);
            let nothing = shown.zeros_like().narrow(0, 0, 1);
            [network.tokens(shown), network.tokens(nothing)]
        }
        _ => [network.tokens(shown.hidden), network.tokens(nothing.hidden)],
    }
}

#[test]
fn tokens_are_those_of_diffusers() {
    let expected = expected();
    for (family, kind, file) in [
        ("sd1", "plain", "plain_sd1.safetensors"),
        ("sd1", "plus", "plus_sd1.safetensors"),
        ("sd1", "plus", "plus_sd1.bin"),
        ("sd1", "full", "full_sd1.safetensors"),
        ("sdxl", "plain", "plain_sdxl.safetensors"),
        ("sdxl", "plus", "plus_sdxl.safetensors"),
    ] {
        println!("{file}");
        let checkpoint = open(&checkpoint(family), &with(adapter(file), None));
        let weights = &checkpoint.adapters()[0];
        let [shown, nothing] = tokens(weights, expected.tensor("sd1/pixels"));
        assert_eq!(shown.dims()[1], weights.tokens());
        let name = |what: &str| format!("{family}/tokens/{kind}/{what}");
        expected.compare(&name("pictures"), shown, 1e-5);
        expected.compare(&name("none"), nothing, 1e-5);
        let hashes = checkpoint.file_hashes().unwrap();
        assert!(
            hashes.len() >= 5,
            "the adapter's and its encoder's are listed"
        );
        assert_eq!(
            describe_file(&adapter(file)).unwrap().kind.name(),
            "an IP-Adapter"
        );
    }
}

/// `tensors` of the plain adapter, changed.
fn changed(to: &Path, change: impl Fn(&mut Vec<Stored>)) -> PathBuf {
    let mut tensors = read_safetensors(&adapter("plain_sd1.safetensors"));
    change(&mut tensors);
    write_safetensors(to, &tensors);
    to.to_path_buf()
}

fn refusal(family: &str, options: &LoadOptions) -> String {
    match Checkpoint::open(checkpoint(family), options) {
        Err(error) => chain(&error),
        Ok(opened) => match opened.adapters()[0].load(&device(), F32) {
            Err(error) => chain(&error),
            Ok(_) => panic!("it was accepted"),
        },
    }
}

#[test]
fn wrong_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let encoder = || Some(adapter("image_encoder"));
    let renamed = |name: &str, from: &'static str, to: &'static str| {
        changed(&at(name), |tensors| {
            for (key, ..) in tensors.iter_mut() {
                *key = key.replace(from, to);
            }
        })
    };
    let without = |name: &str, part: &'static str| {
        changed(&at(name), |tensors| {
            tensors.retain(|(key, ..)| !key.contains(part))
        })
    };
    let face = renamed("face.safetensors", "image_proj.proj.", "image_proj.proj.0.");
    let face_plus = changed(&at("face-plus.safetensors"), |tensors| {
        for (key, ..) in tensors.iter_mut() {
            let resampler = "image_proj.perceiver_resampler.proj_in.";
            *key = key.replace("image_proj.proj.", resampler);
        }
    });
    let few = without("few.safetensors", "ip_adapter.1.");
    let missing = without("missing.safetensors", "ip_adapter.3.to_v_ip");
    let narrow = changed(&at("narrow.safetensors"), |tensors| {
        let found = tensors
            .iter_mut()
            .find(|(key, ..)| key.contains("ip_adapter.1.to_k_ip"));
        let (_, _, shape, bytes) = found.unwrap();
        shape[0] -= 1;
        bytes.truncate(2 * shape[0] * shape[1]);
    });
    let wide = changed(&at("wide.safetensors"), |tensors| {
        let found = tensors
            .iter_mut()
            .find(|(key, ..)| key == "image_proj.proj.weight");
        let (_, _, shape, bytes) = found.unwrap();
        shape[1] += 1;
        bytes.resize(2 * shape[0] * shape[1], 0);
    });
    let alone = at("alone.safetensors");
    fs::copy(adapter("plain_sd1.safetensors"), &alone).unwrap();
    let unprojected = at("unprojected");
    fs::create_dir(&unprojected).unwrap();
    fs::copy(
        adapter("image_encoder/config.json"),
        unprojected.join("config.json"),
    )
    .unwrap();
    let tensors = read_safetensors(&adapter("image_encoder/model.safetensors"));
    let tensors: Vec<_> = tensors
        .into_iter()
        .filter(|(key, ..)| !key.starts_with("visual_projection"))
        .collect();
    write_safetensors(&unprojected.join("model.safetensors"), &tensors);

    let plain = || adapter("plain_sd1.safetensors");
    let gligen = fixture("gligen/unet/diffusion_pytorch_model.safetensors");
    for (family, options, parts) in [
        ("sd1", with(face, encoder()), ["FaceID", "face recogniser"]),
        (
            "sd1",
            with(face_plus, encoder()),
            ["FaceID Plus", "face recogniser"],
        ),
        (
            "sd1",
            with(adapter("plus_sdxl.safetensors"), None),
            ["another network", "Stable Diffusion 1.5"],
        ),
        (
            "sdxl",
            with(plain(), None),
            ["its tokens have 16 channels", "Stable Diffusion XL"],
        ),
        ("sd1", with(few, encoder()), ["another network", "layers"]),
        (
            "sd1",
            with(narrow, encoder()),
            ["ip_adapter.1.to_k_ip.weight", "expected [8, 16]"],
        ),
        (
            "sd1",
            with(missing, encoder()),
            ["missing", "ip_adapter.3.to_v_ip.weight"],
        ),
        ("sd1", with(wide, encoder()), ["24 channels", "wants 25"]),
        (
            "sd1",
            with(gligen, encoder()),
            ["not an IP-Adapter", "ip-adapter_sd15"],
        ),
        (
            "sd1",
            with(fixture("lora/kohya-sd1.safetensors"), encoder()),
            ["a LoRA", "not an IP-Adapter"],
        ),
        (
            "sd1",
            with(fixture("ip-adapter"), encoder()),
            ["this is a folder", "give a file in it"],
        ),
        (
            "sd1",
            with(at("nothing"), None),
            ["nothing", "cannot be read"],
        ),
        (
            "sd1",
            with(alone.clone(), None),
            ["no picture encoder beside it", "encoder="],
        ),
        (
            "sd1",
            with(alone.clone(), Some(fixture("eyes/dinov2"))),
            ["a DINOv2", "picture encoder"],
        ),
        (
            "sd1",
            with(alone, Some(unprojected)),
            ["without a projection", "CLIPVisionModelWithProjection"],
        ),
    ] {
        let message = refusal(family, &options);
        println!("{message}\n");
        for part in parts {
            assert!(message.contains(part), "{part:?} is not in {message:?}");
        }
    }
    // In the place of something else.
    let gligen = LoadOptions {
        gligen: Some(plain()),
        ..LoadOptions::default()
    };
    let message = chain(&failure(&checkpoint("sd1"), &gligen));
    assert!(
        message.contains("an IP-Adapter, not GLIGEN's layers"),
        "{message}"
    );
    let message = chain(&failure(&plain(), &LoadOptions::default()));
    assert!(message.contains("--ip-adapter"), "{message}");
}
