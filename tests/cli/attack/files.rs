//! What is no regular file where a file belongs: pipes and devices would hang or fill the memory.

use std::fs;

use super::{Folder, fifo, toybox};

/// Commands with a place for a file, `FILE`.
const PLACES: &[&[&str]] = &[
    &["info", "FILE"],
    &["generate", "a dog", "--checkpoint", "FILE"],
    &["generate", "a dog", "--vae", "FILE"],
    &["generate", "a dog", "--lora", "FILE"],
    &["generate", "a dog", "--init-image", "FILE"],
    &["generate", "--again", "FILE"],
    &["check", "FILE"],
    &["parse", "a dog", "--checkpoint", "FILE"],
];

#[test]
fn pipes_devices_and_folders_are_refused_at_once() {
    let folder = Folder::new();
    fifo(&folder.path().join("pipe.png"));
    fs::create_dir(folder.path().join("folder.png")).unwrap();
    for place in PLACES {
        for (file, kind) in [
            ("pipe.png", "a named pipe"),
            ("/dev/zero", "a device"),
            ("/dev/urandom", "a device"),
        ] {
            let args: Vec<&str> = place
                .iter()
                .map(|arg| if *arg == "FILE" { file } else { arg })
                .collect();
            folder.refuses(&args, &[file, kind]);
        }
        let args: Vec<&str> = place
            .iter()
            .map(|arg| if *arg == "FILE" { "folder.png" } else { arg })
            .collect();
        folder.refuses(&args, &["folder.png"]);
    }
}

#[test]
fn so_are_pipes_inside_a_checkpoint() {
    for file in [
        "model_index.json",
        "unet/config.json",
        "unet/diffusion_pytorch_model.safetensors",
        "text_encoder/config.json",
        "scheduler/scheduler_config.json",
        "tokenizer/vocab.json",
        "tokenizer/merges.txt",
        "tokenizer/tokenizer_config.json",
    ] {
        let folder = Folder::new();
        let path = toybox(folder.path()).join(file);
        fs::remove_file(&path).unwrap();
        fifo(&path);
        let args = ["generate", "a dog", "--checkpoint", "model"];
        folder.refuses(&args, &[file, "a named pipe"]);
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&path, &path).unwrap();
        folder.refuses(&args, &["model"]);
    }
}

/// A configuration as long as the memory, and one that is a list of millions.
#[test]
fn configurations_are_not_read_without_end() {
    let folder = Folder::new();
    let model = toybox(folder.path());
    for file in [
        "model_index.json",
        "unet/config.json",
        "scheduler/scheduler_config.json",
    ] {
        let path = model.join(file);
        let sound = fs::read(&path).unwrap();
        let args = ["generate", "a dog", "--checkpoint", "model"];
        let sparse = fs::File::create(&path).unwrap();
        sparse.set_len(1 << 40).unwrap();
        folder.refuses(&args, &[file, "bytes"]);
        fs::write(&path, format!("[{}0]", "0,".repeat(7 << 20))).unwrap();
        folder.refuses(&args, &[]);
        fs::write(&path, "[".repeat(1 << 20)).unwrap();
        folder.refuses(&args, &[file]);
        fs::write(&path, sound).unwrap();
    }
}
