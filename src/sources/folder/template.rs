//! `{prompt_id}/{index}.png`: how one's own pictures are named.

use std::fmt;

use crate::SourceError;

/// How names are formed: text with places in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    text: String,
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Place(Place),
}

/// What stands in a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// The prompt's name.
    PromptId,
    /// The number in it.
    Number,
    /// The prompt itself.
    Prompt,
    /// The picture's seed.
    Seed,
    /// Which of the prompt's pictures it is, from 0.
    Nth,
}

const PLACES: [(&str, Place); 5] = [
    ("{prompt_id}", Place::PromptId),
    ("{number}", Place::Number),
    ("{prompt}", Place::Prompt),
    ("{seed}", Place::Seed),
    ("{index}", Place::Nth),
];

/// Which of a prompt's pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Which {
    /// That with this seed.
    Seed(u64),
    /// From 0.
    Number(usize),
}

impl fmt::Display for Which {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Seed(seed) => write!(f, "seed {seed}"),
            Self::Number(number) => write!(f, "picture {number}"),
        }
    }
}

/// What a name says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Captured {
    pub prompt_id: Option<String>,
    pub number: Option<u64>,
    pub prompt: Option<String>,
    pub which: Option<Which>,
}

/// Ways to read a name, at most.
const MOST_READINGS: usize = 64;

impl Template {
    /// Reads a template. What it ends in does not matter: files may be PNG, JPEG or WebP.
    ///
    /// # Errors
    /// [`SourceError::Template`].
    pub fn parse(text: &str) -> Result<Self, SourceError> {
        let wrong = |why: String| SourceError::Template {
            template: text.into(),
            why,
        };
        let stem = match text.rsplit_once('.') {
            Some((stem, ending))
                if super::ENDINGS
                    .iter()
                    .any(|known| known.eq_ignore_ascii_case(ending)) =>
            {
                stem
            }
            _ => text,
        };
        let template = Self {
            text: text.into(),
            ..Self::plain(stem.trim_start_matches("./"))
        };
        let unknown = template.parts.iter().find_map(|part| match part {
            Part::Text(text) if text.contains(['{', '}']) => Some(text.clone()),
            _ => None,
        });
        if let Some(unknown) = unknown {
            return Err(wrong(format!(
                "has {unknown:?} in it, which is not a place"
            )));
        }
        let prompt =
            |place: &Place| matches!(place, Place::PromptId | Place::Number | Place::Prompt);
        match template.places().filter(|place| prompt(place)).count() {
            0 => Err(wrong("does not say which prompt a picture is of".into())),
            1 => Ok(template),
            _ => Err(wrong("says twice which prompt a picture is of".into())),
        }
    }

    /// A template whose places are known to make sense.
    pub(super) fn plain(text: &str) -> Self {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            match PLACES.iter().find(|(name, _)| rest.starts_with(name)) {
                Some((name, place)) => {
                    if !literal.is_empty() {
                        parts.push(Part::Text(std::mem::take(&mut literal)));
                    }
                    parts.push(Part::Place(*place));
                    rest = &rest[name.len()..];
                }
                None => {
                    literal.push(first);
                    rest = &rest[first.len_utf8()..];
                }
            }
        }
        if !literal.is_empty() {
            parts.push(Part::Text(literal));
        }
        Self {
            text: text.into(),
            parts,
        }
    }

    /// As it was given.
    pub fn text(&self) -> &str {
        &self.text
    }

    fn places(&self) -> impl Iterator<Item = Place> {
        self.parts.iter().filter_map(|part| match part {
            Part::Place(place) => Some(*place),
            Part::Text(_) => None,
        })
    }

    pub(super) fn is_by_seed(&self) -> bool {
        self.places().any(|place| place == Place::Seed)
    }

    pub(super) fn is_single(&self) -> bool {
        !self
            .places()
            .any(|place| matches!(place, Place::Seed | Place::Nth))
    }

    /// Whether a name, without its ending, is formed so.
    pub fn fits(&self, name: &str) -> bool {
        !self.matches(name).is_empty()
    }

    /// All ways to read a name, which is without its ending.
    pub(super) fn matches(&self, name: &str) -> Vec<Captured> {
        let mut found = Vec::new();
        read(&self.parts, name, &Captured::default(), &mut found);
        found
    }
}

fn read(parts: &[Part], name: &str, so_far: &Captured, found: &mut Vec<Captured>) {
    if found.len() >= MOST_READINGS {
        return;
    }
    let Some((first, parts)) = parts.split_first() else {
        if name.is_empty() {
            found.push(so_far.clone());
        }
        return;
    };
    let place = match first {
        Part::Text(text) => {
            if let Some(rest) = name.strip_prefix(text.as_str()) {
                read(parts, rest, so_far, found);
            }
            return;
        }
        Part::Place(place) => *place,
    };
    let fits = |c: char| match place {
        Place::PromptId => c.is_ascii_alphanumeric() || "._-".contains(c),
        Place::Prompt => c != '/',
        Place::Number | Place::Seed | Place::Nth => c.is_ascii_digit(),
    };
    let longest = name.find(|c| !fits(c)).unwrap_or(name.len());
    let numbers = matches!(place, Place::Number | Place::Seed | Place::Nth);
    // The longest first; a number is never cut in two.
    let ends = (1..=longest)
        .rev()
        .filter(|end| name.is_char_boundary(*end));
    for end in ends.take(if numbers { 1 } else { usize::MAX }) {
        let (text, rest) = name.split_at(end);
        let mut next = so_far.clone();
        let number = text.parse::<u64>().ok();
        match place {
            Place::PromptId => next.prompt_id = Some(text.into()),
            Place::Prompt => next.prompt = Some(text.into()),
            Place::Number => next.number = number,
            Place::Seed => next.which = number.map(Which::Seed),
            Place::Nth => next.which = number.map(|number| Which::Number(number as usize)),
        }
        if numbers && number.is_none() {
            return;
        }
        read(parts, rest, &next, found);
    }
}
