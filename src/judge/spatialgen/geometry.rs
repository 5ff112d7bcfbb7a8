//! Answers from boxes, where boxes decide.
//!
//! The questions are free text, so only those are answered whose words leave no doubt:
//!
//! * *Object*: each option is a list of names that the detector knows; the option is right whose names are all there;
//! * *Position*: two names in the question, of which its words say which is placed by the other ("relative to", "side of"), and
//!   options that are sides (left of, right of, above, below);
//! * *Comparison* ("largest", "smallest") and *Proximity* ("nearest", "closest", "farthest" with one name in the
//!   question): each option is one name.
//!
//! Where no option holds, the answer is E; where several do, or a name is none of the detector's, there is no answer. Of
//! attributes, orientation, layout, occlusion, motion and causes no box can tell.

use std::ops::Range;

use prepose_check::rules::Case;
use prepose_check::{BoundingBox, vocabulary};

use super::{Choice, Domain, NONE_PLACE};

/// Above what score a detection counts, as for the box rule of OTS-Bench.
const MIN_SCORE: f64 = 0.5;
/// How much one number must exceed another to be called larger.
const CLEARLY: f64 = 1.1;

/// The place of the answer to a question of this sub-domain, by a picture's detections; none if boxes do not decide. `known`
/// are the labels that the detector has.
pub fn answer(domain: Domain, choice: &Choice, case: &Case, known: &[String]) -> Option<u8> {
    let seen = Seen { case, known };
    match domain {
        Domain::Object => seen.objects(choice),
        Domain::Position => seen.position(choice),
        Domain::Comparison => seen.compared(choice),
        Domain::Proximity => seen.nearest(choice),
        Domain::Attribute
        | Domain::Orientation
        | Domain::Layout
        | Domain::Occlusion
        | Domain::Motion
        | Domain::Causal => None,
    }
}

struct Seen<'a> {
    case: &'a Case,
    known: &'a [String],
}

impl Seen<'_> {
    fn boxes(&self, label: &str) -> Vec<BoundingBox> {
        let found = self.case.found(label, MIN_SCORE);
        found.into_iter().map(|one| one.bbox).collect()
    }

    /// The only box of a label; none if there are more or none.
    fn only(&self, label: &str) -> Option<BoundingBox> {
        match self.boxes(label)[..] {
            [one] => Some(one),
            _ => None,
        }
    }

    /// The label of words such as "the red cat"; none if it is no label.
    fn label(&self, words: &str) -> Option<&str> {
        let words = plain(words);
        let words: Vec<&str> = words
            .split(' ')
            .skip_while(|word| ["a", "an", "the", "one", "only"].contains(word))
            .collect();
        let name = words.join(" ");
        vocabulary::label(self.known, &name, &name).ok()
    }

    /// The labels among the words of a sentence, in order, with their places; longer ones first, so that a teddy bear is no bear.
    fn named(&self, words: &[&str]) -> Vec<(&str, Range<usize>)> {
        let mut found = Vec::new();
        let mut at = 0;
        while at < words.len() {
            let here = (1..=3).rev().find_map(|length| {
                let name = words.get(at..at + length)?.join(" ");
                let label = vocabulary::label(self.known, &name, &name).ok()?;
                Some((label, length))
            });
            match here {
                Some((label, length)) => {
                    found.push((label, at..at + length));
                    at += length;
                }
                None => at += 1,
            }
        }
        found
    }

    fn objects(&self, choice: &Choice) -> Option<u8> {
        let holds = |option: &String| -> Option<bool> {
            let text = option.replace(" and ", ", ").replace(" & ", ", ");
            let names = text
                .split(',')
                .map(str::trim)
                .filter(|name| !name.is_empty());
            let labels: Option<Vec<&str>> = names.map(|name| self.label(name)).collect();
            let labels = labels.filter(|labels| !labels.is_empty())?;
            Some(labels.iter().all(|label| !self.boxes(label).is_empty()))
        };
        one_of(choice.options.iter().map(holds))
    }

    fn position(&self, choice: &Choice) -> Option<u8> {
        let stem = plain(&choice.stem);
        let words: Vec<&str> = stem.split(' ').collect();
        let named = self.named(&words);
        let [(first, at), (second, then)] = &named[..] else {
            return None;
        };
        // "Where is the car relative to the bus?", or "On which side of the bus is the car?"
        let before = [&words[..at.start], &words[at.end..then.start]];
        let (placed, by) = match before.map(leads_to_reference) {
            [false, true] => (*first, *second),
            [true, false] => (*second, *first),
            _ => return None,
        };
        if placed == by {
            return None;
        }
        let sides: Option<Vec<Side>> = choice.options.iter().map(|text| side(text)).collect();
        let sides = sides?;
        let (Some(a), Some(b)) = (self.only(placed), self.only(by)) else {
            // What is not there stands nowhere; of several it is not clear which is meant.
            let missing = [placed, by].iter().any(|name| self.boxes(name).is_empty());
            return missing.then_some(NONE_PLACE);
        };
        let ((ax, ay), (bx, by)) = (a.centre(), b.centre());
        let (x, y) = (bx - ax, by - ay);
        let here = match (x.abs() > CLEARLY * y.abs(), y.abs() > CLEARLY * x.abs()) {
            (true, _) if x > 0.0 => Side::Left,
            (true, _) => Side::Right,
            (_, true) if y > 0.0 => Side::Above,
            (_, true) => Side::Below,
            _ => return None,
        };
        one_of(sides.into_iter().map(|side| Some(side == here)))
    }

    /// The single objects that the options name, by their boxes; none if one of them is not there exactly once.
    fn candidates(&self, choice: &Choice) -> Option<Vec<BoundingBox>> {
        let of = |option: &String| self.only(self.label(option)?);
        choice.options.iter().map(of).collect()
    }

    fn compared(&self, choice: &Choice) -> Option<u8> {
        let stem = plain(&choice.stem);
        let has = |words: &[&str]| stem.split(' ').any(|word| words.contains(&word));
        let sign = match (has(&["largest", "biggest"]), has(&["smallest", "tiniest"])) {
            (true, false) => 1.0,
            (false, true) => -1.0,
            _ => return None,
        };
        let areas = self.candidates(choice)?;
        first_by(areas.iter().map(|one| sign * one.area().max(1.0).ln()))
    }

    fn nearest(&self, choice: &Choice) -> Option<u8> {
        let stem = plain(&choice.stem);
        let has = |words: &[&str]| stem.split(' ').any(|word| words.contains(&word));
        let sign = match (has(&["nearest", "closest"]), has(&["farthest", "furthest"])) {
            (true, false) => -1.0,
            (false, true) => 1.0,
            _ => return None,
        };
        let words: Vec<&str> = stem.split(' ').collect();
        let named = self.named(&words);
        let [(from, _)] = &named[..] else {
            return None;
        };
        let (x, y) = self.only(from)?.centre();
        let distance = |one: &BoundingBox| {
            let (ax, ay) = one.centre();
            (ax - x).hypot(ay - y).max(1.0).ln()
        };
        let boxes = self.candidates(choice)?;
        first_by(boxes.iter().map(|one| sign * distance(one)))
    }
}

/// The place of the only option that holds, E if none does; none if it is not known of one of them, or several hold.
fn one_of(holds: impl Iterator<Item = Option<bool>>) -> Option<u8> {
    let holds: Option<Vec<bool>> = holds.collect();
    let holds = holds?;
    let mut places = (0u8..).zip(holds).filter(|(_, holds)| *holds);
    match (places.next(), places.next()) {
        (None, _) => Some(NONE_PLACE),
        (Some((place, _)), None) => Some(place),
        _ => None,
    }
}

/// The place of the largest logarithm, if it is clearly so.
fn first_by(values: impl Iterator<Item = f64>) -> Option<u8> {
    let mut sorted: Vec<(u8, f64)> = (0u8..).zip(values).collect();
    sorted.sort_by(|a, b| b.1.total_cmp(&a.1));
    match sorted[..] {
        [(place, first), (_, second), ..] if first - second > CLEARLY.ln() => Some(place),
        _ => None,
    }
}

/// What is said before the object that another is placed by.
const REFERENCE: [&[&str]; 10] = [
    &["relative", "to"],
    &["relation", "to"],
    &["respect", "to"],
    &["compared", "to"],
    &["compared", "with"],
    &["side", "of"],
    &["left", "of"],
    &["right", "of"],
    &["above"],
    &["below"],
];

/// Whether what is named after these words is what the other is placed by.
fn leads_to_reference(words: &[&str]) -> bool {
    let said = |phrase: &&[&str]| words.windows(phrase.len()).any(|part| part == *phrase);
    REFERENCE.iter().any(said)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Right,
    Above,
    Below,
}

fn side(option: &str) -> Option<Side> {
    let text = plain(option);
    let words: Vec<&str> = text
        .split(' ')
        .filter(|word| {
            ![
                "to", "the", "of", "on", "at", "it", "is", "its", "side", "directly", "in",
            ]
            .contains(word)
        })
        .collect();
    match words[..] {
        ["left"] => Some(Side::Left),
        ["right"] => Some(Side::Right),
        ["above" | "over" | "top"] => Some(Side::Above),
        ["below" | "under" | "beneath" | "underneath"] => Some(Side::Below),
        _ => None,
    }
}

/// In lower case, with single spaces for all that is no letter, digit or hyphen.
fn plain(text: &str) -> String {
    let spaced: String = text
        .chars()
        .map(|c| {
            if c.is_alphanumeric() || c == '-' {
                c
            } else {
                ' '
            }
        })
        .collect();
    let words: Vec<String> = spaced.split_whitespace().map(str::to_lowercase).collect();
    words.join(" ")
}
