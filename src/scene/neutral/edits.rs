//! What takes the place of what in a prompt whose objects change places.

use std::ops::Range;

use super::{capitalized, uncapitalized};
use crate::spatial;
use crate::words::Word;

/// Bytes of the prompt, and what stands there instead.
pub(super) type Edit = (Range<usize>, String);

/// A phrase of place that says the same of the other: "to the right of" for "to the left of".
pub(super) fn inverted(words: &[Word]) -> String {
    /// Whole phrases, where word by word would be no English.
    const PHRASES: [(&str, &str); 10] = [
        ("on top of", "below"),
        ("in front of", "behind"),
        ("in the front of", "behind"),
        ("in back of", "in front of"),
        ("hidden behind", "in front of"),
        ("hidden by", "in front of"),
        ("occluded by", "in front of"),
        ("behind", "in front of"),
        ("atop", "below"),
        ("up above", "below"),
    ];
    const WORDS: [(&str, &str); 14] = [
        ("left", "right"),
        ("right", "left"),
        ("upper", "lower"),
        ("lower", "upper"),
        ("top", "bottom"),
        ("bottom", "top"),
        ("above", "below"),
        ("below", "above"),
        ("over", "under"),
        ("under", "over"),
        ("underneath", "above"),
        ("beneath", "above"),
        ("higher", "lower"),
        ("down", "up"),
    ];
    let texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
    let upper = words[0].typed.starts_with(char::is_uppercase);
    for (phrase, other) in PHRASES {
        let phrase: Vec<&str> = phrase.split(' ').collect();
        // "directly in front of": a word of degree stays.
        if let Some(before) = texts.strip_suffix(phrase.as_slice()) {
            let text = [before, &[other]].concat().join(" ");
            return if upper { capitalized(&text) } else { text };
        }
    }
    // "right above", "immediately to the right of": a side is what "of" or nothing follows.
    let degree = words.len() > 1
        && words[0].is("right")
        && matches!(spatial::phrase(&words[1..]), Some((_, length)) if length == words.len() - 1)
        && !words[1].is_one_of("of");
    let other = |(at, word): (usize, &Word)| {
        let known = WORDS.iter().find(|(text, _)| word.is(text));
        match known.filter(|_| !(at == 0 && degree)) {
            Some((_, other)) if word.typed.starts_with(char::is_uppercase) => capitalized(other),
            Some((_, other)) => (*other).to_owned(),
            None => word.typed.clone(),
        }
    };
    let words: Vec<String> = words.iter().enumerate().map(other).collect();
    words.join(" ")
}

/// A text in the place of another: a capital belongs to the beginning of the sentence.
pub(super) fn placed(text: &str, before: &str) -> String {
    let upper = |text: &str| text.starts_with(char::is_uppercase);
    match (upper(before), upper(text)) {
        (true, false) => capitalized(text),
        (false, true) => uncapitalized(text),
        _ => text.to_owned(),
    }
}

/// The prompt with the edits, which do not overlap.
pub(super) fn edited(prompt: &str, mut edits: Vec<Edit>) -> String {
    edits.sort_by_key(|(range, _)| (range.start, range.end));
    let mut text = String::new();
    let mut at = 0;
    for (range, new) in edits {
        text.push_str(&prompt[at..range.start.max(at)]);
        text.push_str(&new);
        at = range.end.max(at);
    }
    text.push_str(&prompt[at..]);
    text
}
