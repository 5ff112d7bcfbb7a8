//! GenEval: relations of boxes, whole pictures, its files.

use std::path::Path;

use prepose::check::BoundingBox;
use prepose::check::rules::read::Reader;
use prepose::check::rules::{Wanted, geneval};
use prepose::prompt::scene::Relation;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{PLAIN, close, figure, fixture, read, score};

#[derive(Deserialize)]
struct GenevalCases {
    pairs: Vec<GenevalPair>,
    pictures: Vec<GenevalPicture>,
}

#[derive(Deserialize)]
struct GenevalPair {
    a: BoundingBox,
    b: BoundingBox,
    held: Vec<String>,
}

#[derive(Deserialize)]
struct GenevalPicture {
    detections: Value,
    result: Value,
}

/// Folders around the pictures may have numbers of their own.
#[test]
fn a_path_has_the_number_of_its_prompt() {
    let line = |n: usize| {
        let include = [json!({"class": n.to_string(), "count": 1})];
        json!({"tag": "single_object", "include": include, "prompt": format!("prompt {n}")})
    };
    let metadata: Vec<String> = (0..13).map(|n| line(n).to_string()).collect();
    let reader = Reader::with_geneval_metadata(&metadata.join("\n")).unwrap();
    let read = |line: &Value| {
        let text = line.to_string();
        let (_, case) = reader.read(Path::new("d.jsonl"), &text).next().unwrap();
        case
    };
    for (path, number) in [
        ("00012/samples/0003.png", 12),
        ("sd/1.5/00012_a dog/samples/0003.png", 12),
        ("sd/1.5/00000/samples/0000.png", 0),
        ("5/00012/samples/00007/0003.png", 12),
        ("sd/1.5/00012/0003.png", 12),
        ("/data/7/00012/grid.png", 12),
        ("sd/1.5/samples/00012.png", 12),
        ("2.1/00012_3.png", 12),
        ("00012", 12),
    ] {
        for key in ["file", "image_path", "id"] {
            let case = read(&json!({key: path, "detections": []})).unwrap();
            let wanted = [Wanted::one(number.to_string())];
            assert_eq!(case.objects, wanted, "{key} {path}");
        }
    }
    // The path comes before the name.
    let named = json!({"sample_id": "3", "image_path": "00012/samples/0003.png", "relation": "left of", "detections": []});
    assert_eq!(read(&named).unwrap().prompt.as_deref(), Some("prompt 12"));
    let message = read(&json!({"image_path": "1.5/x.png", "detections": []})).unwrap_err();
    assert!(message.to_string().contains("has no"), "{message}");
}

#[test]
fn geneval_relations_and_pictures() {
    let fixture: GenevalCases = fixture("geneval");
    for (i, pair) in fixture.pairs.iter().enumerate() {
        let mut held: Vec<&str> = (geneval::relations(&pair.a, &pair.b).into_iter())
            .map(Relation::as_str)
            .collect();
        held.sort();
        assert_eq!(held, pair.held, "{i}");
    }
    let mut cases = Vec::new();
    for (i, picture) in fixture.pictures.iter().enumerate() {
        let correct = picture.result["correct"].as_bool().unwrap();
        let result = read(&picture.result);
        // The same from the detections with the metadata in the line, and under COCO's name of the mouse.
        let metadata: Value =
            serde_json::from_str(picture.result["metadata"].as_str().unwrap()).unwrap();
        let line = json!({"id": "x", "detections": picture.detections, "metadata": metadata});
        let coco = line
            .to_string()
            .replace(r#""label":"computer mouse""#, r#""label":"mouse""#);
        let lines = [
            result,
            read(&line),
            read(&serde_json::from_str(&coco).unwrap()),
        ];
        for case in &lines {
            let outcome = geneval::judge(case, &PLAIN).unwrap();
            assert_eq!(outcome.score == Some(1.0), correct, "{i} {outcome:?}");
        }
        cases.extend(lines.into_iter().take(1));
    }
    let report = score("geneval", &cases, &PLAIN);
    let right = |p: &&GenevalPicture| p.result["correct"] == true;
    let right = fixture.pictures.iter().filter(right).count() as f64;
    let share = 100.0 * right / fixture.pictures.len() as f64;
    close(figure(&report, "right pictures").unwrap(), share, "right");
    assert_eq!(figure(&report, "prompts"), Some(15.0));
}
