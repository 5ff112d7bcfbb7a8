//! Captions that name a side, which the mirror image of their picture would belie.

use serde::{Deserialize, Serialize};

/// What becomes of the mirror image of a picture whose caption names a side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SideWords {
    /// There is none.
    #[default]
    LeaveOut,
    /// Its caption and phrases have left for right and right for left; there is none where that does not do, such as with
    /// "clockwise".
    Swap,
    /// Its caption stays as it is.
    Keep,
}

/// Words of the one side and the other.
const SIDES: [[&str; 2]; 6] = [
    ["left", "right"],
    ["leftmost", "rightmost"],
    ["lefthand", "righthand"],
    ["leftward", "rightward"],
    ["leftwards", "rightwards"],
    ["lefts", "rights"],
];
/// Words that a mirror image belies as well, and that are not swapped by a word for a word.
const TURNS: [&str; 4] = ["clockwise", "anticlockwise", "counterclockwise", "mirrored"];

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
}

/// Whether a mirror image belies a word that is not swapped: "clockwise".
pub fn names_a_turn(caption: &str) -> bool {
    words(caption).any(|word| TURNS.contains(&word.to_lowercase().as_str()))
}

/// Whether a caption names a side: "left", "right-hand", "clockwise". A word that may mean something else ("right now") counts.
pub fn names_a_side(caption: &str) -> bool {
    let side = |word: &str| SIDES.as_flattened().contains(&word.to_lowercase().as_str());
    words(caption).any(side) || names_a_turn(caption)
}

/// The caption with left for right and right for left, as far as its letters' case goes.
pub fn swapped(caption: &str) -> String {
    let mut text = String::with_capacity(caption.len() + 8);
    let mut rest = caption;
    while !rest.is_empty() {
        let word = rest
            .find(|c: char| !c.is_alphanumeric())
            .unwrap_or(rest.len());
        text.push_str(&other(&rest[..word]));
        rest = &rest[word..];
        let gap = rest.find(char::is_alphanumeric).unwrap_or(rest.len());
        text.push_str(&rest[..gap]);
        rest = &rest[gap..];
    }
    text
}

fn other(word: &str) -> String {
    let lower = word.to_lowercase();
    let found = SIDES.iter().find_map(|[left, right]| match lower.as_str() {
        side if side == *left => Some(*right),
        side if side == *right => Some(*left),
        _ => None,
    });
    let Some(other) = found else {
        return word.to_owned();
    };
    let mut letters = word.chars();
    let first = letters.next().is_some_and(char::is_uppercase);
    match (first, letters.next().is_some_and(char::is_uppercase)) {
        (true, true) => other.to_uppercase(),
        (true, false) => other[..1].to_uppercase() + &other[1..],
        (false, _) => other.to_owned(),
    }
}
