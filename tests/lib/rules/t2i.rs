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
