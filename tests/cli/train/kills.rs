//! Trainings that are killed at instants all over them: they go on to the same bytes as those that are not.
//!
//! A classifier is killed in `steer.rs`, where its maps are. `scripts/train/kills.py` does it at random, for longer.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use super::{LORA, gligen, ip_adapter, provide, read, small};
use crate::program::{prepose, works};

/// Runs the training `with` an output folder undisturbed, then with so many `kills`, and compares `files`.
pub fn survives(
    folder: &Path,
    with: impl Fn(&'static str) -> Vec<&'static str>,
    kills: u32,
    files: &[&str],
) {
    let begun = std::time::Instant::now();
    works(folder, &with("calm"));
    let whole = begun.elapsed();
    let mut hit = 0;
    for kill in 0..kills {
        let mut child = prepose()
            .args(with("killed"))
            .current_dir(folder)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // At instants all over the training; where one that is over is killed, nothing is lost either.
        let part = 1 + kill * 7 % kills;
        let time = whole * part / (kills + 2) + Duration::from_millis(u64::from(37 * kill));
        std::thread::sleep(time);
        hit += u32::from(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
    }
    println!("{hit} of {kills} kills hit the training, which takes {whole:.1?}");
    works(folder, &with("killed"));
    let results = ["killed", "calm"].map(|out| read(&folder.join(out), files));
    assert_eq!(results[0], results[1]);
}

#[test]
fn a_lora_survives_kills() {
    let folder = tempfile::tempdir().unwrap();
    provide(folder.path());
    let with = |out| {
        small(&[
            "--steps",
            "14",
            "--keep-every",
            "2",
            "--optimizer",
            "adamw8bit",
            "--ema",
            "0.9",
            "--dropout",
            "0.3",
            "--min-snr",
            "5",
            "--cache",
            "cache",
            "--out",
            out,
        ])
    };
    survives(folder.path(), with, 6, &LORA);
}

#[test]
fn layers_of_gligens_survive_kills() {
    let folder = tempfile::tempdir().unwrap();
    gligen::provide(folder.path());
    let with = |out| {
        let more = ["--keep-every", "1", "--cache", "cache", "--out", out];
        [&gligen::TRAIN[..], &more].concat()
    };
    let files = [
        "state.safetensors",
        "gligen.safetensors",
        "gligen_diffusers.safetensors",
        "log.jsonl",
    ];
    survives(folder.path(), with, 3, &files);
}

#[test]
fn an_ip_adapter_survives_kills() {
    let folder = tempfile::tempdir().unwrap();
    ip_adapter::provide(folder.path());
    let with = |out| {
        let more = [
            "--image-encoder",
            "encoder",
            "--keep-every",
            "1",
            "--cache",
            "cache",
            "--out",
            out,
        ];
        [&ip_adapter::TRAIN[..], &more].concat()
    };
    let files = ["state.safetensors", "ip_adapter.safetensors", "log.jsonl"];
    survives(folder.path(), with, 3, &files);
}
