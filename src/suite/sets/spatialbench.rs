//! SpatialBench-UC v1.0.1, made as its generator makes it (`build_prompts.py`, github.com/amineross/SpatialBench-UC).

use serde::Serialize;

use super::owned;
use crate::check::json;
use crate::check::python_random::PythonRandom;
use crate::prompt::scene::{Relation, StatedRelation};
use crate::suite::SuitePrompt;

/// COCO's labels that it draws from, in the order of its file.
#[rustfmt::skip]
const SUBSET: [&str; 35] = [
    "cat", "dog", "horse", "cow", "elephant", "bear", "zebra", "giraffe", "bird", "car",
    "bicycle", "motorcycle", "bus", "truck", "airplane", "boat", "chair", "couch", "bed",
    "dining table", "tv", "laptop", "bottle", "cup", "bowl", "pizza", "cake", "banana", "apple",
    "teddy bear", "clock", "vase", "potted plant", "fire hydrant", "stop sign",
];

const SEED: u64 = 1234;
const PAIRS: u32 = 50;

/// A line of its file; the keys are written in this order.
#[derive(Serialize)]
struct Line {
    prompt_id: String,
    pair_id: String,
    version: &'static str,
    language: &'static str,
    relation: &'static str,
    object_a: Object,
    object_b: Object,
    prompt: String,
    counterfactual: Counterfactual,
    template: &'static str,
    difficulty_tags: Vec<&'static str>,
}

#[derive(Serialize)]
struct Object {
    name: &'static str,
    coco_label: &'static str,
}

#[derive(Serialize)]
struct Counterfactual {
    prompt_id: String,
    relation: &'static str,
    prompt: String,
}

/// A relation, its name in the file, and its words in the template.
const RELATIONS: [(Relation, &str, &str); 4] = [
    (Relation::LeftOf, "left_of", "to the left of"),
    (Relation::RightOf, "right_of", "to the right of"),
    (Relation::Above, "above", "above"),
    (Relation::Below, "below", "below"),
];

/// The pairs of objects, as they are drawn from all ordered pairs.
fn drawn() -> impl Iterator<Item = [&'static str; 2]> {
    let others = SUBSET.len() - 1;
    let drawn = PythonRandom::new(SEED).sample((SUBSET.len() * others) as u32, PAIRS);
    drawn.into_iter().map(move |place| {
        let (a, b) = (place as usize / others, place as usize % others);
        [SUBSET[a], SUBSET[b + usize::from(b >= a)]]
    })
}

/// The 33 objects that its prompts name.
pub(super) fn objects() -> Vec<&'static str> {
    let pairs: Vec<_> = drawn().collect();
    let used = |object: &&str| pairs.iter().any(|pair| pair.contains(object));
    SUBSET.into_iter().filter(used).collect()
}

fn lines() -> Vec<(Relation, Line)> {
    let mut lines: Vec<(Relation, Line)> = Vec::new();
    // The article is always "a", also before a vowel.
    let text = |words: &str, [a, b]: [&str; 2]| format!("A photo of a {a} {words} a {b}.");
    for [a, b] in drawn() {
        for (i, (relation, name, words)) in RELATIONS.into_iter().enumerate() {
            let number = lines.len();
            // Of two relations the second says the same the other way round, with its own first object first.
            let second = i % 2 == 1;
            let objects = if second { [b, a] } else { [a, b] };
            let (_, other_name, other_words) = RELATIONS[i ^ 1];
            let several_words = [a, b].iter().any(|object| object.contains(' '));
            let tags = ["two_objects", "spatial"].into_iter();
            let line = Line {
                prompt_id: id(number),
                pair_id: format!("pair_{:06}", number / 2),
                version: "v1.0.1",
                language: "en",
                relation: name,
                object_a: object(objects[0]),
                object_b: object(objects[1]),
                prompt: text(words, objects),
                counterfactual: Counterfactual {
                    prompt_id: id(number ^ 1),
                    relation: other_name,
                    prompt: text(other_words, [objects[1], objects[0]]),
                },
                template: "photo_simple_v1",
                difficulty_tags: tags
                    .chain(several_words.then_some("multi_word_object"))
                    .collect(),
            };
            lines.push((relation, line));
        }
    }
    lines
}

fn id(number: usize) -> String {
    format!("v1_{number:06}")
}

fn object(name: &'static str) -> Object {
    let coco_label = name;
    Object { name, coco_label }
}

/// `prompts.jsonl`.
pub(super) fn original() -> String {
    let mut text = String::new();
    for (_, line) in lines() {
        // Strings alone: nothing in it that JSON could not hold.
        text += &json::to_line(&line).unwrap_or_default();
        text.push('\n');
    }
    text
}

pub(super) fn prompts() -> Vec<SuitePrompt> {
    let prompt = |(relation, line): (Relation, Line)| SuitePrompt {
        prompt_id: line.prompt_id,
        prompt: line.prompt,
        objects: owned([line.object_a.name, line.object_b.name]),
        relations: vec![StatedRelation::of_two(0, relation, 1)],
        counterpart: Some(line.counterfactual.prompt_id),
        tags: line
            .difficulty_tags
            .into_iter()
            .map(str::to_owned)
            .collect(),
        ..SuitePrompt::default()
    };
    lines().into_iter().map(prompt).collect()
}
