//! T2I-CompBench's spatial prompts, in the plane and in depth (arXiv 2307.06350, github.com/Karine-Huang/T2I-CompBench).

use super::owned;
use crate::prompt::scene::{Relation, StatedRelation};
use crate::suite::SuitePrompt;

/// As they were released, with their line ends: the 700 training prompts, then the 300 for validation.
const SPATIAL: &str = include_str!("../data/t2i-compbench/spatial.txt");
const DEPTH: &str = include_str!("../data/t2i-compbench/3d_spatial.txt");
const TRAINING: usize = 700;

/// The relations in its words.
const RELATIONS: [(&str, Relation); 10] = [
    (" on the left of ", Relation::LeftOf),
    (" on the right of ", Relation::RightOf),
    (" on the top of ", Relation::Above),
    (" on the bottom of ", Relation::Below),
    (" on side of ", Relation::Near),
    (" next to ", Relation::Near),
    (" near ", Relation::Near),
    (" in front of ", Relation::InFrontOf),
    (" behind ", Relation::Behind),
    (" hidden by ", Relation::Behind),
];

pub(super) fn spatial_original() -> String {
    SPATIAL.to_owned()
}

pub(super) fn depth_original() -> String {
    DEPTH.to_owned()
}

pub(super) fn spatial() -> Vec<SuitePrompt> {
    prompts("spatial", SPATIAL)
}

pub(super) fn spatial_val() -> Vec<SuitePrompt> {
    spatial().split_off(TRAINING)
}

pub(super) fn depth() -> Vec<SuitePrompt> {
    prompts("3d", DEPTH)
}

pub(super) fn depth_val() -> Vec<SuitePrompt> {
    depth().split_off(TRAINING)
}

fn prompts(name: &str, list: &str) -> Vec<SuitePrompt> {
    let prompt = |(number, line): (usize, &str)| {
        let line = line.trim();
        let found = RELATIONS
            .iter()
            .find_map(|(words, relation)| Some((line.split_once(words)?, *relation)));
        let ((a, b), relation) = found?;
        let part = if number < TRAINING { "train" } else { "val" };
        Some(SuitePrompt {
            prompt_id: format!("t2i_{name}_{number:04}"),
            prompt: line.to_owned(),
            objects: owned([noun_of(a)?, noun_of(b)?]),
            relations: vec![StatedRelation::of_two(0, relation, 1)],
            counterpart: None,
            tags: vec![part.to_owned()],
            ..SuitePrompt::default()
        })
    };
    let lines = list.lines().filter(|line| !line.trim().is_empty());
    lines.enumerate().filter_map(prompt).collect()
}

/// Without its article.
fn noun_of(phrase: &str) -> Option<&str> {
    Some(phrase.split_once(' ')?.1)
}
