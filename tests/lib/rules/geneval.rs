//! GenEval: relations of boxes, whole pictures, its files.

use prepose::check::BoundingBox;
use prepose::check::rules::geneval;
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
