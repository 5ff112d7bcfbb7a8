//! Loading costs the memory of the network and little more.

#![cfg(target_os = "linux")]

mod support;

use std::fs::{self, File};
use std::io::{Read, Write};

use burn::tensor::FloatDType;
use prepose_weights::LoadOptions;
use support::{device, fixture, open};

/// A line of `/proc/self/status` in bytes.
fn status(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .unwrap();
    line.trim_matches([':', ' ', '\t', 'k', 'B'])
        .parse::<u64>()
        .unwrap()
        * 1024
}

/// The full-size UNet of SD 1.5 in f16, all zeros, in a sparse file.
#[test]
fn peak_is_below_1_3_times_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for part in ["vae", "text_encoder", "tokenizer", "scheduler"] {
        fs::create_dir(path(part)).unwrap();
        for entry in fs::read_dir(fixture(&format!("sd1-tiny/{part}"))).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), path(part).join(entry.file_name())).unwrap();
        }
    }
    fs::copy(
        fixture("sd1-tiny/model_index.json"),
        path("model_index.json"),
    )
    .unwrap();
    // The tiny text encoder is not read; it only has to be as wide as this UNet expects.
    let text = path("text_encoder/config.json");
    let mut encoder: serde_json::Value = serde_json::from_slice(&fs::read(&text).unwrap()).unwrap();
    encoder["hidden_size"] = 768.into();
    fs::write(&text, encoder.to_string()).unwrap();
    fs::create_dir(path("unet")).unwrap();
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/configs/sd1/unet.json");
    fs::copy(config, path("unet/config.json")).unwrap();

    let mut table = String::new();
    let zipped = File::open(fixture("keys/sd1_unet.tsv.gz")).unwrap();
    flate2::read::GzDecoder::new(zipped)
        .read_to_string(&mut table)
        .unwrap();
    let mut header = serde_json::Map::new();
    let mut end = 0;
    for line in table.lines() {
        let columns: Vec<&str> = line.split('\t').collect();
        let shape: Vec<usize> = columns[2]
            .split('x')
            .map(|extent| extent.parse().unwrap())
            .collect();
        let start = end;
        end += 2 * shape.iter().product::<usize>();
        let entry =
            serde_json::json!({"dtype": "F16", "shape": shape, "data_offsets": [start, end]});
        header.insert(columns[0].into(), entry);
    }
    let header = serde_json::to_vec(&header).unwrap();
    let mut file = File::create(path("unet/diffusion_pytorch_model.safetensors")).unwrap();
    file.write_all(&(header.len() as u64).to_le_bytes())
        .unwrap();
    file.write_all(&header).unwrap();
    file.set_len((8 + header.len() + end) as u64).unwrap();

    let checkpoint = open(folder.path(), &LoadOptions::default());
    // Forget the peak so far.
    if fs::write("/proc/self/clear_refs", "5").is_err() {
        return;
    }
    let before = status("VmRSS");
    let start = std::time::Instant::now();
    let unet = checkpoint.load_unet(&device(), FloatDType::F16).unwrap();
    let seconds = start.elapsed().as_secs_f64();
    let peak = status("VmHWM") - before;
    let file = end as u64;
    println!(
        "file {} MB, peak {} MB ({:.2} of the file), loaded in {seconds:.1} s",
        file >> 20,
        peak >> 20,
        peak as f64 / file as f64
    );
    drop(unet);
    assert!(peak < file * 13 / 10, "peak {peak} for a file of {file}");
}
