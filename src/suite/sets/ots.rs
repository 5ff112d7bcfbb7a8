//! Pairs of things in both orders and without a relation: does the order of mention decide where they stand?
//!
//! The prompts of OTS-Bench (arXiv 2603.03714) are not public. These have its subjects and its numbers of prompts for
//! each pair of categories, half of them a pair and half the same pair in the other order; the pairs are drawn by
//! Python's generator, seed 0, and no actions are added, of which the paper prints only examples.

use super::entities::{ANIMALS, humans, objects as things};
use super::{spatialbench, with_article};
use crate::check::python_random::PythonRandom;
use crate::suite::SuitePrompt;

const SEED: u64 = 0;

/// What follows the two objects.
const VERTICAL: &str = ", one above the other";

/// A pair of names, and what is said of it.
type Pair = ([String; 2], &'static str);

pub(super) fn objects() -> Vec<SuitePrompt> {
    prompts("objects", all_objects(), "")
}

pub(super) fn objects_vertical() -> Vec<SuitePrompt> {
    prompts("objects", all_objects(), VERTICAL)
}

pub(super) fn bench() -> Vec<SuitePrompt> {
    prompts("bench", drawn(), "")
}

pub(super) fn bench_vertical() -> Vec<SuitePrompt> {
    prompts("bench", drawn(), VERTICAL)
}

/// All pairs of SpatialBench-UC's objects.
fn all_objects() -> Vec<Pair> {
    let names: Vec<String> = (spatialbench::objects().into_iter())
        .map(str::to_owned)
        .collect();
    let pairs = within(&names).into_iter();
    pairs.map(|pair| (pair, "")).collect()
}

/// Half as many pairs of OTS-Bench's subjects as it has prompts, as each is in both orders here.
fn drawn() -> Vec<Pair> {
    let (humans, animals, things) = (humans(), ANIMALS.map(str::to_owned), things());
    let candidates = [
        ("human-human", 250, within(&humans)),
        ("animal-animal", 150, within(&animals)),
        ("object-object", 150, within(&things)),
        ("human-animal", 100, between(&humans, &animals)),
        ("human-object", 100, between(&humans, &things)),
        ("animal-object", 100, between(&animals, &things)),
    ];
    let mut random = PythonRandom::new(SEED);
    let mut drawn = Vec::new();
    for (tag, number, pairs) in candidates {
        let mut places = random.sample(pairs.len() as u32, number);
        places.sort_unstable();
        let pairs = places
            .into_iter()
            .map(|place| pairs[place as usize].clone());
        drawn.extend(pairs.map(|pair| (pair, tag)));
    }
    drawn
}

/// All pairs of different names of a list.
fn within(names: &[String]) -> Vec<[String; 2]> {
    let pairs_of = |(i, first): (usize, &String)| {
        let first = first.clone();
        names[i + 1..]
            .iter()
            .map(move |second| [first.clone(), second.clone()])
    };
    names.iter().enumerate().flat_map(pairs_of).collect()
}

/// All pairs of a name of one list with a name of another.
fn between(first: &[String], second: &[String]) -> Vec<[String; 2]> {
    let pairs_of = |first: &String| {
        let first = first.clone();
        second
            .iter()
            .map(move |second| [first.clone(), second.clone()])
    };
    first.iter().flat_map(pairs_of).collect()
}

/// Both orders of each pair, one after the other.
fn prompts(name: &str, pairs: Vec<Pair>, arrangement: &str) -> Vec<SuitePrompt> {
    let both = |(number, ([a, b], tag)): (usize, Pair)| {
        let id = |order: &str| format!("{name}_{number:04}_{order}");
        let prompt = |first: &str, second: &str, orders: [&str; 2]| SuitePrompt {
            prompt_id: id(orders[0]),
            prompt: format!(
                "a photo of {} and {}{arrangement}.",
                with_article(first),
                with_article(second)
            ),
            objects: vec![first.to_owned(), second.to_owned()],
            relations: Vec::new(),
            counterpart: Some(id(orders[1])),
            tags: Vec::from_iter((!tag.is_empty()).then(|| tag.to_owned())),
        };
        [prompt(&a, &b, ["ab", "ba"]), prompt(&b, &a, ["ba", "ab"])]
    };
    pairs.into_iter().enumerate().flat_map(both).collect()
}
