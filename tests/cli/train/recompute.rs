//! `--recompute`: every kind of training comes to the same bytes, and it is no other training.

use std::path::Path;

use super::{gligen, ip_adapter, provide, read, small};
use crate::program::works;

/// Trains with everything kept and with blocks computed again, and compares `files`; goes on with the first as with the second.
fn is_the_same(folder: &Path, train: &[&str], files: &[&str]) {
    let with = |out, more: &[&'static str]| {
        let own = ["--cache", "cache", "--out", out];
        works(folder, &[train, &own, more].concat());
        read(&folder.join(out), files)
    };
    let kept = with("kept", &[]);
    for again in [
        with("again", &["--recompute"]),
        with("kept", &["--recompute"]),
    ] {
        for ((name, kept), again) in files.iter().zip(&kept).zip(&again) {
            assert!(kept == again, "{train:?}: {name}");
        }
    }
}

#[test]
fn a_lora_is_the_same_computed_again() {
    let folder = tempfile::tempdir().unwrap();
    provide(folder.path());
    let files = ["state.safetensors", "lora.safetensors", "log.jsonl"];
    let train = small(&["--steps", "3", "--conv-rank", "2", "--accumulate", "2"]);
    is_the_same(folder.path(), &train, &files);
}

#[test]
fn the_unet_is_the_same_computed_again() {
    let folder = tempfile::tempdir().unwrap();
    provide(folder.path());
    let train = [
        "train",
        "unet",
        "photos",
        "--resolution",
        "64",
        "--device",
        "flex",
        "--rate=1e-3",
        "--steps",
        "3",
    ];
    is_the_same(folder.path(), &train, &["state.safetensors", "log.jsonl"]);
}

#[test]
fn layers_of_gligens_are_the_same_computed_again() {
    let folder = tempfile::tempdir().unwrap();
    gligen::provide(folder.path());
    let files = ["state.safetensors", "gligen.safetensors", "log.jsonl"];
    is_the_same(folder.path(), &gligen::TRAIN, &files);
}

#[test]
fn an_ip_adapter_is_the_same_computed_again() {
    let folder = tempfile::tempdir().unwrap();
    ip_adapter::provide(folder.path());
    let new = ["--image-encoder", "encoder", "--plus"];
    let train = [&ip_adapter::TRAIN[..], &new].concat();
    let files = ["state.safetensors", "ip_adapter.safetensors", "log.jsonl"];
    is_the_same(folder.path(), &train, &files);
}
