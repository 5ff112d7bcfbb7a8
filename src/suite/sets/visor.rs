//! VISOR's prompts, made as its generator makes them (arXiv 2212.10015, github.com/microsoft/VISOR).

use prepose_models::rcnn::COCO_CLASSES;
use serde::Serialize;

use super::{owned, with_article};
use crate::check::json;
use crate::check::python_random::PythonRandom;
use crate::prompt::scene::{Relation, StatedRelation};
use crate::suite::SuitePrompt;

/// How many prompts "Why Settle for Mid" takes of it.
const DRAWN: u32 = 5_000;

/// Its relations in its words.
const RELATIONS: [(Relation, &str); 4] = [
    (Relation::LeftOf, "to the left of"),
    (Relation::RightOf, "to the right of"),
    (Relation::Above, "above"),
    (Relation::Below, "below"),
];

/// An entry of its file; the keys are written in this order.
#[derive(Serialize)]
struct Entry {
    unique_id: usize,
    num_objects: usize,
    obj_1_attributes: [Option<&'static str>; 1],
    obj_2_attributes: [Option<&'static str>; 1],
    rel_type: &'static str,
    text: String,
    #[serde(skip)]
    relation: Option<Relation>,
}

/// COCO's 80 names in their order.
fn names() -> Vec<&'static str> {
    let real = |name: &&str| !["__background__", "N/A"].contains(name);
    COCO_CLASSES.into_iter().filter(real).collect()
}

/// All 31,680: of each pair every relation in both orders, then "and"; last every object alone.
fn entries() -> Vec<Entry> {
    let names = names();
    let mut entries = Vec::new();
    let stated = RELATIONS.map(|(relation, words)| (Some(relation), words));
    for (i, first) in names.iter().enumerate() {
        for second in &names[i + 1..] {
            for (relation, rel_type) in stated.into_iter().chain([(None, "and")]) {
                for (a, b) in [(first, second), (second, first)] {
                    entries.push(Entry {
                        unique_id: entries.len(),
                        num_objects: 2,
                        obj_1_attributes: [Some(a)],
                        obj_2_attributes: [Some(b)],
                        rel_type,
                        text: format!("{} {rel_type} {}", with_article(a), with_article(b)),
                        relation,
                    });
                }
            }
        }
    }
    for name in names {
        entries.push(Entry {
            unique_id: entries.len(),
            num_objects: 1,
            obj_1_attributes: [Some(name)],
            obj_2_attributes: [None],
            rel_type: "single",
            text: with_article(name),
            relation: None,
        });
    }
    entries
}

/// `text_spatial_rel_phrases.json`.
pub(super) fn original() -> String {
    // Strings and whole numbers: nothing in it that JSON could not hold.
    json::to_indented(&entries()).unwrap_or_default()
}

/// Those with a relation; the others are not scored.
pub(super) fn prompts() -> Vec<SuitePrompt> {
    let prompt = |entry: Entry| {
        let relation = entry.relation?;
        let ([Some(a)], [Some(b)]) = (entry.obj_1_attributes, entry.obj_2_attributes) else {
            return None;
        };
        Some(SuitePrompt {
            prompt_id: format!("visor_{:05}", entry.unique_id),
            prompt: entry.text,
            objects: owned([a, b]),
            relations: vec![StatedRelation::of_two(0, relation, 1)],
            counterpart: None,
            tags: Vec::new(),
            ..SuitePrompt::default()
        })
    };
    entries().into_iter().filter_map(prompt).collect()
}

/// 5,000 of them, drawn once, in their order.
pub(super) fn drawn() -> Vec<SuitePrompt> {
    let mut prompts: Vec<Option<SuitePrompt>> = prompts().into_iter().map(Some).collect();
    let mut drawn = PythonRandom::new(0).sample(prompts.len() as u32, DRAWN);
    drawn.sort_unstable();
    let take = |place: u32| prompts[place as usize].take();
    drawn.into_iter().filter_map(take).collect()
}
