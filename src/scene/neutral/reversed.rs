//! Prompts that mention their two objects in the other order and say the same of each.

use std::ops::Range;

use super::edits::{Edit, edited, inverted, placed};
use super::verbs::{past_participle, present_participle};
use super::{NeutralError, mentions, without_stray_brackets};
use crate::items::Action;
use crate::spatial::Spatial;
use crate::vocabulary::{MODALS, OWN, PREPOSITIONS};
use crate::words::Word;
use crate::{Item, Reading, read};

/// The same prompt with its two objects mentioned in the other order, for the experiments with the order of mention.
///
/// `a man and a woman in a park` becomes `a woman and a man in a park`. What is said of an object goes with it (`a cat
/// is standing and a dog is sitting`: `a dog is sitting and a cat is standing`), a relation becomes its counterpart (`a
/// dog to the left of a cat`: `a cat to the right of a dog`), and an action the other voice (`a boy is chasing a girl`:
/// `a girl is being chased by a boy`). Articles and numbers go with their nouns; weights around names go with them too.
///
/// # Errors
/// [`NeutralError`]: not two objects, or what is said of them cannot be turned round by these rules.
pub fn swapped(prompt: &str) -> Result<String, NeutralError> {
    let reading = read(prompt)?;
    let mentions = mentions(&reading, prompt)?;
    let [first, second] = mentions[..] else {
        return Err(NeutralError::NotTwo {
            prompt: prompt.to_owned(),
            objects: mentions.len(),
        });
    };
    let sentence = Sentence {
        reading: &reading,
        prompt,
        mentions: [first.0, second.0],
        objects: [first.1, second.1],
    };
    let between = &reading.parts[first.0..second.0];
    let action = between
        .iter()
        .position(|part| matches!(part.item, Item::Action(_)));
    let spatial = |item: &Item| {
        matches!(
            item,
            Item::Spatial(Spatial::Of(_)) | Item::Spatial(Spatial::OfIt(_))
        )
    };
    let related = reading.parts.iter().any(|part| spatial(&part.item));
    let edits = match (action, related) {
        (Some(_), true) => return Err(sentence.too_much()),
        (Some(at), false) => sentence.other_voice(first.0 + at)?,
        (None, true) => sentence.counterpart()?,
        (None, false) => sentence.exchanged()?,
    };
    Ok(edited(prompt, edits))
}

/// A prompt of two objects.
struct Sentence<'a> {
    reading: &'a Reading,
    prompt: &'a str,
    /// The parts that name the objects.
    mentions: [usize; 2],
    /// The objects, in the order of mention.
    objects: [usize; 2],
}

impl Sentence<'_> {
    /// "a cat is standing and a dog is sitting": each with what is said of it alone.
    fn exchanged(&self) -> Result<Vec<Edit>, NeutralError> {
        let ends = self.mentions.map(|mention| self.end_of_clause(mention));
        let places = self.mentions.map(|mention| self.place_before(mention));
        let own = ends[0] > self.mentions[0] || places[0] || self.is_own(self.mentions[1] + 1);
        // Of "a man and a woman in a park" both are in the park.
        let ends = [ends[0], if own { ends[1] } else { self.mentions[1] }];
        let span = |which: usize, article: bool| {
            let start = self.mentions[which] - usize::from(places[which]);
            let start = match article || start < self.mentions[which] {
                true => self.bytes(start).start,
                false => self.reading.scene.objects[self.objects[which]].bytes.start,
            };
            self.movable(start..self.bytes(ends[which]).end)
        };
        let both = |article| span(0, article).zip(span(1, article));
        let Some((one, two)) = both(true).or_else(|| both(false)) else {
            return Err(NeutralError::Brackets(self.prompt.to_owned()));
        };
        let texts = [&self.prompt[one.clone()], &self.prompt[two.clone()]];
        Ok(vec![
            (one, placed(texts[1], texts[0])),
            (two, placed(texts[0], texts[1])),
        ])
    }

    /// "a dog to the left of a cat": the names change places, and the relation is turned round.
    fn counterpart(&self) -> Result<Vec<Edit>, NeutralError> {
        let mut edits = self.names()?;
        for (at, part) in self.reading.parts.iter().enumerate() {
            match part.item {
                Item::Spatial(_) => {
                    let bytes = self.plain(at)?;
                    let words = &self.reading.words[part.words.clone()];
                    edits.push((bytes, inverted(words)));
                }
                Item::Be => edits.extend(self.agreed(at)),
                _ => {}
            }
        }
        Ok(edits)
    }

    /// "a boy is chasing a girl": passive, or active again.
    fn other_voice(&self, at: usize) -> Result<Vec<Edit>, NeutralError> {
        let Item::Action(action) = self.reading.parts[at].item else {
            return Err(self.too_much());
        };
        let before = &self.reading.parts[self.mentions[0] + 1..at];
        if !before.iter().all(|part| matches!(part.item, Item::Be)) {
            return Err(self.too_much());
        }
        let words = |at: usize| self.reading.parts[at].words.clone();
        let be = before
            .iter()
            .map(|part| &self.reading.words[part.words.start])
            .find(|word| word.is_one_of("is are was were"));
        let be = be.map(|be| self.be(be, self.objects[1]));
        let verb = self.turned(action, be).ok_or_else(|| self.too_much())?;
        let adverb = self.reading.words[words(at).start..action.verb].iter();
        let adverb: String = adverb.map(|word| format!("{} ", word.typed)).collect();
        let mut edits = self.names()?;
        let (start, end) = (self.bytes(self.mentions[0] + 1).start, self.bytes(at).end);
        if without_stray_brackets(&self.prompt[start..end]).len() != end - start {
            return Err(NeutralError::Brackets(self.prompt.to_owned()));
        }
        edits.push((start..end, verb.replace("ADVERB ", &adverb)));
        Ok(edits)
    }

    /// The verb in the other voice, with `be` of its new subject, and `ADVERB ` where one belongs.
    fn turned(&self, action: Action, be: Option<String>) -> Option<String> {
        let word = |at: usize| self.reading.words[at].text.as_str();
        let verb = word(action.verb);
        let preposition = action.preposition.map(word);
        let with_be = |rest: String| match &be {
            Some(be) => format!("{be} {rest}"),
            None => rest,
        };
        let after = preposition.map(|word| format!(" {word}"));
        let after = after.unwrap_or_default();
        if action.by {
            let doing = present_participle(verb)?;
            return Some(with_be(format!("ADVERB {doing}{after}")));
        }
        match preposition {
            // Who dances with whom is the same either way.
            Some("with") => {
                let typed = &self.reading.words[action.verb].typed;
                return Some(with_be(format!("ADVERB {typed} with")));
            }
            None | Some("at" | "to") => {}
            _ => return None,
        }
        let done = format!("ADVERB {}{after} by", past_participle(verb)?);
        Some(match (verb.ends_with("ing"), &be) {
            (true, Some(be)) => format!("{be} being {done}"),
            (true, None) => done,
            (false, _) => format!("{} {done}", self.number(self.objects[1], "is", "are")),
        })
    }

    /// Each name, with what is said of the object alone, in the place of the other.
    fn names(&self) -> Result<Vec<Edit>, NeutralError> {
        let mut edits = Vec::new();
        let mut texts = [String::new(), String::new()];
        let mut places = [0..0, 0..0];
        for (which, mention) in self.mentions.into_iter().enumerate() {
            let object = &self.reading.scene.objects[self.objects[which]];
            let bytes = self.bytes(mention);
            let name = self.movable(bytes.clone());
            let name = name.or_else(|| self.movable(object.bytes.start..bytes.end));
            let name = name.ok_or_else(|| NeutralError::Brackets(self.prompt.to_owned()))?;
            texts[which] = self.prompt[name.clone()].to_owned();
            places[which] = name;
        }
        let names = texts.clone();
        for (which, mention) in self.mentions.into_iter().enumerate() {
            for at in mention + 1..=self.end_of_clause(mention) {
                // "can jump" goes as one.
                if self.moves(at) || (self.is_modal(at) && self.moves(at + 1)) {
                    let bytes = self.plain(at)?;
                    texts[which] += &format!(" {}", &self.prompt[bytes.clone()]);
                    let before = self.prompt[..bytes.start].trim_end().len();
                    edits.push((before..bytes.end, String::new()));
                }
            }
        }
        for (which, place) in places.into_iter().enumerate() {
            edits.push((place, placed(&texts[1 - which], &names[which])));
        }
        Ok(edits)
    }

    /// The bytes of a part.
    fn bytes(&self, at: usize) -> Range<usize> {
        let words = &self.reading.parts[at].words;
        self.reading.words[words.start].bytes.start..self.reading.words[words.end - 1].bytes.end
    }

    /// The bytes of a part that no bracket opens or closes in.
    fn plain(&self, at: usize) -> Result<Range<usize>, NeutralError> {
        let bytes = self.bytes(at);
        match without_stray_brackets(&self.prompt[bytes.clone()]).len() == bytes.len() {
            true => Ok(bytes),
            false => Err(NeutralError::Brackets(self.prompt.to_owned())),
        }
    }

    /// The bytes if they can be moved: brackets in them close in them, or the first one opens right before.
    fn movable(&self, bytes: Range<usize>) -> Option<Range<usize>> {
        // "(red:1.2) car": the first bracket opens before the phrase.
        let opening = self.prompt[..bytes.start]
            .ends_with(['(', '['])
            .then(|| bytes.start - 1..bytes.end);
        let balanced = |range: &Range<usize>| {
            without_stray_brackets(&self.prompt[range.clone()]).len() == range.len()
        };
        Some(bytes).filter(balanced).or(opening.filter(balanced))
    }

    /// The last part of what is said of the object that part `mention` names.
    fn end_of_clause(&self, mention: usize) -> usize {
        let says = |at: &usize| {
            let place_of_next = self.mentions.contains(&(at + 1)) && self.place_before(at + 1);
            let item = |at: usize| self.reading.parts.get(at).map(|part| &part.item);
            let of_it = match item(*at) {
                Some(
                    Item::Be
                    | Item::Which
                    | Item::Context { .. }
                    | Item::Spatial(Spatial::Place(_)),
                ) => true,
                // "is clean and groomed"
                Some(Item::And) => matches!(item(at + 1), Some(Item::Context { .. })),
                _ => false,
            };
            of_it && !place_of_next
        };
        let after = mention + 1..self.reading.parts.len();
        mention + after.take_while(says).count()
    }

    /// Whether "on the left" stands before the object that part `mention` names, and speaks of it.
    fn place_before(&self, mention: usize) -> bool {
        let item = |back: usize| Some(&self.reading.parts[mention.checked_sub(back)?].item);
        let begins = matches!(
            item(2),
            None | Some(Item::And | Item::Comma | Item::Stop | Item::Frame)
        );
        begins && matches!(item(1), Some(Item::Spatial(Spatial::Place(_))))
    }

    /// Whether the part at `at` speaks of the object before it alone, even in a list.
    fn is_own(&self, at: usize) -> bool {
        let Some(part) = self.reading.parts.get(at) else {
            return false;
        };
        let first = &self.reading.words[part.words.start];
        match part.item {
            Item::Which | Item::Spatial(Spatial::Place(_)) => true,
            Item::Context { .. } => first.is_one_of(OWN),
            _ => false,
        }
    }

    /// Whether a part is said of the object before it and goes with it: "sitting" does, "in a park" is where both are.
    fn moves(&self, at: usize) -> bool {
        self.reading.parts.get(at).is_some_and(|part| {
            let first = &self.reading.words[part.words.start];
            matches!(part.item, Item::Context { .. })
                && (!first.is_one_of(PREPOSITIONS) || first.is_one_of(OWN))
        })
    }

    /// Whether a part is a verb that another one follows: "can", "will".
    fn is_modal(&self, at: usize) -> bool {
        let part = &self.reading.parts[at];
        matches!(part.item, Item::Be) && self.reading.words[part.words.start].is_one_of(MODALS)
    }

    /// "is" as its new subject needs it, if that is another form.
    fn agreed(&self, at: usize) -> Option<Edit> {
        let word = &self.reading.words[self.reading.parts[at].words.start];
        if !word.is_one_of("is are was were") || word.typed.is_empty() {
            return None;
        }
        // "to the left of a dog is a cat": it speaks of the second.
        let spatial = |part: &crate::Part| matches!(part.item, Item::Spatial(_));
        let turned = self.reading.parts[..self.mentions[0]].iter().any(spatial);
        let old = usize::from(turned && at > self.mentions[0]);
        let plural = |object: usize| self.reading.scene.objects[object].count != Some(1);
        let (old, new) = (self.objects[old], self.objects[1 - old]);
        (plural(old) != plural(new)).then(|| (word.bytes.clone(), self.be(word, new)))
    }

    /// "is", "are", "was" or "were", for that object.
    fn be(&self, word: &Word, object: usize) -> String {
        match word.is_one_of("was were") {
            true => self.number(object, "was", "were"),
            false => self.number(object, "is", "are"),
        }
    }

    fn number(&self, object: usize, one: &str, several: &str) -> String {
        match self.reading.scene.objects[object].count {
            Some(1) => one.to_owned(),
            _ => several.to_owned(),
        }
    }

    fn too_much(&self) -> NeutralError {
        NeutralError::Order(self.prompt.to_owned())
    }
}
