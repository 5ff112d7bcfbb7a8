//! Prompts that say the same without an order of mention, or with the other one (OTS-Bench, arXiv 2603.03714).
//!
//! [`neutral`]: the paper anonymises the entities, removes the order of mention, and preserves the scene and the
//! structure of relations; it has one example: "a man and a woman in a park" becomes "two people in a park". The rules
//! here:
//!
//! * the noun phrases become one, with their number and the word for their common group ("animals"), or "things";
//! * how they stand to each other stays, without saying which is which ("a dog to the left of a cat" becomes "two
//!   animals, one to the left of the other"), as does what one does to the other, and how all of them stand to something
//!   else ("a dog and a cat above a car" becomes "two animals above a car");
//! * what is said of each alone is said of one each, by the alphabet ("one saluting and one waving"); what is said of
//!   all or of none stays.
//!
//! [`swapped`]: the other order of mention, each object with what is said of it.

mod anonymous;
mod edits;
mod reversed;
mod standing;
mod verbs;

use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use anonymous::neutral;
pub use reversed::swapped;

use crate::{Reading, SceneError};

/// A prompt that is derived from another, to begin the denoising with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Opening {
    /// Names the objects in no order: "two animals" ([`neutral`]).
    Neutral,
    /// Names the two objects in the other order ([`swapped`]).
    Swapped,
}

impl Opening {
    /// The form of `prompt` that it stands for.
    ///
    /// # Errors
    /// The prompt has no such form.
    pub fn of(self, prompt: &str) -> Result<String, NeutralError> {
        match self {
            Self::Neutral => neutral(prompt),
            Self::Swapped => swapped(prompt),
        }
    }
}

/// Why a prompt has no neutral form, or cannot be swapped.
#[derive(Debug, Error)]
pub enum NeutralError {
    /// It does not name at least two objects.
    #[error("{0:?} names one object, so there is no order of mention to hide; {WAY_OUT}")]
    OneObject(String),
    /// The objects are not joined in one sentence.
    #[error("the objects of {0:?} are in several sentences; {WAY_OUT}")]
    Sentences(String),
    /// An object is mentioned more than once.
    #[error("{object:?} is mentioned more than once; {WAY_OUT}")]
    MentionedAgain {
        /// The object's phrase.
        object: String,
    },
    /// A swap needs exactly two objects.
    #[error("{prompt:?} names {objects} objects, and only two can be swapped")]
    NotTwo {
        /// The prompt.
        prompt: String,
        /// How many it names.
        objects: usize,
    },
    /// What is said of the objects has no other order by these rules.
    #[error(
        "what {0:?} says about its two objects cannot be said in the other order by rule; a file of prompts can give that \
         text as \"reverse\""
    )]
    Order(String),
    /// Brackets around parts of the objects' phrases.
    #[error(
        "brackets in {0:?} open in one phrase and close outside of it; put them around whole phrases"
    )]
    Brackets(String),
    /// The prompt's objects cannot be read.
    #[error("{0}; or {WAY_OUT}")]
    Scene(#[from] SceneError),
}

const WAY_OUT: &str = "give the neutral prompt itself with --neutral-prompt";

/// The parts that name objects, with the object: at least two, each named once.
fn mentions(reading: &Reading, prompt: &str) -> Result<Vec<(usize, usize)>, NeutralError> {
    let found = reading.objects_of_parts.iter().enumerate();
    let mentions: Vec<(usize, usize)> = found
        .filter_map(|(at, object)| Some((at, (*object)?)))
        .collect();
    for (i, (_, object)) in mentions.iter().enumerate() {
        if mentions[..i].iter().any(|(_, before)| before == object) {
            return Err(NeutralError::MentionedAgain {
                object: reading.scene.objects[*object].phrase.clone(),
            });
        }
    }
    match mentions.len() {
        0 | 1 => Err(NeutralError::OneObject(prompt.to_owned())),
        _ => Ok(mentions),
    }
}

/// Text without brackets that open or close something outside of it.
fn without_stray_brackets(text: &str) -> String {
    let mut open: Vec<(usize, char)> = Vec::new();
    let mut stray: Vec<usize> = Vec::new();
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' => open.push((at, c)),
            ')' | ']' if open.pop().is_none() => stray.push(at),
            _ => {}
        }
    }
    stray.extend(open.iter().map(|(at, _)| at));
    let mut kept = String::new();
    let mut skip_weight = false;
    for (at, c) in text.char_indices() {
        skip_weight |= c == ':'
            && text[at..]
                .find(')')
                .is_some_and(|end| stray.contains(&(at + end)));
        if stray.contains(&at) {
            skip_weight = false;
        } else if !skip_weight {
            kept.push(c);
        }
    }
    kept
}

fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => String::new(),
    }
}

fn uncapitalized(text: &str) -> String {
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_lowercase().chain(letters).collect(),
        None => String::new(),
    }
}
