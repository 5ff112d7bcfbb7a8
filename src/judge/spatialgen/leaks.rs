//! Whether a question gives its answer away, to somebody who sees no picture.
//!
//! The paper has people look for that; this is our rule. Of a question's right option, the words count that none of its
//! other options has: *its own words*, without articles, prepositions and the like, and without the plural's s. The answer is
//! given away
//!
//! 1. by its own question, if that has all of the right option's own words;
//! 2. by another of the ten, if that has all of them, and one of them stands next to a word of the question's own (small
//!    words between them apart): "What colour is the cat?" with "red" is told by "Where does the red cat sit?";
//! 3. by its length, if it is more than twice as long as each of the others and has more than six words.

use std::collections::BTreeSet;
use std::fmt;

use super::Choice;

/// Words that say nothing of what is asked.
const SMALL: &[&str] = &[
    "a", "an", "the", "of", "to", "in", "on", "at", "by", "for", "with", "from", "is", "are",
    "was", "were", "be", "being", "does", "do", "did", "has", "have", "it", "its", "this", "that",
    "these", "those", "there", "their", "which", "what", "who", "whose", "where", "how", "why",
    "when", "as", "image", "picture", "scene", "shown", "seen", "other", "others",
];

/// How an answer is given away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leak {
    /// The question has the right option's words.
    Itself {
        /// From 1.
        question: usize,
        /// The words.
        words: String,
    },
    /// Another question says it.
    Other {
        /// From 1.
        question: usize,
        /// Which one says it, from 1.
        by: usize,
        /// The words.
        words: String,
    },
    /// The right option is by far the longest.
    Length {
        /// From 1.
        question: usize,
    },
}

impl fmt::Display for Leak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Itself { question, words } => write!(
                f,
                "question {question} itself says {words:?}, which only its right option says"
            ),
            Self::Other {
                question,
                by,
                words,
            } => {
                write!(
                    f,
                    "question {by} says {words:?}, which is the answer to question {question}"
                )
            }
            Self::Length { question } => write!(
                f,
                "the right option of question {question} is by far the longest"
            ),
        }
    }
}

/// All that is given away by questions that are asked together.
pub fn leaks(questions: &[Choice]) -> Vec<Leak> {
    let stems: Vec<Vec<String>> = questions.iter().map(|one| words(&one.stem)).collect();
    let mut leaks = Vec::new();
    for (at, choice) in questions.iter().enumerate() {
        let Some(answer) = choice.answer() else {
            continue;
        };
        let own = own_words(choice, answer);
        let told = || own.iter().cloned().collect::<Vec<_>>().join(" ");
        if !own.is_empty() {
            let has = |stem: &[String]| own.iter().all(|word| stem.contains(word));
            if has(&stems[at]) {
                leaks.push(Leak::Itself {
                    question: at + 1,
                    words: told(),
                });
            }
            let by = (0..questions.len()).filter(|other| {
                *other != at && has(&stems[*other]) && touches(&stems[*other], &own, &stems[at])
            });
            leaks.extend(by.map(|by| Leak::Other {
                question: at + 1,
                by: by + 1,
                words: told(),
            }));
        }
        let length = |text: &str| text.split_whitespace().count();
        let others = choice.options.iter().filter(|option| *option != answer);
        let longest = others.map(|option| length(option)).max().unwrap_or(0);
        if length(answer) > 6 && length(answer) > 2 * longest {
            leaks.push(Leak::Length { question: at + 1 });
        }
    }
    leaks
}

/// The right option's words that no other option has.
fn own_words(choice: &Choice, answer: &str) -> BTreeSet<String> {
    let others: BTreeSet<String> = (choice.options.iter())
        .filter(|option| *option != answer)
        .flat_map(|option| words(option))
        .collect();
    words(answer)
        .into_iter()
        .filter(|word| !others.contains(word))
        .collect()
}

/// Whether one of `own` stands next to one of `asked` in a sentence.
fn touches(sentence: &[String], own: &BTreeSet<String>, asked: &[String]) -> bool {
    sentence.windows(2).any(|pair| {
        let (a, b) = (&pair[0], &pair[1]);
        let joins = |one: &String, other: &String| {
            own.contains(one) && !own.contains(other) && asked.contains(other)
        };
        joins(a, b) || joins(b, a)
    })
}

/// The words that count, in order.
fn words(text: &str) -> Vec<String> {
    let split = text.split(|c: char| !c.is_alphanumeric());
    split
        .map(str::to_lowercase)
        .filter(|word| !word.is_empty() && !SMALL.contains(&word.as_str()))
        .map(|word| match word.strip_suffix('s') {
            Some(stem) if stem.len() > 2 && !stem.ends_with('s') => stem.to_owned(),
            _ => word,
        })
        .collect()
}
