//! Prompts with ten questions for scenes of one's own, by a language model.
//!
//! The paper's texts for making its data are not at hand, so all words here are ours. What follows the paper: a prompt of about
//! 60 words that holds something of each of the ten sub-domains for a given scene, one question of each, four options and
//! "None". What is ours besides: the right option's place is drawn, so that no letter is right more often than another, and what
//! [`leaks`](super::leaks) finds is sent back to the model.

use prepose_statistics::python_random::PythonRandom;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::leaks::leaks;
use super::{Choice, Domain, Item, NONE, QUESTIONS};
use crate::question::{About, Form, Question, object};

/// Words of a prompt, at least and at most; the paper aims at 60.
const WORDS: std::ops::RangeInclusive<usize> = 30..=90;

const SYSTEM: &str =
    "You write tests for text-to-image models. You answer with one JSON object and nothing else.";

const TASK: &str = "Write one prompt for a text-to-image model, and ten multiple-choice questions that check the picture made from it.

The prompt describes this scene: {scene}. It is one natural paragraph of about 60 words in common words, drawable as one picture \
without contradictions, and it states something of each of these ten kinds:
{kinds}

The questions are one of each kind, in this order. Each has one right option, which the prompt decides, and three wrong options of the same \
form and length that are plausible without the picture. Whoever sees only the questions must not be able to guess: no question may say \
what is the right option of itself or of another question.

Answer with a JSON object of this form:
{\"prompt\": \"…\", \"questions\": [{\"question\": \"…?\", \"right\": \"…\", \"wrong\": [\"…\", \"…\", \"…\"]}, … ten of them …]}";

/// What each kind is about, for the model.
fn about(domain: Domain) -> &'static str {
    match domain {
        Domain::Object => "which objects are there; its options are lists of objects",
        Domain::Attribute => "a colour, shape or material of one of several objects",
        Domain::Position => "where one object is, in the picture or relative to another",
        Domain::Orientation => "which way an object faces or is turned",
        Domain::Layout => "how several objects are arranged: a row, a circle, a stack",
        Domain::Comparison => "how sizes or numbers of objects compare",
        Domain::Proximity => "what is nearest, farthest or touching",
        Domain::Occlusion => "what hides a part of what",
        Domain::Motion => "what moves, and how, caught in the moment",
        Domain::Causal => "what has caused a visible effect",
    }
}

/// Asks for one prompt of a scene with its questions. `number` is which one of the scene, from 1; `faults` is what was wrong
/// with the answer before.
pub fn question(id: &str, scene: &str, number: usize, faults: &[String]) -> Question {
    let kinds: Vec<String> = (1..)
        .zip(Domain::ALL)
        .map(|(place, domain)| format!("{place}. {}: {}", domain.as_str(), about(domain)))
        .collect();
    let (before, after) = TASK.split_once("{scene}").unwrap_or((TASK, ""));
    let mut text = format!(
        "{before}{scene}{}",
        after.replace("{kinds}", &kinds.join("\n"))
    );
    if number > 1 {
        text += &format!(
            "\n\nThis is number {number} of this scene; make it differ from the obvious one."
        );
    }
    if !faults.is_empty() {
        text += &format!(
            "\n\nAn earlier answer could not be used:\n- {}\nWrite a new one without that.",
            faults.join("\n- ")
        );
    }
    Question {
        id: id.to_owned(),
        picture: None,
        system: Some(SYSTEM.to_owned()),
        text,
        form: Form::Object,
        about: About::Unseen,
    }
}

/// What a model answers.
#[derive(Deserialize)]
struct Answer {
    prompt: String,
    questions: Vec<Asked>,
}

#[derive(Deserialize)]
struct Asked {
    question: String,
    right: String,
    wrong: Vec<String>,
}

/// The item that a model's answer is. The right option's place is drawn from the seed, the id and the question's number.
///
/// # Errors
/// All that is wrong with it, for people and for the model.
pub fn proposed(id: &str, scene: &str, answer: &str, seed: u64) -> Result<Item, Vec<String>> {
    let fields = object(answer).ok_or_else(|| vec!["it was not a JSON object".to_owned()])?;
    let answer: Answer = serde_json::from_value(serde_json::Value::Object(fields))
        .map_err(|error| vec![format!("it was of another form: {error}")])?;
    let mut faults = Vec::new();
    let prompt = answer
        .prompt
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    let length = prompt.split(' ').count();
    if !WORDS.contains(&length) {
        faults.push(format!(
            "the prompt had {length} words, and must have from {} to {}",
            WORDS.start(),
            WORDS.end()
        ));
    }
    if answer.questions.len() != QUESTIONS {
        faults.push(format!(
            "there were {} questions, and must be ten",
            answer.questions.len()
        ));
        return Err(faults);
    }
    let mut questions = Vec::with_capacity(QUESTIONS);
    for (number, asked) in (1..).zip(answer.questions) {
        match choice(id, number, asked, seed) {
            Ok(choice) => questions.push(choice),
            Err(why) => faults.push(format!("question {number} {why}")),
        }
    }
    if questions.len() == QUESTIONS {
        faults.extend(leaks(&questions).iter().map(ToString::to_string));
    }
    match faults.is_empty() {
        true => Ok(Item {
            id: id.to_owned(),
            scene: scene.to_owned(),
            prompt,
            questions,
        }),
        false => Err(faults),
    }
}

fn choice(id: &str, number: usize, asked: Asked, seed: u64) -> Result<Choice, String> {
    let clean = |text: &str| {
        let one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        one_line.trim_end_matches(['.', ',', ';']).to_owned()
    };
    let stem = clean(&asked.question);
    if stem.is_empty() || stem.contains("Options:") {
        return Err("asked nothing, or had its options in its text".into());
    }
    let Ok(wrong) = <[String; 3]>::try_from(asked.wrong) else {
        return Err("must have three wrong options".into());
    };
    let [a, b, c] = wrong.each_ref().map(|text| clean(text));
    let right = clean(&asked.right);
    let mut options = [right.clone(), a, b, c];
    // The letters before options are how they are told apart again.
    let marked = |text: &String| {
        (b'A'..=b'E').any(|letter| text.contains(&format!("{}:", char::from(letter))))
    };
    if options.iter().any(|text| text.is_empty() || marked(text)) {
        return Err("had an option that is empty or contains a letter with a colon".into());
    }
    if options.iter().any(|text| text.eq_ignore_ascii_case(NONE)) {
        return Err("had None among its options; it is added afterwards".into());
    }
    for (at, option) in options.iter().enumerate() {
        if options[..at]
            .iter()
            .any(|other| other.eq_ignore_ascii_case(option))
        {
            return Err(format!("had the option {option:?} twice"));
        }
    }
    let digest = Sha256::digest(format!("{seed}\n{id}\n{number}\npropose"));
    let start = digest[..8]
        .iter()
        .fold(0, |all, byte| all << 8 | u64::from(*byte));
    PythonRandom::new(start).shuffle(&mut options);
    let place = options
        .iter()
        .position(|option| *option == right)
        .unwrap_or(0);
    Ok(Choice::new(&stem, options, place as u8))
}
