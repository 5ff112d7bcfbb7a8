//! The checkpoint in the binary.

#![cfg(feature = "toybox")]

use std::path::Path;

use crate::support::open;
use burn::tensor::FloatDType;
use prepose_weights::{Family, LoadOptions, TOYBOX, describe_file};

#[test]
fn it_is_whole() {
    let toybox = open(Path::new(TOYBOX), &LoadOptions::default());
    assert_eq!((toybox.name(), toybox.family()), (TOYBOX, Family::Sd1));
    assert!(toybox.scheduler_config()["_class_name"].is_string());
    let device = crate::support::device();
    toybox.load_text_encoders(&device, FloatDType::F32).unwrap();
    toybox.load_unet(&device, FloatDType::F32).unwrap();
    toybox.load_vae(&device, FloatDType::F32).unwrap();
    // It has its own small vocabulary, and every text still has tokens in it.
    let tokenizer = toybox.tokenizers().unwrap().remove(0);
    let vocabulary = toybox.text_encoder_configs().unwrap()[0].vocab_size;
    for text in [
        "a photo of a dog to the left of a cat",
        "Zürich, 東京 & 🦜!",
    ] {
        let tokens = tokenizer.encode(text).unwrap();
        assert!(!tokens.is_empty() && tokens.iter().all(|token| (token.id as usize) < vocabulary));
    }
    assert_eq!(toybox.file_hashes().unwrap().len(), 3);
}

#[test]
fn what_comes_with_it_says_what_it_is() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("toybox");
    for (file, kind) in [
        ("gligen/gligen.safetensors", "a file of GLIGEN layers"),
        ("ip-adapter/ip_adapter.safetensors", "an IP-Adapter"),
        ("steer/steer.safetensors", "a classifier of relations"),
    ] {
        let description = describe_file(&folder.join(file)).unwrap();
        assert_eq!(description.kind.name(), kind, "{file}");
        assert_eq!(description.steer.is_some(), file.starts_with("steer"));
    }
}

#[test]
fn the_folder_is_the_same() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("toybox");
    let hashes = |path: &Path| {
        let hashes = open(path, &LoadOptions::default()).file_hashes().unwrap();
        hashes
            .into_iter()
            .map(|file| file.sha256)
            .collect::<Vec<_>>()
    };
    assert_eq!(hashes(Path::new(TOYBOX)), hashes(&folder));
    let [inside, outside] = [Path::new(TOYBOX), &folder].map(|path| describe_file(path).unwrap());
    assert_eq!(inside.parts, outside.parts);
    println!("{inside}");
}
