//! OTS-Bench judged (Order Is Not Layout, arXiv 2603.03714): its four settings, with the prompts of its tables 15 to 18.
//!
//! The prompts are the paper's, word for word; line breaks are ours, as the tables have none. The paper does not say how
//! answers are decoded; [`chat`](crate::chat) asks for temperature 0.

mod published;
mod tables;

use std::collections::HashSet;

use prepose_check::prompt::SuitePrompt;
use prepose_check::rules::Task;
use prepose_check::rules::ots::{Code, Side, Verdict};
use prepose_scene::Relation;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::question::{About, Answer, Form, Question};

pub use published::published;
pub use tables::{Judged, agreement, bias, figures};

const T2I_HOMOGENIZATION: &str = include_str!("t2i_homogenization.txt");
const T2I_CORRECTNESS: &str = include_str!("t2i_correctness.txt");
const I2I_HOMOGENIZATION: &str = include_str!("i2i_homogenization.txt");
const I2I_CORRECTNESS: &str = include_str!("i2i_correctness.txt");

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Setting {
    /// Text to image: which of two is on the left.
    T2iHomogenization,
    /// Text to image: whether two stand as they do in the world.
    T2iCorrectness,
    /// Image to image: which of two does what one should.
    I2iHomogenization,
    /// Image to image: whether each does what the prompt says.
    I2iCorrectness,
}

impl Setting {
    /// As in files and tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::T2iHomogenization => "t2i_homogenization",
            Self::T2iCorrectness => "t2i_correctness",
            Self::I2iHomogenization => "i2i_homogenization",
            Self::I2iCorrectness => "i2i_correctness",
        }
    }

    /// Whether it asks which of the two, and not whether they are right.
    pub fn is_homogenization(self) -> bool {
        matches!(self, Self::T2iHomogenization | Self::I2iHomogenization)
    }
}

/// The order in which the prompt mentions the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// As they should stand, or as they stand in the seed picture.
    Aligned,
    /// The other way round.
    Reverse,
}

/// A picture that is judged, a line of a file of cases.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Unique among the cases.
    pub id: String,
    /// The picture, relative to the folder of pictures.
    pub picture: String,
    /// What is measured.
    pub setting: Setting,
    /// Homogenization: the one mentioned first, or on the left in the seed picture. Correctness of text to image: the one that
    /// belongs to the left.
    pub a: String,
    /// The other one.
    pub b: String,
    /// Correctness: the order of mention.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<Order>,
    /// What the first looks like in the seed picture; image to image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub a_description: Option<String>,
    /// What the second looks like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub b_description: Option<String>,
    /// What is done; image to image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// Who should do it; correctness of image to image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// What pictures of the same pair have in common: these are drawn together for intervals [default: both names].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// How the picture was made: tables have a row for each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
}

/// Why something cannot be a case.
#[derive(Debug, Error)]
pub enum CaseError {
    /// A line is none.
    #[error("line {line}: {error}")]
    Line {
        /// From 1.
        line: usize,
        /// What is wrong.
        error: serde_json::Error,
    },
    /// Something is missing.
    #[error("line {line}: {id}: {setting} needs {what}")]
    Missing {
        /// From 1.
        line: usize,
        /// Of the case.
        id: String,
        /// What it measures.
        setting: &'static str,
        /// What it lacks.
        what: &'static str,
    },
    /// Both subjects are the same.
    #[error(
        "line {line}: {id}: both subjects are {name:?}, so no answer could tell one from the other"
    )]
    Same {
        /// From 1.
        line: usize,
        /// Of the case.
        id: String,
        /// Of both.
        name: String,
    },
    /// Two cases have the same name.
    #[error("line {line}: there is already a case {id}")]
    Twice {
        /// From 1.
        line: usize,
        /// Of both.
        id: String,
    },
    /// There are none.
    #[error("there are no cases in it")]
    Empty,
}

/// What is asked about pictures of a prompt, without a name and a picture: of two objects without a relation which is on the
/// left, and of a relation of left and right whether it holds. None for all other prompts.
pub fn from_prompt(prompt: &SuitePrompt) -> Option<Case> {
    let [first, second] = prompt.objects.as_slice() else {
        return None;
    };
    let (setting, [a, b], order) = match prompt.relations.as_slice() {
        [] => (Setting::T2iHomogenization, [first, second], None),
        [one] => {
            let (subject, object) = one.two()?;
            let (left, right) = match one.relation {
                Relation::LeftOf => (subject, object),
                Relation::RightOf => (object, subject),
                _ => return None,
            };
            let order = match left < right {
                true => Order::Aligned,
                false => Order::Reverse,
            };
            let names = [prompt.objects.get(left)?, prompt.objects.get(right)?];
            (Setting::T2iCorrectness, names, Some(order))
        }
        _ => return None,
    };
    (!a.eq_ignore_ascii_case(b)).then(|| Case {
        id: String::new(),
        picture: String::new(),
        setting,
        a: a.clone(),
        b: b.clone(),
        order,
        a_description: None,
        b_description: None,
        action: None,
        expected: None,
        group: None,
        method: None,
    })
}

/// Reads cases, one JSON object a line.
///
/// # Errors
/// A line is none, lacks what its setting needs, or repeats a name; there are none.
pub fn read(text: &str) -> Result<Vec<Case>, CaseError> {
    let mut cases: Vec<Case> = Vec::new();
    let mut seen = HashSet::new();
    let lines = (1..)
        .zip(text.lines())
        .filter(|(_, text)| !text.trim().is_empty());
    for (line, text) in lines {
        let case: Case =
            serde_json::from_str(text).map_err(|error| CaseError::Line { line, error })?;
        let id = case.id.clone();
        let setting = case.setting.as_str();
        if case.a.trim().eq_ignore_ascii_case(case.b.trim()) {
            let name = case.a;
            return Err(CaseError::Same { line, id, name });
        }
        if let Some(what) = case.lacks() {
            return Err(CaseError::Missing {
                line,
                id,
                setting,
                what,
            });
        }
        if !seen.insert(id.clone()) {
            return Err(CaseError::Twice { line, id });
        }
        cases.push(case);
    }
    match cases.is_empty() {
        true => Err(CaseError::Empty),
        false => Ok(cases),
    }
}

impl Case {
    fn lacks(&self) -> Option<&'static str> {
        let correctness = !self.setting.is_homogenization();
        let edited = matches!(
            self.setting,
            Setting::I2iHomogenization | Setting::I2iCorrectness
        );
        if correctness && self.order.is_none() {
            return Some("\"order\": \"aligned\" or \"reverse\"");
        }
        if edited && self.action.is_none() {
            return Some("\"action\", what is done");
        }
        let attributed = self.setting == Setting::I2iCorrectness;
        (attributed && self.expected.is_none()).then_some("\"expected\", who should do it")
    }

    /// The figure of the benchmark that it counts for, as in `prepose_check::audit::study::ots::FIGURES`.
    pub fn figure(&self) -> &'static str {
        match (self.setting, self.order) {
            (Setting::T2iCorrectness, Some(Order::Reverse)) => "t2i_reverse",
            (Setting::T2iCorrectness, _) => "t2i_aligned",
            (Setting::I2iCorrectness, Some(Order::Reverse)) => "i2i_reverse",
            (Setting::I2iCorrectness, _) => "i2i_aligned",
            (homogenization, _) => homogenization.as_str(),
        }
    }

    /// The pair that it is of.
    pub fn group(&self) -> String {
        let mut pair = [self.a.as_str(), self.b.as_str()];
        pair.sort_unstable();
        self.group.clone().unwrap_or_else(|| pair.join("|"))
    }

    /// The paper's question of the picture with this number; with `exchanged`, the same question with the subjects in the
    /// other order, which the paper does not ask.
    pub fn question(&self, picture: usize, exchanged: bool) -> Question {
        let (a, b) = (self.a.as_str(), self.b.as_str());
        let described = |given: &Option<String>| {
            given
                .clone()
                .unwrap_or_else(|| "as in the seed image".into())
        };
        let about = [
            described(&self.a_description),
            described(&self.b_description),
        ];
        let ([first, second], [about_first, about_second], [left, right]) = match exchanged {
            false => ([a, b], [&about[0], &about[1]], ["LEFT", "RIGHT"]),
            true => ([b, a], [&about[1], &about[0]], ["RIGHT", "LEFT"]),
        };
        let template = match self.setting {
            Setting::T2iHomogenization => T2I_HOMOGENIZATION,
            Setting::T2iCorrectness => T2I_CORRECTNESS,
            Setting::I2iHomogenization => I2I_HOMOGENIZATION,
            Setting::I2iCorrectness => I2I_CORRECTNESS,
        };
        let text = fill(
            template.trim_end(),
            &[
                ("{subject_A}", first),
                ("{subject_B}", second),
                ("{description_A}", about_first),
                ("{description_B}", about_second),
                ("{side_A}", left),
                ("{side_B}", right),
                ("{action}", self.action.as_deref().unwrap_or_default()),
                (
                    "{expected_assignment}",
                    self.expected.as_deref().unwrap_or_default(),
                ),
            ],
        );
        let names = |of: [&str; 2]| of.map(str::to_owned);
        Question {
            id: format!("{}#{}", self.id, if exchanged { "ba" } else { "ab" }),
            picture: Some(picture),
            system: None,
            text,
            form: Form::Digit(3),
            about: match self.setting {
                Setting::T2iHomogenization => About::Side(names([first, second])),
                Setting::T2iCorrectness => About::Placed(names([a, b])),
                Setting::I2iHomogenization => About::Acting(names([first, second]), self.act()),
                Setting::I2iCorrectness => match self.expected_place() {
                    Some(place) => About::Acts(names([a, b]), self.act(), place),
                    None => About::Unseen,
                },
            },
        }
    }

    fn act(&self) -> String {
        self.action.clone().unwrap_or_default()
    }

    /// Who should do it, as far as the words tell: the one of both that they name first.
    fn expected_place(&self) -> Option<u8> {
        let words = self.expected.as_ref()?.to_lowercase();
        let at = |name: &str| words.find(&name.to_lowercase());
        match (at(&self.a), at(&self.b)) {
            (Some(a), Some(b)) if a == b => None,
            (Some(a), Some(b)) => Some(u8::from(b < a)),
            (Some(_), None) => Some(0),
            (None, Some(_)) => Some(1),
            (None, None) => None,
        }
    }

    /// The code that an answer would have been to the paper's question.
    pub fn code(&self, answer: Answer, exchanged: bool) -> Code {
        match answer {
            Answer::Digit(1) if exchanged && self.setting.is_homogenization() => Code(2),
            Answer::Digit(2) if exchanged && self.setting.is_homogenization() => Code(1),
            Answer::Digit(digit) => Code(digit),
            _ => Code(3),
        }
    }

    /// Whether a code counts for the first of the setting's two outcomes (A, or correct) or for the second; none if it is
    /// invalid.
    pub fn counts(&self, code: Code) -> Option<bool> {
        let task = match self.setting {
            Setting::T2iHomogenization | Setting::T2iCorrectness => Task::TextToImage,
            Setting::I2iHomogenization | Setting::I2iCorrectness => Task::ImageToImage,
        };
        if self.setting.is_homogenization() {
            return match code.side().ok()? {
                Side::Left => Some(true),
                Side::Right => Some(false),
                Side::Invalid => None,
            };
        }
        match code.verdict(task).ok()? {
            Verdict::Correct => Some(true),
            Verdict::Wrong => Some(false),
            Verdict::Invalid => None,
        }
    }
}

/// Puts values in their places, in one pass: what a value says is never taken for a place.
fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let mut text = String::new();
    let mut rest = template;
    while let Some(start) = rest.find('{') {
        text.push_str(&rest[..start]);
        rest = &rest[start..];
        match values.iter().find(|(place, _)| rest.starts_with(place)) {
            Some((place, value)) => {
                text.push_str(value);
                rest = &rest[place.len()..];
            }
            None => {
                text.push('{');
                rest = &rest[1..];
            }
        }
    }
    text + rest
}
