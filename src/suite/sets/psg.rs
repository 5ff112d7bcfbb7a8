//! Prompts of three and four objects, by the templates of "Why Settle for Mid" (arXiv 2506.23418, appendix B.2).
//!
//! The paper prints one example of each hundred: "a balloon on the bottom of a chicken and on the left of a lamp" and "a
//! cup on the right of a dog and a bicycle on the left of a man". The rest is ours: the objects are those of
//! SpatialBench-UC, which the checkers know; objects and relations are drawn by Python's generator, seed 0. The paper
//! counts three relations in the second example, which states two; so do these.

use super::{owned, spatialbench, with_article};
use crate::check::python_random::PythonRandom;
use crate::prompt::scene::{Relation, StatedRelation};
use crate::suite::SuitePrompt;

const PROMPTS: usize = 100;
const SEED: u64 = 0;

const RELATIONS: [(Relation, &str); 4] = [
    (Relation::LeftOf, "on the left of"),
    (Relation::RightOf, "on the right of"),
    (Relation::Above, "on the top of"),
    (Relation::Below, "on the bottom of"),
];

/// "a A on the bottom of a B and on the left of a C"
pub(super) fn three() -> Vec<SuitePrompt> {
    let prompt = |[a, b, c]: [&str; 3], [first, second]: [&str; 2]| {
        let [a, b, c] = [a, b, c].map(with_article);
        format!("{a} {first} {b} and {second} {c}")
    };
    prompts("psg3", prompt, [(0, 1), (0, 2)])
}

/// "a A on the right of a B and a C on the left of a D"
pub(super) fn four() -> Vec<SuitePrompt> {
    let prompt = |[a, b, c, d]: [&str; 4], [first, second]: [&str; 2]| {
        let [a, b, c, d] = [a, b, c, d].map(with_article);
        format!("{a} {first} {b} and {c} {second} {d}")
    };
    prompts("psg4", prompt, [(0, 1), (2, 3)])
}

/// Draws `N` different objects and two different relations between the objects of these `places` for each prompt.
fn prompts<const N: usize>(
    name: &str,
    text: impl Fn([&'static str; N], [&'static str; 2]) -> String,
    places: [(usize, usize); 2],
) -> Vec<SuitePrompt> {
    let known = spatialbench::objects();
    let mut random = PythonRandom::new(SEED);
    let mut draw = |number| {
        let objects = random.sample(known.len() as u32, N as u32);
        let objects: [&str; N] = std::array::from_fn(|i| known[objects[i] as usize]);
        let relations = random.sample(RELATIONS.len() as u32, 2);
        let stated = [0, 1].map(|i| RELATIONS[relations[i] as usize]);
        SuitePrompt {
            prompt_id: format!("{name}_{number:03}"),
            prompt: text(objects, stated.map(|(_, words)| words)),
            objects: owned(objects),
            relations: [0, 1]
                .map(|i| StatedRelation::of_two(places[i].0, stated[i].0, places[i].1))
                .to_vec(),
            counterpart: None,
            tags: Vec::new(),
            ..SuitePrompt::default()
        }
    };
    (0..PROMPTS).map(&mut draw).collect()
}
