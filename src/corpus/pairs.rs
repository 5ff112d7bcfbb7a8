//! Captions that name two things joined by "and" or a word of nearness: the entity mining of appendix F.2.
//!
//! The paper parses dependencies; here it is the parser of prompts, and a caption that it does not read is no pair. A pair is
//! two things and no third, of one each, of different names and known kinds, with nothing between them but one of [`LINKS`].

use prepose_scene::{Relation, Scene};

use crate::ontology::{Kind, is_head, kind};
use crate::quality::{Fault, fault};

/// What joins the two, and whether it is coordination; the others are the spatial prepositions. The paper names and, near,
/// beside and with.
pub const LINKS: [(&str, bool); 8] = [
    ("and", true),
    ("&", true),
    ("near", false),
    ("next to", false),
    ("beside", false),
    ("with", false),
    ("alongside", false),
    ("close to", false),
];

/// Words before the second noun that do not matter.
const BEFORE: [&str; 8] = ["a", "an", "the", "one", "his", "her", "its", "another"];

/// Two things that a caption names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Named first and second, in the singular.
    pub nouns: [String; 2],
    /// The same with what is said of them: `red car`.
    pub phrases: [String; 2],
    /// What they are.
    pub kinds: [Kind; 2],
    /// One of [`LINKS`].
    pub link: &'static str,
}

/// Why a caption is no pair, in the order in which it is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Why {
    /// See [`Fault::Length`].
    Length,
    /// See [`Fault::Meta`].
    Meta,
    /// See [`Fault::Spam`].
    Spam,
    /// See [`Fault::Language`].
    Language,
    /// No word that joins, or not two names of known things.
    NoPair,
    /// The parser does not read it.
    NotRead,
    /// One thing, three things, or several of one.
    NotTwo,
    /// It says how they stand to each other in another way.
    Placed,
    /// Something else joins them.
    NotLinked,
    /// Not both are of a known kind.
    Kind,
    /// Both have the same name.
    Same,
}

impl Why {
    /// In the order in which they are looked for.
    pub const ALL: [Self; 11] = [
        Self::Length,
        Self::Meta,
        Self::Spam,
        Self::Language,
        Self::NoPair,
        Self::NotRead,
        Self::NotTwo,
        Self::Placed,
        Self::NotLinked,
        Self::Kind,
        Self::Same,
    ];

    /// In tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Length => "too short or long",
            Self::Meta => "meta-tags",
            Self::Spam => "spam",
            Self::Language => "no sentences",
            Self::NoPair => "no two names joined",
            Self::NotRead => "not read by the parser",
            Self::NotTwo => "not two single things",
            Self::Placed => "says where they are",
            Self::NotLinked => "joined otherwise",
            Self::Kind => "of no known kind",
            Self::Same => "the same name twice",
        }
    }
}

/// The pair that a caption names.
///
/// # Errors
/// Why it names none.
pub fn pair(caption: &str) -> Result<Pair, Why> {
    let caption = caption.trim();
    let lower = caption.to_ascii_lowercase();
    if let Some(fault) = fault(&lower) {
        return Err(match fault {
            Fault::Length => Why::Length,
            Fault::Meta => Why::Meta,
            Fault::Spam => Why::Spam,
            Fault::Language => Why::Language,
        });
    }
    // Most captions end here, so it has to be quick.
    if !may_be_pair(&lower) {
        return Err(Why::NoPair);
    }
    // "with" says little of place; to the parser it is a word before the looks of a thing, where "and" joins two. Both words
    // are as long, so that places in the text stay.
    let joined = match lower.contains(" and ") {
        false => lower.replacen(" with ", " and  ", 1),
        true => lower.clone(),
    };
    let scene = Scene::parse(&joined).map_err(|_| Why::NotRead)?;
    let [first, second] = scene.objects.as_slice() else {
        return Err(Why::NotTwo);
    };
    if [first, second].iter().any(|object| object.count != Some(1)) {
        return Err(Why::NotTwo);
    }
    let near = scene
        .relations
        .iter()
        .all(|stated| stated.relation == Relation::Near);
    if !near {
        return Err(Why::Placed);
    }
    // The order of the bytes is the order of mention.
    let between = lower.get(first.bytes.end..second.bytes.start);
    let link = between.and_then(link).ok_or(Why::NotLinked)?;
    let (Some(a), Some(b)) = (kind(&first.noun), kind(&second.noun)) else {
        return Err(Why::Kind);
    };
    if first.noun == second.noun {
        return Err(Why::Same);
    }
    Ok(Pair {
        nouns: [first.noun.clone(), second.noun.clone()],
        phrases: [first.phrase.clone(), second.phrase.clone()],
        kinds: [a, b],
        link,
    })
}

/// The one of [`LINKS`] that a text is, but for articles after it.
fn link(between: &str) -> Option<&'static str> {
    let mut words: Vec<&str> = between.split_ascii_whitespace().collect();
    while words.last().is_some_and(|word| BEFORE.contains(word)) {
        words.pop();
    }
    let text = words.join(" ");
    let known = LINKS.iter().find(|(link, _)| *link == text);
    known.map(|(link, _)| *link)
}

/// Whether there are a word that joins and two that may be names.
fn may_be_pair(lower: &str) -> bool {
    let (mut heads, mut links) = (0, false);
    for word in lower.split(|c: char| !(c.is_ascii_alphanumeric() || c == '&' || c == '-')) {
        match word {
            "and" | "&" | "near" | "next" | "beside" | "with" | "alongside" | "close" => {
                links = true
            }
            "" => {}
            word if is_head(word) => heads += 1,
            _ => {}
        }
    }
    links && heads >= 2
}
