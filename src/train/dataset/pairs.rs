//! Pictures of two things that stand side by side, as samples against the bias of order (Order Is Not Layout, arXiv
//! 2603.03714, section 5.4): with captions that leave open which is where, and with such that say it.

use prepose_scene::neutral::swapped;
use prepose_scene::{Relation, Scene, StatedRelation};
use serde::{Deserialize, Serialize};

/// A picture of two things whose sides somebody has seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Its file.
    pub file: String,
    /// Names the two and does not say how they stand.
    pub caption: String,
    /// Whether the first-mentioned one is on the left.
    pub first_is_left: bool,
}

/// A line of `metadata.jsonl`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// The picture's file.
    pub file_name: String,
    /// Its caption.
    pub text: String,
}

/// Each picture with its caption; `with_sides` adds it twice more, with captions that say how its two stand: "a dog to the left of a
/// cat" and "a cat to the right of a dog", so that either word is learned from every picture, whichever of its two comes first.
pub fn lines(pairs: &[Pair], with_sides: bool) -> Vec<Line> {
    let mut lines = Vec::with_capacity(pairs.len() * if with_sides { 3 } else { 1 });
    for pair in pairs {
        let line = |text: String| Line {
            file_name: pair.file.clone(),
            text,
        };
        lines.push(line(pair.caption.clone()));
        if !with_sides {
            continue;
        }
        let relation = match pair.first_is_left {
            true => Relation::LeftOf,
            false => Relation::RightOf,
        };
        let Some(said) = with_relation(&pair.caption, relation) else {
            continue;
        };
        let other = swapped(&said).ok();
        lines.push(line(said));
        lines.extend(other.map(line));
    }
    lines
}

/// The caption with `left of` or `right of` in place of the "and" between its two objects; none if there is no such "and",
/// or if the result would not be read so.
pub fn with_relation(caption: &str, relation: Relation) -> Option<String> {
    let words = match relation {
        Relation::LeftOf => "to the left of",
        Relation::RightOf => "to the right of",
        _ => return None,
    };
    let scene = Scene::parse(caption).ok()?;
    let [first, second] = scene.objects.as_slice() else {
        return None;
    };
    let start = first.bytes.end;
    let between = caption.get(start..second.bytes.start)?;
    let rest = between.trim_start().strip_prefix("and ")?;
    let rest = second.bytes.start - rest.len();
    let said = format!("{} {words} {}", &caption[..start], &caption[rest..]);
    let read = Scene::parse(&said).ok()?;
    (read.relations == [StatedRelation::of_two(0, relation, 1)]).then_some(said)
}
