//! Noun phrases: "the two (red:1.3) teddy bears".

use std::ops::Range;

use super::spatial;
use super::vocabulary::*;
use super::words::{Kind, Word};
use crate::nouns;

/// How a mention refers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reference {
    /// "a dog"
    New,
    /// "the dog"
    Definite,
    /// "dog"
    Bare,
    /// "it"
    Pronoun,
}

/// A noun phrase.
#[derive(Debug, Clone)]
pub(crate) struct Mention {
    pub reference: Reference,
    /// How many; none for a plural without a number.
    pub count: Option<usize>,
    /// Words from the article on.
    pub whole: Range<usize>,
    /// Words without article and number.
    pub core: Range<usize>,
    /// In the singular and in lower case.
    pub noun: String,
    /// The noun is in the table of known ones.
    pub known: bool,
}

/// Whether the word at `at` cannot belong to a noun phrase that has begun.
pub(crate) fn is_boundary(words: &[Word], at: usize) -> bool {
    let Some(word) = words.get(at) else {
        return true;
    };
    word.kind != Kind::Word
        || [DETERMINERS, PRONOUNS, AND, OR, NOT, WHICH, BE, PREPOSITIONS]
            .iter()
            .any(|list| word.is_one_of(list))
        || spatial::phrase(&words[at..]).is_some()
}

fn is_adjective(word: &Word) -> bool {
    word.is_one_of(ADJECTIVES) || (word.text.contains('-') && !word.is_learned())
}

/// Whether it looks like "running" or "closed", and is no noun or adjective that does.
pub(crate) fn is_participle(word: &Word) -> bool {
    let text = word.text.as_str();
    let long = |ending: &str| text.len() > ending.len() + 1 && text.ends_with(ending);
    (long("ing") || long("ed")) && !word.is_one_of(NO_PARTICIPLES) && !word.is_one_of(ADJECTIVES)
}

/// Whether the word says how something is done: "gently", and not "fly".
pub(crate) fn is_adverb(word: &Word) -> bool {
    word.text.ends_with("ly") && !is_base_verb(&word.text)
}

/// Whether the word at `at` is a verb that another one follows: "can be", "will gently sit", "a dog may bark".
pub(crate) fn is_modal(words: &[Word], at: usize) -> bool {
    let modal = words.get(at).is_some_and(|word| word.is_one_of(MODALS));
    let verb = at + 1 + usize::from(words.get(at + 1).is_some_and(is_adverb));
    let Some(word) = words.get(verb).filter(|_| modal) else {
        return false;
    };
    // No list has all verbs: after a known noun any word is one that can follow, but for "a fish can sits".
    is_base_verb(&word.text)
        || (follows_actor(words, at) && !is_boundary(words, verb) && !is_finite_verb(&word.text))
}

/// Whether what stands before the modal verb at `at` is what it speaks of: "a dog", "a dog that", but not "tomato" in "tomato
/// can".
fn follows_actor(words: &[Word], at: usize) -> bool {
    let which = at > 0 && words[at - 1].is_one_of(WHICH);
    let end = at - usize::from(which);
    let texts: Vec<&str> = words[end.saturating_sub(3)..end]
        .iter()
        .map(|word| word.text.as_str())
        .collect();
    let known = texts[texts.len() - nouns::known_at_end(&texts)..].join(" ");
    let canned = words[at].is("can") && !which && nouns::is_food(&known);
    !known.is_empty() && !canned
}

/// The noun phrase that begins at word `start`.
pub(crate) fn noun_phrase(words: &[Word], start: usize) -> Option<Mention> {
    if words.get(start)?.is_one_of(PRONOUNS) {
        return Some(Mention {
            reference: Reference::Pronoun,
            count: None,
            whole: start..start + 1,
            core: start..start + 1,
            noun: words[start].text.clone(),
            known: false,
        });
    }
    let (core_start, reference, said) = before_the_core(words, start)?;
    let (at, head_end) = end_of_phrase(words, start, core_start);
    if at == core_start {
        return None;
    }
    let head = &words[core_start..head_end.unwrap_or(at)];
    let texts: Vec<&str> = head.iter().map(|word| word.text.as_str()).collect();
    let known = nouns::known_at_end(&texts);
    let written = texts[texts.len() - known.max(1)..].join(" ");
    // "a skis" and "a glasses" are written too.
    let as_is = nouns::group(&written).is_some();
    let noun = if as_is {
        written.clone()
    } else {
        nouns::singular(&written)
    };
    let plural = !as_is && nouns::is_plural(&written);
    Some(Mention {
        reference,
        count: how_many(&words[start..core_start], said, &noun, plural),
        whole: start..at,
        core: core_start..at,
        noun,
        known: known > 0,
    })
}

/// Articles, numbers and words like "a pair of" that begin a noun phrase: where its core begins, what they refer to, and their number.
fn before_the_core(words: &[Word], start: usize) -> Option<(usize, Reference, Option<usize>)> {
    let (mut at, mut reference, mut count) = (start, Reference::Bare, None);
    loop {
        let word = words.get(at)?;
        if word.kind != Kind::Word {
            return None;
        } else if word.is_one_of(DETERMINERS) {
            // "the other dog" is not the one before.
            let definite =
                word.is_one_of(DEFINITE) && !words.get(at + 1).is_some_and(|next| next.is("other"));
            reference = if definite {
                Reference::Definite
            } else {
                Reference::New
            };
        } else if let Some(length) = half_a_dozen(&words[at..]) {
            count = Some(count.map_or(6, |halves: usize| halves.saturating_mul(6)));
            at += length - 1;
        } else if let Some(n) = nouns::number(&word.text).filter(|_| !is_boundary(words, at + 1)) {
            // "two dozen eggs"
            let dozens = count.filter(|_| word.is("dozen"));
            count = Some(dozens.map_or(n, |dozens: usize| dozens.saturating_mul(n)));
            reference = if reference == Reference::Bare {
                Reference::New
            } else {
                reference
            };
        } else if word.is_one_of(COLLECTIONS) && words.get(at + 1).is_some_and(|next| next.is("of"))
        {
            count = count.or(word.is_one_of("pair couple").then_some(2));
            at += 1;
        } else {
            return Some((at, reference, count));
        }
        at += 1;
    }
}

/// "half a dozen" or "half dozen" before a noun, and how many words it has.
fn half_a_dozen(words: &[Word]) -> Option<usize> {
    let length = match words {
        [half, a, dozen, ..] if half.is("half") && a.is("a") && dozen.is("dozen") => 3,
        [half, dozen, ..] if half.is("half") && dozen.is("dozen") => 2,
        _ => return None,
    };
    (!is_boundary(words, length)).then_some(length)
}

/// Where the noun phrase ends, and where its head does if "of" follows that.
fn end_of_phrase(words: &[Word], start: usize, core_start: usize) -> (usize, Option<usize>) {
    let (mut at, mut head_end) = (core_start, None);
    while !is_boundary(words, at)
        || joins_adjectives(words, core_start, at)
        || joins_of(words, core_start, at, head_end)
    {
        if words[at].is("of") {
            head_end = Some(at);
            at += 1;
            // "a cup of the coffee"
            while words
                .get(at)
                .is_some_and(|word| word.is_one_of(DETERMINERS))
            {
                at += 1;
            }
            continue;
        }
        if words[at].kind == Kind::Word && at > core_start && is_verb(words, core_start, at, start)
        {
            break;
        }
        at += 1;
    }
    (at, head_end)
}

/// How many things a noun phrase speaks of, by the words before its core and the number among them; none if that is open.
fn how_many(before: &[Word], said: Option<usize>, noun: &str, plural: bool) -> Option<usize> {
    let any = |of: &str| before.iter().any(|word| word.is_one_of(of));
    let unchanging = nouns::is_unchanging(noun);
    match said {
        // "a few dogs", "a few dozen dogs", "several dozen dogs"
        _ if any("few") || (any("dozen") && any("several many some multiple various")) => None,
        Some(_) if any("pair") && unchanging => Some(1),
        Some(count) => Some(count),
        // "a group of dogs", "a herd of sheep"
        None if any(COLLECTIONS) && (plural || unchanging) => None,
        None if any("a an another") => Some(1),
        None if plural || any("several many some multiple various all these those") => None,
        None => Some(1),
    }
}

/// Whether a phrase is no noun but says what something does: ", sitting to the left of", "both looking".
pub(crate) fn is_participle_alone(words: &[Word], mention: &Mention) -> bool {
    let article = words[mention.whole.start..mention.core.start]
        .iter()
        .any(|word| !word.is_one_of("both all each"));
    !article
        && !mention.known
        && mention.core.len() == 1
        && is_participle(&words[mention.core.start])
}

/// "a red" before "and a blue car": adjectives alone, and the mention whose noun they may share.
pub(crate) fn shares_noun(words: &[Word], mention: &Mention) -> Option<Mention> {
    let describes = |word: &Word| word.is_one_of(ADJECTIVES);
    let named = |mention: &Mention| mention.whole.start < mention.core.start;
    if mention.known || !named(mention) || !words[mention.core.clone()].iter().all(describes) {
        return None;
    }
    let joins = |word: &&Word| word.kind == Kind::Comma || word.is_one_of(AND);
    let joints = words[mention.whole.end..].iter().take_while(joins).count();
    let after = mention.whole.end + joints;
    let and = words[mention.whole.end..after]
        .iter()
        .any(|word| word.is_one_of(AND));
    let next = noun_phrase(words, after).filter(|_| and)?;
    let core = &words[next.core.clone()];
    (named(&next) && describes(&core[0]) && !core.iter().all(describes)).then_some(next)
}

/// "red and white car", "big, red car": the word at `at` joins two adjectives.
fn joins_adjectives(words: &[Word], start: usize, at: usize) -> bool {
    let joint = words
        .get(at)
        .is_some_and(|word| word.is("and") || word.kind == Kind::Comma);
    joint
        && at > start
        && words[start..at]
            .iter()
            .all(|word| is_adjective(word) || word.is("and") || word.kind == Kind::Comma)
        && words
            .get(at + 1)
            .is_some_and(|next| next.kind == Kind::Word && is_adjective(next))
        && !is_boundary(words, at + 2)
}

/// "cup of coffee"
fn joins_of(words: &[Word], start: usize, at: usize, head_end: Option<usize>) -> bool {
    let mut after = at + 1;
    while words
        .get(after)
        .is_some_and(|word| word.is_one_of(DETERMINERS))
    {
        after += 1;
    }
    at > start
        && head_end.is_none()
        && words.get(at).is_some_and(|word| word.is("of"))
        && !is_boundary(words, after)
}

/// Whether the words from `at` to the end of the phrase name a known thing: "orange dog".
fn names_known_thing(words: &[Word], at: usize) -> bool {
    let mut texts: Vec<&str> = Vec::new();
    for end in at..words.len() {
        if is_boundary(words, end) {
            break;
        }
        texts.push(&words[end].text);
        if nouns::known_at_end(&texts) > 0 {
            return true;
        }
    }
    false
}

/// Whether the word at `at`, which is not the first of a phrase, says what the noun before it does.
fn is_verb(words: &[Word], core: usize, at: usize, start: usize) -> bool {
    // No known noun has more words.
    let recent = &words[core.max(at.saturating_sub(3))..at];
    let texts: Vec<&str> = recent.iter().map(|word| word.text.as_str()).collect();
    let word = &words[at];
    let with_it: Vec<&str> = texts.iter().copied().chain([word.text.as_str()]).collect();
    let with_next: Vec<&str> = with_it
        .iter()
        .copied()
        .chain(words.get(at + 1).map(|word| word.text.as_str()))
        .collect();
    // "dining table": part of a known noun.
    if nouns::known_at_end(&with_it) > 1 || nouns::known_at_end(&with_next) > 1 {
        return false;
    }
    let after_noun = words[core..at]
        .iter()
        .any(|word| !is_adjective(word) && !is_participle(word));
    if after_noun && (is_participle(word) || word.is_one_of(VERBS) || is_modal(words, at)) {
        return true;
    }
    // "one boat clean", "one goat gentle step", "a dog <ink-style>"
    if (word.is_one_of(STATES) || word.is_one_of(ADJECTIVES) || word.is_learned())
        && nouns::known_at_end(&texts) > 0
        && !names_known_thing(words, at)
    {
        return true;
    }
    // "a dog barks": what follows "a" is no plural.
    let article = words[start..core]
        .last()
        .is_some_and(|word| word.is_one_of("a an one"));
    article
        && nouns::known_at_end(&texts) > 0
        && nouns::is_plural(&word.text)
        && nouns::group(&nouns::singular(&word.text)).is_none()
}
