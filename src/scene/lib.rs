//! Reads the objects of a prompt and the relations between them.
//!
//! Owns the notation for weights ([`weights`]), nouns and their plurals, scenes ([`Scene`]), and the prompts derived from
//! a scene ([`neutral`]: without an order of mention, or with the order swapped). Everything here is a pure function of
//! text: no tokens, no tensors, no files, no network. It imports no other crate of this workspace.
//!
//! Prompts are read by rules, without a model. A phrase of place speaks of the noun before it ("a dog to the left of a cat"), or
//! of the subject when "and" or a comma comes before it ("…, and above a car"). Where English leaves open what is
//! meant, the prompt is refused, and `--relation` says it outright; no word about place is passed over in silence.

#![warn(clippy::unwrap_used)]

mod check;
mod clauses;
mod given;
mod items;
mod mentions;
pub mod neutral;
mod nouns;
mod phrase;
mod relation;
pub mod schedule;
mod spatial;
mod statements;
mod vocabulary;
pub mod weights;
mod words;

#[cfg(test)]
mod tests;

use std::ops::Range;

use thiserror::Error;

pub(crate) use clauses::{Reading, read};
pub use given::{GivenRelation, ObjectName};
pub(crate) use items::{Item, Part};
pub use relation::Relation;
pub(crate) use vocabulary::is_finite_verb;
use weights::WeightError;
use words::Word;

/// A thing that the prompt names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SceneObject {
    /// As in the prompt, without article and number: `red car`, `dogs`.
    pub phrase: String,
    /// The noun that the phrase is about, singular and in lower case: `car`, `dog`, `teddy bear`.
    pub noun: String,
    /// How many; none for a plural without a number.
    pub count: Option<usize>,
    /// The bytes of the phrase in the prompt as typed, at its first mention.
    pub bytes: Range<usize>,
}

/// A statement of the prompt: the subject stands in this relation to the objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatedRelation {
    /// Index into [`Scene::objects`].
    pub subject: usize,
    /// The relation.
    pub relation: Relation,
    /// Indices into [`Scene::objects`]: two for [`Relation::Between`], otherwise one.
    pub objects: Vec<usize>,
}

impl StatedRelation {
    /// `subject` stands in `relation` to `object`.
    pub fn of_two(subject: usize, relation: Relation, object: usize) -> Self {
        Self {
            subject,
            relation,
            objects: vec![object],
        }
    }

    /// Subject and object; none of a relation between more than two.
    pub fn two(&self) -> Option<(usize, usize)> {
        match self.objects[..] {
            [object] => Some((self.subject, object)),
            _ => None,
        }
    }
}

/// The objects of a prompt, in the order of their first mention, and its relations.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scene {
    /// The objects.
    pub objects: Vec<SceneObject>,
    /// The relations, none of which contradicts the others.
    pub relations: Vec<StatedRelation>,
}

/// Why a prompt's scene cannot be used.
#[derive(Debug, Error)]
pub enum SceneError {
    /// A relation that is not one of [`Relation::ALL`].
    #[error(
        "{0:?} is not a relation; the relations are: left of, right of, above, below, above left of, above right of, below \
         left of, below right of, near, far from, between, in front of, behind"
    )]
    UnknownRelation(String),
    /// The prompt names nothing.
    #[error("the prompt names no object")]
    NoObject,
    /// A word about place in a part that no relation was read from.
    #[error("{word:?} in {text:?} says something about place that is not understood; {WAY_OUT}")]
    Unread {
        /// The word.
        word: String,
        /// What is around it.
        text: String,
    },
    /// "a dog or a cat".
    #[error("{0:?} leaves open which of the two; a prompt needs one or the other")]
    Alternative(String),
    /// "not to the left of".
    #[error(
        "{0:?} says what is not there, which cannot guide a picture; use the negative prompt, or {WAY_OUT}"
    )]
    Negation(String),
    /// It can be read in more than one way.
    #[error("{text:?} can be read in two ways: {first}, or {second}; {WAY_OUT}")]
    Ambiguous {
        /// The part of the prompt.
        text: String,
        /// One way.
        first: String,
        /// The other.
        second: String,
    },
    /// A pronoun or an article that could mean several objects, or none.
    #[error("it is not clear which object {text:?} means; {WAY_OUT}")]
    Reference {
        /// The phrase.
        text: String,
    },
    /// A relation with a side missing.
    #[error("{text:?} has no {missing}; {WAY_OUT}")]
    Dangling {
        /// The phrase of place.
        text: String,
        /// `subject before it` or `object after it`.
        missing: &'static str,
    },
    /// A side of the picture for one object, and no other object on the opposite side.
    #[error(
        "{object:?} has a place in the picture ({place}) but no object to stand opposite; {WAY_OUT}"
    )]
    Place {
        /// The object's phrase.
        object: String,
        /// The side.
        place: &'static str,
    },
    /// "between" with one object.
    #[error("\"between\" in {0:?} needs two objects joined by \"and\"")]
    BetweenOne(String),
    /// A relation between an object and itself.
    #[error(
        "{object:?} cannot be {relation} itself; for two objects of the same name, name each with \"a\""
    )]
    Itself {
        /// The object's phrase.
        object: String,
        /// The relation.
        relation: Relation,
    },
    /// Relations that cannot all be true.
    #[error("these relations contradict each other: {0}")]
    Contradiction(String),
    /// A given relation that is not written as one.
    #[error(
        "the relation {0:?} is not written as \"SUBJECT | RELATION | OBJECT\", such as \"dog | left of | cat\""
    )]
    Notation(String),
    /// An object of a given relation that the prompt does not contain.
    #[error("{phrase:?} is not in the prompt {prompt:?}; its objects are: {objects}")]
    NotInPrompt {
        /// The phrase.
        phrase: String,
        /// The prompt.
        prompt: String,
        /// What there is.
        objects: String,
    },
    /// A given phrase that several objects have.
    #[error(
        "{phrase:?} names {found} objects of the prompt; write {phrase}#1 to {phrase}#{found} for one of them"
    )]
    Several {
        /// The phrase.
        phrase: String,
        /// How many there are.
        found: usize,
    },
    /// A given phrase with a number, of which there are fewer in the prompt.
    #[error("the prompt has no occurrence {asked} of {phrase:?}, only {found}")]
    NotAsOften {
        /// The phrase without its number.
        phrase: String,
        /// Which occurrence, from 1.
        asked: usize,
        /// How many there are.
        found: usize,
    },
    /// A weight in the prompt.
    #[error(transparent)]
    Weight(#[from] WeightError),
}

/// What helps whenever the rules do not.
const WAY_OUT: &str = "say it outright with --relation \"SUBJECT | RELATION | OBJECT\"";

impl Scene {
    /// Reads the objects and relations of a prompt.
    ///
    /// Weights and brackets do not matter; prompt schedules must have been resolved before. A noun that is repeated
    /// with "a" is another object, with "the" the same one. Every relation that the prompt states is in the result, or
    /// the prompt is refused.
    pub fn parse(prompt: &str) -> Result<Self, SceneError> {
        Ok(read(prompt)?.scene)
    }

    /// The parts of a prompt that neither an object nor a relation is read from: "in a park", "oil painting".
    pub fn unread(prompt: &str) -> Result<Vec<String>, SceneError> {
        let reading = read(prompt)?;
        let part = |at: &usize| text(&reading.words, reading.parts[*at].words.clone());
        Ok(reading.unread.iter().map(part).collect())
    }
}

/// Words as they are written, joined by single spaces.
fn text(words: &[Word], range: Range<usize>) -> String {
    let typed: Vec<&str> = words[range]
        .iter()
        .map(|word| word.typed.as_str())
        .filter(|typed| !typed.is_empty())
        .collect();
    typed.join(" ")
}
