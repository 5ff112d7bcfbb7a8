//! What a network's features say of a method's pictures as a set, as `prepose score quality` writes it beside them.

use serde::{Deserialize, Serialize};

/// The file in a method's folder, a list of [`Assessment`]s.
pub const FILE: &str = "quality/figures.json";

/// What one network says, compared with one reference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Assessment {
    /// The network.
    pub network: String,
    /// The SHA-256 of its weights.
    pub sha256: String,
    /// How it looks at pictures, in words.
    pub about: String,
    /// How many pictures there are.
    pub pictures: usize,
    /// What they are compared with.
    pub reference: Option<String>,
    /// How many pictures that has, where that is known.
    pub reference_pictures: Option<usize>,
    /// The statistics, in the order in which they are shown.
    pub figures: Vec<Figure>,
    /// What makes some of them mean little, in words.
    pub warnings: Vec<String>,
}

/// A statistic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// As papers call it.
    pub name: String,
    /// How much it is.
    pub value: f64,
    /// The lower end of its 95 % interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// The deviation that is published with it, where there is one.
    pub deviation: Option<f64>,
    /// The setting that it depends on, in words.
    pub setting: Option<String>,
}

impl Assessment {
    /// Whether this takes the place of `other`: the same network and the same reference.
    pub fn replaces(&self, other: &Self) -> bool {
        (&self.sha256, &self.reference) == (&other.sha256, &other.reference)
    }
}
