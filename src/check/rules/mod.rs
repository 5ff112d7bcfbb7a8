//! The published scoring rules, each compared with its authors' code: pure functions on boxes, masks and depths.
//!
//! A rule is one file that implements [`Rule`] and one entry in [`RULES`]. What the originals do that is plainly wrong
//! is done only with [`Options::published`]; `docs/rules.md` lists it all.

mod case;
pub mod corruption;
pub mod depth;
pub mod detectors;
pub mod geneval;
pub mod hrs;
pub mod opse;
pub mod ots;
pub mod pse;
pub mod pse_depth;
pub mod read;
pub mod superiority;
pub mod t2i;
pub mod t2i_depth;
pub mod visor;

use serde::Serialize;
use thiserror::Error;

pub use case::{Case, Label, Task, Wanted};

use prepose_scene::Relation;

/// A way of scoring pictures that somebody has published.
pub trait Rule: Sync {
    /// What it is called on the command line.
    fn name(&self) -> &'static str;

    /// One line on what it says.
    fn about(&self) -> &'static str;

    /// Scores the pictures, one after the other, and sums them up. A picture that it cannot score is left out of the sum.
    fn score(&self, cases: &mut dyn Iterator<Item = Case>, options: &Options) -> Report;
}

/// Every rule.
pub const RULES: [&dyn Rule; 9] = [
    &pse::Pse,
    &pse_depth::PseDepth,
    &visor::Visor,
    &geneval::Geneval,
    &t2i::T2i,
    &t2i_depth::T2iDepth,
    &hrs::Hrs,
    &ots::Homogenization,
    &ots::Correctness,
];

/// The rule of that name.
pub fn by_name(name: &str) -> Option<&'static dyn Rule> {
    RULES.into_iter().find(|rule| rule.name() == name)
}

/// What can be chosen about a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Options {
    /// Does as the authors' code does, its known mistakes included.
    pub published: bool,
    /// Detections count if their score is higher than this; none is the rule's own.
    pub min_score: Option<f64>,
}

impl Options {
    /// The score that a detection must exceed, for a rule whose own is `default`.
    fn cut(&self, default: f64) -> f64 {
        self.min_score.unwrap_or(default)
    }
}

/// What a rule says of one picture.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// From 0 (wrong) to 1 (right); none if the picture does not count.
    pub score: Option<f64>,
    /// The objects that were not found.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// What lies behind the score, in words.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
}

impl Outcome {
    fn new(score: impl Into<f64>, note: impl Into<String>) -> Self {
        Self {
            score: Some(score.into()),
            missing: Vec::new(),
            note: note.into(),
        }
    }

    /// A picture that lacks objects.
    fn missing<'a>(
        score: impl Into<Option<f64>>,
        missing: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        Self {
            score: score.into(),
            missing: missing.into_iter().map(str::to_owned).collect(),
            note: String::new(),
        }
    }

    /// A picture that does not count.
    fn without_score(note: impl Into<String>) -> Self {
        Self {
            score: None,
            missing: Vec::new(),
            note: note.into(),
        }
    }
}

/// What a rule says of all pictures.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// For each picture, in order.
    pub outcomes: Vec<Result<Outcome, RuleError>>,
    /// What the rule publishes, in the order in which it is shown.
    pub figures: Vec<Figure>,
}

/// A number with a name.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// What it is.
    pub name: String,
    /// How much it is.
    pub value: Value,
}

impl Figure {
    fn new(name: impl Into<String>, value: Value) -> Self {
        let name = name.into();
        Self { name, value }
    }

    fn count(name: impl Into<String>, count: usize) -> Self {
        Self::new(name, Value::Count(count))
    }

    /// `part` of `whole` in percent; undefined where there is no whole.
    fn percent(name: impl Into<String>, part: f64, whole: f64) -> Self {
        let percent = (whole > 0.0).then(|| 100.0 * part / whole);
        Self::new(name, Value::Percent(percent))
    }
}

/// How a figure is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// So many.
    Count(usize),
    /// Of 100; none where nothing could be divided.
    Percent(Option<f64>),
    /// A mean of scores in 0..=1; none without scores.
    Mean(Option<f64>),
}

impl Value {
    /// As a number; none where it is undefined.
    pub fn number(self) -> Option<f64> {
        match self {
            Self::Count(count) => Some(count as f64),
            Self::Percent(value) | Self::Mean(value) => value,
        }
    }
}

/// Why a rule cannot score a picture.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum RuleError {
    /// Nothing is said to stand anywhere.
    #[error("the picture's prompt states no relation; give one in \"relation\" or \"relations\"")]
    NoRelation,
    /// A rule of one relation.
    #[error("{rule} scores one relation per picture, not {found}")]
    TooManyRelations {
        /// The rule.
        rule: &'static str,
        /// How many there are.
        found: usize,
    },
    /// A relation that the rule has no notion of.
    #[error("{rule} does not score \"{relation}\"; it scores {}", names(known))]
    UnknownRelation {
        /// The rule.
        rule: &'static str,
        /// What is asked for.
        relation: Relation,
        /// What it scores.
        known: &'static [Relation],
    },
    /// Two objects that a label cannot tell apart.
    #[error("both objects are called {0:?}, and labels cannot tell them apart")]
    SameName(String),
    /// Objects that the detector has no labels for, so that it cannot have found them.
    #[error(
        "the detector that looked does not know {}; let another look, or say in its labels what was asked for, in \
         \"objects\" and \"relation\" or \"relations\"",
        .0.join(", ")
    )]
    Unknown(Vec<String>),
    /// A rule of two objects.
    #[error("{rule} needs two objects, and the picture's prompt names {found}")]
    NotTwoObjects {
        /// The rule.
        rule: &'static str,
        /// How many there are.
        found: usize,
    },
    /// Distances in a resized picture need the size of the picture.
    #[error(
        "{0} needs the picture's \"width\" and \"height\"; if all pictures have the same size, give it once with \
         --size WxH"
    )]
    NoSize(&'static str),
    /// Nothing is known of depth.
    #[error("{0} needs a \"depth\" map")]
    NoDepth(&'static str),
    /// A depth map of another picture.
    #[error("the depth map has {depth:?} pixels, the picture {picture:?}")]
    DepthSize {
        /// Width and height of the depth map.
        depth: (usize, usize),
        /// Width and height of the picture.
        picture: (usize, usize),
    },
    /// A mask of another picture.
    #[error("a mask has {mask:?} pixels, the picture or another mask {picture:?}")]
    MaskSize {
        /// Width and height of the mask.
        mask: (usize, usize),
        /// Width and height of the picture.
        picture: (usize, usize),
    },
    /// A judge's answer that means nothing.
    #[error("{0} is not a judge's label; 1 and 2 are answers, 3 and 0 are invalid")]
    Code(u8),
    /// A picture that only the originals' structure of two to four objects can score.
    #[error("HRS has 2 to 4 objects, the first of which is a subject; {0}")]
    HrsShape(String),
}

fn names(relations: &[Relation]) -> String {
    let names: Vec<&str> = relations.iter().map(|relation| relation.as_str()).collect();
    names.join(", ")
}

/// The scores of those that count, in order.
fn scores(outcomes: &[Result<Outcome, RuleError>]) -> Vec<f64> {
    let scores = outcomes.iter().flatten();
    scores.filter_map(|outcome| outcome.score).collect()
}

/// None without values.
fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}
