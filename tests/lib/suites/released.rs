//! The sets' texts and sizes against what their authors released and wrote.

use std::collections::{BTreeMap, HashSet};

use prepose::suite::SuitePrompt;
use prepose::suite::sets;
use sha2::{Digest, Sha256};

use super::{original, suite};

fn sha256(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The released files, by their hashes.
#[test]
fn originals_are_the_released_files() {
    for (name, hash) in [
        (
            "spatialbench-uc",
            "e13c0ed8f962acb7fed702c689e384184759f17317373bce0ef633667c244d8d",
        ),
        (
            "visor",
            "ebe9b1199fd3c00aeb32f04b17d947319f40eb6edb87e97621277e5b61379048",
        ),
    ] {
        assert_eq!(sha256(&original(name)), hash, "{name}");
    }
}

#[test]
#[ignore = "needs PREPOSE_BENCHMARK_DATA"]
fn whole_released_files() {
    let released = |file: &str| std::fs::read_to_string(crate::support::released(file)).unwrap();
    for (name, file) in [
        ("t2i-compbench-spatial", "t2i-compbench/spatial.txt"),
        ("t2i-compbench-3d", "t2i-compbench/3d_spatial.txt"),
        (
            "spatialbench-uc",
            "spatialbench-uc/data/prompts/v1.0.1/prompts.jsonl",
        ),
        ("visor", "visor/text_spatial_rel_phrases.json"),
    ] {
        assert!(original(name) == released(file), "{name}");
    }
    let metadata = released("geneval/prompts/evaluation_metadata.jsonl");
    let mut lines = metadata.lines().enumerate();
    let (first, _) = lines
        .clone()
        .find(|(_, line)| line.contains("\"position\", \"include\""))
        .unwrap();
    let position: String = lines
        .by_ref()
        .filter(|(_, line)| line.contains("\"tag\": \"position\""))
        .map(|(_, line)| format!("{line}\n"))
        .collect();
    assert!(original("geneval-position") == position);
    let id = &suite("geneval-position").prompts[0].prompt_id;
    assert_eq!(*id, format!("geneval_{first:05}"));
    for (name, file) in [
        ("t2i-compbench-spatial-val", "t2i-compbench/spatial_val.txt"),
        ("t2i-compbench-3d-val", "t2i-compbench/3d_spatial_val.txt"),
    ] {
        let texts: Vec<String> = suite(name).prompts.into_iter().map(|p| p.prompt).collect();
        let lines: Vec<String> = released(file)
            .lines()
            .map(|line| line.trim().to_owned())
            .filter(|line| !line.is_empty())
            .collect();
        assert_eq!(texts, lines, "{name}");
    }
}

#[test]
fn every_set_is_as_large_as_it_should_be() {
    let expected = [
        ("spatialbench-uc", 200, 4, 200),
        ("visor", 25_280, 4, 25_280),
        ("visor-5000", 5_000, 4, 0),
        ("geneval-position", 100, 4, 0),
        ("t2i-compbench-spatial", 1_000, 10, 0),
        ("t2i-compbench-spatial-val", 300, 10, 0),
        ("t2i-compbench-3d", 1_000, 10, 0),
        ("t2i-compbench-3d-val", 300, 10, 0),
        ("psg-three", 100, 4, 0),
        ("psg-four", 100, 4, 0),
        ("ots-objects", 1_056, 1, 1_056),
        ("ots-objects-vertical", 1_056, 1, 1_056),
        ("ots-bench", 1_700, 1, 1_700),
        ("ots-bench-vertical", 1_700, 1, 1_700),
        ("ots-correctness", 800, 1, 800),
        ("ots-edit", 1_100, 1, 0),
        ("ots-edit-correctness", 2_200, 1, 2_200),
    ];
    assert_eq!(expected.map(|row| row.0).to_vec(), sets::names());
    for (name, prompts, pictures, paired) in expected {
        let suite = suite(name);
        assert_eq!(suite.prompts.len(), prompts, "{name}");
        assert_eq!(suite.pictures_per_prompt, pictures, "{name}");
        let with = |prompt: &&SuitePrompt| prompt.counterpart.is_some();
        let with = suite.prompts.iter().filter(with).count();
        assert!(with >= paired, "{name}: {with} prompts have a counterpart");
    }
    let relations = |name: &str| {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for prompt in suite(name).prompts {
            for stated in prompt.relations {
                *counts.entry(stated.relation.as_str()).or_default() += 1;
            }
        }
        Vec::from_iter(counts)
    };
    assert_eq!(
        relations("t2i-compbench-spatial"),
        [
            ("above", 177),
            ("below", 186),
            ("left of", 181),
            ("near", 272),
            ("right of", 184)
        ]
    );
    assert_eq!(
        relations("t2i-compbench-3d"),
        [("behind", 673), ("in front of", 327)]
    );
    let all_four = |each| ["above", "below", "left of", "right of"].map(|name| (name, each));
    assert_eq!(relations("spatialbench-uc"), all_four(50));
    assert_eq!(relations("visor"), all_four(6_320));
}

#[test]
fn psg_prompts_follow_the_papers_examples() {
    let three = &suite("psg-three").prompts;
    let four = &suite("psg-four").prompts;
    for prompt in three.iter().chain(four) {
        assert_eq!(prompt.relations.len(), 2);
        let different: HashSet<&String> = prompt.objects.iter().collect();
        assert_eq!(different.len(), prompt.objects.len());
    }
    let texts: HashSet<&str> = three
        .iter()
        .chain(four)
        .map(|p| p.prompt.as_str())
        .collect();
    assert_eq!(texts.len(), 200);
    let places = |prompt: &SuitePrompt| prompt.relations.iter().filter_map(|r| r.two()).collect();
    assert!(
        three
            .iter()
            .all(|p| vec![(0, 1), (0, 2)] == Vec::from_iter::<Vec<_>>(places(p)))
    );
    assert!(
        four.iter()
            .all(|p| vec![(0, 1), (2, 3)] == Vec::from_iter::<Vec<_>>(places(p)))
    );
}
