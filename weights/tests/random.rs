//! Checkpoints of random weights: complete, of the right spread, the same for the same seed.

use std::collections::HashMap;
use std::path::Path;

use crate::support::{device, fixture};
use crate::wrong_input::copy_folder;
use burn::tensor::FloatDType;
use prepose_weights::tokenizer::{ClipTokenizer, Padding};
use prepose_weights::{Checkpoint, Family, LoadOptions, RandomCheckpoint};
use safetensors::SafeTensors;

fn write(like: &str, dtype: FloatDType, seed: u64, folder: &Path) {
    let like = Checkpoint::open(fixture(like), &LoadOptions::default()).unwrap();
    like.random(dtype, seed).unwrap().write(folder).unwrap();
}

fn file(folder: &Path, name: &str) -> Vec<u8> {
    std::fs::read(folder.join(name)).unwrap()
}

const UNET: &str = "unet/diffusion_pytorch_model.safetensors";

#[test]
fn every_network_of_every_family_loads_and_computes() {
    for (like, dtype) in [
        ("sd1-tiny", FloatDType::F32),
        ("sdxl-tiny", FloatDType::F16),
        ("sdxl-tiny", FloatDType::BF16),
    ] {
        let folder = tempfile::tempdir().unwrap();
        write(like, dtype, 1, folder.path());
        // Loading fails where a tensor is missing, left over, of another shape or not finite.
        let checkpoint = Checkpoint::open(folder.path(), &LoadOptions::default()).unwrap();
        let original = Checkpoint::open(fixture(like), &LoadOptions::default()).unwrap();
        assert_eq!(checkpoint.family(), original.family());
        let f32 = FloatDType::F32;
        let texts = checkpoint.load_text_encoders(&device(), f32).unwrap();
        assert_eq!(texts.len(), checkpoint.tokenizers().unwrap().len());
        checkpoint.load_unet(&device(), f32).unwrap();
        let vae = checkpoint.load_vae(&device(), f32).unwrap();
        let latents = burn::tensor::Tensor::ones([1, 4, 8, 8], &device());
        let picture = vae.decode(latents).into_data();
        let values: Vec<f32> = picture.iter().collect();
        let square = values.iter().map(|x| x * x).sum::<f32>() / values.len() as f32;
        assert!(
            square.is_finite() && (1e-4..1e3).contains(&square),
            "{square}"
        );
    }
}

#[test]
fn the_seed_decides_and_spreads_follow_the_width() {
    let folders: Vec<_> = (0..3).map(|_| tempfile::tempdir().unwrap()).collect();
    for (folder, seed) in folders.iter().zip([7, 7, 8]) {
        write("sd1-tiny", FloatDType::F32, seed, folder.path());
    }
    let [first, same, other] = [0, 1, 2].map(|i| file(folders[i].path(), UNET));
    assert!(first == same && first != other);

    let tensors = SafeTensors::deserialize(&first).unwrap();
    let values = |name: &str| -> Vec<f64> {
        let bytes = tensors.tensor(name).unwrap().data().to_vec();
        let (floats, rest) = bytes.as_chunks::<4>();
        assert!(rest.is_empty());
        floats
            .iter()
            .map(|bytes| f64::from(f32::from_le_bytes(*bytes)))
            .collect()
    };
    let moments = |name: &str| {
        let values = values(name);
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let square = values.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>();
        (mean, (square / values.len() as f64).sqrt())
    };
    // 32 × 32 × 3 × 3 weights.
    let (mean, deviation) = moments("mid_block.resnets.0.conv1.weight");
    let expected = (32.0 * 9.0f64).powf(-0.5);
    assert!(mean.abs() < 0.1 * expected, "{mean}");
    assert!(
        (deviation / expected - 1.0).abs() < 0.05,
        "{deviation} {expected}"
    );
    let (mean, deviation) = moments("mid_block.resnets.0.norm1.weight");
    assert!(
        (mean - 1.0).abs() < 0.05 && deviation < 0.1,
        "{mean} {deviation}"
    );
    // Tensors of one shape differ.
    assert_ne!(
        values("mid_block.resnets.0.conv1.weight"),
        values("mid_block.resnets.1.conv1.weight")
    );
}

/// `model_index.json` alone has it.
#[test]
fn what_an_empty_negative_prompt_means_is_kept() {
    for zeros in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let [original, written] = ["original", "written"].map(|name| folder.path().join(name));
        copy_folder(&fixture("sdxl-tiny"), &original);
        let index = original.join("model_index.json");
        let text = std::fs::read_to_string(&index).unwrap();
        let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
        json["force_zeros_for_empty_prompt"] = zeros.into();
        std::fs::write(&index, json.to_string()).unwrap();

        let trained = Checkpoint::open(&original, &LoadOptions::default()).unwrap();
        trained.write_trained(&HashMap::new(), &written).unwrap();
        let read = Checkpoint::open(&written, &LoadOptions::default()).unwrap();
        assert_eq!(read.zeros_for_empty_prompt(), zeros);
    }
}

/// Without a class, what is there says whether a text encoder projects its output.
#[test]
fn projections_of_configurations_without_a_class_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let [original, written] = ["original", "written"].map(|name| folder.path().join(name));
    copy_folder(&fixture("sdxl-tiny"), &original);
    let config = original.join("text_encoder_2/config.json");
    let text = std::fs::read_to_string(&config).unwrap();
    let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(
        json.as_object_mut()
            .unwrap()
            .remove("architectures")
            .is_some()
    );
    std::fs::write(&config, json.to_string()).unwrap();

    let trained = Checkpoint::open(&original, &LoadOptions::default()).unwrap();
    trained.write_trained(&HashMap::new(), &written).unwrap();
    let bytes = file(&written, "text_encoder_2/model.safetensors");
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    assert!(tensors.tensor("text_projection.weight").is_ok());
    let read = Checkpoint::open(&written, &LoadOptions::default()).unwrap();
    read.load_text_encoders(&device(), FloatDType::F32).unwrap();
}

#[test]
fn nothing_is_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("precious"), "x").unwrap();
    let like = Checkpoint::open(fixture("sd1-tiny"), &LoadOptions::default()).unwrap();
    let random = like.random(FloatDType::F16, 0).unwrap();
    let error = random.write(folder.path()).unwrap_err().to_string();
    assert!(error.contains("not overwritten"), "{error}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

/// Sums of the published checkpoints' own shapes: UNet, autoencoder and text encoders.
#[test]
fn the_published_architectures_have_their_parameters() {
    let millions = |family| {
        let random = RandomCheckpoint::standard(family, FloatDType::F16, 0).unwrap();
        assert_eq!(random.bytes(), 2 * random.parameters());
        random.parameters() / 1_000_000
    };
    // 859.5 + 83.7 + 123.1, and 2567.5 + 83.7 + 123.1 + 694.7.
    assert_eq!(millions(Family::Sd1), 1066);
    assert_eq!(millions(Family::Sdxl), 3468);
}

/// What is written for transformers is what is used here.
#[test]
fn the_tokenizer_files_are_clips() {
    let folder = tempfile::tempdir().unwrap();
    let sdxl = Checkpoint::open(fixture("sdxl-tiny"), &LoadOptions::default()).unwrap();
    // Its own tokenizers are copied.
    sdxl.random(FloatDType::F16, 0)
        .unwrap()
        .write(folder.path())
        .unwrap();
    let vocab = |name: &str| file(folder.path(), &format!("{name}/vocab.json"));
    assert_eq!(
        vocab("tokenizer_2"),
        std::fs::read(fixture("sdxl-tiny/tokenizer_2/vocab.json")).unwrap()
    );

    let files = prepose_weights::tokenizer::clip_files(Padding::Exclamation);
    let bytes = |name: &str| &files.iter().find(|(n, _)| *n == name).unwrap().1;
    let config = Some(&**bytes("tokenizer_config.json"));
    let read = ClipTokenizer::from_json(bytes("vocab.json"), bytes("merges.txt"), config).unwrap();
    let clip = ClipTokenizer::clip(Padding::Exclamation);
    for text in [
        "a photo of a cat!",
        "don't 3'S <|endoftext|>",
        "日本 caf\u{e9}",
    ] {
        assert_eq!(read.encode(text).unwrap(), clip.encode(text).unwrap());
    }
    assert_eq!((read.bos(), read.eos(), read.pad()), (49406, 49407, 0));
}
