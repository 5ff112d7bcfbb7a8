//! The same weights in every container give the same outputs, and those of diffusers.

use std::path::{Path, PathBuf};

use crate::support::{Expected, chain, failure, fixture, open, outputs};
use crate::wrong_input::copy_folder;
use prepose_weights::{Checkpoint, Family, LoadOptions, describe_file};

const TOLERANCE: f32 = 2e-5;

fn with_config(family: &str) -> LoadOptions {
    LoadOptions {
        config: Some(fixture(&format!("single-file/{family}"))),
        ..LoadOptions::default()
    }
}

/// Opens every container, compares the first with the reference and the others with the first.
fn same_everywhere(family: &str, containers: &[&str]) {
    let expected = Expected::read(&format!("single-file/expected-{family}.safetensors"));
    let mut first = None;
    for name in containers {
        println!("{name}");
        let checkpoint = open(
            &fixture(&format!("single-file/{name}")),
            &with_config(family),
        );
        let outputs = outputs(&checkpoint, &expected);
        match &first {
            None => {
                for (name, data) in &outputs {
                    expected.compare_data(name, data, TOLERANCE);
                }
                first = Some(outputs);
            }
            Some(first) => assert_eq!(&outputs, first, "{name}"),
        }
    }
}

#[test]
fn sd1() {
    same_everywhere(
        "sd1",
        &[
            "sd1",
            "sd1-f32.safetensors",
            "sd1-f16.safetensors",
            "sd1-bf16.safetensors",
            "sd1-f16.ckpt",
            "sd1-bf16-legacy.ckpt",
        ],
    );
}

#[test]
fn sdxl() {
    same_everywhere("sdxl", &["sdxl", "sdxl-f16.safetensors"]);
}

/// diffusers' networks are looked for in shards first, and transformers' in a whole file, as both do it.
#[test]
fn a_whole_file_beside_shards() {
    let expected = Expected::read("single-file/expected-sdxl.safetensors");
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("sdxl");
    copy_folder(&fixture("single-file/sdxl"), &copy);
    for part in ["unet", "vae"] {
        let older = copy.join(part).join("diffusion_pytorch_model.safetensors");
        std::fs::write(older, "what was here before").unwrap();
    }
    let of = |path: &Path| outputs(&open(path, &LoadOptions::default()), &expected);
    assert_eq!(of(&copy), of(&fixture("single-file/sdxl")));

    let whole = copy.join("text_encoder/model.safetensors");
    std::fs::write(&whole, "no tensors").unwrap();
    let message = chain(&failure(&copy, &LoadOptions::default()));
    assert!(message.contains(&*whole.to_string_lossy()), "{message}");
}

#[test]
fn published_layouts() {
    let sd1 = open(&fixture("sd1-tiny"), &LoadOptions::default());
    assert_eq!((sd1.family(), sd1.name()), (Family::Sd1, "sd1-tiny"));
    assert_eq!(sd1.scheduler_config()["_class_name"], "PNDMScheduler");
    assert!(!sd1.zeros_for_empty_prompt());
    assert_eq!(sd1.tokenizers().unwrap().len(), 1);
    let sdxl = open(&fixture("sdxl-tiny"), &LoadOptions::default());
    assert_eq!(sdxl.family(), Family::Sdxl);
    assert!(sdxl.zeros_for_empty_prompt());
    let tokenizers = sdxl.tokenizers().unwrap();
    assert_eq!((tokenizers.len(), tokenizers[1].pad()), (2, 0));
    for checkpoint in [sd1, sdxl] {
        let device = crate::support::device();
        let dtype = burn::tensor::FloatDType::F32;
        checkpoint.load_text_encoders(&device, dtype).unwrap();
        checkpoint.load_unet(&device, dtype).unwrap();
        checkpoint.load_vae(&device, dtype).unwrap();
    }
}

#[test]
fn separate_autoencoder() {
    let expected = Expected::read("single-file/expected-vae.safetensors");
    // By its file, its folder, its file within the folder, and from inside a whole checkpoint.
    let vaes = [
        "vae-ldm.safetensors",
        "vae-ldm.ckpt",
        "vae-diffusers",
        "vae-diffusers/diffusion_pytorch_model.safetensors",
    ];
    let config = fixture("single-file/vae-diffusers/config.json");
    let folder = tempfile::tempdir().unwrap();
    for vae in vaes {
        // A file in latent-diffusion's naming is of the standard size unless a configuration lies
        // next to it.
        let mut path = fixture(&format!("single-file/{vae}"));
        if vae.starts_with("vae-ldm") {
            let copy = folder.path().join(vae);
            std::fs::copy(&path, &copy).unwrap();
            std::fs::copy(&config, folder.path().join("config.json")).unwrap();
            path = copy;
        }
        let options = LoadOptions {
            vae: Some(path),
            ..LoadOptions::default()
        };
        let checkpoint = open(&fixture("single-file/sd1"), &options);
        let network = checkpoint
            .load_vae(&crate::support::device(), burn::tensor::FloatDType::F32)
            .unwrap();
        expected.compare(
            "vae/decoded",
            network.decode(expected.tensor("vae/latents")),
            TOLERANCE,
        );
        expected.compare(
            "vae/mean",
            network.encode(expected.tensor("vae/image")).mean,
            TOLERANCE,
        );
    }
    let whole = Expected::read("single-file/expected-sd1.safetensors");
    let options = LoadOptions {
        vae: Some(fixture("single-file/sd1")),
        ..LoadOptions::default()
    };
    let checkpoint = open(&fixture("single-file/sd1"), &options);
    let network = checkpoint
        .load_vae(&crate::support::device(), burn::tensor::FloatDType::F32)
        .unwrap();
    whole.compare(
        "vae/decoded",
        network.decode(whole.tensor("vae/latents")),
        TOLERANCE,
    );
}

#[test]
fn hashes_are_of_the_files() {
    let path = fixture("single-file/sd1-f16.safetensors");
    let checkpoint = open(&path, &with_config("sd1"));
    let hashes = checkpoint.file_hashes().unwrap();
    assert_eq!(hashes.len(), 1);
    assert_eq!(hashes[0].path, path);
    assert_eq!(
        hashes[0].sha256,
        prepose_weights::sha256_file(&path).unwrap()
    );
    assert_eq!(
        open(&fixture("single-file/sdxl"), &LoadOptions::default())
            .file_hashes()
            .unwrap()
            .len(),
        8
    );
}

#[test]
fn descriptions() {
    let describe = |name: &str| {
        let description = describe_file(&fixture(name)).unwrap();
        (description.kind.name(), description.to_string())
    };
    for (name, kind) in [
        (
            "single-file/sd1-f16.safetensors",
            "a Stable Diffusion 1.x checkpoint",
        ),
        (
            "single-file/sd1-f16.ckpt",
            "a Stable Diffusion 1.x checkpoint",
        ),
        ("single-file/sd1", "a Stable Diffusion 1.x checkpoint"),
        (
            "single-file/sdxl-f16.safetensors",
            "a Stable Diffusion XL checkpoint",
        ),
        ("sdxl-tiny", "a Stable Diffusion XL checkpoint"),
        ("single-file/vae-ldm.ckpt", "an autoencoder (VAE)"),
        (
            "single-file/vae-diffusers/diffusion_pytorch_model.safetensors",
            "an autoencoder (VAE)",
        ),
        ("sd1-tiny/text_encoder/model.safetensors", "a text encoder"),
        (
            "sd1-tiny/unet/diffusion_pytorch_model.safetensors",
            "a UNet without text encoder and autoencoder",
        ),
        ("lora/kohya-sd1.safetensors", "a LoRA"),
        (
            "sd1-tiny/expected.safetensors",
            "a file of tensors of an unknown kind",
        ),
    ] {
        let (found, text) = describe(name);
        assert_eq!(found, kind, "{name}");
        println!("{text}");
    }
    let folder = describe_file(&fixture("sd1-tiny")).unwrap();
    assert_eq!(
        folder.parts.keys().collect::<Vec<_>>(),
        ["text_encoder", "unet", "vae"]
    );
    assert_eq!(folder.scheduler.as_deref(), Some("PNDMScheduler"));
    let lora = describe_file(&fixture("lora/kohya-sd1.safetensors"))
        .unwrap()
        .lora
        .unwrap();
    assert!(lora.modules > 0 && !lora.ranks.is_empty());
}

#[test]
fn no_guessing_without_a_configuration() {
    let path: PathBuf = fixture("single-file/sd1-f16.safetensors");
    let checkpoint = Checkpoint::open(&path, &LoadOptions::default()).unwrap();
    let error = checkpoint
        .load_vae(&crate::support::device(), burn::tensor::FloatDType::F32)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("the standard one of Stable Diffusion 1.x"),
        "{error}"
    );
}
