//! A prompt as noun phrases, phrases of place, and what joins them.

use std::ops::Range;

use super::phrase::{
    Mention, Reference, is_adverb, is_boundary, is_modal, is_participle, is_participle_alone,
    noun_phrase, shares_noun,
};
use super::spatial::{self, Spatial};
use super::vocabulary::*;
use super::words::{Kind, Word};
use super::{SceneError, nouns, text};

/// What a part of a prompt is to the grammar.
#[derive(Debug, Clone)]
pub(crate) enum Item {
    /// "a photo of"
    Frame,
    Thing(Mention),
    Spatial(Spatial),
    And,
    Comma,
    Stop,
    /// "is", "stands", "there is"
    Be,
    /// "which", "that"
    Which,
    /// What one subject does to another, which follows: "chasing", "pointing at".
    Action(Action),
    /// What no relation is read from: "in a park", "running", "with a hat". Not `same_place`: it may name something
    /// that a phrase of place after it could be about.
    Context {
        same_place: bool,
    },
}

/// A verb between two subjects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Action {
    /// The word that is the verb.
    pub verb: usize,
    /// The word after it that belongs to it: "at".
    pub preposition: Option<usize>,
    /// The one who acts comes after it: "chased by".
    pub by: bool,
}

/// An item and the words that it consists of.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub item: Item,
    pub words: Range<usize>,
}

/// Cuts the words into items.
pub(crate) fn items(words: &[Word]) -> Result<Vec<Part>, SceneError> {
    let mut parts: Vec<Part> = Vec::new();
    let mut at = 0;
    while at < words.len() {
        let (item, end) = item(words, at, &parts)?;
        parts.push(Part {
            item,
            words: at..end,
        });
        at = end;
    }
    Ok(parts)
}

/// What begins at word `at` behind these parts, and where it ends.
fn item(words: &[Word], at: usize, parts: &[Part]) -> Result<(Item, usize), SceneError> {
    let word = &words[at];
    let previous = parts.last().map(|part| &part.item);
    match word.kind {
        Kind::Comma => return Ok((Item::Comma, at + 1)),
        Kind::Stop => return Ok((Item::Stop, at + 1)),
        Kind::Word => {}
    }
    if matches!(previous, None | Some(Item::Stop))
        && let Some(end) = frame(words, at)
    {
        return Ok((Item::Frame, end));
    }
    if word.is_one_of(OR) {
        return Err(SceneError::Alternative(around(words, at)));
    }
    if word.is_one_of(NOT) {
        return Err(SceneError::Negation(around(words, at)));
    }
    if word.is_one_of(AND) {
        return Ok((Item::And, at + 1));
    }
    if let Some((spatial, length)) = spatial::phrase(&words[at..]) {
        return Ok((Item::Spatial(spatial), at + length));
    }
    let next = words.get(at + 1);
    // ", with the dog left of the cat", "where the dog is left of the cat": what follows is a clause of its own.
    let named = next.is_some_and(|next| {
        let number = nouns::number(&next.text).is_some() && !is_boundary(words, at + 2);
        next.is_one_of(DETERMINERS) || number
    });
    if named
        && (word.is("where")
            || word.is("with")
                && matches!(previous, Some(Item::Comma))
                && next.is_some_and(|next| next.is("the")))
    {
        return Ok((Item::Comma, at + 1));
    }
    // "to the left of which a cat sits"
    let of_place = matches!(previous, Some(Item::Spatial(Spatial::Of(_))));
    let stands_for_it = of_place && word.is_one_of("which whom");
    if stands_for_it || (word.is_one_of(WHICH) && is_predicate(words, at + 1)) {
        return Ok((Item::Which, at + 1));
    }
    if points(words, at, previous) {
        return Ok((Item::Context { same_place: true }, at + 1));
    }
    if word.is_one_of(BE) || is_modal(words, at) {
        return Ok((Item::Be, at + 1));
    }
    // After a noun or a verb a bare word says something about it: "is running", "is red".
    let says = matches!(previous, Some(Item::Thing(_) | Item::Be | Item::Which));
    if says && let Some((action, end)) = action(words, at) {
        refuse_cue(words, at..end)?;
        return Ok((Item::Action(action), end));
    }
    let begins_thing =
        word.is_one_of(DETERMINERS) || word.is_one_of(PRONOUNS) || !is_boundary(words, at);
    let bare = !word.is_one_of(DETERMINERS) && !word.is_one_of(PRONOUNS);
    let describes =
        bare && !(matches!(previous, Some(Item::Be)) && names_after_be(words, at, parts));
    if begins_thing
        && !(says && describes)
        && let Some(mention) = noun_phrase(words, at)
        && !is_participle_alone(words, &mention)
    {
        refuse_cue(words, mention.core.clone())?;
        refuse_nameless(words, &mention)?;
        let end = mention.whole.end;
        return Ok((Item::Thing(mention), end));
    }
    let (same_place, end) = context(words, at);
    refuse_cue(words, at..end)?;
    Ok((Item::Context { same_place }, end))
}

/// Whether the word at `at` only says where the thing before it is: "a dog over there left of a cat", and not "left of the
/// dog there is a cat".
fn points(words: &[Word], at: usize, previous: Option<&Item>) -> bool {
    let verb = |next: &Word| next.is_one_of(BE);
    matches!(previous, Some(Item::Thing(_) | Item::Context { .. }))
        && words[at].is_one_of(POINTERS)
        && is_boundary(words, at + 1)
        && !words.get(at + 1).is_some_and(verb)
}

/// Whether the word at `at` is a verb of what stands before it.
fn is_predicate(words: &[Word], at: usize) -> bool {
    let verb = |word: &Word| word.is_one_of(BE) || word.is_one_of(VERBS);
    words.get(at).is_some_and(verb) || is_modal(words, at)
}

/// Whether what follows a verb is no description but another thing, though without an article: "there are dogs", "to the left
/// of the dog are two cats".
fn names_after_be(words: &[Word], at: usize, parts: &[Part]) -> bool {
    let Some(mention) = noun_phrase(words, at) else {
        return false;
    };
    let number = mention.whole.start < mention.core.start;
    let verb = |word: &&Word| word.is_one_of(BE) || word.is_one_of(MODALS);
    let mut verbs = words[..at].iter().rev().take_while(verb);
    // Not "the dog is there".
    let there_is =
        verbs.next().is_some_and(|verb| !verb.is("there")) && verbs.any(|word| word.is("there"));
    match there_is {
        true => mention.known || number || mention.count.is_none(),
        // Not "is three years old" or "is three cars tall", and not "a cat is 2 chairs to the left of a dog".
        false => {
            let next = words.get(mention.whole.end);
            let ends = next.is_none_or(|next| next.kind != Kind::Word || next.is_one_of(AND));
            mention.known && number && (ends || is_inverted(words, parts))
        }
    }
}

/// Whether the last clause begins with where something is, and its subject is still to come: "to the left of the dog are", "in a
/// park are".
fn is_inverted(words: &[Word], parts: &[Part]) -> bool {
    // "in a kitchen with" is a place of this clause; after "in a kitchen where" another begins.
    let is_place = |frame: &Range<usize>| {
        words[frame.start].is_one_of(PREPOSITIONS) && !words[frame.end - 1].is_one_of(WHICH)
    };
    let ends = |part: &Part| match part.item {
        Item::Frame => !is_place(&part.words),
        _ => matches!(part.item, Item::Stop | Item::Comma),
    };
    let clause = parts.rsplit(ends).next().unwrap_or_default();
    let begins = |at: &usize| {
        let place = matches!(
            clause[*at].item,
            Item::Frame | Item::Spatial(_) | Item::Context { .. }
        );
        place && (*at == 0 || matches!(clause[at - 1].item, Item::And))
    };
    let Some(first) = (0..clause.len()).rev().find(begins) else {
        return false;
    };
    let place = &clause[first..];
    let of = |part: &&Part| matches!(part.item, Item::Frame | Item::Spatial(Spatial::Of(_)));
    let objects = |pair: &&[Part]| {
        matches!(pair[1].item, Item::Thing(_)) && !matches!(pair[0].item, Item::And)
    };
    // All things after it are what it speaks of, "the car and the bus"; one more were the subject.
    place.iter().filter(of).count() == place.windows(2).filter(objects).count()
}

/// "a photo of", "draw", "a red kitchen with".
fn frame(words: &[Word], start: usize) -> Option<usize> {
    // "It is a cat next to a dog": nothing was mentioned that "it" could mean.
    if start == 0
        && words[0].is_one_of("it this that here")
        && words.get(1).is_some_and(|next| next.is_one_of("is are"))
    {
        return Some(2);
    }
    let mut at = start;
    while words.get(at).is_some_and(|word| word.is_one_of(ORDERS)) {
        at += 1;
    }
    let ordered = (at > start).then_some(at);
    let mut noun = at;
    while noun < at + 7 && words.get(noun).is_some_and(|word| word.kind == Kind::Word) {
        let (word, next) = (&words[noun], words.get(noun + 1));
        let shows = |next: &Word| {
            next.is_one_of(SHOWING)
                || next.is("in") && words.get(noun + 2).is_some_and(|w| w.is("which"))
        };
        if word.is_one_of(PICTURES) && next.is_some_and(shows) {
            let in_which = usize::from(next.is_some_and(|next| next.is("in")));
            return Some(noun + 2 + in_which);
        }
        if word.is_one_of(PLACES)
            && next.is_some_and(|next| next.is_one_of("with where containing featuring"))
        {
            return Some(noun + 2);
        }
        if noun > at && is_boundary(words, noun) && !word.is_one_of(DETERMINERS) {
            break;
        }
        noun += 1;
    }
    ordered
}

/// "chasing a girl", "gently patting the chef": a verb whose object is named with an article or a number and could
/// itself do something. What is done to things ("holding a cup") only describes who does it.
fn action(words: &[Word], start: usize) -> Option<(Action, usize)> {
    let verb = start + usize::from(is_adverb(words.get(start)?));
    let word = words.get(verb).filter(|word| word.kind == Kind::Word)?;
    let after_modal = start
        .checked_sub(1)
        .is_some_and(|before| is_modal(words, before));
    if !is_participle(word) && !word.is_one_of(VERBS) && !after_modal {
        return None;
    }
    let mut end = verb + 1;
    let mut take = |texts: &str| {
        let at = end;
        let found = words.get(at).is_some_and(|word| word.is_one_of(texts));
        end += usize::from(found);
        found.then_some(at)
    };
    let action = Action {
        verb,
        preposition: take(ACTION_PREPOSITIONS),
        by: take("by").is_some(),
    };
    let object = noun_phrase(words, end)?;
    let named = object.reference != Reference::Pronoun && object.whole.start < object.core.start;
    (named && nouns::is_subject(&object.noun)).then_some((action, end))
}

/// How far words about a thing reach from `start`, and whether they keep to one place.
fn context(words: &[Word], start: usize) -> (bool, usize) {
    let preposition = words[start].is_one_of(PREPOSITIONS);
    let mut same_place = !preposition || words[start].is_one_of(SAME_PLACE);
    let mut at = start + 1;
    while let Some(word) = words.get(at).filter(|word| word.kind == Kind::Word) {
        let next = words.get(at + 1);
        let joins_adjectives = word.is("and")
            && next.is_some_and(|next| next.is_one_of(ADJECTIVES))
            && words[at - 1].is_one_of(ADJECTIVES);
        let ends = (word.is_one_of(AND) && !joins_adjectives)
            || word.is_one_of(BE)
            || (word.is_one_of(WHICH) && is_predicate(words, at + 1))
            || spatial::phrase(&words[at..]).is_some();
        if ends {
            break;
        }
        // "running in a park" is one place, "holding a cup" and "in a park with a lake" are two.
        let names_thing = !preposition && at == start + 1 && !word.is_one_of(PREPOSITIONS);
        let leaves = word.is_one_of(PREPOSITIONS) && !word.is_one_of(SAME_PLACE);
        same_place &= !names_thing && !leaves;
        at += 1;
    }
    (same_place, at)
}

fn refuse_cue(words: &[Word], range: Range<usize>) -> Result<(), SceneError> {
    match spatial::cue(&words[range.clone()]) {
        Some(word) => Err(SceneError::Unread {
            word: word.text.clone(),
            text: text(
                words,
                range.start.saturating_sub(2)..(range.end + 1).min(words.len()),
            ),
        }),
        None => Ok(()),
    }
}

/// Refuses what is like a name and is none: "the second", and "a red" of "a red and a blue car".
fn refuse_nameless(words: &[Word], mention: &Mention) -> Result<(), SceneError> {
    let definite = mention.reference == Reference::Definite && mention.core.len() == 1;
    if definite && words[mention.core.start].is_one_of(ORDINALS) {
        return Err(SceneError::Reference {
            text: text(words, mention.whole.clone()),
        });
    }
    match shares_noun(words, mention) {
        Some(next) => Err(SceneError::Ambiguous {
            text: text(words, mention.whole.start..next.whole.end),
            first: format!("{:?} is a thing", text(words, mention.core.clone())),
            second: format!("it says what another {:?} is like", next.noun),
        }),
        None => Ok(()),
    }
}

fn around(words: &[Word], at: usize) -> String {
    text(words, at.saturating_sub(3)..(at + 4).min(words.len()))
}
