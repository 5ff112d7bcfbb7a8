//! Questions about a scene graph: is each object there, and is it related as it should be (section 3.2 of Scene-Bench)?
//!
//! The questions are the paper's. It does not print how answers are asked for, so that is ours; nor how the wrong options
//! are chosen, nor what is asked where several objects have the same name: see [`Rules`].

use std::collections::{BTreeMap, BTreeSet};

use prepose_statistics::python_random::PythonRandom;
use sha2::{Digest, Sha256};

use super::graph::{Graph, Relationship, name};
use crate::question::{About, Form, Question};

/// The last option of each question about a relationship.
const NONE: &str = "no visible relationship";
const ANSWER_YES_NO: &str = "Answer with Yes or No only.";
const ANSWER_LETTER: &str = "Answer with the letter only.";

/// What the paper leaves open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Wrong options beside the right one and "no visible relationship"; the paper's example has two.
    pub distractors: usize,
    /// Draws the wrong options and the right one's place.
    pub seed: u64,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            distractors: 2,
            seed: 0,
        }
    }
}

/// What a question of a graph is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The object with this number.
    Object(usize),
    /// The relationship with this number; the right option's place.
    Relationship(usize, u8),
}

/// A question, and what it says of which graph.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// Which graph.
    pub graph: usize,
    /// Which part of it.
    pub part: Part,
    /// What is asked.
    pub question: Question,
}

/// The relations of all graphs in lower case, each once, by how often they occur: what wrong options are drawn from.
pub fn vocabulary(graphs: &[Graph]) -> Vec<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for edge in graphs.iter().flat_map(|graph| &graph.relationships) {
        *counts
            .entry(edge.relation.trim().to_lowercase())
            .or_default() += 1;
    }
    let mut words: Vec<(String, usize)> = counts.into_iter().collect();
    words.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
    words.into_iter().map(|(word, _)| word).collect()
}

/// All questions of graphs, whose pictures have the graphs' numbers. Wrong options come from `vocabulary`, and are never what
/// the graph says of the same two names, in either direction.
pub fn questions(graphs: &[Graph], vocabulary: &[String], rules: &Rules) -> Vec<Asked> {
    let of = |(number, graph): (usize, &Graph)| {
        questions_with(graph, number, &|_| vocabulary.to_vec(), rules)
    };
    graphs.iter().enumerate().flat_map(of).collect()
}

/// The questions of one graph and the picture with that number; the wrong options come from what `vocabulary` has, in lower
/// case, for a relationship.
pub fn questions_with(
    graph: &Graph,
    number: usize,
    vocabulary: &dyn Fn(&Relationship) -> Vec<String>,
    rules: &Rules,
) -> Vec<Asked> {
    let mut all = Vec::new();
    for (at, object) in graph.objects.iter().enumerate() {
        let question = Question {
            id: format!("{}#object-{}", graph.id, at + 1),
            picture: Some(number),
            system: None,
            text: object_text(name(object), place_of(graph, object)),
            form: Form::YesNo,
            about: match place_of(graph, object) {
                1 => About::Object(name(object).to_owned()),
                place => About::Objects(name(object).to_owned(), place),
            },
        };
        all.push(Asked {
            graph: number,
            part: Part::Object(at),
            question,
        });
    }
    for (at, edge) in graph.relationships.iter().enumerate() {
        all.push(relationship(number, graph, at, &vocabulary(edge), rules));
    }
    all
}

/// "Is there a sports ball in the image?"; of several of a name, whether there are so many: asking of each whether there is
/// one would find all of them in one.
fn object_text(name: &str, place: usize) -> String {
    match place {
        1 => format!(
            "Is there {} {name} in the image? {ANSWER_YES_NO}",
            article(name)
        ),
        count => format!(
            "Is there a {} {name} in the image? {ANSWER_YES_NO}",
            ordinal(count)
        ),
    }
}

/// Which of its name an object is, from 1.
fn place_of(graph: &Graph, object: &str) -> usize {
    let same = graph
        .objects
        .iter()
        .filter(|other| self::name(other) == name(object));
    same.take_while(|other| *other != object).count() + 1
}

fn article(name: &str) -> &'static str {
    match name.chars().next().map(|first| first.to_ascii_lowercase()) {
        Some('a' | 'e' | 'i' | 'o' | 'u') => "an",
        _ => "a",
    }
}

fn ordinal(number: usize) -> String {
    match number {
        2 => "second".into(),
        3 => "third".into(),
        number => format!("{number}th"),
    }
}

fn relationship(
    number: usize,
    graph: &Graph,
    at: usize,
    vocabulary: &[String],
    rules: &Rules,
) -> Asked {
    let edge = &graph.relationships[at];
    let [source, target] = [&edge.source, &edge.target].map(|object| name(object));
    // As the wrong ones are written: capitals would give it away.
    let right = edge.relation.trim().to_lowercase();
    // What the graph says of the same two is no wrong answer.
    let said: BTreeSet<String> = (graph.relationships.iter())
        .filter(|other| {
            let names = [name(&other.source), name(&other.target)];
            names == [source, target] || names == [target, source]
        })
        .map(|other| other.relation.trim().to_lowercase())
        .collect();
    let wrong: Vec<&String> = vocabulary
        .iter()
        .filter(|word| !said.contains(*word))
        .collect();
    let mut random = PythonRandom::new(draw_of(&graph.id, at, rules.seed));
    let count = rules.distractors.min(24);
    let drawn = random.sample(wrong.len() as u32, count as u32);
    let mut options: Vec<String> = drawn.iter().map(|at| wrong[*at as usize].clone()).collect();
    let place = random.below(options.len() as u32 + 1);
    options.insert(place as usize, right);
    options.push(NONE.into());
    let letters = (b'A'..).map(char::from);
    let listed: Vec<String> = (letters.zip(&options))
        .map(|(letter, option)| format!("{letter}) {option}"))
        .collect();
    let text = format!(
        "What is the relationship between the {source} and the {target} in the image? {}. {ANSWER_LETTER}",
        listed.join("; ")
    );
    Asked {
        graph: number,
        part: Part::Relationship(at, place as u8),
        question: Question {
            id: format!("{}#relationship-{}", graph.id, at + 1),
            picture: Some(number),
            system: None,
            text,
            form: Form::Letter(options.len() as u8),
            about: About::Relation([source, target].map(str::to_owned), options, place as u8),
        },
    }
}

/// A seed for each question, so that another graph in the file changes no other's options.
fn draw_of(id: &str, at: usize, seed: u64) -> u64 {
    let digest = Sha256::digest(format!("{seed}\n{id}\n{at}"));
    digest[..8]
        .iter()
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}
