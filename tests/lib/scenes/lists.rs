//! The benchmarks' prompt lists against their structured truth: each prompt is read as it is meant, or refused.
//!
//! A slice of each list is in `fixtures/scenes`. The whole lists are in the benchmarks' released data.

use std::collections::BTreeMap;
use std::path::Path;

use prepose::prompt::scene::{Relation, Scene};
use serde_json::Value;

use crate::support::{fixture, released};

/// A prompt and what it means: nouns with their numbers, and relations between them by index.
struct Truth {
    prompt: String,
    objects: Vec<(String, usize)>,
    relation: Option<(usize, Relation, usize)>,
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn relation(name: &str) -> Relation {
    match name {
        "left of" | "left_of" | "to the left of" | "on the left of" => Relation::LeftOf,
        "right of" | "right_of" | "to the right of" | "on the right of" => Relation::RightOf,
        "above" | "on the top of" => Relation::Above,
        "below" | "on the bottom of" => Relation::Below,
        "near" | "next to" | "on side of" => Relation::Near,
        "in front of" => Relation::InFrontOf,
        "behind" | "hidden by" => Relation::Behind,
        _ => panic!("{name:?}"),
    }
}

fn text(value: &Value) -> String {
    value
        .as_str()
        .unwrap_or_else(|| panic!("{value}"))
        .to_owned()
}

fn visor(folder: &Path) -> Vec<Truth> {
    let file = read(&folder.join("visor/text_spatial_rel_phrases.json"));
    let entries: Vec<Value> = serde_json::from_str(&file).unwrap();
    let truth = |entry: Value| {
        let object = |key: &str| entry[key][0].as_str().map(|noun| (noun.to_owned(), 1));
        let stated = match entry["rel_type"].as_str().unwrap() {
            "single" | "and" => None,
            name => Some((0, relation(name), 1)),
        };
        let objects = ["obj_1_attributes", "obj_2_attributes"]
            .into_iter()
            .filter_map(object)
            .collect();
        Truth {
            prompt: text(&entry["text"]),
            objects,
            relation: stated,
        }
    };
    entries.into_iter().map(truth).collect()
}

fn geneval(folder: &Path) -> Vec<Truth> {
    let lines = read(&folder.join("geneval/prompts/evaluation_metadata.jsonl"));
    let truth = |line: &str| {
        let entry: Value = serde_json::from_str(line).unwrap();
        let mut objects = Vec::new();
        let mut stated = None;
        for (i, object) in entry["include"].as_array().unwrap().iter().enumerate() {
            objects.push((
                text(&object["class"]),
                object["count"].as_u64().unwrap() as usize,
            ));
            if let Some(position) = object["position"].as_array() {
                stated = Some((
                    i,
                    relation(&text(&position[0])),
                    position[1].as_u64().unwrap() as usize,
                ));
            }
        }
        // In the relational prompts the second object is named first.
        if let Some((subject, relation, object)) = stated {
            objects.reverse();
            let last = objects.len() - 1;
            stated = Some((last - subject, relation, last - object));
        }
        Truth {
            prompt: text(&entry["prompt"]),
            objects,
            relation: stated,
        }
    };
    lines.lines().map(truth).collect()
}

/// "a X <relation> a Y", with nothing else; the phrases are the benchmark's whole vocabulary.
fn compbench(folder: &Path) -> Vec<Truth> {
    let phrases = [
        "on the left of",
        "on the right of",
        "on the top of",
        "on the bottom of",
        "on side of",
        "next to",
        "near",
        "in front of",
        "behind",
        "hidden by",
    ];
    let truth = |line: &str| {
        let line = line.trim();
        let split = phrases
            .iter()
            .find_map(|phrase| Some((line.split_once(&format!(" {phrase} "))?, phrase)));
        let ((subject, object), phrase) = split.unwrap_or_else(|| panic!("{line:?}"));
        let noun = |text: &str| text.split_once(' ').unwrap().1.to_owned();
        Truth {
            prompt: line.to_owned(),
            objects: vec![(noun(subject), 1), (noun(object), 1)],
            relation: Some((0, relation(phrase), 1)),
        }
    };
    let names = [
        "spatial",
        "spatial_train",
        "spatial_val",
        "3d_spatial",
        "3d_spatial_train",
        "3d_spatial_val",
    ];
    let files = names.map(|name| folder.join(format!("t2i-compbench/{name}.txt")));
    let texts: Vec<String> = files
        .iter()
        .filter(|file| file.exists())
        .map(|file| read(file))
        .collect();
    let lines = texts.iter().flat_map(|text| text.lines());
    lines
        .filter(|line| !line.trim().is_empty())
        .map(truth)
        .collect()
}

fn spatialbench(folder: &Path) -> Vec<Truth> {
    let lines = read(&folder.join("spatialbench-uc/data/prompts/v1.0.1/prompts.jsonl"));
    let truth = |line: &str| {
        let entry: Value = serde_json::from_str(line).unwrap();
        Truth {
            prompt: text(&entry["prompt"]),
            objects: ["object_a", "object_b"]
                .map(|key| (text(&entry[key]["name"]), 1))
                .to_vec(),
            relation: Some((0, relation(&text(&entry["relation"])), 1)),
        }
    };
    lines.lines().map(truth).collect()
}

/// Compares a list and prints how many of its prompts were read and refused.
fn compare(name: &str, list: Vec<Truth>) {
    let mut refused: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut misread = Vec::new();
    let total = list.len();
    for truth in list {
        let scene = match Scene::parse(&truth.prompt) {
            Ok(scene) => scene,
            Err(error) => {
                refused
                    .entry(error.to_string())
                    .or_default()
                    .push(truth.prompt);
                continue;
            }
        };
        let objects: Vec<(String, usize)> = (scene.objects.iter())
            .map(|object| (object.noun.clone(), object.count.unwrap_or(0)))
            .collect();
        let stated: Vec<(usize, Relation, usize)> = (scene.relations.iter())
            .map(|stated| (stated.subject, stated.relation, stated.objects[0]))
            .collect();
        if objects != truth.objects || stated != Vec::from_iter(truth.relation) {
            misread.push(format!("{:?} as {objects:?} {stated:?}", truth.prompt));
        }
    }
    let number: usize = refused.values().map(Vec::len).sum();
    println!(
        "{name}: {total} prompts, {} read, {number} refused, {} misread",
        total - number - misread.len(),
        misread.len()
    );
    for (reason, prompts) in &refused {
        println!(
            "  refused {}: {reason}; first {:?}",
            prompts.len(),
            prompts[0]
        );
    }
    assert!(total > 0, "{name} is empty");
    assert!(
        misread.is_empty(),
        "{name}: {} misread, such as {}",
        misread.len(),
        misread[..misread.len().min(20)].join("\n")
    );
}

fn compare_all(folder: &Path) {
    compare("VISOR", visor(folder));
    compare("GenEval", geneval(folder));
    compare("T2I-CompBench", compbench(folder));
    compare("SpatialBench-UC", spatialbench(folder));
}

#[test]
fn slices_of_the_lists() {
    compare_all(&fixture("scenes"));
}

#[test]
#[ignore = "needs PREPOSE_BENCHMARK_DATA"]
fn whole_released_lists() {
    compare_all(&released(""));
}
