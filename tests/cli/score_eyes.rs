//! `prepose score` with networks that look at the pictures, wrong input first. Runs offline.

use std::fs;
use std::path::Path;

use prepose::output::png;
use prepose::picture::Picture;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::program::{prepose_in, refuses, stderr, stdout, works};
use crate::support::fixture;

/// A network's folder in the fixtures.
fn eye(name: &str) -> String {
    fixture(&format!("eyes/{name}"))
        .to_string_lossy()
        .into_owned()
}

/// A folder with a picture of 40 × 30 pixels as `a.png`, and `d.jsonl`, which asks for a dog in front of a cat in it.
fn folder(change: impl FnOnce(&mut Value)) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let picture = Picture {
        width: 40,
        height: 30,
        rgb: (0..40 * 30 * 3).map(|i| (i * i / 50 % 256) as u8).collect(),
    };
    png::save_plain(&folder.path().join("a.png"), &picture).unwrap();
    let found = |label: &str, x: f64| json!({"label": label, "score": 0.9, "box_xyxy": [x, 2.0, x + 18.0, 28.0]});
    let mut line = json!({
        "id": "a", "file": "a.png", "width": 40, "height": 30, "prompt": "a dog in front of a cat",
        "detections": [found("dog", 1.0), found("cat", 20.0)],
    });
    change(&mut line);
    fs::write(folder.path().join("d.jsonl"), format!("{line}\n")).unwrap();
    folder
}

fn said(folder: &Path, args: &[&str]) -> Value {
    serde_json::from_str(&works(folder, args)).unwrap()
}

#[test]
fn depth_and_masks_are_looked_for_where_lines_have_none() {
    let folder = folder(|_| ());
    let without = prepose_in(folder.path(), &["score", "pse-3d", "d.jsonl"]);
    assert_eq!(without.status.code(), Some(2));
    assert!(stderr(&without).contains("depth"));
    let (depth, masks) = (eye("depth"), eye("sam"));
    let args = [
        "score", "pse-3d", "d.jsonl", "--json", "--device", "flex", "--depth", &depth,
    ];
    let boxes = said(folder.path(), &args);
    let score = boxes["pictures"][0]["score"].as_f64().unwrap();
    assert!((0.0..=1.0).contains(&score), "{boxes}");
    let masked = said(folder.path(), &[&args[..], &["--masks", &masks]].concat());
    assert_ne!(masked["pictures"][0], boxes["pictures"][0]);
    let args = [
        &args[..],
        &["--masks", &masks, "--mask-choice", "union", "--published"],
    ]
    .concat();
    let published = said(folder.path(), &args);
    assert_eq!(published["published"], true);
    // The depth file of a line goes before the network.
    let grey = vec![7u8; 40 * 30];
    let header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (30, 40), }\n";
    let mut npy = b"\x93NUMPY\x01\x00".to_vec();
    npy.extend((header.len() as u16).to_le_bytes());
    npy.extend(header);
    npy.extend(grey);
    fs::write(folder.path().join("flat.npy"), npy).unwrap();
    let line = fs::read_to_string(folder.path().join("d.jsonl")).unwrap();
    let line = line.replacen("\"id\"", "\"depth\":\"flat.npy\",\"id\"", 1);
    fs::write(folder.path().join("d.jsonl"), line).unwrap();
    let flat = said(
        folder.path(),
        &["score", "pse-3d", "d.jsonl", "--json", "--depth", &depth],
    );
    assert_ne!(flat["pictures"][0], boxes["pictures"][0]);
}

/// Boxes of `detect` are those of the turned picture.
#[test]
fn photos_are_turned_as_their_exif_data_say() {
    // 24 × 16 in the file, a quarter turn from upright.
    let folder = folder(|line| {
        line["file"] = "turned.jpg".into();
        line["width"] = 16.into();
        line["height"] = 24.into();
        line["detections"][0]["box_xyxy"] = json!([0.0, 2.0, 8.0, 20.0]);
        line["detections"][1]["box_xyxy"] = json!([6.0, 2.0, 15.0, 22.0]);
    });
    let photo = fixture("training-data/turned.jpg");
    fs::copy(photo, folder.path().join("turned.jpg")).unwrap();
    let depth = eye("depth");
    let args = [
        "score", "pse-3d", "d.jsonl", "--json", "--device", "flex", "--depth", &depth,
    ];
    let scored = said(folder.path(), &args);
    assert!(scored["pictures"][0]["score"].is_number(), "{scored}");
}

#[test]
fn what_cannot_be_looked_at_is_said_and_the_rest_scored() {
    let depth = eye("depth");
    let wrong = |change: fn(&mut Value), part: &str| {
        let folder = folder(change);
        let args = [
            "score", "pse-3d", "d.jsonl", "--device", "flex", "--depth", &depth,
        ];
        let output = prepose_in(folder.path(), &args);
        assert_eq!(output.status.code(), Some(2));
        let message = stderr(&output);
        assert!(message.contains(part), "{message}");
        assert!(stdout(&output).is_empty(), "{}", stdout(&output));
    };
    wrong(|line| line["file"] = "gone.png".into(), "gone.png");
    wrong(|line| line["file"] = "d.jsonl".into(), "d.jsonl");
    wrong(
        |line| drop(line.as_object_mut().unwrap().remove("file")),
        "no picture to look at",
    );
    wrong(
        |line| line["width"] = 41.into(),
        "a.png has 40 x 30 pixels, but the line says 41 x 30",
    );
}

#[test]
fn other_networks_are_named_before_anything_is_scored() {
    let folder = folder(|_| ());
    let (sam, clip) = (eye("sam"), eye("clip"));
    let parts = ["segmenter", "give a depth network"];
    refuses(
        folder.path(),
        &["score", "pse-3d", "d.jsonl", "--depth", &sam],
        &parts,
    );
    let parts = ["this is a CLIP", "give a segmenter"];
    refuses(
        folder.path(),
        &["score", "pse", "d.jsonl", "--masks", &clip],
        &parts,
    );
    let args = ["score", "pse", "d.jsonl", "--masks", "nowhere"];
    refuses(folder.path(), &args, &["nowhere: no such file or folder"]);
    refuses(
        folder.path(),
        &["score", "clip-score", "d.jsonl"],
        &["--clip PATH"],
    );
    let args = ["score", "clip-score", "d.jsonl", "--clip", &sam];
    refuses(folder.path(), &args, &["give a CLIP"]);
}

#[test]
fn rewards_of_a_manifest_with_mean_and_deviation() {
    let folder = folder(|_| ());
    let network = eye("image-reward");
    // A manifest's last line of a picture is the one that counts.
    for name in ["b.png", "c.png"] {
        fs::copy(folder.path().join("a.png"), folder.path().join(name)).unwrap();
    }
    let line = |path: &str, prompt: &str| json!({"image_path": path, "prompt": prompt}).to_string();
    let lines = [
        line("a.png", "a dog"),
        line("b.png", "a dog and a cat"),
        line("c.png", ""),
    ];
    fs::write(folder.path().join("m.jsonl"), lines.join("\n")).unwrap();
    let args = ["score", "image-reward", "m.jsonl", "--device", "flex"];
    let given = [&args[..], &["--image-reward", &network, "--json"]].concat();
    let said = said(folder.path(), &given);
    assert_eq!(
        (&said["rule"], &said["network"]),
        (&json!("image-reward"), &json!("image-reward"))
    );
    let scores = said["pictures"].as_array().unwrap().iter();
    let scores: Vec<f64> = scores
        .map(|picture| picture["score"].as_f64().unwrap())
        .collect();
    assert_eq!(scores.len(), 3);
    let mean = scores.iter().sum::<f64>() / 3.0;
    let variance = scores
        .iter()
        .map(|score| (score - mean).powi(2))
        .sum::<f64>()
        / 3.0;
    let figure = |name: &str| said["figures"][name].as_f64().unwrap();
    assert!((figure("ImageReward") - mean).abs() < 1e-9 && figure("deviation") > 0.0);
    assert!((figure("deviation") - variance.sqrt()).abs() < 1e-9);

    refuses(folder.path(), &args, &["--image-reward PATH"]);
    let sam = eye("sam");
    let given = [&args[..], &["--image-reward", &sam]].concat();
    refuses(folder.path(), &given, &["give an ImageReward"]);
    // Without BERT's vocabulary texts cannot be read.
    let alone = folder.path().join("ImageReward.pt");
    fs::copy(format!("{network}/ImageReward.pt"), &alone).unwrap();
    let given = [&args[..], &["--image-reward", "ImageReward.pt"]].concat();
    refuses(
        folder.path(),
        &given,
        &[
            "bert-base-uncased's vocab.txt",
            "`prepose pull google-bert/bert-base-uncased/vocab.txt --revision main`",
        ],
    );
}

/// A folder with the tiny CLIP and the tokenizer whose tokens it knows.
fn with_clip(folder: &Path) {
    fs::create_dir(folder.join("clip")).unwrap();
    let files = ["eyes/clip/config.json", "eyes/clip/model.safetensors"].map(String::from);
    let tokenizer = ["vocab.json", "merges.txt", "tokenizer_config.json"];
    let tokenizer = tokenizer.map(|file| format!("sd1-tiny/tokenizer/{file}"));
    for file in files.iter().chain(&tokenizer) {
        let from = fixture(file);
        fs::copy(&from, folder.join("clip").join(from.file_name().unwrap())).unwrap();
    }
}

#[test]
fn clip_scores_of_a_manifest_and_of_pictures() {
    let folder = folder(|_| ());
    with_clip(folder.path());
    let line = |path: &str, prompt: &str| json!({"image_path": path, "prompt": prompt});
    let lines = [line("a.png", "a dog"), line("gone.png", "a cat")].map(|line| line.to_string());
    fs::write(folder.path().join("m.jsonl"), lines.join("\n")).unwrap();
    let args = [
        "score",
        "clip-score",
        "m.jsonl",
        "--clip",
        "clip",
        "--device",
        "flex",
        "--json",
    ];
    let output = prepose_in(folder.path(), &args);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("gone.png"));
    let said: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(said["figures"]["pictures"], 1);
    assert_eq!(said["clip_prompt"], "A photo depicts ");
    let cosine = said["pictures"][0]["cosine"].as_f64().unwrap();
    let score = said["pictures"][0]["score"].as_f64().unwrap();
    assert_eq!(score, 2.5 * cosine.max(0.0));
    let bare = prepose_in(folder.path(), &[&args[..], &["--clip-prompt", ""]].concat());
    let bare: Value = serde_json::from_str(&stdout(&bare)).unwrap();
    assert_ne!(bare["pictures"][0]["cosine"], cosine);

    // A picture without a request says nothing of a prompt; one of prepose's does.
    let args = [
        "score",
        "clip-score",
        "a.png",
        "--clip",
        "clip",
        "--device",
        "flex",
    ];
    let output = prepose_in(folder.path(), &args);
    assert_eq!(output.status.code(), Some(2));
    let make = [
        "generate", "a dog", "--steps", "1", "--device", "flex", "-o", "dog.png",
    ];
    works(folder.path(), &make);
    let args = [
        "score",
        "clip-score",
        "dog.png",
        "--clip",
        "clip",
        "--device",
        "flex",
    ];
    let table = works(folder.path(), &args);
    assert!(table.starts_with("pictures"), "{table}");
    assert!(
        table.contains("CLIPScore") && table.contains("cosine"),
        "{table}"
    );
}

/// Pictures are compared with the words that they were last made for, wherever their prompt is read; captions have no notation.
#[test]
fn prompts_are_compared_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let prompt = "a [dog:cat:0.5] BREAK to the left of a (car:1.4) AND a pizza :0.5";
    let make = ["generate", prompt, "--steps", "4", "--seeds", "1,2"];
    works(
        folder,
        &[&make[..], &["--device", "flex", "-o", "o/"]].concat(),
    );
    let files = fs::read_dir(folder.join("o")).unwrap();
    let files = files.map(|file| file.unwrap().path());
    let mut pictures: Vec<_> = files
        .filter(|path| path.extension().is_some_and(|ending| ending == "png"))
        .collect();
    pictures.sort();
    let cosine = |files: &[&str]| {
        let clip = ["--clip", "toybox-clip", "--clip-prompt", "", "--json"];
        let args = [
            &["score", "clip-score", "--device", "flex"][..],
            files,
            &clip,
        ]
        .concat();
        let told = said(folder, &args);
        assert_eq!(told["figures"]["pictures"], 2, "{told}");
        told["figures"]["cosine"].as_f64().unwrap()
    };
    let captions = |path: &dyn Fn(usize) -> String, text: &str| {
        let line = |i| format!("{}\n", json!({"image_path": path(i), "prompt": text}));
        fs::write(
            folder.join("asked.jsonl"),
            (0..2).map(line).collect::<String>(),
        )
        .unwrap();
        cosine(&["asked.jsonl"])
    };
    let made = |i: usize| pictures[i].to_string_lossy().into_owned();
    let words = captions(&made, "a cat to the left of a car");
    assert_eq!(cosine(&["o/manifest.jsonl"]), words);
    assert_eq!(cosine(&[&made(0), &made(1)]), words);
    let measure = ["score", "quality", "o", "--features", "toybox-clip"];
    let more = ["--clip-prompt", "", "--device", "flex", "--json"];
    let told = said(folder, &[measure, more].concat());
    let figures = told["sets"][0]["figures"].as_array().unwrap();
    let figure = figures.iter().find(|one| one["name"] == "cosine").unwrap();
    assert!((figure["value"].as_f64().unwrap() - words).abs() < 1e-5);
    // Without its request a picture is anybody's.
    for (i, path) in pictures.iter().enumerate() {
        let picture = Picture::decode(&fs::read(path).unwrap()).unwrap();
        png::save_plain(&folder.join(format!("{i}.png")), &picture).unwrap();
    }
    let plain = |i: usize| format!("{i}.png");
    assert_eq!(captions(&plain, "a cat to the left of a car"), words);
    assert_ne!(captions(&plain, "a cat to the left of a (car:1.4)"), words);
}

#[test]
fn the_toybox_s_clip_is_there_without_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let picture = fixture("toybox/6.png").to_string_lossy().into_owned();
    let cosine = |prompt: &str| {
        let line = json!({"image_path": picture, "prompt": prompt});
        fs::write(folder.join("asked.jsonl"), format!("{line}\n")).unwrap();
        let asked = ["score", "clip-score", "asked.jsonl", "--json"];
        let told = works(
            folder,
            &[&asked[..], &["--clip", "toybox-clip", "--device", "flex"]].concat(),
        );
        let told: Value = serde_json::from_str(&told).unwrap();
        assert_eq!(told["clip"], "toybox-clip");
        told["figures"]["cosine"].as_f64().unwrap()
    };
    let (right, wrong) = (cosine("a cat"), cosine("a pizza"));
    assert!(right > wrong + 0.2, "{right} {wrong}");
    let about = works(folder, &["info", "toybox-clip"]);
    assert!(about.contains("CLIP (text and picture encoder)"), "{about}");
    // A CLIP is no detector.
    refuses(
        folder,
        &["check", &picture, "--checker", "toybox-clip"],
        &["toybox-clip"],
    );
}
