//! VISOR, picture by picture and in sum.

use std::path::Path;

use prepose::check::Detection;
use prepose::check::rules::read::Reader;
use prepose::check::rules::{Case, visor};
use prepose::prompt::scene::Relation;
use serde::Deserialize;
use serde_json::Value;

use super::{PLAIN, case_of, close, figure, fixture, score};

#[derive(Deserialize)]
struct VisorCases {
    pictures: Vec<VisorPicture>,
    results: Value,
    notebook_by_prompt: Vec<VisorPrompt>,
    script: VisorScores,
}

#[derive(Deserialize)]
struct VisorPicture {
    id: String,
    relation: String,
    sra: u8,
    detections: Vec<Detection>,
}

#[derive(Deserialize)]
struct VisorPrompt {
    prompt_id: String,
    #[serde(flatten)]
    scores: VisorScores,
}

#[derive(Deserialize)]
struct VisorScores {
    cond: f64,
    uncond: f64,
    at_least: [f64; 4],
    accuracy: [f64; 3],
}

#[track_caller]
fn same_visor(ours: &visor::Scores, theirs: &VisorScores) {
    close(ours.conditional.unwrap(), theirs.cond, "cond");
    close(ours.unconditional.unwrap(), theirs.uncond, "uncond");
    for (ours, theirs) in ours.at_least.iter().zip(theirs.at_least) {
        close(ours.unwrap_or(0.0), theirs, "VISOR_n");
    }
    for (ours, theirs) in ours.object_accuracy.iter().zip(theirs.accuracy) {
        close(ours.unwrap(), theirs, "OA");
    }
}

#[test]
fn visor_picture_by_picture_and_in_sum() {
    let fixture: VisorCases = fixture("visor");
    let mut judged = Vec::new();
    for picture in fixture.pictures {
        let relation = picture.relation.parse().unwrap_or(Relation::Near);
        let mut case = case_of("kite", relation, "bus", picture.detections);
        if picture.relation == "and" {
            case.relations.clear();
        }
        let found = visor::judge(&case, &PLAIN).unwrap();
        assert_eq!(found.is_none(), picture.relation == "and");
        if let Some(found) = found {
            assert_eq!(u8::from(found.right), picture.sra, "{}", picture.id);
            let prompt = picture.id.split('_').next().unwrap().to_owned();
            judged.push((prompt, found));
        }
    }
    let all = judged
        .iter()
        .map(|(prompt, found)| (prompt.as_str(), *found));
    same_visor(&visor::scores(all.clone(), false), &fixture.script);
    for prompt in &fixture.notebook_by_prompt {
        let own = all.clone().filter(|(id, _)| *id == prompt.prompt_id);
        let scores = visor::scores(own, true);
        same_visor(&scores, &prompt.scores);
    }
    // The same from VISOR's own results file.
    let (reader, text) = (Reader::default(), fixture.results.to_string());
    let read = reader.read(Path::new("results.json"), &text);
    let cases: Vec<Case> = read.map(|(_, case)| case.unwrap()).collect();
    assert_eq!(cases.len(), 120);
    let report = score("visor", &cases, &PLAIN);
    assert_eq!(figure(&report, "pictures"), Some(96.0));
    close(
        figure(&report, "VISOR_cond").unwrap(),
        fixture.script.cond,
        "file",
    );
    close(
        figure(&report, "VISOR_4").unwrap(),
        fixture.script.at_least[3],
        "file",
    );
}
