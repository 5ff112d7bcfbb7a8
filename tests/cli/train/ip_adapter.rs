//! `prepose train ip-adapter`, with a tiny random picture encoder: its file, where it goes, and what is refused.

use std::fs;
use std::path::Path;

use prepose_formats::TensorFile;
use serde_json::Value;

use super::picture;
use crate::program::{refuses, works};
use crate::support::fixture;

/// Six pictures, one of which is shown as another, and a picture encoder.
pub fn provide(folder: &Path) {
    super::provide(folder);
    let mut lines = String::new();
    for number in 0..6 {
        let other = match number {
            0 => ", \"ip_picture\": \"shown.png\"",
            _ => "",
        };
        lines += &format!("{{\"file_name\": \"{number}.png\", \"text\": \"a dog\"{other}}}\n");
    }
    fs::write(folder.join("photos/metadata.jsonl"), lines).unwrap();
    fs::copy(
        fixture("ip-adapter/second.png"),
        folder.join("photos/shown.png"),
    )
    .unwrap();
    let encoder = folder.join("encoder");
    fs::create_dir(&encoder).unwrap();
    for name in ["config.json", "model.safetensors"] {
        let of = fixture("ip-adapter/image_encoder").join(name);
        fs::copy(of, encoder.join(name)).unwrap();
    }
}

/// A training of three steps on them.
pub const TRAIN: [&str; 12] = [
    "train",
    "ip-adapter",
    "photos",
    "--resolution",
    "64",
    "--batch",
    "2",
    "--device",
    "flex",
    "--rate=1e-2",
    "--steps=3",
    "--json",
];

#[test]
fn an_adapter_is_trained_and_shows_pictures() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    provide(folder);
    let new = [
        "--image-encoder",
        "encoder",
        "--flips",
        "without-sides",
        "--sample",
        "a dog",
        "--sample-picture",
        "photos/1.png",
        "--sample-steps",
        "1",
        "--out",
        "out",
    ];
    let told = works(folder, &[&TRAIN[..], &new].concat());
    let lines: Vec<Value> = told
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of = |event: &str| lines.iter().filter(|line| line["event"] == event).count();
    assert_eq!(
        (of("step"), of("sample"), of("written")),
        (3, 2, 2),
        "{told}"
    );
    let settings = fs::read_to_string(folder.join("out/training.json")).unwrap();
    let settings: Value = serde_json::from_str(&settings).unwrap();
    let recipe = &settings["recipe"];
    assert_eq!(
        recipe["kind"]["ip_adapter"],
        serde_json::json!({"new": "plain", "picture_dropout": 0.05, "both_dropout": 0.05})
    );
    assert_eq!(
        (&recipe["dropout"], &recipe["clip"]),
        (&0.05.into(), &0.0.into())
    );
    let samples = ["out/samples/00-000000.png", "out/samples/00-000003.png"];
    let samples = samples.map(|name| fs::read(folder.join(name)).unwrap());
    assert_ne!(samples[0], samples[1]);

    // The file is as its authors', and says how it was trained.
    let trained = folder.join("out/ip_adapter.safetensors");
    let file = TensorFile::open(&trained).unwrap();
    let names: Vec<&str> = file.names().collect();
    assert!(
        names.contains(&"image_proj.proj.weight") && names.contains(&"ip_adapter.1.to_k_ip.weight")
    );
    assert_eq!(file.metadata().unwrap()["ss_learning_rate"], "0.01");
    drop(file);
    let adapter = "out/ip_adapter.safetensors,encoder=encoder";
    let show = |shown: &'static str, name: &str| {
        let more = ["--ip-adapter", adapter, "--ip-picture", shown];
        picture(folder, "a dog", ["1", "2"], &more, name)
    };
    let first = show("photos/1.png", "first.png");
    assert_ne!(
        first,
        picture(folder, "a dog", ["1", "2"], &[], "plain.png")
    );
    assert_ne!(first, show("photos/shown.png", "second.png"));
    assert_eq!(
        show("photos/1.png,scale=0", "off.png"),
        picture(folder, "a dog", ["1", "2"], &[], "plain.png")
    );

    // It is trained further, and goes on with the same command alone.
    let further = ["--ip-adapter", adapter, "--out", "further"];
    works(folder, &[&TRAIN[..], &further].concat());
    let read = |name: &str| fs::read(folder.join(name)).unwrap();
    let done = read("further/ip_adapter.safetensors");
    assert_ne!(done, read("out/ip_adapter.safetensors"));
    works(folder, &[&TRAIN[..], &further].concat());
    assert_eq!(read("further/ip_adapter.safetensors"), done);
    refuses(
        folder,
        &[&TRAIN[..], &further, &["--picture-dropout", "0.2"]].concat(),
        &["picture_dropout is 0.05 there and 0.2 here"],
    );
    // Another picture that is shown is another training.
    fs::copy(folder.join("photos/1.png"), folder.join("photos/shown.png")).unwrap();
    refuses(folder, &[&TRAIN[..], &further].concat(), &["data_sha256"]);
}

#[test]
fn a_resampler_is_trained_for_sdxl() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    provide(folder);
    let checkpoint = fixture("single-file/sdxl");
    let checkpoint = checkpoint.to_str().unwrap();
    let new = [
        "--checkpoint",
        checkpoint,
        "--image-encoder",
        "encoder",
        "--plus",
        "--out",
        "out",
    ];
    works(folder, &[&TRAIN[..], &new].concat());
    let adapter = "out/ip_adapter.safetensors,encoder=encoder";
    let more = [
        "--checkpoint",
        checkpoint,
        "--ip-adapter",
        adapter,
        "--ip-picture",
        "photos/1.png",
    ];
    let shown = picture(folder, "a dog", ["1", "2"], &more, "shown.png");
    let plain = picture(folder, "a dog", ["1", "2"], &more[..2], "plain.png");
    assert_ne!(shown, plain);
    // It is none for the toybox.
    refuses(
        folder,
        &[&TRAIN[..], &["--ip-adapter", adapter, "--out", "other"]].concat(),
        &["an IP-Adapter for another network"],
    );
}

#[test]
fn what_cannot_be_shown_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    provide(folder);
    let out = ["--out", "out"];
    let with = |more: &[&'static str]| [&TRAIN[..], &out, more].concat();
    refuses(folder, &with(&[]), &["--image-encoder", "--ip-adapter"]);
    refuses(folder, &with(&["--image-encoder", "nowhere"]), &["nowhere"]);
    let new = |more: &[&'static str]| with(&[&["--image-encoder", "encoder"], more].concat());
    refuses(
        folder,
        &new(&["--picture-dropout", "2"]),
        &["--picture-dropout is 2"],
    );
    refuses(
        folder,
        &new(&["--picture-dropout", "0.6", "--both-dropout", "0.5"]),
        &["the sum of --dropout", "1.15"],
    );
    refuses(
        folder,
        &new(&["--sample", "a dog"]),
        &["--sample-picture FILE"],
    );
    refuses(
        folder,
        &new(&["--sample", "a dog", "--sample-picture", "lost.png"]),
        &["lost.png"],
    );
    // Something else than a picture encoder, one of another width, and none.
    let detector = fixture("toybox-detector.safetensors");
    let detector = detector.to_str().unwrap();
    refuses(
        folder,
        &[&TRAIN[..], &out, &["--image-encoder", detector]].concat(),
        &["toybox-detector.safetensors"],
    );
    let plain = fixture("ip-adapter/plain_sd1.safetensors");
    let other = [plain.to_str().unwrap(), ",encoder=encoder"].concat();
    refuses(
        folder,
        &[&TRAIN[..], &out, &["--ip-adapter", &other]].concat(),
        &["an IP-Adapter for another network", "16", "128"],
    );
    // A picture to be shown that is lost, or out of the folder.
    for (wrong, why) in [
        ("lost.png", "there is no such file"),
        ("../encoder/x.png", "leads out"),
    ] {
        let line = format!(
            "{{\"file_name\": \"1.png\", \"text\": \"a dog\", \"ip_picture\": \"{wrong}\"}}\n"
        );
        fs::write(folder.join("photos/metadata.jsonl"), line).unwrap();
        refuses(folder, &new(&[]), &["ip_picture", why]);
    }
}
