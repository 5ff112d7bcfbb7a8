//! Image-to-image of OTS-Bench (arXiv 2603.03714, section 3.2.2): a seed picture of two subjects, one at each side, and
//! then an instruction.
//!
//! * homogenization: the instruction does not say who acts ("One animal is sleeping."; figure 6);
//! * correctness: it says who does what, in the order of the sides (aligned) and in the other one with the same bindings
//!   (reverse; figures 7 and 8).
//!
//! The cases are not released: subjects and actions are those of tables 8 and 9, drawn by Python's generator, seed 0, as
//! many of each kind as table 10 says.

use super::{KINDS, Kind, OURS, SEED, actions, alone, choice, doings, drawn};
use crate::check::python_random::PythonRandom;
use crate::prompt::neutral::swapped;
use crate::suite::sets::with_article;
use crate::suite::{Edit, SuitePrompt};

/// Of table 10: human-human, animal-animal, object-object.
const CASES: [u32; 3] = [500, 300, 300];

/// The 1,100 cases in which nobody is named.
pub(in crate::suite::sets) fn homogenization() -> Vec<SuitePrompt> {
    let mut random = PythonRandom::new(SEED);
    let mut prompts = Vec::new();
    for (tag, kind, names) in cases(&mut random) {
        let named = [names[0].as_str(), names[1].as_str()];
        // What either of the two could do.
        let mut both = actions::of(kind.actions(), named[0]);
        let other = actions::of(kind.actions(), named[1]);
        both.retain(|text| other.contains(text));
        let text = alone(choice(&mut random, &both));
        let (who, is) = (somebody(kind), is(text));
        prompts.push(SuitePrompt {
            prompt_id: format!("edit_{:04}", prompts.len()),
            prompt: format!("{who} {is}{text}."),
            edit: Some(Edit::of(seed(named))),
            objects: names.to_vec(),
            tags: tags([tag], [text].as_slice()),
            ..SuitePrompt::default()
        });
    }
    prompts
}

/// The 1,100 cases with both named, each aligned and reversed, one after the other.
pub(in crate::suite::sets) fn correctness() -> Vec<SuitePrompt> {
    let mut random = PythonRandom::new(SEED);
    let mut prompts = Vec::new();
    for (number, (tag, kind, names)) in cases(&mut random).into_iter().enumerate() {
        let named = [names[0].as_str(), names[1].as_str()];
        let directed = kind == Kind::Human && number % 5 == 0;
        let (text, tags) = if directed {
            let verbs: Vec<&str> = actions::INTERACTIVE
                .iter()
                .flat_map(actions::Actions::texts)
                .collect();
            let verb = choice(&mut random, &verbs);
            (
                format!("The {} is {verb} the {}.", named[0], named[1]),
                tags([tag, "directed"], [verb].as_slice()),
            )
        } else {
            let [one, other] = doings(&mut random, [kind; 2], named);
            let (a, b) = (is(one), is(other));
            (
                format!("The {} {a}{one} and the {} {b}{other}.", named[0], named[1]),
                tags([tag, "alone"], [one, other].as_slice()),
            )
        };
        // A test reads every one of them.
        let reversed = swapped(&text).unwrap_or_default();
        let id = |order: &str| format!("edit_correctness_{number:04}_{order}");
        for (text, order, other) in [
            (text, "aligned", "reverse"),
            (reversed, "reverse", "aligned"),
        ] {
            prompts.push(SuitePrompt {
                prompt_id: id(order),
                prompt: text,
                edit: Some(Edit::of(seed(named))),
                objects: names.to_vec(),
                counterpart: Some(id(other)),
                tags: [vec![order.to_owned()], tags.clone()].concat(),
                ..SuitePrompt::default()
            });
        }
    }
    prompts
}

/// The tags of a case, with that of actions that the paper does not print.
fn tags<const N: usize>(of: [&str; N], texts: &[&str]) -> Vec<String> {
    let ours = texts.iter().any(|text| actions::is_ours(text));
    let all = of.into_iter().chain(ours.then_some(OURS));
    all.map(str::to_owned).collect()
}

/// The pairs of each kind, the left one first.
fn cases(random: &mut PythonRandom) -> Vec<(&'static str, Kind, [String; 2])> {
    let mut cases = Vec::new();
    for ((tag, kinds), number) in KINDS.into_iter().zip(CASES) {
        let pairs = drawn(random, kinds, number).into_iter().enumerate();
        // Lists are in an order; every other pair is the other way round.
        let turned = pairs.map(|(at, [a, b])| if at % 2 == 0 { [a, b] } else { [b, a] });
        cases.extend(turned.map(|pair| (tag, kinds[0], pair)));
    }
    cases
}

/// What the seed picture shows.
fn seed([left, right]: [&str; 2]) -> String {
    format!(
        "{} on the left and {} on the right",
        with_article(left),
        with_article(right)
    )
}

/// As figure 6 says it.
fn somebody(kind: Kind) -> &'static str {
    match kind {
        Kind::Human => "The person",
        Kind::Animal => "One animal",
        Kind::Object => "One object",
    }
}

/// "is " before what is said; figure 6 has "One object has its doors open", for what begins with "with".
fn is(text: &str) -> &'static str {
    match text.starts_with("with ") {
        true => "is shown ",
        false => "is ",
    }
}
