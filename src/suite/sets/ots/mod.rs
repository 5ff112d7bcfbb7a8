//! Pairs of things in both orders: does the order of mention decide where they stand, and who does what?
//!
//! * `ots-objects`: the objects of SpatialBench-UC, without actions;
//! * `ots-bench`: text-to-image homogenization of OTS-Bench (arXiv 2603.03714), in the words of its figure 4 and with the
//!   actions of its table 9 ([`actions`]). The prompts themselves are not released: the pairs, and what each of them
//!   does, are drawn by Python's generator, seed 0, as many of each kind as table 10 says, half of them in the one order
//!   and half the same in the other;
//! * [`correctness`], [`edits`]: its other three settings.

pub(super) mod actions;
pub(super) mod correctness;
pub(super) mod edits;

use super::entities::{ANIMALS, humans, objects as things};
use super::{spatialbench, with_article};
use crate::check::python_random::PythonRandom;
use crate::prompt::neutral::swapped;
use crate::suite::SuitePrompt;

const SEED: u64 = 0;

/// What follows the two objects.
const VERTICAL: &str = ", one above the other";

pub(super) fn objects() -> Vec<SuitePrompt> {
    prompts("objects", all_objects(""))
}

pub(super) fn objects_vertical() -> Vec<SuitePrompt> {
    prompts("objects", all_objects(VERTICAL))
}

pub(super) fn bench() -> Vec<SuitePrompt> {
    prompts("bench", bench_cases(""))
}

pub(super) fn bench_vertical() -> Vec<SuitePrompt> {
    prompts("bench", bench_cases(VERTICAL))
}

/// A pair in one order.
struct Case {
    names: [String; 2],
    text: String,
    tags: Vec<String>,
}

/// All pairs of SpatialBench-UC's objects.
fn all_objects(arrangement: &str) -> Vec<Case> {
    let names: Vec<String> = (spatialbench::objects().into_iter())
        .map(str::to_owned)
        .collect();
    let case = |names: [String; 2]| {
        let [a, b] = names.each_ref().map(|name| with_article(name));
        Case {
            names,
            text: format!("a photo of {a} and {b}{arrangement}."),
            tags: Vec::new(),
        }
    };
    within(&names).into_iter().map(case).collect()
}

/// What a subject is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Human,
    Animal,
    Object,
}

/// Two of these kinds, as table 10 has them.
pub(super) const KINDS: [(&str, [Kind; 2]); 6] = [
    ("human-human", [Kind::Human, Kind::Human]),
    ("animal-animal", [Kind::Animal, Kind::Animal]),
    ("object-object", [Kind::Object, Kind::Object]),
    ("human-animal", [Kind::Human, Kind::Animal]),
    ("human-object", [Kind::Human, Kind::Object]),
    ("animal-object", [Kind::Animal, Kind::Object]),
];

impl Kind {
    fn names(self) -> Vec<String> {
        match self {
            Self::Human => humans(),
            Self::Animal => ANIMALS.map(str::to_owned).to_vec(),
            Self::Object => things(),
        }
    }

    /// What one of the kind does alone, or how it is.
    fn actions(self) -> &'static [actions::Actions] {
        match self {
            Self::Human => actions::HUMAN,
            Self::Animal => actions::ANIMAL,
            Self::Object => actions::OBJECT,
        }
    }
}

/// So many different pairs of two kinds, in the order of their lists.
pub(super) fn drawn(
    random: &mut PythonRandom,
    [first, second]: [Kind; 2],
    number: u32,
) -> Vec<[String; 2]> {
    let pairs = match first == second {
        true => within(&first.names()),
        false => between(&first.names(), &second.names()),
    };
    let mut places = random.sample(pairs.len() as u32, number);
    places.sort_unstable();
    let pair = |place: u32| pairs[place as usize].clone();
    places.into_iter().map(pair).collect()
}

/// One of these, drawn.
pub(super) fn choice<'a>(random: &mut PythonRandom, texts: &[&'a str]) -> &'a str {
    texts[random.below(texts.len() as u32) as usize]
}

/// What each of a pair does, or how it is; both are drawn, and not the same where there are others. Of a contrast each
/// is one.
pub(super) fn doings(
    random: &mut PythonRandom,
    kinds: [Kind; 2],
    names: [&str; 2],
) -> [&'static str; 2] {
    let texts = [0, 1].map(|i| actions::of(kinds[i].actions(), names[i]));
    let first = choice(random, &texts[0]);
    if let Some(both) = actions::contrast(first) {
        // The other of a contrast, if it fits the other subject.
        if texts[1].contains(&first) {
            return both;
        }
        return [both[0], alone(choice(random, &texts[1]))];
    }
    let mut second = choice(random, &texts[1]);
    while second == first {
        second = choice(random, &texts[1]);
    }
    [first, alone(second)]
}

/// The first of a contrast.
pub(super) fn alone(text: &'static str) -> &'static str {
    actions::contrast(text).map_or(text, |both| both[0])
}

/// Half as many pairs as table 10 has prompts, as each is in both orders here.
fn bench_cases(arrangement: &str) -> Vec<Case> {
    const PAIRS: [u32; 6] = [250, 150, 150, 100, 100, 100];
    let mut random = PythonRandom::new(SEED);
    let mut cases = Vec::new();
    for ((tag, kinds), number) in KINDS.into_iter().zip(PAIRS) {
        for (at, names) in drawn(&mut random, kinds, number).into_iter().enumerate() {
            let Sentence {
                text: sentence,
                how,
                doings,
            } = sentence(&mut random, kinds, names.each_ref(), at);
            let ours = doings.into_iter().any(actions::is_ours);
            cases.push(Case {
                text: format!("{sentence}{arrangement}."),
                names,
                tags: [tag, how]
                    .into_iter()
                    .chain(ours.then_some(OURS))
                    .map(str::to_owned)
                    .collect(),
            });
        }
    }
    cases
}

/// The tag of prompts with an action that the paper does not print.
pub(super) const OURS: &str = "action-of-ours";

/// "One desk occupied and one boat clean".
struct Sentence {
    text: String,
    /// In which way things are said of the two.
    how: &'static str,
    /// What is said of them.
    doings: Vec<&'static str>,
}

/// What is said of a pair: of people every fifth that one does something to the other, and so on.
fn sentence(
    random: &mut PythonRandom,
    kinds: [Kind; 2],
    [a, b]: [&String; 2],
    at: usize,
) -> Sentence {
    let all = |lists: &[actions::Actions]| -> Vec<&'static str> {
        lists.iter().flat_map(actions::Actions::texts).collect()
    };
    match (kinds, at % 5) {
        // "a boy is chasing a girl"
        ([Kind::Human, Kind::Human], 0) => {
            let verb = choice(random, &all(actions::INTERACTIVE));
            Sentence {
                text: format!("One {a} is {verb} one {b}"),
                how: "directed",
                doings: vec![verb],
            }
        }
        ([Kind::Human, Kind::Human], 1) => {
            let text = choice(random, &all(actions::PARALLEL));
            let [one, other] = actions::contrast(text).unwrap_or([text, text]);
            Sentence {
                text: format!("One {a} {one} and one {b} {other}"),
                how: "parallel",
                doings: vec![one, other],
            }
        }
        ([Kind::Animal, Kind::Animal], 0) => {
            let text = choice(random, &all(actions::MUTUAL));
            Sentence {
                text: format!("One {a} and one {b} {text}"),
                how: "mutual",
                doings: vec![text],
            }
        }
        // "one chair and one drum."
        ([Kind::Object, Kind::Object], 0) => Sentence {
            text: format!("One {a} and one {b}"),
            how: "bare",
            doings: Vec::new(),
        },
        _ => {
            let [one, other] = doings(random, kinds, [a.as_str(), b.as_str()]);
            Sentence {
                text: format!("One {a} {one} and one {b} {other}"),
                how: "alone",
                doings: vec![one, other],
            }
        }
    }
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
fn prompts(name: &str, cases: Vec<Case>) -> Vec<SuitePrompt> {
    let both = |(number, case): (usize, Case)| {
        let Case { names, text, tags } = case;
        // A test reads every one of them.
        let reversed = swapped(&text).unwrap_or_default();
        let [a, b] = names;
        let id = |order: &str| format!("{name}_{number:04}_{order}");
        let prompt = |text: String, objects: [&String; 2], orders: [&str; 2]| SuitePrompt {
            prompt_id: id(orders[0]),
            prompt: text,
            objects: objects.map(Clone::clone).to_vec(),
            counterpart: Some(id(orders[1])),
            tags: tags.clone(),
            ..SuitePrompt::default()
        };
        [
            prompt(text, [&a, &b], ["ab", "ba"]),
            prompt(reversed, [&b, &a], ["ba", "ab"]),
        ]
    };
    cases.into_iter().enumerate().flat_map(both).collect()
}
