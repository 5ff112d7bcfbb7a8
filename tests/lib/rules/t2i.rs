//! T2I-CompBench in the plane and in depth.

use std::sync::Arc;

use prepose::check::rules::depth::DepthMap;
use prepose::check::rules::{Case, t2i, t2i_depth};
use prepose::check::{BoundingBox, Detection};
use prepose::prompt::scene::Relation;
use serde::Deserialize;
use serde_json::{Value, from_value, json};

use super::{PLAIN, PUBLISHED, case_of, close, detection, figure, fixture, read, score};

#[derive(Deserialize)]
struct T2iCases {
    pictures: Vec<Value>,
    frames: Vec<[usize; 4]>,
}

/// A picture by its file name, 479 × 479 pixels, so that the frame is the picture.
fn framed(picture: &Value) -> (Case, f64) {
    let mut line = picture.clone();
    line["width"] = json!(479);
    line["height"] = json!(479);
    (read(&line), picture["score"].as_f64().unwrap())
}

#[test]
fn t2i_compbench_in_the_plane() {
    let fixture: T2iCases = fixture("t2i");
    for [width, height, frame_width, frame_height] in fixture.frames {
        assert_eq!(t2i::frame((width, height)), (frame_width, frame_height));
    }
    let (mut cases, mut sum) = (Vec::new(), 0.0);
    for (i, picture) in fixture.pictures.iter().enumerate() {
        let (case, theirs) = framed(picture);
        let score = |options| t2i::judge(&case, options).unwrap().score.unwrap();
        close(score(&PUBLISHED), theirs, &format!("{i} {picture}"));
        let file = picture["file"].as_str().unwrap();
        // Elsewhere nothing is different by default.
        if !file.contains("on top of") && !file.contains("a man next to a woman") {
            close(score(&PLAIN), theirs, &format!("{i} {picture}"));
        }
        cases.push(case);
        sum += theirs;
    }
    let report = score("t2i-compbench", &cases, &PUBLISHED);
    close(
        figure(&report, "score").unwrap(),
        sum / cases.len() as f64,
        "mean",
    );
}

#[test]
fn t2i_compbench_by_default() {
    let boxes = vec![
        detection("person", 0.9, [0.0, 0.0, 50.0, 50.0]),
        detection("person", 0.8, [400.0, 400.0, 450.0, 450.0]),
    ];
    let case = |prompt: &str, detections: &[Detection]| {
        let line = json!({"detections": detections, "prompt": prompt, "width": 479, "height": 479});
        read(&line)
    };
    let judge = |case: &Case, options| t2i::judge(case, options).unwrap();
    // Two people are two detections, as published one and the same, which is near itself.
    let people = case("a man next to a woman", &boxes);
    close(
        judge(&people, &PLAIN).score.unwrap(),
        0.425 + 150.0 / 400.0 / 2.0,
        "far apart",
    );
    close(
        judge(&people, &PUBLISHED).score.unwrap(),
        0.45 + 0.5,
        "one and the same",
    );
    let alone = case("a man next to a woman", &boxes[..1]);
    assert_eq!(judge(&alone, &PLAIN).score, Some(0.0));
    assert!(judge(&alone, &PUBLISHED).score > Some(0.9));
    // "on top of" is a relation.
    let stacked = [
        detection("cat", 0.9, [0.0, 0.0, 50.0, 50.0]),
        detection("dog", 0.9, [0.0, 100.0, 50.0, 150.0]),
    ];
    let top = case("a cat on top of a dog", &stacked);
    close(judge(&top, &PLAIN).score.unwrap(), 0.95, "on top of");
    assert_eq!(judge(&top, &PUBLISHED).score, Some(0.0));
    // Distances are those of the resized picture: 400 pixels of 1024 are 187 of 479.
    let mut large = case_of(
        "cat",
        Relation::Near,
        "dog",
        vec![
            detection("cat", 0.9, [0.0, 0.0, 100.0, 100.0]),
            detection("dog", 0.9, [400.0, 400.0, 500.0, 500.0]),
        ],
    );
    large.size = Some((1024, 1024));
    let near = 150.0 / (400.0 * 479.0 / 1024.0);
    close(
        judge(&large, &PLAIN).score.unwrap(),
        0.45 + near / 2.0,
        "frame",
    );
}

#[test]
fn t2i_compbench_in_depth() {
    for (i, picture) in fixture::<Vec<Value>>("t2i_depth").iter().enumerate() {
        let (mut case, theirs) = framed(picture);
        let blocks: Vec<f64> = from_value(picture["blocks"].clone()).unwrap();
        let pixels = (0..479).flat_map(|y| (0..479).map(move |x| y / 80 * 6 + x / 80));
        let map = DepthMap::new(479, 479, pixels.map(|block| blocks[block]).collect()).unwrap();
        case.depth = Some(Arc::new(map));
        let score = t2i_depth::judge(&case, &PUBLISHED).unwrap().score.unwrap();
        close(score, theirs, &format!("{i} {picture}"));
    }
}

#[test]
fn depth_by_default_is_read_where_the_box_is() {
    // Near on the right.
    let map = DepthMap::new(4, 4, [0.0, 0.0, 1.0, 1.0].repeat(4)).unwrap();
    let (a, b) = (
        BoundingBox::new(1.0, 0.0, 4.0, 1.0),
        BoundingBox::new(0.0, 0.0, 3.0, 1.0),
    );
    let front = |published| t2i_depth::position(Relation::InFrontOf, &a, &b, &map, published);
    // Overlap is exactly one half.
    assert_eq!(a.iou(&b), 0.5);
    assert_eq!((front(false), front(true)), (1.0, 0.0));
    assert_eq!(
        t2i_depth::position(Relation::Behind, &a, &b, &map, false),
        0.0
    );
}

#[test]
fn a_name_within_another_takes_a_detection_of_its_own() {
    // Near from column 60 on.
    let depths = (0..100).map(|x| if x < 60 { 0.1 } else { 1.0 });
    let map = Arc::new(DepthMap::new(100, 1, depths.collect()).unwrap());
    let judge = |names: [&str; 2], detections: &[(&str, f64, [f64; 4])]| {
        let found = (detections.iter()).map(|(label, score, bbox)| detection(label, *score, *bbox));
        let mut case = case_of(names[0], Relation::InFrontOf, names[1], found.collect());
        case.size = Some((100, 100));
        case.depth = Some(map.clone());
        let outcome = t2i_depth::judge(&case, &PLAIN).unwrap();
        (outcome.score.unwrap(), outcome.missing)
    };
    let (left, right) = ([0.0, 0.0, 60.0, 100.0], [30.0, 0.0, 90.0, 100.0]);
    // 30 of their 90 columns are common: an IoU of 1 / 3, which is 2 / 3 of the full score.
    let whole = (0.9 + 0.8) / 4.0 + 2.0 / 3.0 / 2.0;
    let both = [("teddy bear", 0.9, left), ("bear", 0.8, right)];
    let (score, missing) = judge(["bear", "teddy bear"], &both);
    close(score, whole, "the second's label");
    assert!(missing.is_empty(), "{missing:?}");
    // A label of neither: only the first name has another detection.
    let neither = [("old hot dog", 0.9, left), ("dog", 0.8, right)];
    let (score, missing) = judge(["dog", "hot dog"], &neither);
    close(score, whole, "the first's other detection");
    assert!(missing.is_empty(), "{missing:?}");
    // Its own label before another that fits better.
    let three = [both[0], ("polar bear", 0.85, left), both[1]];
    close(judge(["bear", "teddy bear"], &three).0, whole, "own label");
    // One toy is no bear.
    let (score, missing) = judge(["bear", "teddy bear"], &both[..1]);
    assert_eq!((score, missing), (0.225, vec!["bear".to_owned()]));
}
