//! `prepose train gligen`: its files, where they go, and what is refused; and the toybox's own layers.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::program::{refuses, works};
use crate::support::fixture;

/// Six pictures of a square, with what it is and where.
pub fn provide(folder: &Path) {
    let boxed = folder.join("boxed");
    fs::create_dir_all(&boxed).unwrap();
    let mut lines = String::new();
    for number in 0..6u32 {
        let (left, top) = (8 * number, 40 - 8 * number);
        let picture = image::RgbImage::from_fn(64, 64, |x, y| {
            let inside = (left..left + 24).contains(&x) && (top..top + 16).contains(&y);
            image::Rgb(if inside {
                [250, 40, 30]
            } else {
                [220, 230, 240]
            })
        });
        picture.save(boxed.join(format!("{number}.png"))).unwrap();
        let corners = [left, top, left + 24, top + 16].map(|edge| f64::from(edge) / 64.0);
        lines += &format!(
            "{{\"file_name\": \"{number}.png\", \"text\": \"a dog\", \"objects\": [{{\"phrase\": \"a dog\", \"box\": {corners:?}}}]}}\n"
        );
    }
    fs::write(boxed.join("metadata.jsonl"), lines).unwrap();
}

/// A training of three steps on them.
pub const TRAIN: [&str; 13] = [
    "train",
    "gligen",
    "boxed",
    "--resolution",
    "64",
    "--batch",
    "2",
    "--device",
    "flex",
    "--rate=1e-2",
    "--steps",
    "3",
    "--json",
];

/// Of the prompt that [`TRAIN`] is for.
fn picture(folder: &Path, of: [&str; 2], more: &[&str], name: &str) -> Vec<u8> {
    super::picture(folder, "a dog left of a cat", of, more, name)
}

#[test]
fn layers_are_trained_and_both_their_files_make_the_same_picture() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    provide(folder);
    let more = [
        "--out",
        "out",
        "--flips",
        "without-sides",
        "--sample",
        "a dog left of a cat",
        "--sample-steps",
        "1",
    ];
    let told = works(folder, &[&TRAIN[..], &more].concat());
    let lines: Vec<Value> = told
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of = |event: &str| lines.iter().filter(|line| line["event"] == event).count();
    assert_eq!(
        (of("step"), of("sample"), of("written")),
        (3, 2, 3),
        "{told}"
    );
    let settings: Value =
        serde_json::from_str(&fs::read_to_string(folder.join("out/training.json")).unwrap())
            .unwrap();
    let recipe = &settings["recipe"];
    assert_eq!(recipe["kind"]["gligen"]["grounding_dropout"], 0.1);
    assert_eq!(
        (&recipe["dropout"], &recipe["clip"]),
        (&0.5.into(), &0.0.into())
    );
    // Before the first step the layers change nothing, in the samples neither.
    let plain = picture(folder, ["0", "1"], &[], "plain-sample.png");
    let sample = image::open(folder.join("out/samples/00-000000.png")).unwrap();
    assert_eq!(sample.into_rgb8().into_raw(), plain);

    let plain = picture(folder, ["1", "2"], &[], "plain.png");
    let with = |file: &str, name: &str| {
        picture(folder, ["1", "2"], &["--ground=1", "--gligen", file], name)
    };
    let original = with("out/gligen.safetensors", "original.png");
    assert_eq!(
        original,
        with("out/gligen_diffusers.safetensors", "diffusers.png")
    );
    assert_ne!(original, plain);
    // Not asked for, they do nothing.
    assert_eq!(
        picture(
            folder,
            ["1", "2"],
            &["--gligen", "out/gligen.safetensors"],
            "off.png"
        ),
        plain
    );
    // The toybox has its own, and a picture that was made with them is made again.
    let own = picture(folder, ["1", "2"], &["--ground=1"], "own.png");
    assert!(own != plain && own != original);
    works(
        folder,
        &[
            "generate",
            "--again",
            "own.png",
            "-o",
            "again.png",
            "--device",
            "flex",
        ],
    );
    assert_eq!(
        image::open(folder.join("again.png"))
            .unwrap()
            .into_rgb8()
            .into_raw(),
        own
    );
    let info = works(folder, &["info", "toybox"]);
    assert!(info.contains("on request  gligen"), "{info}");

    // A training goes on from layers, and it goes on with the same command alone.
    let further = ["--out", "further", "--gligen", "out/gligen.safetensors"];
    works(folder, &[&TRAIN[..], &further].concat());
    let read = |name: &str| fs::read(folder.join(name)).unwrap();
    let done = read("further/gligen.safetensors");
    assert_ne!(done, read("out/gligen.safetensors"));
    works(folder, &[&TRAIN[..], &further].concat());
    assert_eq!(read("further/gligen.safetensors"), done);
    refuses(
        folder,
        &[&TRAIN[..], &further, &["--grounding-dropout", "0.2"]].concat(),
        &["grounding_dropout is 0.1 there and 0.2 here"],
    );
}

#[test]
fn what_cannot_be_trained_on_boxes_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    provide(folder);
    let out = ["--out", "out"];
    let with = |more: &[&'static str]| [&TRAIN[..], &out, more].concat();
    refuses(
        folder,
        &with(&["--grounding-dropout", "2"]),
        &["--grounding-dropout is 2"],
    );
    let other = fixture("single-file/sdxl");
    let other = [&with(&[])[..], &["--checkpoint", other.to_str().unwrap()]].concat();
    refuses(
        folder,
        &other,
        &["Stable Diffusion 1.x", "Stable Diffusion XL"],
    );
    refuses(folder, &with(&["--sample", "a dog"]), &["--box"]);
    fs::remove_file(folder.join("boxed/metadata.jsonl")).unwrap();
    for number in 0..6 {
        fs::write(folder.join(format!("boxed/{number}.txt")), "a dog").unwrap();
    }
    refuses(
        folder,
        &with(&[]),
        &["no phrases with boxes", "metadata.jsonl"],
    );
}
