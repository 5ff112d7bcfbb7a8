//! Text-to-image correctness of OTS-Bench (arXiv 2603.03714, section 4.2.1): two things whose sides are settled by a
//! standard, mentioned in the order of their sides (aligned) and in the other one (reverse).
//!
//! The paper's 400 pairs are not released; its figures print six that have a side of their own, which are here and are
//! tagged `printed`. The others are ours, in its nine domains and its form ("A and B in/on/at Context."): each follows
//! from the standard that its domain names, and where that leaves more than are needed, they are drawn by Python's
//! generator, seed 0.

use super::SEED;
use crate::check::python_random::PythonRandom;
use crate::prompt::scene::{Relation, StatedRelation};
use crate::suite::SuitePrompt;

/// Rows of things from left to right; every pair of a row is a case, up to a number.
const ROWS: &str = include_str!("../../data/ots-correctness.txt");

/// A row of [`ROWS`].
struct Row {
    domain: &'static str,
    /// From left to right, separated by `, `; `*` in `name` stands for each.
    order: &'static str,
    name: &'static str,
    /// Where they are so.
    context: &'static str,
    /// How many of the pairs at most.
    most: usize,
}

/// Those that the paper's text and figures print, as left and right; its other examples say the sides themselves, or have
/// none.
const PRINTED: [(&str, &str); 6] = [
    ("digit 9", "digit 3"),
    ("left-turn indicator", "right-turn indicator"),
    ("left-turn arrow", "right-turn arrow"),
    ("brake pedal", "accelerator pedal"),
    ("letter W", "letter E"),
    ("fork", "knife"),
];

/// The 400 cases of table 10, each aligned and reversed, one after the other.
pub(in crate::suite::sets) fn prompts() -> Vec<SuitePrompt> {
    let mut random = PythonRandom::new(SEED);
    let mut prompts = Vec::new();
    for row in ROWS.lines().filter_map(Row::of) {
        for [left, right] in row.pairs(&mut random) {
            prompts.extend(both(prompts.len() / 2, &row, &left, &right));
        }
    }
    prompts
}

impl Row {
    /// None of a comment.
    fn of(line: &'static str) -> Option<Self> {
        let fields: Vec<&str> = line.split(" | ").collect();
        let [domain, order, name, context, most] = fields[..] else {
            return None;
        };
        let most = most.parse().ok()?;
        Some(Self {
            domain,
            order,
            name,
            context,
            most,
        })
    }

    /// Pairs of names, the left one first.
    fn pairs(&self, random: &mut PythonRandom) -> Vec<[String; 2]> {
        let names: Vec<String> = (self.order.split(", "))
            .map(|name| self.name.replace('*', name))
            .collect();
        let mut pairs = Vec::new();
        for (i, left) in names.iter().enumerate() {
            let right = names[i + 1..].iter();
            pairs.extend(right.map(|right| [left.clone(), right.clone()]));
        }
        if pairs.len() > self.most {
            let mut places = random.sample(pairs.len() as u32, self.most as u32);
            places.sort_unstable();
            let kept = places
                .into_iter()
                .map(|place| pairs[place as usize].clone());
            pairs = kept.collect();
        }
        pairs
    }
}

/// A case in the order of its sides, and in the other one.
fn both(number: usize, row: &Row, left: &str, right: &str) -> [SuitePrompt; 2] {
    let id = |order: &str| format!("correctness_{number:04}_{order}");
    let printed = PRINTED.contains(&(left, right));
    let prompt = |names: [&str; 2], orders: [&str; 2]| {
        let [first, second] = names.map(|name| match name {
            // Countries and towns.
            name if row.domain == "cartography" => name.to_owned(),
            name => format!("the {name}"),
        });
        let text = format!("{first} and {second} {}.", row.context);
        let places = [left, right].map(|side| usize::from(names[1] == side));
        let mut tags = vec![orders[0].to_owned(), row.domain.replace(' ', "-")];
        tags.extend(printed.then(|| "printed".to_owned()));
        SuitePrompt {
            prompt_id: id(orders[0]),
            prompt: capitalized(&text),
            objects: names.map(str::to_owned).to_vec(),
            relations: vec![StatedRelation::of_two(
                places[0],
                Relation::LeftOf,
                places[1],
            )],
            counterpart: Some(id(orders[1])),
            tags,
            ..SuitePrompt::default()
        }
    };
    [
        prompt([left, right], ["aligned", "reverse"]),
        prompt([right, left], ["reverse", "aligned"]),
    ]
}

fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters).collect()
}
