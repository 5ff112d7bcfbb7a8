//! `prepose score quality`: sets of pictures, kept features, statistics, and wrong input. Runs offline on the toybox's
//! network and on tiny ones.

use std::fs;
use std::path::{Path, PathBuf};

use prepose::output::png;
use prepose::picture::Picture;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::program::{prepose_in, refuses, stderr, works};
use crate::support::fixture;

/// Pictures in a folder `name`, of patterns that depend on `first` and their number.
fn pictures(folder: &Path, name: &str, count: usize, first: usize) -> PathBuf {
    let path = folder.join(name);
    fs::create_dir(&path).unwrap();
    for number in 0..count {
        let wave = |i: usize| i * i * (first + number) / (40 + number) + i * (number + 3);
        let picture = Picture {
            width: 24,
            height: 20,
            rgb: (0..24 * 20 * 3).map(|i| (wave(i) % 256) as u8).collect(),
        };
        png::save_plain(&path.join(format!("{number:02}.png")), &picture).unwrap();
    }
    path
}

/// Two folders of pictures.
fn two(own: usize, others: usize) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    pictures(folder.path(), "own", own, 3);
    pictures(folder.path(), "others", others, 11);
    folder
}

fn quality(folder: &Path, more: &[&str]) -> Value {
    let start = ["score", "quality", "own", "--json", "--device", "flex"];
    let text = works(folder, &[&start[..], more].concat());
    serde_json::from_str(&text).unwrap()
}

fn names(set: &Value) -> String {
    let figures = set["figures"].as_array().unwrap().iter();
    let names: Vec<&str> = figures.map(|one| one["name"].as_str().unwrap()).collect();
    names.join(" ")
}

/// The files of features, and when they were written.
fn kept(folder: &Path) -> Vec<(PathBuf, std::time::SystemTime)> {
    let mut files = Vec::new();
    for network in fs::read_dir(folder.join("own/quality")).unwrap() {
        let network = network.unwrap().path();
        for file in fs::read_dir(&network).into_iter().flatten() {
            let file = file.unwrap();
            if file.file_type().unwrap().is_file() {
                files.push((file.path(), file.metadata().unwrap().modified().unwrap()));
            }
        }
    }
    files.sort();
    files
}

#[test]
fn the_toybox_looks_where_nothing_else_is_said() {
    let folder = two(9, 8);
    let said = quality(folder.path(), &["--reference", "others"]);
    let set = &said["sets"][0];
    assert_eq!(set["network"], "toybox");
    assert_eq!(
        (&set["pictures"], &set["reference_pictures"]),
        (&json!(9), &json!(8))
    );
    let balls = "precision recall density coverage";
    assert_eq!(names(set), format!("FD {balls} Vendi RKE"));
    let warnings = set["warnings"].to_string();
    assert!(
        warnings.contains("FD of 9 pictures is meaningless"),
        "{warnings}"
    );
    assert!(
        set["about"]
            .as_str()
            .unwrap()
            .contains("comparable with no other")
    );
    for figure in set["figures"].as_array().unwrap() {
        let number = |key: &str| figure[key].as_f64().unwrap();
        assert!(number("low") <= number("value") && number("value") <= number("high"));
    }
    // Beside the pictures, for reports.
    let written = fs::read(folder.path().join("own/quality/figures.json")).unwrap();
    let written: Value = serde_json::from_slice(&written).unwrap();
    assert_eq!(written[0]["figures"], set["figures"]);
    // Somebody else's folder is left alone.
    assert_eq!(
        fs::read_dir(folder.path().join("others")).unwrap().count(),
        8
    );
    // For people.
    let text = works(
        folder.path(),
        &["score", "quality", "own", "--device", "flex"],
    );
    assert!(text.contains("own: 9 pictures\nfeatures: toybox"), "{text}");
    assert!(text.contains("Vendi") && !text.contains("FD "), "{text}");
    // Without a reference the figures with one stay.
    let written = fs::read(folder.path().join("own/quality/figures.json")).unwrap();
    let written: Value = serde_json::from_slice(&written).unwrap();
    assert_eq!(written.as_array().unwrap().len(), 2);
}

#[test]
fn features_are_kept_and_only_new_pictures_are_looked_at() {
    let folder = two(6, 6);
    let first = quality(folder.path(), &[]);
    let before = kept(folder.path());
    assert_eq!(before.len(), 1);
    assert_eq!(quality(folder.path(), &[]), first);
    assert_eq!(kept(folder.path()), before);
    // One more picture is one more file, and the same as if all were looked at together.
    fs::copy(
        folder.path().join("others/05.png"),
        folder.path().join("own/06.png"),
    )
    .unwrap();
    let more = quality(folder.path(), &[]);
    assert_eq!(more["sets"][0]["pictures"], 7);
    assert_eq!(kept(folder.path()).len(), 2);
    // Damage, as of a full disk, is looked at again.
    for (file, _) in kept(folder.path()) {
        let bytes = fs::read(&file).unwrap();
        fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
    }
    let again = quality(folder.path(), &[]);
    for (a, b) in (more["sets"][0]["figures"].as_array().unwrap().iter())
        .zip(again["sets"][0]["figures"].as_array().unwrap())
    {
        let (a, b) = (a["value"].as_f64().unwrap(), b["value"].as_f64().unwrap());
        assert!((a - b).abs() <= 1e-4 * a.abs(), "{a} {b}");
    }
}

#[test]
fn each_network_has_its_figures() {
    let folder = two(4, 5);
    let eye = |name: &str| {
        fixture(&format!("eyes/{name}"))
            .to_string_lossy()
            .into_owned()
    };
    let inception = eye("inception/inception.pth");
    let args = [
        "--reference",
        "others",
        "--neighbours",
        "2",
        "--features",
        &inception,
    ];
    let said = quality(folder.path(), &args);
    let balls = "precision recall density coverage";
    assert_eq!(
        names(&said["sets"][0]),
        format!("FID KID x 1000 {balls} IS Vendi RKE")
    );
    let dinov2 = eye("dinov2");
    let said = quality(
        folder.path(),
        &["--features", &dinov2, "--rke-width", "2.5"],
    );
    assert_eq!(names(&said["sets"][0]), "Vendi RKE");
    assert_eq!(said["sets"][0]["figures"][1]["setting"], "width 2.5000");
    let vision = eye("clip-vision");
    let said = quality(
        folder.path(),
        &[
            "--reference",
            "others",
            "--features",
            &vision,
            "--features",
            "toybox",
        ],
    );
    assert!(names(&said["sets"][0]).starts_with("FD CMMD"), "{said}");
    assert_eq!(said["sets"][1]["network"], "toybox");
}

#[test]
fn statistics_are_written_and_read() {
    let folder = two(8, 8);
    let path = folder.path();
    let save = ["--save-statistics", "own.npz"];
    quality(path, &save);
    assert!(path.join("own.npz").is_file());
    let said = quality(path, &["--reference", "own.npz"]);
    let figure = &said["sets"][0]["figures"][0];
    assert_eq!(figure["name"], "FD");
    assert!(figure["value"].as_f64().unwrap() < 1e-3, "{figure}");
    assert_eq!(names(&said["sets"][0]), "FD Vendi RKE");
    // Those of another network.
    let other = fixture("quality/packed.npz");
    let other = other.to_str().unwrap();
    let output = prepose_in(path, &["score", "quality", "own", "--reference", other]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("the reference has 5"));
}

#[test]
fn reports_show_quality() {
    let folder = two(4, 4);
    let path = folder.path();
    let line = |number: usize| {
        let prompt = format!("a dog and {number} cats");
        json!({"sample_id": format!("s{number}"), "prompt_id": format!("p{}", number / 2),
               "image_path": format!("{number:02}.png"), "prompt": prompt})
        .to_string()
    };
    let lines: Vec<String> = (0..4).map(line).collect();
    fs::write(path.join("own/manifest.jsonl"), lines.join("\n")).unwrap();
    let said = quality(path, &["--reference", "others"]);
    assert_eq!(said["sets"][0]["pictures"], 4);
    works(path, &["report", "own", "-o", "report"]);
    let tables = fs::read_to_string(path.join("report/tables.md")).unwrap();
    assert!(tables.contains("## Picture quality"), "{tables}");
    assert!(tables.contains("Vendi"), "{tables}");
}

#[test]
fn what_cannot_be_measured_is_said() {
    let folder = two(3, 1);
    let path = folder.path();
    let says = |args: &[&str], parts: &[&str]| {
        let all = [&["score", "quality"], args, &["--device", "flex"]].concat();
        refuses(path, &all, parts);
    };
    says(&["others"], &["at least 2 pictures", "there are 1"]);
    says(&["own", "--reference", "others"], &["at least 2 pictures"]);
    says(&["nowhere"], &["nowhere"]);
    says(&["own/00.png"], &["is not a folder"]);
    says(&["own", "--neighbours", "0"], &["--neighbours is 0"]);
    says(&["own", "--rke-width", "-1"], &["--rke-width"]);
    says(&["own", "--draws", "0"], &["--draws is 0"]);
    says(&["own", "--features", "nowhere.pth"], &["nowhere.pth"]);
    let sam = fixture("eyes/sam");
    says(
        &["own", "--features", sam.to_str().unwrap()],
        &["Segment Anything", "DINOv2"],
    );
    fs::write(path.join("bad.npz"), "no archive").unwrap();
    says(
        &["own", "--reference", "bad.npz"],
        &["bad.npz", "numpy.savez"],
    );
    fs::create_dir(path.join("empty")).unwrap();
    says(&["empty"], &["empty"]);
    fs::write(path.join("own/01.png"), "no picture").unwrap();
    says(&["own"], &["01.png"]);
}

#[test]
fn rewards_need_prompts_and_have_an_interval() {
    let folder = two(2, 2);
    let network = fixture("eyes/image-reward");
    let network = network.to_string_lossy();
    fs::write(folder.path().join("p.txt"), "a dog\na cat\n").unwrap();
    let run = [
        "run", "p.txt", "--steps", "1", "--device", "flex", "--quiet", "--out", "run",
    ];
    works(folder.path(), &run);
    let args = [
        "score",
        "quality",
        "run",
        "--json",
        "--device",
        "flex",
        "--image-reward",
        &network,
    ];
    let said: Value = serde_json::from_str(&works(folder.path(), &args)).unwrap();
    let sets = said["sets"].as_array().unwrap();
    assert_eq!((sets.len(), names(&sets[0])), (1, "ImageReward".into()));
    let figure = &sets[0]["figures"][0];
    let number = |name: &str| figure[name].as_f64().unwrap();
    assert!(
        number("low") <= number("value") && number("value") <= number("high"),
        "{said}"
    );
    assert!(number("deviation") > 0.0);
    // What a report reads.
    let kept = fs::read_to_string(folder.path().join("run/prompt-only/quality/figures.json"));
    assert!(kept.is_ok_and(|kept| kept.contains("ImageReward")));
    let args = [
        "score",
        "quality",
        "own",
        "--device",
        "flex",
        "--image-reward",
        &network,
    ];
    refuses(folder.path(), &args, &["own has some without"]);
}
