//! `prepose score` as a user meets it, wrong input first. Runs offline.

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::program::{prepose_in, stderr, stdout, with_input};

fn score(folder: &Path, args: &[&str]) -> Output {
    prepose_in(folder, &[&["score"], args].concat())
}

/// A folder with the lines as `d.jsonl`.
fn folder(lines: &[Value]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
    fs::write(folder.path().join("d.jsonl"), lines.join("\n")).unwrap();
    folder
}

fn found(label: &str, x: f64) -> Value {
    json!({"label": label, "score": 0.9, "box_xyxy": [x, 10.0, x + 20.0, 30.0]})
}

/// All that `rule` says of the lines, and the exit code.
fn said(rule: &str, lines: &[Value], more: &[&str]) -> (Value, i32) {
    let folder = folder(lines);
    let args = [&[rule, "d.jsonl", "--json"], more].concat();
    let output = score(folder.path(), &args);
    let said = serde_json::from_str(&stdout(&output));
    let said = said.unwrap_or_else(|_| panic!("{}", stderr(&output)));
    (said, output.status.code().unwrap())
}

#[test]
fn figures_as_a_table_and_as_json() {
    let lines = [
        json!({"id": "a", "prompt": "a dog to the left of a cat", "detections": [found("dog", 0.0), found("cat", 50.0)]}),
        json!({"id": "b", "prompt": "a dog to the right of a cat", "detections": [found("dog", 0.0), found("Cat", 50.0)]}),
        json!({"id": "c", "prompt": "a dog above a cat", "detections": [found("dog", 0.0)]}),
    ];
    let folder = folder(&lines);
    let output = score(folder.path(), &["pse", "d.jsonl"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let expected = "\
pictures            3
PSE            0.3333
PSE >= 0.5    33.33 %
PSE > 0.01    33.33 %
both objects  66.67 %
";
    assert_eq!(stdout(&output), expected);

    let (said, code) = said("pse", &lines, &[]);
    assert_eq!(code, 0);
    assert_eq!(said["figures"]["pictures"], 3);
    assert_eq!(said["figures"]["both objects"], json!(200.0 / 3.0));
    assert_eq!(said["pictures"][0]["score"], 1.0);
    assert_eq!(
        said["pictures"][2],
        json!({"id": "c", "score": 0.0, "missing": ["cat"]})
    );
}

#[test]
fn every_way_to_say_what_was_asked_for() {
    // Apart by more than a tenth of a record's 512 pixels.
    let detections = json!([found("dog", 0.0), found("cat", 90.0)]);
    let asked = [
        json!({"prompt": "a dog to the left of a cat"}),
        json!({"objects": ["Dog", "cat"], "relation": "left_of"}),
        json!({"objects": [{"name": "dog", "count": 1}, "cat"], "relation": "to the left of"}),
        json!({"relations": ["cat | right of | dog"]}),
        json!({"file": "samples/a dog on the left of a cat_000012.png"}),
        json!({"id": "a dog on the left of a cat_000012.png"}),
        json!({"tag": "position", "prompt": "a photo of a cat right of a dog", "include": [
            {"class": "dog", "count": 1}, {"class": "cat", "count": 1, "position": ["right of", 0]}]}),
    ];
    let line = |mut asked: Value| {
        asked["detections"] = detections.clone();
        asked
    };
    let mut lines: Vec<Value> = asked.into_iter().map(line).collect();
    lines.push(json!({"sample_id": "x", "prompt_id": "v1", "relation": "left_of", "object_a": "dog", "object_b": "cat",
        "detectors": {"primary": {"type": "any", "detections": detections}}, "verdict_raw": "PASS"}));
    for rule in [
        "pse",
        "visor",
        "hrs",
        "geneval",
        "homogenization",
        "ots-correctness",
    ] {
        let (said, code) = said(rule, &lines, &[]);
        assert_eq!(code, 0, "{rule} {said:#}");
        let pictures = said["pictures"].as_array().unwrap();
        assert_eq!(pictures.len(), lines.len());
        let right = |picture: &Value| picture["score"].is_number();
        assert!(pictures.iter().all(right), "{rule} {said:#}");
    }
    let (said, _) = said("visor", &lines, &[]);
    assert_eq!(said["figures"]["VISOR_cond"], 100.0);
}

#[test]
fn geneval_metadata_beside_the_detections() {
    let folder = folder(&[
        json!({"file": "00001/samples/0000.png", "detections": [found("cat", 0.0), found("dog", 90.0)]}),
        json!({"file": "00000/samples/0003.png", "detections": [found("bus", 0.0)]}),
        json!({"file": "00002/samples/0000.png", "detections": []}),
        json!({"file": "no-number.png", "detections": []}),
        json!({"file": "00009/samples/0000.png", "detections": []}),
    ]);
    let metadata = r#"{"tag": "single_object", "include": [{"class": "bus", "count": 1}], "prompt": "a photo of a bus"}
{"tag": "position", "include": [{"class": "dog", "count": 1}, {"class": "cat", "count": 1, "position": ["left of", 0]}], "prompt": "a photo of a cat left of a dog"}
{"tag": "colors", "include": [{"class": "dog", "count": 1, "color": "red"}], "prompt": "a photo of a red dog"}
"#;
    fs::write(folder.path().join("m.jsonl"), metadata).unwrap();
    let output = score(
        folder.path(),
        &["geneval", "d.jsonl", "--metadata", "m.jsonl"],
    );
    let (out, message) = (stdout(&output), stderr(&output));
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(out.contains("right pictures            100.00 %"), "{out}");
    for part in [
        "d.jsonl:3: GenEval's tag \"colors\"",
        "d.jsonl:4:",
        "no-number.png",
        "d.jsonl:5:",
        "no line 9",
    ] {
        assert!(message.contains(part), "{message} lacks {part}");
    }
}

#[test]
fn masks_and_depth() {
    let folder = folder(&[
        // Boxes overlap, masks do not: the first and the last column of 4 × 2 pixels.
        json!({"objects": ["dog", "cat"], "relation": "left of", "detections": [
            {"label": "dog", "mask": {"size": [2, 4], "counts": [0, 2, 6]}},
            {"label": "cat", "mask": {"size": [2, 4], "counts": "62"}}]}),
    ]);
    let output = score(folder.path(), &["pse", "d.jsonl"]);
    assert!(
        stdout(&output).contains("PSE             1.0000"),
        "{} {}",
        stdout(&output),
        stderr(&output)
    );

    let mut map = image::ImageBuffer::<image::Luma<u16>, Vec<u16>>::new(4, 2);
    for (x, _, pixel) in map.enumerate_pixels_mut() {
        pixel.0 = [1000 * (x as u16 + 1)];
    }
    map.save(folder.path().join("map.png")).unwrap();
    image::RgbImage::new(4, 2)
        .save(folder.path().join("rgb.png"))
        .unwrap();
    let line = |depth: &str, relation: &str| {
        json!({"objects": ["dog", "cat"], "relation": relation, "width": 4, "height": 2, "depth": depth, "detections": [
            {"label": "dog", "score": 0.9, "box_xyxy": [0, 0, 1, 2]}, {"label": "cat", "score": 0.9, "box_xyxy": [3, 0, 4, 2]}]})
    };
    let lines = [
        line("map.png", "behind"),
        line("map.png", "in front of"),
        line("rgb.png", "behind"),
        line("none.npy", "behind"),
        line("d.jsonl", "behind"),
    ];
    let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
    fs::write(folder.path().join("d.jsonl"), lines.join("\n")).unwrap();
    let output = score(folder.path(), &["pse-3d", "d.jsonl"]);
    let (out, message) = (stdout(&output), stderr(&output));
    assert!(out.contains("PSE             0.5000"), "{out} {message}");
    for part in [
        "d.jsonl:3:",
        "not grey",
        "d.jsonl:4:",
        "none.npy",
        "d.jsonl:5:",
        "neither a PNG nor a .npy",
    ] {
        assert!(message.contains(part), "{message} lacks {part}");
    }
    let output = score(folder.path(), &["t2i-compbench-3d", "d.jsonl"]);
    // Boxes that do not overlap have no position score.
    assert!(
        stdout(&output).contains("score           0.4500"),
        "{}",
        stdout(&output)
    );
}

#[test]
fn answers_of_a_judge() {
    let label = |label: u8, task: &str| json!({"label": label, "task": task});
    let lines = [
        label(1, "i2i"),
        label(2, "i2i"),
        label(2, "i2i"),
        label(3, "i2i"),
        label(0, "t2i"),
    ];
    let (correct, _) = said("ots-correctness", &lines, &[]);
    assert_eq!(correct["figures"]["correct"], 2);
    assert_eq!(correct["figures"]["invalid"], 2);
    assert_eq!(correct["figures"]["accuracy"], json!(200.0 / 3.0));
    let (sides, _) = said("homogenization", &lines, &[]);
    assert_eq!(sides["figures"]["first-mentioned right"], 2);
    assert_eq!(sides["figures"]["homogenization"], json!(100.0 / 3.0));
    assert_eq!(sides["figures"]["invalid of all"], 40.0);
    let (wrong, code) = said("homogenization", &[label(1, "t2i"), label(7, "t2i")], &[]);
    assert_eq!(code, 2);
    assert!(
        wrong["pictures"][1]["error"]
            .as_str()
            .unwrap()
            .contains("7 is not a judge's label")
    );
}

#[test]
fn models_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    for (name, x) in [("good", 50.0), ("bad", -50.0)] {
        let line = json!({"prompt": "a dog to the left of a cat", "detections": [found("dog", 100.0), found("cat", 100.0 + x)]});
        fs::write(folder.path().join(name), format!("{line}\n").repeat(10)).unwrap();
    }
    let args = ["opse", "bad", "good", "--json", "--rounds", "50"];
    let output = score(folder.path(), &args);
    let said: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(said["best"], "good");
    assert_eq!(said["chosen"].as_array().unwrap().len(), 50);
    assert_eq!(stdout(&score(folder.path(), &args)), stdout(&output));
    let output = score(folder.path(), &["opse", "bad", "good"]);
    assert!(
        stdout(&output).ends_with("best: good\n"),
        "{}",
        stdout(&output)
    );
    let output = score(
        folder.path(),
        &["opse", "bad", "good", "--published", "--rounds", "10"],
    );
    assert!(
        stderr(&output).contains("10 rounds are too few for 2 models; give at least 11"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn wrong_lines_are_named_and_the_rest_is_scored() {
    let folder = tempfile::tempdir().unwrap();
    let good = json!({"prompt": "a dog to the left of a cat", "detections": [found("dog", 0.0), found("cat", 50.0)]});
    let text = [
        "{".to_owned(),
        String::new(),
        good.to_string(),
        "[1]".to_owned(),
        json!({"prompt": "a dog left of a cat"}).to_string(),
        json!({"detections": []}).to_string(),
        json!({"prompt": "a dog near a cat", "detections": []}).to_string(),
        json!({"prompt": "dog", "detections": [{"label": "dog", "score": 1, "box_xyxy": [9, 0, 1, 1]}]}).to_string(),
        json!({"prompt": "dog", "detections": [{"label": "dog", "mask": {"size": [2, 2], "counts": [1]}}]}).to_string(),
        json!({"objects": ["a", "b"], "relation": "beyond", "detections": []}).to_string(),
        json!({"objects": ["a"], "relation": "above", "detections": []}).to_string(),
        json!({"relations": ["a above b"], "detections": []}).to_string(),
        json!({"prompt": "a dog not to the left of a cat", "detections": []}).to_string(),
        json!({"objects": ["dog", "Dog"], "relation": "above", "detections": []}).to_string(),
        json!({"objects": ["a", "b"], "relation": "near", "detections": []}).to_string(),
        json!({"prompt": "a dog above a cat", "detections": [], "width": 0, "height": 9})
            .to_string(),
        json!({"prompt": "dog", "detections": [{"class": "dog", "box_xyxy": [0, 0, 1, 1]}]}).to_string(),
        json!({"prompt": "dog", "detections": [{"label": "dog", "box": [0, 0, 1, 1]}]}).to_string(),
    ];
    fs::write(folder.path().join("d.jsonl"), text.join("\n")).unwrap();
    let output = score(folder.path(), &["visor", "d.jsonl"]);
    let (out, message) = (stdout(&output), stderr(&output));
    assert_eq!(output.status.code(), Some(2));
    assert!(!message.contains("panicked"), "{message}");
    assert!(out.contains("VISOR_cond    100.00 %"), "{out}");
    assert!(out.contains("left out            16"), "{out}");
    for part in [
        "d.jsonl:1: not a picture's detections",
        "d.jsonl:4: not a picture's detections",
        "d.jsonl:5: no detections",
        "d.jsonl:6: what was asked for is not given",
        // Twice the same is said once.
        "d.jsonl:7 (and 1 more): visor does not score \"near\"",
        "d.jsonl:8: the box of \"dog\" is [9.0, 0.0, 1.0, 1.0]",
        "d.jsonl:17: detection 1 has no \"label\"",
        "d.jsonl:18: the detection of \"dog\" has no box: neither \"box_xyxy\"",
        "d.jsonl:9: the mask of \"dog\": the runs have 1 pixels, but the mask is 2 x 2",
        "d.jsonl:10: \"beyond\" is not a relation",
        "d.jsonl:11: \"relation\" is between two objects, not 1",
        "d.jsonl:12: \"a above b\" is not written as",
        "d.jsonl:13: the prompt",
        "d.jsonl:14: both objects are called \"dog\"",
        "d.jsonl:16: a picture of 0 x 9 pixels",
    ] {
        assert!(message.contains(part), "{message} lacks {part}");
    }
}

/// The checker's records say the picture's size in their own words, and leave out the benchmark's.
#[test]
fn records_of_the_checker_know_the_size() {
    let record = |size: Value| {
        json!({"sample_id": "x", "prompt_id": "p", "relation": "left_of", "object_a": "dog", "object_b": "cat", "image_size": size,
            "detectors": {"primary": {"type": "any", "detections": [found("dog", 0.0), found("cat", 50.0)]}}})
    };
    for (size, more) in [
        (json!([128, 128]), &[][..]),
        (Value::Null, &[]),
        (Value::Null, &["--size", "128x128"]),
    ] {
        let (said, code) = said("t2i-compbench", &[record(size)], more);
        assert_eq!(
            (code, &said["pictures"][0]["score"]),
            (0, &json!(0.95)),
            "{said}"
        );
    }
}

#[test]
fn boxes_may_be_cocos() {
    let coco =
        |label: &str, x: f64| json!({"label": label, "score": 0.9, "bbox": [x, 10.0, 20.0, 20.0]});
    let line = |detections: [Value; 2]| json!({"prompt": "a dog to the left of a cat", "detections": detections});
    let ours = said("pse", &[line([found("dog", 0.0), found("cat", 12.0)])], &[]);
    let theirs = said("pse", &[line([coco("dog", 0.0), coco("cat", 12.0)])], &[]);
    assert_eq!(ours, theirs);
    let score = ours.0["pictures"][0]["score"].as_f64().unwrap();
    assert!(0.1 < score && score < 0.95, "{score}");
}

/// The same mistake in every line is one message, without the place within the line.
#[test]
fn a_mistake_in_all_lines_is_said_once() {
    let line =
        |i: usize| json!({"id": "x".repeat(i), "prompt": "dog", "detections": [{"label": 3}]});
    let lines: Vec<Value> = (0..8).map(line).collect();
    let folder = folder(&lines);
    let output = score(folder.path(), &["visor", "d.jsonl"]);
    let message = stderr(&output);
    assert!(
        message.contains("d.jsonl:1 (and 7 more): not a picture's detections"),
        "{message}"
    );
    assert!(!message.contains("column"), "{message}");
    assert_eq!(message.lines().count(), 2, "{message}");
}

#[test]
fn standard_input_is_read() {
    let line = json!({"prompt": "a dog to the left of a cat", "detections": [found("dog", 0.0), found("cat", 50.0)]});
    let output = with_input(&["score", "pse", "-", "--json"], &line.to_string());
    let said = stdout(&output);
    assert_eq!(said.lines().count(), 1, "{said}");
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said["figures"]["PSE"], 1.0, "{}", stderr(&output));
}

/// Names from files do not move the cursor, and nothing waits for a pipe or draws for ever.
#[test]
fn hostile_values_are_told() {
    let folder = folder(&[
        json!({"prompt": "a dog behind a cat", "depth": "a\u{0}\u{1b}[2J", "detections": [found("dog", 0.0)]}),
    ]);
    let message = stderr(&score(folder.path(), &["pse-3d", "d.jsonl"]));
    assert!(
        message.contains("the depth map") && !message.contains(['\u{0}', '\u{1b}']),
        "{message:?}"
    );
    for args in [
        ["--rounds", "18446744073709551615"],
        ["--batch", "18446744073709551615"],
        ["--rounds", "10000000"],
    ] {
        fs::write(
            folder.path().join("m"),
            json!({"prompt": "dog and cat", "detections": []}).to_string(),
        )
        .unwrap();
        let message = stderr(&score(
            folder.path(),
            &[&["opse", "m", "--of", "geneval"], &args[..]].concat(),
        ));
        assert!(
            message.contains("at most 10000000 pictures are drawn"),
            "{args:?}: {message}"
        );
    }
}

#[cfg(unix)]
#[test]
fn pipes_are_not_waited_for() {
    let folder = folder(&[
        json!({"prompt": "a dog behind a cat", "depth": "pipe", "detections": [found("dog", 0.0)]}),
    ]);
    let made = std::process::Command::new("mkfifo")
        .arg(folder.path().join("pipe"))
        .status()
        .unwrap();
    assert!(made.success());
    for args in [["pse-3d", "d.jsonl"], ["visor", "pipe"]] {
        let message = stderr(&score(folder.path(), &args));
        assert!(
            message.contains("only regular files are read"),
            "{args:?}: {message}"
        );
    }
}

#[test]
fn wrong_arguments() {
    let folder = folder(&[json!({"prompt": "a dog above a cat", "detections": []})]);
    let refuses = |args: &[&str], part: &str| {
        let output = score(folder.path(), args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(
            stderr(&output).contains(part),
            "{args:?}: {}",
            stderr(&output)
        );
    };
    refuses(&["vizor", "d.jsonl"], "visor");
    refuses(&["visor"], "<FILE>");
    refuses(&["visor", "none.jsonl"], "cannot read none.jsonl");
    refuses(
        &["visor", "d.jsonl", "--metadata", "none"],
        "cannot read none",
    );
    // What the rule does not read, wherever it is told.
    for (rule, more, part) in [
        (
            "pse",
            &["--of", "visor"][..],
            "--of is for prepose score opse",
        ),
        ("pse", &["--rounds", "100"], "--rounds is for"),
        (
            "pse",
            &["--seed", "1"],
            "opse or pse-corruptions or quality",
        ),
        ("pse", &["--clip-prompt", ""], "--clip-prompt is for"),
        ("pse", &["--judge-rounds", "5"], "--judge-rounds is for"),
        ("pse", &["--neighbours", "2"], "--neighbours is for"),
        ("pse", &["--mask-choice", "union"], "--masks <PATH>"),
        ("clip-score", &["--min-score", "0.4"], "--min-score is for"),
        ("clip-score", &["--published"], "--published is for"),
        ("judge", &["--clip", "nothere"], "--clip is for"),
        ("quality", &["--min-score", "0.4"], "--min-score is for"),
    ] {
        refuses(&[&[rule, "d.jsonl"], more].concat(), part);
    }
    refuses(
        &["visor", "d.jsonl", "--min-score", "NaN"],
        "--min-score is NaN",
    );
    refuses(
        &["t2i-compbench", "d.jsonl"],
        "needs the picture's \"width\" and \"height\"; if all pictures have the same size, give it once with --size WxH",
    );
    refuses(
        &["pse-3d", "d.jsonl"],
        "pse-3d does not score \"above\"; it scores in front of, behind",
    );
    fs::write(folder.path().join("empty"), "\n \n").unwrap();
    refuses(&["visor", "empty"], "there is no picture in empty");
    fs::write(folder.path().join("latin"), b"\xff\xfe").unwrap();
    refuses(&["visor", "latin"], "cannot read latin");
    let output = score(
        folder.path(),
        &["t2i-compbench", "d.jsonl", "--size", "512x512"],
    );
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}
