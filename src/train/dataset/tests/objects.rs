//! Objects with boxes.

use super::*;
use crate::bucket::Fit;
use crate::objects::Object;
use crate::sides::SideWords;

#[test]
fn objects_come_from_lines_and_from_what_a_run_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    for name in ["a.png", "b.png", "c.png", "d.png", "e.png"] {
        write(&path.join(name), png(1));
    }
    let line = |name: &str, objects: &str| {
        format!(r#"{{"file_name": "{name}.png", "text": "{name}"{objects}}}"#)
    };
    let lines = [
        line(
            "a",
            r#", "objects": [{"phrase": " a dog ", "box": [0, 0.25, 0.5, 1], "more": 1}]"#,
        ),
        line("b", ""),
        line("c", r#", "objects": []"#),
        line(
            "d",
            r#", "objects": [{"phrase": "a dog", "box": [0, 32, 64, 128]}]"#,
        ),
        line(
            "e",
            r#", "objects": [{"phrase": "a dog", "box": [0, 0.5, 1]}]"#,
        ),
    ];
    write(&path.join("metadata.jsonl"), lines.join("\n"));
    let wanted = Options {
        objects: true,
        ..Options::default()
    };
    let dataset = open(path, &wanted).unwrap();
    let dog = |corners| Object {
        phrase: "a dog".into(),
        corners,
    };
    assert_eq!(dataset.samples.len(), 1);
    assert_eq!(dataset.samples[0].objects, [dog([0.0, 0.25, 0.5, 1.0])]);
    let mut whys: Vec<(&str, &str)> = (dataset.skipped.iter())
        .map(|one| (one.name.as_str(), one.why.as_str()))
        .collect();
    whys.sort_unstable();
    let parts = [
        "no phrases with boxes",
        "no phrases",
        "from 0 to 1",
        "four numbers",
    ];
    for ((name, why), (expected, part)) in whys.iter().zip(["b", "c", "d", "e"].iter().zip(parts)) {
        assert_eq!(*name, format!("{expected}.png"));
        assert!(why.contains(part), "{name}: {why}");
    }
    // Whoever does not want them is not bothered by them.
    let plain = open(path, &Options::default()).unwrap();
    assert!(plain.samples.len() == 5 && plain.samples[0].objects.is_empty());

    let run = tempfile::tempdir().unwrap();
    let path = run.path();
    write(&path.join("run.json"), r#"{"methods": [{"name": "psg"}]}"#);
    let manifest = r#"{"sample_id": "one", "image_path": "images/one.png", "prompt": "one"}"#;
    write(&path.join("psg/manifest.jsonl"), manifest);
    write(&path.join("psg/images/one.png"), png(1));
    let without = open(path, &wanted).unwrap_err().to_string();
    assert!(without.contains("prepose check"), "{without}");
    let record = |relation: usize| {
        format!(
            r#"{{"sample_id": "one_relation{relation}", "verdict_raw": "PASS", "detectors": {{"primary": {{"type": "x", "detections": [
            {{"label": "dog", "score": 0.9, "box_xyxy": [-1.0, 32.0, 100.0, 64.0]}}]}}}}, "image_size": [200, 128]}}"#
        )
        .replace('\n', "")
    };
    let records = [record(1), record(2)].join("\n");
    write(&path.join("psg/eval/per_sample.jsonl"), records);
    let dataset = open(path, &wanted).unwrap();
    assert_eq!(dataset.samples[0].objects, [dog([0.0, 0.25, 0.5, 0.5])]);
}

#[test]
fn boxes_are_cut_and_mirrored_with_their_pictures() {
    let object = |phrase: &str, corners| Object {
        phrase: phrase.into(),
        corners,
    };
    let objects = [
        object("small", [0.45, 0.4, 0.55, 0.49]),
        object("left", [0.0, 0.0, 0.5, 0.5]),
        object("all", [0.0, 0.0, 1.0, 1.0]),
        object("outside", [0.0, 0.2, 0.25, 0.4]),
    ];
    // The middle half of a picture of twice the width.
    let fit = Fit {
        resized: [128, 64],
        offset: [32, 0],
        size: [64, 64],
    };
    let placed = fit.place(&objects, None, 30);
    let expected = [
        object("all", [0.0, 0.0, 1.0, 1.0]),
        object("left", [0.0, 0.0, 0.5, 0.5]),
        object("small", [0.4, 0.4, 0.6, 0.49]),
    ];
    let near = |a: &[Object], b: &[Object]| {
        let same = |(a, b): (&Object, &Object)| {
            let mut edges = a.corners.iter().zip(b.corners);
            a.phrase == b.phrase && edges.all(|(a, b)| (a - b).abs() < 1e-12)
        };
        a.len() == b.len() && a.iter().zip(b).all(same)
    };
    assert!(near(&placed, &expected), "{placed:?}");
    let flipped = fit.place(&objects, Some(SideWords::Keep), 2);
    let expected = [
        object("all", [0.0, 0.0, 1.0, 1.0]),
        object("left", [0.5, 0.0, 1.0, 0.5]),
    ];
    assert!(near(&flipped, &expected), "{flipped:?}");
    // What was on the left is on the right, and called so.
    let swapped = fit.place(&objects, Some(SideWords::Swap), 2);
    let expected = [
        object("all", [0.0, 0.0, 1.0, 1.0]),
        object("right", [0.5, 0.0, 1.0, 0.5]),
    ];
    assert!(near(&swapped, &expected), "{swapped:?}");
}
