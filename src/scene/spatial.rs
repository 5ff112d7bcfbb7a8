//! Phrases of place: "to the left of", "on top of", "on the right".

use super::Relation;
use super::vocabulary::{AND, POINTERS, PREPOSITIONS};
use super::words::{Kind, Word};

/// A phrase of place, as it stands at some word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spatial {
    /// The object follows: "to the left of …", "above …".
    Of(Relation),
    /// The object is a pronoun inside the phrase: "to its left".
    OfIt(Relation),
    /// A side of the picture: "on the left", "at the top of the image".
    Place(Relation),
}

/// Phrases without a side in them, the longer of two that begin alike first.
const PHRASES: &[(&[&str], Relation)] = &[
    (&["on", "top", "of"], Relation::Above),
    (&["on", "the", "top", "of"], Relation::Above),
    (&["at", "the", "top", "of"], Relation::Above),
    (&["atop"], Relation::Above),
    (&["up", "above"], Relation::Above),
    (&["above"], Relation::Above),
    (&["higher", "than"], Relation::Above),
    (&["over"], Relation::Above),
    (&["on", "the", "bottom", "of"], Relation::Below),
    (&["on", "bottom", "of"], Relation::Below),
    (&["at", "the", "bottom", "of"], Relation::Below),
    (&["down", "below"], Relation::Below),
    (&["below"], Relation::Below),
    (&["lower", "than"], Relation::Below),
    (&["under"], Relation::Below),
    (&["underneath"], Relation::Below),
    (&["beneath"], Relation::Below),
    (&["next", "to"], Relation::Near),
    (&["close", "to"], Relation::Near),
    (&["near", "to"], Relation::Near),
    (&["near"], Relation::Near),
    (&["beside"], Relation::Near),
    (&["alongside"], Relation::Near),
    (&["adjacent", "to"], Relation::Near),
    (&["on", "side", "of"], Relation::Near),
    (&["on", "the", "side", "of"], Relation::Near),
    (&["at", "the", "side", "of"], Relation::Near),
    (&["by", "the", "side", "of"], Relation::Near),
    (&["far", "away", "from"], Relation::Far),
    (&["far", "off", "from"], Relation::Far),
    (&["far", "from"], Relation::Far),
    (&["away", "from"], Relation::Far),
    (&["in", "between"], Relation::Between),
    (&["between"], Relation::Between),
    (&["in", "front", "of"], Relation::InFrontOf),
    (&["in", "the", "front", "of"], Relation::InFrontOf),
    (&["hidden", "behind"], Relation::Behind),
    (&["hidden", "by"], Relation::Behind),
    (&["occluded", "by"], Relation::Behind),
    (&["in", "back", "of"], Relation::Behind),
    (&["behind"], Relation::Behind),
];

/// Words before a phrase that do not change its direction.
const DEGREES: &str = "directly immediately slightly just exactly somewhat right straight far high way well very quite \
    diagonally partially partly completely fully";

/// Words that say where something is. One that is left over after parsing means that the prompt says something about
/// place that was not understood.
const CUES: &str = "left right top bottom above below behind front beside besides between near far under over beneath \
    underneath upper lower leftmost rightmost opposite diagonal diagonally adjacent atop higher closer \
    nearer farther further next leftward rightward leftwards rightwards alongside nearby underside \
    backside hidden";

/// What those words are no statement of place in.
const NO_CUES: &str = "top hat, tank top, crop top, front door, front yard, front view, top view, left hand, right hand, \
    left arm, right arm, front page, hidden object, all over, tipping over, tipped over, rolling over, turning over, \
    turned over, falling over, bending over, knocked over";

/// What a side may be a side of without another object.
const PICTURE: &str = "image picture photo photograph frame canvas scene";

/// The first of `words` that speaks of place and is part of no known compound. Words that underscores join are read as if they
/// stood alone: "looking_left", "black_tank_top".
pub(crate) fn cue(words: &[Word]) -> Option<&Word> {
    let parts: Vec<(&str, &Word)> = words
        .iter()
        .flat_map(|word| {
            // "<left_shoe>" is one.
            let joint = (!word.is_learned()).then_some('_');
            let parts = word.text.split(move |letter| Some(letter) == joint);
            parts.map(move |part| (part, word))
        })
        .collect();
    let cue = |i: &usize| CUES.split(' ').any(|cue| cue == parts[*i].0);
    let compound = |i: usize| {
        parts.get(i..i + 2).is_some_and(|pair| {
            NO_CUES
                .split(", ")
                .any(|known| known.split_once(' ') == Some((pair[0].0, pair[1].0)))
        })
    };
    (0..parts.len())
        .find(|i| cue(i) && !compound(*i) && !(*i > 0 && compound(i - 1)))
        .map(|i| parts[i].1)
}

/// The phrase of place that begins `words`, and how many words it has.
pub(crate) fn phrase(words: &[Word]) -> Option<(Spatial, usize)> {
    if let Some(found) = plain(words).or_else(|| side(words)) {
        // "above there is a lamp": above what stands before it, and not above the lamp.
        let next = words.get(found.1);
        let open =
            matches!(found.0, Spatial::Of(_)) && next.is_some_and(|next| next.is_one_of(POINTERS));
        return (!open).then_some(found);
    }
    let skip = match words {
        [a, b, ..] if a.is("a") && b.is_one_of("little bit few") => 2,
        [a, ..] if a.is_one_of(DEGREES) => 1,
        _ => return None,
    };
    let (found, length) = phrase(&words[skip..])?;
    // "diagonally above" leaves open to which side.
    let open = words[0].is("diagonally")
        && matches!(found, Spatial::Of(relation) if !is_diagonal(relation));
    (!open).then_some((found, length + skip))
}

fn is_diagonal(relation: Relation) -> bool {
    relation.direction().is_some_and(|(x, y)| x != 0 && y != 0)
}

/// A vertical and a horizontal phrase about the same object are a diagonal.
pub(crate) fn combined(a: Relation, b: Relation) -> Option<Relation> {
    let ((ax, ay), (bx, by)) = (a.direction()?, b.direction()?);
    let crossing = (ax == 0 && by == 0) || (ay == 0 && bx == 0);
    Relation::from_direction(ax + bx, ay + by).filter(|_| crossing)
}

fn plain(words: &[Word]) -> Option<(Spatial, usize)> {
    let (relation, length) = PHRASES.iter().find_map(|(phrase, relation)| {
        let matches = words.len() >= phrase.len()
            && phrase
                .iter()
                .zip(words)
                .all(|(text, word)| word.kind == Kind::Word && word.is(text));
        matches.then_some((*relation, phrase.len()))
    })?;
    let after = &words[length..];
    // "tipping over", "rolling over onto its back"
    let goes_on = |next: &Word| {
        next.kind == Kind::Word && !next.is_one_of(AND) && !next.is_one_of(PREPOSITIONS)
    };
    if words[0].is("over") && !after.first().is_some_and(goes_on) {
        return None;
    }
    if let Some(of) = picture(after).filter(|_| words[length - 1].is("of")) {
        return Some((Spatial::Place(relation), length + of));
    }
    // "above and to the left of", "above left of"
    let and = usize::from(after.first().is_some_and(|word| word.is("and")));
    if relation.direction().is_some()
        && let Some((Spatial::Of(other), more)) = side(&after[and..])
        && let Some(both) = combined(relation, other)
    {
        return Some((Spatial::Of(both), length + and + more));
    }
    Some((Spatial::Of(relation), length))
}

/// "the picture", and how many words.
fn picture(words: &[Word]) -> Option<usize> {
    match words {
        [the, noun, ..] if the.is("the") && noun.is_one_of(PICTURE) => Some(2),
        _ => None,
    }
}

/// "to the left of", "left of", "on the upper right side of", "to its left", "on the right".
fn side(words: &[Word]) -> Option<(Spatial, usize)> {
    let mut at = 0;
    let mut take = |texts: &str| {
        let found = words.get(at).is_some_and(|word| word.is_one_of(texts));
        at += usize::from(found);
        found
    };
    let preposition = take("to on at in toward towards");
    let its = preposition && take("its their his");
    let the = !its && take("the");
    take("far immediate extreme very");
    let y = match () {
        _ if take("upper top") => -1,
        _ if take("lower bottom") => 1,
        _ => 0,
    };
    let x = match () {
        _ if take("left") => -1,
        _ if take("right") => 1,
        _ => 0,
    };
    let relation = Relation::from_direction(x, y)?;
    take("hand");
    take("side");
    let corner = take("corner part half edge third");
    let of = take("of");
    let placed = preposition && the;
    if of {
        return match picture(&words[at..]) {
            Some(more) if placed => Some((Spatial::Place(relation), at + more)),
            // "the top of" and "the corner of" are parts of the object.
            _ if x == 0 || corner => None,
            _ => {
                // "to the left of and above", "to the left of, and below"
                let after = &words[at..];
                let and = usize::from(after.first().is_some_and(|word| word.is("and")));
                if and == 1
                    && let Some((Spatial::Of(other), more)) = plain(&after[1..])
                    && let Some(both) = combined(relation, other)
                {
                    return Some((Spatial::Of(both), at + 1 + more));
                }
                Some((Spatial::Of(relation), at))
            }
        };
    }
    if its && !corner {
        return Some((Spatial::OfIt(relation), at));
    }
    if !placed {
        return None;
    }
    // "to the left and above"
    if words[0].is("to")
        && words.get(at).is_some_and(|word| word.is("and"))
        && let Some((Spatial::Of(other), more)) = plain(&words[at + 1..])
        && let Some(both) = combined(relation, other)
    {
        return Some((Spatial::Of(both), at + 1 + more));
    }
    Some((Spatial::Place(relation), at))
}
