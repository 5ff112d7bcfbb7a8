//! What is asked of a picture, and how its answer is read.

use prepose_remote::chat::thoughts_apart;
use serde::{Deserialize, Serialize};

/// One question about one picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// Unique among the questions of a judging.
    pub id: String,
    /// Which of the judging's pictures; none if it is about words alone.
    pub picture: Option<usize>,
    /// What the model is told to be, if anything.
    pub system: Option<String>,
    /// The text, which comes after the picture.
    pub text: String,
    /// Which answers there are.
    pub form: Form,
    /// The same for somebody who sees boxes instead of pictures and words.
    pub about: About,
}

/// Which answers there are to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One digit, from 1 to this.
    Digit(u8),
    /// Yes or no.
    YesNo,
    /// One of so many letters, from A.
    Letter(u8),
    /// A JSON object.
    Object,
    /// Ten lines, each with one of so many letters, from A.
    Ten(u8),
}

/// What a question is about.
#[derive(Clone, Debug, PartialEq)]
pub enum About {
    /// Is the first to the left (1) or to the right (2) of the second?
    Side([String; 2]),
    /// Is the first to the left of the second, as it should be (1), or not (2)?
    Placed([String; 2]),
    /// Is there one?
    Object(String),
    /// Are there at least so many?
    Objects(String, usize),
    /// Which of these is the relation of the first to the second? The option at this place should be; the last is that
    /// none is to be seen.
    Relation([String; 2], Vec<String>, u8),
    /// Which of the two does this: the first alone (1), the second alone (2)?
    Acting([String; 2], String),
    /// Does the one with this place (0 or 1), and not the other, do this (2), or is it the other way round (1)?
    Acts([String; 2], String, u8),
    /// What no detection can tell.
    Unseen,
}

impl About {
    /// What is asked for, by its names.
    pub fn names(&self) -> Vec<String> {
        match self {
            Self::Side(names) | Self::Placed(names) | Self::Relation(names, ..) => names.to_vec(),
            Self::Acting(names, action) | Self::Acts(names, action, _) => names
                .iter()
                .map(|name| format!("{action} {name}"))
                .collect(),
            Self::Object(name) | Self::Objects(name, _) => vec![name.clone()],
            Self::Unseen => Vec::new(),
        }
    }
}

/// An answer that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A digit.
    Digit(u8),
    /// Yes, or no.
    Yes(bool),
    /// The place of a letter, from 0.
    Letter(u8),
    /// A JSON object, which is in the text.
    Object,
    /// The places of ten letters, from 0.
    Ten([u8; 10]),
    /// It is none of the answers.
    Invalid(Invalid),
}

/// Why an answer cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Invalid {
    /// Nothing was said.
    Empty,
    /// The model thought until its tokens were gone.
    Thinking,
    /// The tokens were gone before the end.
    Cut,
    /// The model, or somebody before it, refused.
    Refused,
    /// It is none of the answers.
    Other,
}

impl Invalid {
    /// In messages and tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Thinking => "thinking",
            Self::Cut => "cut",
            Self::Refused => "refused",
            Self::Other => "none of the answers",
        }
    }
}

/// How an answer ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The model was done.
    #[default]
    Stop,
    /// Its tokens were gone.
    Length,
    /// It was refused.
    Refused,
}

impl Form {
    /// Reads an answer: the whole text, but for white space around it and one block of thoughts before it, which may have begun in
    /// the model's template.
    pub fn read(self, text: &str, end: End) -> Answer {
        if end == End::Refused {
            return Answer::Invalid(Invalid::Refused);
        }
        let (_, Some(text)) = thoughts_apart(text) else {
            return Answer::Invalid(Invalid::Thinking);
        };
        let text = text.trim();
        let read = match self {
            Self::Digit(most) => (text.parse().ok())
                .filter(|digit| text.len() == 1 && (1..=most).contains(digit))
                .map(Answer::Digit),
            Self::Object => object_alone(text).map(|_| Answer::Object),
            Self::YesNo => yes_or_no(text).map(Answer::Yes),
            Self::Letter(count) => letter(text)
                .filter(|place| *place < count)
                .map(Answer::Letter),
            Self::Ten(count) => ten(text, count).map(Answer::Ten),
        };
        match read {
            // Half an answer may look like a whole one.
            Some(answer) if end == End::Stop => answer,
            _ if text.is_empty() && end == End::Length => Answer::Invalid(Invalid::Thinking),
            _ if end == End::Length => Answer::Invalid(Invalid::Cut),
            _ if text.is_empty() => Answer::Invalid(Invalid::Empty),
            _ => Answer::Invalid(Invalid::Other),
        }
    }
}

/// The JSON object that a text is, but for one block of thoughts before it; maybe in a block of code, as models like to write it.
pub fn object(text: &str) -> Option<serde_json::Map<String, serde_json::Value>> {
    object_alone(thoughts_apart(text).1?.trim())
}

fn object_alone(text: &str) -> Option<serde_json::Map<String, serde_json::Value>> {
    let inside = text
        .strip_prefix("```")
        .and_then(|text| text.strip_suffix("```"));
    let text = inside.map_or(text, |text| text.trim_start_matches("json"));
    // A list of one is as good, where a prompt asks for a list.
    match serde_json::from_str(text).ok()? {
        serde_json::Value::Object(object) => Some(object),
        serde_json::Value::Array(list) => match <[serde_json::Value; 1]>::try_from(list).ok()? {
            [serde_json::Value::Object(object)] => Some(object),
            _ => None,
        },
        _ => None,
    }
}

fn yes_or_no(text: &str) -> Option<bool> {
    match text
        .strip_suffix('.')
        .unwrap_or(text)
        .to_ascii_lowercase()
        .as_str()
    {
        "yes" => Some(true),
        "no" => Some(false),
        _ => None,
    }
}

/// `B`, `B)`, `(B)`, `B.`, or `B) holding`.
fn letter(text: &str) -> Option<u8> {
    let text = text.strip_prefix('(').unwrap_or(text);
    let mut letters = text.chars();
    let first = letters.next().filter(char::is_ascii_uppercase)?;
    matches!(letters.next(), None | Some(')' | '.' | ':')).then(|| first as u8 - b'A')
}

/// Ten lines that are not empty, each of them a letter, maybe after the line's own number: `3. B`.
fn ten(text: &str, count: u8) -> Option<[u8; 10]> {
    let mut places = [0; 10];
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    for (number, place) in (1..).zip(&mut places) {
        let line = lines.next()?;
        let line = line
            .strip_prefix(&format!("{number}"))
            .map(|rest| rest.strip_prefix(['.', ')', ':']).unwrap_or(line).trim())
            .unwrap_or(line);
        *place = letter(line).filter(|place| *place < count)?;
    }
    lines.next().is_none().then_some(places)
}
