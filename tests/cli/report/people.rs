//! What people say of the pictures.

use std::fs;

use prepose::report::{people, read};
use serde_json::{Value, json};

use super::made::{PROMPTS, SEEDS, finished, made};
use super::{data, lines, page, write};
use crate::program::{prepose_in, stderr, works};

/// Where psg's picture of the second prompt and the first seed is among a run's: behind those of prompt-only.
const PLACE: usize = (PROMPTS + 1) * SEEDS as usize;

/// The verdict and the note of a picture, as the page has them.
fn said(pictures: &Value, place: usize) -> [Value; 2] {
    [13, 15].map(|part| pictures[place][part].clone())
}

#[test]
fn labels_are_of_the_run_that_they_lie_in() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let export = |verdict: &str, notes: &str| {
        let id = made("psg", 1, 0).id;
        json!([{"sample_id": id, "human_verdict": verdict, "notes": notes}]).to_string()
    };
    for (run, verdict) in [("two/a", "FAIL"), ("two/b", "PASS")] {
        finished(&at.join(run));
        let file = at.join(run).join("audit/labels_filled.json");
        write(file, export(verdict, run));
    }
    works(at, &["report", "two/a", "two/b", "-o", "out"]);
    let html = page(&at.join("out"));
    let pictures = &data(&html)["pictures"];
    let whole_run = pictures.as_array().unwrap().len() / 2;
    assert_eq!(said(pictures, PLACE), [json!(1), json!("two/a")]);
    assert_eq!(
        said(pictures, whole_run + PLACE),
        [json!(0), json!("two/b")]
    );
    assert!(html.contains("<dt>labelled by people</dt><dd>2</dd>"));
    // The checker passes both, and people one of them.
    let runs = ["two/a", "two/b"].map(|run| at.join(run).display().to_string());
    let report = read(&runs, Vec::new(), None).unwrap();
    let curves = people::curves(&report).unwrap();
    let (_, points) = &curves[0];
    assert_eq!((points[0].n_evaluated, points[0].accuracy), (2, 0.5));

    // Of labels that are given nobody knows which of two pictures of the same name people saw.
    for run in ["two/a", "two/b"] {
        fs::remove_dir_all(at.join(run).join("audit")).unwrap();
    }
    write(at.join("given.json"), export("FAIL", "given"));
    let given = ["report", "-o", "out", "--labels", "given.json", "two/a"];
    let output = prepose_in(at, &[&given[..], &["two/b"]].concat());
    let message = stderr(&output);
    assert!(
        message.contains("several pictures have their name: 1."),
        "{message}"
    );
    let pictures = &data(&page(&at.join("out")))["pictures"];
    assert_eq!(said(pictures, PLACE), [json!(-1), json!("")]);
    works(at, &given);
    let pictures = &data(&page(&at.join("out")))["pictures"];
    assert_eq!(said(pictures, PLACE), [json!(1), json!("given")]);
}

#[test]
fn labels_of_single_relations_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let both = [0, 1].map(|seed| made("psg", 1, seed));
    let named = |place: usize, number: usize| format!("{}_relation{number}", both[place].id);
    let records: Vec<Value> = [(0, 1), (0, 2), (1, 1), (1, 2)]
        .map(|(place, number)| {
            let mut record = both[place].record.clone();
            record["sample_id"] = json!(named(place, number));
            record
        })
        .into();
    let manifest = lines(&both.each_ref().map(|one| one.manifest.clone()));
    write(at.join("run/psg/manifest.jsonl"), manifest);
    write(at.join("run/psg/eval/per_sample.jsonl"), lines(&records));
    let labels = json!([
        {"sample_id": named(0, 1), "human_verdict": "PASS", "notes": "left of it"},
        {"sample_id": named(0, 2), "human_verdict": "FAIL", "notes": "below it"},
        {"sample_id": named(1, 1), "human_verdict": "PASS"},
    ]);
    write(at.join("run/audit/labels_filled.json"), labels.to_string());
    works(at, &["report", "run", "-o", "out"]);
    let html = page(&at.join("out"));
    let pictures = &data(&html)["pictures"];
    let each = |place: usize| [0, 1].map(|record| pictures[place][9][record][12].clone());
    // One of two relations fails, and so does the picture.
    assert_eq!(said(pictures, 0), [json!(1), json!("left of it; below it")]);
    assert_eq!(each(0), [json!(0), json!(1)]);
    // One holds, and nobody looked at the other.
    assert_eq!(said(pictures, 1), [json!(-1), json!("")]);
    assert_eq!(each(1), [json!(0), json!(-1)]);
    assert!(html.contains("<dt>labelled by people</dt><dd>2</dd>"));
}
