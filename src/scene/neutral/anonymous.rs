//! Prompts that name no object: "two animals, one to the left of the other".

use std::ops::Range;

use super::standing::standing;
use super::verbs::present_participle;
use super::{NeutralError, capitalized, mentions, without_stray_brackets};
use crate::items::Action;
use crate::vocabulary::{OWN, PREPOSITIONS};
use crate::{Item, Part, Reading, is_finite_verb, nouns, read};

/// The neutral form of a prompt.
///
/// `a photo of a dog and a cat.` becomes `a photo of two animals.`, `a dog to the left of a cat` becomes `two animals,
/// one to the left of the other`, and so does `a cat to the right of a dog`. Brackets and weights in the part that
/// changes are dropped.
///
/// # Errors
/// [`NeutralError`]: there is no order of mention to hide, or it cannot be hidden by these rules.
pub fn neutral(prompt: &str) -> Result<String, NeutralError> {
    let reading = read(prompt)?;
    let mut mentions = mentions(&reading, prompt)?;
    let place = |part: &Part| matches!(part.item, Item::Spatial(_));
    let relation = reading.parts.iter().position(place);
    let relation = relation.unwrap_or(reading.parts.len());
    let before_relation = mentions.iter().filter(|mention| mention.0 < relation);
    let before_relation = before_relation.count();
    // "a dog and a cat above a car": how the two stand to the third is the scene.
    let shared = before_relation >= 2 && before_relation < mentions.len();
    if shared {
        mentions.truncate(before_relation);
    }
    let Said {
        mut predicates,
        actions,
        end,
    } = said(&reading, &mentions, prompt, shared)?;
    let scene = setting(&mut predicates);
    let named = subject(&reading, &mentions);
    let saying = said_of_all(&predicates);
    let standing = standing(&reading, &mentions);
    let doing: String = actions.concat();
    let words = |at: usize| &reading.parts[at].words;
    // "to the left of a dog is a cat"
    let first = relation.min(mentions[0].0);
    let start = reading.words[words(first).start].bytes.start;
    let before = agreeing(&reading, prompt, first, start);
    let after = reading.words[words(end).end - 1].bytes.end;
    let after = without_stray_brackets(&prompt[after..]);
    // "one patting the other on the shoulder"
    let (scene, place) = match doing.is_empty() {
        true => (scene, String::new()),
        false => (String::new(), scene),
    };
    let text = format!("{before}{named}{scene}{saying}{doing}{place}{standing}{after}");
    let upper = prompt.trim_start().chars().next();
    Ok(match upper.is_some_and(char::is_uppercase) {
        true => capitalized(&text),
        false => text,
    })
}

/// What the prompt says of its objects beside their names and relations.
struct Said {
    /// Of each object.
    predicates: Vec<Predicate>,
    /// `, one chasing the other`
    actions: Vec<String>,
    /// The last part of the sentence that is about them.
    end: usize,
}

fn said(
    reading: &Reading,
    mentions: &[(usize, usize)],
    prompt: &str,
    shared: bool,
) -> Result<Said, NeutralError> {
    let (first, last) = (mentions[0].0, mentions[mentions.len() - 1].0);
    let of_object = |(_, object): &(usize, usize)| Predicate {
        count: reading.scene.objects[*object].count,
        ..Predicate::default()
    };
    let mut said = Said {
        predicates: mentions.iter().map(of_object).collect(),
        actions: Vec::new(),
        end: last,
    };
    for (at, part) in reading.parts.iter().enumerate().skip(first) {
        let of = mentions.iter().rposition(|mention| mention.0 <= at);
        let predicate = &mut said.predicates[of.unwrap_or(0)];
        // "is clean and groomed"
        let goes_on = matches!(
            reading.parts.get(at + 1).map(|next| &next.item),
            Some(Item::Context { .. })
        );
        match &part.item {
            Item::And if goes_on && !predicate.text.is_empty() => predicate.text.push_str(" and"),
            Item::Stop if at < last => return Err(NeutralError::Sentences(prompt.to_owned())),
            // After the last one, a comma begins what is said of neither.
            Item::Stop | Item::Comma | Item::And if at > last => break,
            Item::Spatial(_) if shared => break,
            // It speaks of what comes after it.
            Item::Be if introduces(reading, at) => {}
            Item::Be => predicate.be(reading, &part.words),
            Item::Which => predicate.own = true,
            Item::Context { .. } => predicate.says(reading, &part.words),
            Item::Action(action) => {
                let action = doing(reading, &part.words, *action, predicate, mentions.len());
                said.actions.push(action);
            }
            _ => {}
        }
        said.end = at;
    }
    Ok(said)
}

/// Whether the part at `at` is of a "there is" before the thing that it speaks of: "to the left of the car there is a dog".
fn introduces(reading: &Reading, at: usize) -> bool {
    let be = |part: &&Part| matches!(part.item, Item::Be);
    let before = reading.parts[..at].iter().rev().take_while(be).count();
    let after = reading.parts[at..].iter().take_while(be).count();
    let verbs = &reading.parts[at - before..at + after];
    let follows = reading.parts.get(at + after).map(|part| &part.item);
    let there = verbs.first().map(|part| &reading.words[part.words.start]);
    verbs.len() > 1
        && there.is_some_and(|word| word.is("there"))
        && matches!(follows, Some(Item::Thing(_)))
}

/// " in a park": where all of them are, if the last words of a prompt say so and nothing is said of where one of them is.
fn setting(predicates: &mut [Predicate]) -> String {
    let places = predicates
        .iter()
        .filter(|said| said.place.is_some())
        .count();
    let Some(last) = predicates.last_mut().filter(|_| places == 1) else {
        return String::new();
    };
    match last.place.take().filter(|_| !last.be) {
        Some(at) => last.text.split_off(at),
        None => String::new(),
    }
}

/// ", one chasing the other"
fn doing(
    reading: &Reading,
    words: &Range<usize>,
    action: Action,
    predicate: &mut Predicate,
    objects: usize,
) -> String {
    // "is being" chased
    let mut before = std::mem::take(&mut predicate.text);
    let verb = &reading.words[action.verb].text;
    let that = match is_finite_verb(verb) {
        true => " that",
        false => "",
    };
    let other = match objects {
        2 => "the other",
        _ => "another",
    };
    let mut words = crate::text(&reading.words, words.clone());
    // Both voices have the same neutral form.
    if let Some(active) = present_participle(verb).filter(|_| action.by) {
        let after = action.preposition.map(|at| reading.words[at].text.as_str());
        words = [active.as_str()]
            .into_iter()
            .chain(after)
            .collect::<Vec<_>>()
            .join(" ");
        before.clear();
    }
    format!(", one{that}{before} {words} {other}")
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
    let alive = objects
        .clone()
        .all(|object| nouns::is_subject(&object.noun));
    let plural = common.unwrap_or(match alive {
        true => "living beings",
        false => "things",
    });
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
    /// A clause of its own: "which is sleeping".
    own: bool,
    /// How many the object is; none for a plural without a number.
    count: Option<usize>,
    text: String,
    /// Where in the text it begins to say where the object is: "in a park".
    place: Option<usize>,
}

impl Predicate {
    fn be(&mut self, reading: &Reading, words: &Range<usize>) {
        let word = &reading.words[words.start];
        let plain = word.is_one_of("is are was were");
        self.be |= plain;
        self.past |= word.is_one_of("was were");
        if !plain {
            self.says(reading, words);
        }
    }

    fn says(&mut self, reading: &Reading, words: &Range<usize>) {
        let first = &reading.words[words.start];
        self.own |= self.text.is_empty() && first.is_one_of(OWN);
        if first.is_one_of(PREPOSITIONS) && !first.is_one_of(OWN) {
            self.place.get_or_insert(self.text.len());
        }
        for word in &reading.words[words.clone()] {
            self.text.push(' ');
            self.text.push_str(&word.typed);
        }
    }

    /// "sit", of several.
    fn plural(&self) -> String {
        let words = self.text.split_whitespace().map(|word| match word {
            "has" => "have".to_owned(),
            "does" => "do".to_owned(),
            "its" | "his" | "her" => "their".to_owned(),
            _ if is_finite_verb(word) => nouns::singular(word),
            _ => word.to_owned(),
        });
        words.collect::<Vec<_>>().join(" ")
    }

    /// "sleeping", "that sleeps": as it is said of this object alone.
    fn alone(&self) -> String {
        let text = self.text.trim();
        match text.split(' ').next().is_some_and(is_finite_verb) {
            true => format!("that {text}"),
            false => text.to_owned(),
        }
    }
}

/// " are standing" if it is said of all, ", one sitting and one standing" otherwise: by the alphabet, as their order
/// would be the order of mention.
fn said_of_all(predicates: &[Predicate]) -> String {
    let said = || predicates.iter().filter(|said| !said.text.is_empty());
    let Some(one) = said().next() else {
        return String::new();
    };
    let same = said().all(|other| other.text == one.text);
    // Of "a man with a hat and a woman" one has the hat; in the park of "a man and a woman in a park" are both.
    let last = &predicates[predicates.len() - 1];
    let of_all = said().count() == predicates.len() || !(last.text.is_empty() || last.own);
    if same && of_all {
        let be = match predicates {
            _ if !predicates.iter().any(|said| said.be) => "",
            _ if predicates.iter().any(|said| said.past) => " were",
            _ => " are",
        };
        return format!("{be} {}", one.plural());
    }
    let mut texts: Vec<(String, Option<usize>)> =
        said().map(|said| (said.alone(), said.count)).collect();
    texts.sort_unstable();
    let clauses = texts.chunk_by(|a, b| a.0 == b.0).map(|alike| {
        let count: Option<usize> = alike.iter().map(|(_, count)| *count).sum();
        let number = count.map_or_else(|| "some".to_owned(), nouns::spelled);
        format!("{number} {}", alike[0].0)
    });
    format!(", {}", clauses.collect::<Vec<_>>().join(" and "))
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
