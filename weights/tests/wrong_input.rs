//! Whatever is wrong with a file, one message says which file, what and what to do.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{Stored, chain, failure, fixture, read_safetensors, write_safetensors};
use prepose_weights::{Checkpoint, LoadOptions, WeightsError};

/// Fails to load `path` and expects `parts` in the message, the path among them.
pub fn expect(path: &Path, options: &LoadOptions, parts: &[&str]) -> WeightsError {
    let error = failure(path, options);
    let message = chain(&error);
    println!("{message}\n");
    for part in parts {
        assert!(message.contains(part), "{part:?} is not in {message:?}");
    }
    assert!(
        message.contains(&*path.to_string_lossy()),
        "the path is not in {message:?}"
    );
    error
}

fn sd1() -> LoadOptions {
    LoadOptions {
        config: Some(fixture("single-file/sd1")),
        ..LoadOptions::default()
    }
}

/// A folder for files with faults.
pub struct Bad(pub tempfile::TempDir);

impl Bad {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    /// The f16 checkpoint with its tensors changed.
    fn changed(&self, name: &str, change: impl FnOnce(&mut Vec<Stored>)) -> PathBuf {
        let mut tensors = read_safetensors(&fixture("single-file/sd1-f16.safetensors"));
        change(&mut tensors);
        let path = self.0.path().join(name);
        write_safetensors(&path, &tensors);
        path
    }
}

pub fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn no_such_file() {
    expect(
        Path::new("/nowhere/x.safetensors"),
        &sd1(),
        &["no such file", "the known names are toybox, sd15"],
    );
    expect(
        Path::new("some/model"),
        &sd1(),
        &["prepose pull some/model"],
    );
}

#[test]
fn files_that_are_something_else() {
    let bad = Bad::new();
    let whole = fs::read(fixture("single-file/sd1-f16.safetensors")).unwrap();
    let ckpt = fs::read(fixture("single-file/sd1-f16.ckpt")).unwrap();
    let legacy = fs::read(fixture("single-file/sd1-bf16-legacy.ckpt")).unwrap();
    let mut huge = u64::MAX.to_le_bytes().to_vec();
    huge.extend_from_slice(b"{ not a header");
    for (name, bytes, parts) in [
        ("empty.safetensors", &b""[..], ["an empty file", "download it again"]),
        (
            "lfs.safetensors",
            b"version https://git-lfs.github.com/spec/v1\noid sha256:6ce0161689b3853acaa03779ec93eafe75a02f4ced659bee03f50797806fa2fa\nsize 4265146304\n",
            ["git-lfs pointer", "git lfs pull"],
        ),
        ("page.safetensors", b"<!DOCTYPE html><html><body>Log in</body></html>", ["a web page", "licence"]),
        ("error.safetensors", b"{\"error\": \"Invalid username or password.\"}", ["a JSON text", "give a"]),
        ("zip.safetensors", &ckpt, ["a zip archive", "rename it to end in .ckpt"]),
        ("pickle.safetensors", &legacy, ["a Python pickle", "rename it to end in .ckpt"]),
        ("renamed.ckpt", &whole, ["a safetensors file", "rename it to end in .safetensors"]),
        ("header.safetensors", &huge, ["HeaderTooLarge", "download it again"]),
        ("noise.ckpt", b"\x01\x02\x03\x04 and so on", ["an unknown kind", "give a"]),
        ("model.gguf", b"GGUF\x03\x00\x00\x00", ["a GGUF file", "safetensors"]),
        ("zeros.safetensors", &[0; 4096], ["interrupted download", "download it again"]),
    ] {
        expect(&bad.write(name, bytes), &sd1(), &parts);
    }
}

#[test]
fn files_cut_short() {
    let bad = Bad::new();
    let whole = fs::read(fixture("single-file/sd1-f16.safetensors")).unwrap();
    for cut in [5, 100, whole.len() / 2, whole.len() - 1] {
        expect(
            &bad.write("cut.safetensors", &whole[..cut]),
            &sd1(),
            &["cut short", "download it again"],
        );
    }
    for name in ["sd1-f16.ckpt", "sd1-bf16-legacy.ckpt"] {
        let whole = fs::read(fixture(&format!("single-file/{name}"))).unwrap();
        for cut in [whole.len() / 2, whole.len() - 100] {
            expect(
                &bad.write("cut.ckpt", &whole[..cut]),
                &sd1(),
                &["cut short", "download it again"],
            );
        }
    }
}

#[test]
fn pickles_are_never_run() {
    let bad = Bad::new();
    let trace = std::env::current_dir()
        .unwrap()
        .join("PREPOSE_EXECUTED_A_PICKLE");
    for name in [
        "evil.pt",
        "evil-legacy.pt",
        "evil-plain.pkl",
        "sneaky.pt",
        "text-protocol0.pkl",
        "not-torch.zip",
    ] {
        let copy = bad.write(
            &format!("{name}.ckpt"),
            fs::read(fixture(&format!("pickle/{name}"))).unwrap(),
        );
        expect(&copy, &sd1(), &["; "]);
        assert!(!trace.exists(), "{name} was run");
    }
}

#[test]
fn wrong_tensors_are_all_named() {
    let bad = Bad::new();
    let missing = "model.diffusion_model.middle_block.0.in_layers.2.weight";
    let path = bad.changed("wrong.safetensors", |tensors| {
        tensors.retain(|(name, ..)| name != missing);
        let misshaped = tensors
            .iter_mut()
            .find(|(name, ..)| name.ends_with("time_embed.0.weight"))
            .unwrap();
        misshaped.2.reverse();
        tensors.push((
            "model.diffusion_model.extra.weight".into(),
            "F16",
            vec![1],
            vec![0, 0],
        ));
    });
    let error = expect(
        &path,
        &sd1(),
        &[
            "1 missing (mid_block.resnets.0.conv1.weight)",
            "1 unused (model.diffusion_model.extra.weight)",
            "1 of another shape (model.diffusion_model.time_embed.0.weight is [",
        ],
    );
    let WeightsError::Mismatch(mismatch) = error else {
        panic!("{error:?}")
    };
    assert_eq!(mismatch.part, "unet");
    assert_eq!(
        (
            mismatch.missing.len(),
            mismatch.unused.len(),
            mismatch.misshaped.len()
        ),
        (1, 1, 1)
    );

    let allowed = LoadOptions {
        allow_mismatch: true,
        ..sd1()
    };
    let checkpoint = Checkpoint::open(&path, &allowed).unwrap();
    checkpoint
        .load_unet(&crate::support::device(), burn::tensor::FloatDType::F32)
        .unwrap();
}

#[test]
fn tensors_of_no_network_are_named() {
    let bad = Bad::new();
    let path = bad.changed("more.safetensors", |tensors| {
        tensors.push(("something_new.weight".into(), "F16", vec![1], vec![0, 0]));
    });
    expect(&path, &sd1(), &["1 unused (something_new.weight)"]);
}

#[test]
fn many_wrong_tensors_are_counted() {
    // The standard configuration is far larger than the file.
    let path = fixture("single-file/sd1-f16.safetensors");
    let message = chain(&failure(&path, &LoadOptions::default()));
    assert!(
        message.contains(" more)") && message.len() < 2500,
        "{message}"
    );
}

#[test]
fn not_a_number() {
    let bad = Bad::new();
    for (name, bits) in [("nan", 0x7e00u16), ("infinite", 0xfc00)] {
        let path = bad.changed(&format!("{name}.safetensors"), |tensors| {
            let broken = tensors
                .iter_mut()
                .find(|(name, ..)| name.ends_with("middle_block.0.in_layers.2.weight"));
            let bytes = &mut broken.unwrap().3;
            let at = bytes.len() - 2;
            bytes[at..].copy_from_slice(&bits.to_le_bytes());
        });
        expect(
            &path,
            &sd1(),
            &[
                "model.diffusion_model.middle_block.0.in_layers.2.weight in unet",
                "NaN or infinite",
            ],
        );
    }
}

#[test]
fn weights_that_are_integers() {
    let bad = Bad::new();
    let path = bad.changed("int.safetensors", |tensors| {
        let changed = tensors
            .iter_mut()
            .find(|(name, ..)| name.ends_with("time_embed.0.bias"))
            .unwrap();
        changed.1 = "I16";
    });
    expect(
        &path,
        &sd1(),
        &["time_embed.0.bias is stored as I16", "f32, f16 or bf16"],
    );
}

#[test]
fn other_families_are_named() {
    let bad = Bad::new();
    let one = |name: &str| (name.to_string(), "F16", vec![1usize], vec![0u8, 0]);
    let unet = "model.diffusion_model.input_blocks.0.0.weight";
    let conv = |channels: usize| {
        (
            unet.to_string(),
            "F16",
            vec![1, channels],
            vec![0u8; 2 * channels],
        )
    };
    let text = "cond_stage_model.transformer.text_model.final_layer_norm.bias";
    let vae = "first_stage_model.quant_conv.bias";
    let cases: Vec<(&str, Vec<_>, &str)> = vec![
        (
            "refiner",
            vec![conv(4), one("conditioner.embedders.0.model.ln_final.bias")],
            "refiner",
        ),
        (
            "sd3",
            vec![one(
                "model.diffusion_model.joint_blocks.0.x_block.mlp.fc1.bias",
            )],
            "Stable Diffusion 3",
        ),
        (
            "flux",
            vec![one("double_blocks.0.img_attn.proj.bias")],
            "FLUX",
        ),
        (
            "inpainting",
            vec![conv(9), one(text), one(vae)],
            "9 channels",
        ),
        ("pix2pix", vec![conv(8), one(text), one(vae)], "8 channels"),
        (
            "controlnet",
            vec![one("control_model.input_blocks.0.0.weight")],
            "ControlNet",
        ),
        ("lora", vec![one("lora_unet_x.lora_down.weight")], "--lora"),
        (
            "vae",
            vec![one("encoder.down.0.block.0.conv1.weight")],
            "--vae",
        ),
        ("unet", vec![conv(4)], "without text encoder"),
        ("no-vae", vec![conv(4), one(text)], "give one with --vae"),
        (
            "clip",
            vec![one("text_model.encoder.layers.0.self_attn.q_proj.bias")],
            "a text encoder",
        ),
        ("inversion", vec![one("emb_params")], "textual inversion"),
        ("word", vec![one("<cat-toy>")], "textual inversion"),
        ("resnet", vec![one("layer1.0.conv1.weight")], "unknown kind"),
    ];
    for (name, tensors, part) in cases {
        let path = bad.0.path().join(format!("{name}.safetensors"));
        write_safetensors(&path, &tensors);
        expect(&path, &LoadOptions::default(), &["this is a", "; ", part]);
    }
}

#[test]
fn folders_with_faults() {
    let bad = Bad::new();
    let empty = bad.0.path().join("empty");
    fs::create_dir(&empty).unwrap();
    expect(
        &empty,
        &LoadOptions::default(),
        &["no model_index.json", "give the folder"],
    );
    expect(
        &fixture("sd1-tiny/unet"),
        &LoadOptions::default(),
        &["one part of a checkpoint", "the folder above"],
    );

    type Fault = (&'static str, fn(&Path), &'static str);
    let faults: &[Fault] = &[
        (
            "sd3",
            |f| {
                fs::write(
                    f.join("model_index.json"),
                    r#"{"_class_name": "StableDiffusion3Pipeline"}"#,
                )
                .unwrap()
            },
            "StableDiffusion3Pipeline",
        ),
        (
            "json",
            |f| fs::write(f.join("unet/config.json"), "{").unwrap(),
            "not valid JSON",
        ),
        (
            "unet",
            |f| fs::remove_file(f.join("unet/diffusion_pytorch_model.bin")).unwrap(),
            "no weights here",
        ),
        (
            "config",
            |f| fs::remove_file(f.join("vae/config.json")).unwrap(),
            "vae/config.json",
        ),
        (
            "lfs",
            |f| {
                fs::write(
                    f.join("unet/diffusion_pytorch_model.bin"),
                    "version https://git-lfs.github.com/spec/v1\n",
                )
                .unwrap()
            },
            "git-lfs pointer",
        ),
        (
            "vocab",
            |f| fs::write(f.join("tokenizer/vocab.json"), "[]").unwrap(),
            "tokenizer",
        ),
    ];
    for (name, fault, part) in faults {
        let folder = bad.0.path().join(name);
        copy_folder(&fixture("single-file/sd1"), &folder);
        fault(&folder);
        expect(&folder, &LoadOptions::default(), &[part]);
    }

    let shard = bad.0.path().join("shard");
    copy_folder(&fixture("single-file/sdxl"), &shard);
    fs::remove_file(shard.join("unet/diffusion_pytorch_model-00002-of-00002.safetensors")).unwrap();
    expect(
        &shard,
        &LoadOptions::default(),
        &["00002-of-00002.safetensors is missing"],
    );
    let index = shard.join("unet/diffusion_pytorch_model.safetensors.index.json");
    fs::write(index, r#"{"weight_map": {"x": "../../../etc/passwd"}}"#).unwrap();
    expect(
        &shard,
        &LoadOptions::default(),
        &["is not the name of a file in this folder"],
    );
}

#[test]
fn separate_autoencoders_that_are_none() {
    let with_vae = |path: PathBuf| LoadOptions {
        vae: Some(path),
        ..LoadOptions::default()
    };
    for (vae, part) in [
        (
            fixture("lora/kohya-sd1.safetensors"),
            "this is a LoRA, not an AutoencoderKL",
        ),
        (
            fixture("sd1-tiny/text_encoder/model.safetensors"),
            "this is a text encoder, not an AutoencoderKL",
        ),
        (PathBuf::from("/nowhere"), "no such file"),
    ] {
        let message = chain(&failure(
            &fixture("single-file/sd1"),
            &with_vae(vae.clone()),
        ));
        assert!(
            message.contains(part) && message.contains(&*vae.to_string_lossy()),
            "{message}"
        );
    }
}

#[cfg(unix)]
#[test]
fn unreadable() {
    use std::os::unix::fs::PermissionsExt;
    let bad = Bad::new();
    let path = bad.changed("secret.safetensors", |_| {});
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    if fs::File::open(&path).is_ok() {
        return; // The administrator reads everything.
    }
    expect(&path, &sd1(), &["cannot be read", "ermission denied"]);
}
