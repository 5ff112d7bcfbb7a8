//! Prompts without an order of mention, for delayed order conditioning (OTS-Bench, arXiv 2603.03714).
//!
//! The paper says to anonymise the entities and to keep scene and structure, and gives one example: "a man and a woman
//! in a park" becomes "two people in a park". The rules here:
//!
//! * the noun phrases become one, with their number and the word for their common group ("animals"), or "things";
//! * the relation between them goes ("a dog to the left of a cat" becomes "two animals"), and one that all of them have
//!   to something else stays ("a dog and a cat above a car" becomes "two animals above a car");
//! * what is said of one becomes said of both ("are waving and saluting"), and what is said of neither stays.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::nouns;
use crate::{Item, Part, Reading, SceneError, is_finite_verb, read};

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
    #[error("the objects of {0:?} stand in several sentences; {WAY_OUT}")]
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

/// The neutral form of a prompt.
///
/// `a photo of a dog and a cat.` becomes `a photo of two animals.`. Brackets and weights in the part that changes are
/// dropped.
pub fn neutral(prompt: &str) -> Result<String, NeutralError> {
    let reading = read(prompt)?;
    let mut mentions = mentions(&reading, prompt)?;
    let place = |part: &Part| matches!(part.item, Item::Spatial(_));
    let relation = reading
        .parts
        .iter()
        .position(place)
        .unwrap_or(reading.parts.len());
    let before_relation = mentions
        .iter()
        .filter(|mention| mention.0 < relation)
        .count();
    let shared = before_relation >= 2 && before_relation < mentions.len();
    if shared {
        mentions.truncate(before_relation);
    }
    let (first, last) = (mentions[0].0, mentions[mentions.len() - 1].0);
    let mut predicates: Vec<Predicate> = mentions.iter().map(|_| Predicate::default()).collect();
    let mut end = last;
    for (at, part) in reading.parts.iter().enumerate().skip(first) {
        let of = mentions
            .iter()
            .rposition(|mention| mention.0 <= at)
            .unwrap_or(0);
        match &part.item {
            Item::Stop if at < last => return Err(NeutralError::Sentences(prompt.to_owned())),
            // After the last one, a comma begins what is said of neither.
            Item::Stop | Item::Comma | Item::And if at > last => break,
            Item::Spatial(_) if shared => break,
            Item::Be => predicates[of].be(&reading, &part.words),
            Item::Context { .. } => predicates[of].says(&reading, &part.words),
            _ => {}
        }
        end = at;
    }
    let subject = subject(&reading, &mentions);
    let said = said_of_all(&predicates);
    let words = |at: usize| &reading.parts[at].words;
    // "to the left of a dog is a cat"
    let first = if relation < first { relation } else { first };
    let start = reading.words[words(first).start].bytes.start;
    let before = agreeing(&reading, prompt, first, start);
    let after = reading.words[words(end).end - 1].bytes.end;
    let text = format!(
        "{before}{subject}{said}{}",
        without_stray_brackets(&prompt[after..])
    );
    Ok(
        match prompt
            .trim_start()
            .chars()
            .next()
            .is_some_and(char::is_uppercase)
        {
            true => capitalized(&text),
            false => text,
        },
    )
}

/// The same prompt with its two objects in each other's place, for the experiments with a swapped order of mention.
///
/// `a man and a woman in a park` becomes `a woman and a man in a park`. Articles and numbers go with their nouns; weights
/// stay where they are.
pub fn swapped(prompt: &str) -> Result<String, NeutralError> {
    let reading = read(prompt)?;
    let mentions = mentions(&reading, prompt)?;
    if mentions.len() != 2 {
        return Err(NeutralError::NotTwo {
            prompt: prompt.to_owned(),
            objects: mentions.len(),
        });
    }
    let pair = |article: bool| {
        let [one, two] = [0, 1].map(|i| movable(&reading, prompt, mentions[i], article));
        one.zip(two)
    };
    let Some((one, two)) = pair(true).or_else(|| pair(false)) else {
        return Err(NeutralError::Brackets(prompt.to_owned()));
    };
    let (first, second) = (&prompt[one.clone()], &prompt[two.clone()]);
    // A capital belongs to the beginning of the sentence.
    let upper = |text: &str| text.starts_with(char::is_uppercase);
    let placed = |text: &str, before: &str| match (upper(before), upper(text)) {
        (true, false) => capitalized(text),
        (false, true) => uncapitalized(text),
        _ => text.to_owned(),
    };
    let (new_first, new_second) = (placed(second, first), placed(first, second));
    Ok(format!(
        "{}{new_first}{}{new_second}{}",
        &prompt[..one.start],
        &prompt[one.end..two.start],
        &prompt[two.end..]
    ))
}

/// The bytes of an object's phrase, with or without its article, if they can be moved: brackets in it close in it.
fn movable(
    reading: &Reading,
    prompt: &str,
    mention: (usize, usize),
    article: bool,
) -> Option<Range<usize>> {
    let words = &reading.parts[mention.0].words;
    let start = match article {
        true => reading.words[words.start].bytes.start,
        false => reading.scene.objects[mention.1].bytes.start,
    };
    let plain = start..reading.words[words.end - 1].bytes.end;
    // "(red:1.2) car": the first bracket opens before the phrase.
    let opening = prompt[..start]
        .ends_with(['(', '['])
        .then(|| start - 1..plain.end);
    let balanced =
        |range: &Range<usize>| without_stray_brackets(&prompt[range.clone()]).len() == range.len();
    Some(plain).filter(balanced).or(opening.filter(balanced))
}

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

/// "two animals"
fn subject(reading: &Reading, mentions: &[(usize, usize)]) -> String {
    let objects = mentions
        .iter()
        .map(|(_, object)| &reading.scene.objects[*object]);
    let mut groups = objects
        .clone()
        .map(|object| nouns::groups(&object.noun).map(|group| group.plural));
    let mut first = groups.next().into_iter().flatten();
    let common = first.find(|first| {
        groups
            .clone()
            .all(|mut other| other.any(|one| one == *first))
    });
    let plural = common.unwrap_or("things");
    match objects.map(|object| object.count).sum::<Option<usize>>() {
        Some(count) => format!("{} {plural}", nouns::spelled(count)),
        None => plural.to_owned(),
    }
}

/// What is said of one object.
#[derive(Debug, Default)]
struct Predicate {
    be: bool,
    past: bool,
    text: String,
}

impl Predicate {
    fn be(&mut self, reading: &Reading, words: &Range<usize>) {
        let word = &reading.words[words.start];
        self.be |= word.is_one_of("is are was were");
        self.past |= word.is_one_of("was were");
        if !word.is_one_of("is are was were") {
            self.says(reading, words);
        }
    }

    fn says(&mut self, reading: &Reading, words: &Range<usize>) {
        for word in &reading.words[words.clone()] {
            self.text.push(' ');
            self.text.push_str(&plural_verb(&word.typed));
        }
    }
}

/// "sit" for "sits".
fn plural_verb(word: &str) -> String {
    match word {
        "has" => "have".to_owned(),
        "does" => "do".to_owned(),
        _ if is_finite_verb(word) => nouns::singular(word),
        _ => word.to_owned(),
    }
}

/// " are waving and saluting", given what is said of each; what only the last one has is said of all.
fn said_of_all(predicates: &[Predicate]) -> String {
    let mut texts: Vec<&str> = Vec::new();
    for predicate in predicates {
        let text = predicate.text.trim();
        if !text.is_empty() && !texts.contains(&text) {
            texts.push(text);
        }
    }
    // Of "a man with a hat and a woman" one has the hat.
    let only_some = texts.len() == 1 && predicates.last().is_some_and(|last| last.text.is_empty());
    let be = match predicates {
        _ if !predicates.iter().any(|predicate| predicate.be) => "",
        _ if texts.is_empty() => "",
        _ if predicates.iter().any(|predicate| predicate.past) => " were",
        _ => " are",
    };
    match texts.len() {
        0 => String::new(),
        _ if only_some => format!(
            ", one {}{}",
            if be.is_empty() { "" } else { "is " },
            texts[0]
        ),
        _ => format!("{be} {}", texts.join(" and ")),
    }
}

/// What stands before the first object, with "there is" as "there are".
fn agreeing(reading: &Reading, prompt: &str, first: usize, start: usize) -> String {
    let before = without_stray_brackets(&prompt[..start]);
    let be = first.checked_sub(1).map(|at| &reading.parts[at]);
    match be
        .filter(|part| matches!(part.item, Item::Be))
        .map(|part| &reading.words[part.words.start])
    {
        Some(word) if word.is_one_of("is was") => {
            let plural = if word.is("is") { "are" } else { "were" };
            match before.trim_end() {
                // "there's"
                trimmed if trimmed.ends_with("'s") || trimmed.ends_with('\u{2019}') => before,
                trimmed => format!(
                    "{}{plural} ",
                    &trimmed[..trimmed.len().saturating_sub(word.text.len())]
                ),
            }
        }
        _ => before,
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
