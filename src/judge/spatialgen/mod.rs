//! SpatialGenEval (Everything in Its Place, arXiv 2601.20354): ten questions about each picture, one of each sub-domain of
//! spatial intelligence.
//!
//! * [`mod@read`]: the benchmark's file of prompts and questions, which its user brings: it has no licence;
//! * [`Item::question`]: all ten at once, without the prompt; with its options in another order, or of no picture ([`Control`]);
//! * [`rounds`]: five valid answers of at most 25, and what at least four of them say;
//! * [`tables`]: accuracy by sub-domain and level, and what the answers say of the judge;
//! * [`geometry`]: the same answers from boxes, where boxes decide;
//! * [`propose`]: prompts and questions for scenes of one's own, and [`leaks`]: whether questions give their answers away.
//!
//! The protocol is that of the benchmark's scorer. The words around the questions are ours, as is all of [`propose`].

pub mod geometry;
pub mod leaks;
pub mod propose;
mod published;
pub mod read;
pub mod rounds;
pub mod tables;
#[cfg(test)]
mod tests;

use prepose_statistics::python_random::PythonRandom;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::question::{About, Form, Question};

pub use published::published;
pub use read::{FileError, read, read_lines, to_line};

/// Questions about a picture.
pub const QUESTIONS: usize = 10;
/// Options of a question, of which the last is that none fits.
pub const OPTIONS: usize = 5;
/// The last option.
pub const NONE: &str = "None";
/// The option that none fits, by its place.
pub const NONE_PLACE: u8 = 4;

/// What the benchmark's scorer tells the model to be.
const SYSTEM: &str = "You are a professional image critic.";
/// Ours: how the ten are asked for.
const ASK: &str = "Look at the image and answer the ten questions below by what the image shows. Each question has options with \
letters; choose E where none of the others fits the image. Answer with exactly ten lines: line 1 has the letter of your answer to \
question 1, line 2 that of question 2, and so on. Write nothing but the letters.";

/// What a question is about (S1 to S10), in the order of the ten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Domain {
    /// S1: whether all objects are there.
    Object,
    /// S2: whether colours, shapes and materials are at the right ones.
    Attribute,
    /// S3: where things are.
    Position,
    /// S4: which way they face.
    Orientation,
    /// S5: how several are arranged.
    Layout,
    /// S6: how sizes and numbers compare.
    Comparison,
    /// S7: what is near, far or touching.
    Proximity,
    /// S8: what hides what.
    Occlusion,
    /// S9: what moves.
    Motion,
    /// S10: what causes what.
    Causal,
}

impl Domain {
    /// In the order of the questions.
    pub const ALL: [Self; QUESTIONS] = [
        Self::Object,
        Self::Attribute,
        Self::Position,
        Self::Orientation,
        Self::Layout,
        Self::Comparison,
        Self::Proximity,
        Self::Occlusion,
        Self::Motion,
        Self::Causal,
    ];

    /// As in the benchmark's file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Object => "Object",
            Self::Attribute => "Attribute",
            Self::Position => "Position",
            Self::Orientation => "Orientation",
            Self::Layout => "Layout",
            Self::Comparison => "Comparison",
            Self::Proximity => "Proximity",
            Self::Occlusion => "Occlusion",
            Self::Motion => "Motion",
            Self::Causal => "Causal",
        }
    }

    /// What it belongs to.
    pub fn level(self) -> Level {
        match self {
            Self::Object | Self::Attribute => Level::Foundations,
            Self::Position | Self::Orientation | Self::Layout => Level::Perception,
            Self::Comparison | Self::Proximity | Self::Occlusion => Level::Reasoning,
            Self::Motion | Self::Causal => Level::Interaction,
        }
    }
}

/// Sub-domains that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// S1 and S2.
    Foundations,
    /// S3 to S5.
    Perception,
    /// S6 to S8.
    Reasoning,
    /// S9 and S10.
    Interaction,
}

impl Level {
    /// From the simplest on.
    pub const ALL: [Self; 4] = [
        Self::Foundations,
        Self::Perception,
        Self::Reasoning,
        Self::Interaction,
    ];

    /// In tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Foundations => "Foundations",
            Self::Perception => "Perception",
            Self::Reasoning => "Reasoning",
            Self::Interaction => "Interaction",
        }
    }
}

/// One question with its options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// As it is in the file, options included.
    pub text: String,
    /// Without the options.
    pub stem: String,
    /// A to D, without their letters; E is [`NONE`].
    pub options: [String; 4],
    /// The right option's place, from 0.
    pub right: u8,
}

impl Choice {
    /// A question of these parts, written as the benchmark's are.
    pub fn new(stem: &str, options: [String; 4], right: u8) -> Self {
        let text = format!("{stem}  Options: {}", listed(&options, &[0, 1, 2, 3]));
        Self {
            text,
            stem: stem.to_owned(),
            options,
            right,
        }
    }

    /// The right option's words; none if it is that none fits.
    pub fn answer(&self) -> Option<&str> {
        self.options
            .get(usize::from(self.right))
            .map(String::as_str)
    }
}

/// The options in this order of their places.
fn listed(options: &[String; 4], order: &[u8; 4]) -> String {
    let of = |(letter, place): (char, &u8)| {
        let option = options.get(usize::from(*place)).map_or("", String::as_str);
        format!("{letter}: {option}, ")
    };
    let listed: String = ('A'..).zip(order).map(of).collect();
    listed + "E: " + NONE
}

/// A prompt with its ten questions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Unique in the file; the picture's name without its ending.
    pub id: String,
    /// What kind of scene, such as `library`.
    pub scene: String,
    /// What the picture is made from; the judge never sees it.
    pub prompt: String,
    /// In the order of [`Domain::ALL`].
    pub questions: Vec<Choice>,
}

/// How questions are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Control {
    /// As the benchmark asks them.
    AsPublished,
    /// With options A to D in another order: the benchmark's key has C for nearly half of the questions, so that who
    /// always says C looks good.
    Shuffled,
    /// Without the picture: what questions tell of their answers.
    NoPicture,
}

impl Control {
    /// In tables and names.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AsPublished => "as published",
            Self::Shuffled => "shuffled",
            Self::NoPicture => "no picture",
        }
    }
}

impl Item {
    /// In which order a question's options stand: the old place of each. Drawn from seed, item and question, so that another
    /// item changes nothing here.
    fn order(&self, at: usize, control: Control, seed: u64) -> [u8; 4] {
        let mut order = [0, 1, 2, 3];
        if control == Control::Shuffled {
            let digest = Sha256::digest(format!("{seed}\n{}\n{at}", self.id));
            let start = digest[..8]
                .iter()
                .fold(0, |number, byte| number << 8 | u64::from(*byte));
            PythonRandom::new(start).shuffle(&mut order);
        }
        order
    }

    /// All ten at once, about the picture with this number; with [`Control::NoPicture`] about none.
    pub fn question(&self, name: &str, picture: usize, control: Control, seed: u64) -> Question {
        let numbered = |(at, choice): (usize, &Choice)| {
            let text = match control {
                Control::Shuffled => {
                    let order = self.order(at, control, seed);
                    let options = listed(&choice.options, &order);
                    format!("{}  Options: {options}", choice.stem)
                }
                Control::AsPublished | Control::NoPicture => choice.text.clone(),
            };
            format!("{}. {}\n", at + 1, text.trim())
        };
        let ten: String = self.questions.iter().enumerate().map(numbered).collect();
        Question {
            id: format!("{name}#{}", control.as_str().replace(' ', "-")),
            picture: (control != Control::NoPicture).then_some(picture),
            system: Some(SYSTEM.to_owned()),
            text: format!("{ASK}\n\n{}", ten.trim_end()),
            form: Form::Ten(OPTIONS as u8),
            about: About::Unseen,
        }
    }

    /// The letters that were meant by letters of an answer: those of the file's order of options.
    pub fn meant(&self, answer: &[u8; QUESTIONS], control: Control, seed: u64) -> [u8; QUESTIONS] {
        let mut meant = *answer;
        for (at, place) in meant.iter_mut().enumerate() {
            let order = self.order(at, control, seed);
            *place = order.get(usize::from(*place)).copied().unwrap_or(*place);
        }
        meant
    }
}
