//! How benchmarks name their pictures.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::Template;
use crate::SourceError;

/// How the names of pictures are formed; in JSON a layout's name, or the template.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Layout {
    /// SpatialBench-UC: `manifest.jsonl` names them.
    Manifest,
    /// GenEval: `00000/samples/0000.png`, with the prompt in `00000/metadata.jsonl`.
    GenEval,
    /// T2I-CompBench: `a dog on the left of a cat_000000.png`; the numbers of a prompt's pictures are an order.
    CompBench,
    /// VISOR: `123_0.png`.
    Visor,
    /// SpatialGenEval: `000001.png`.
    SpatialGenEval,
    /// One's own.
    Template(Template),
}

/// The layouts with a name, and what names look like in them.
pub const NAMES: [(&str, Layout, &str); 5] = [
    (
        "manifest",
        Layout::Manifest,
        "manifest.jsonl names the pictures, as SpatialBench-UC's does",
    ),
    (
        "geneval",
        Layout::GenEval,
        "00000/samples/0000.png, and 00000/metadata.jsonl if it is there",
    ),
    (
        "t2i-compbench",
        Layout::CompBench,
        "a dog on the left of a cat_000000.png",
    ),
    ("visor", Layout::Visor, "123_0.png"),
    ("spatialgeneval", Layout::SpatialGenEval, "000001.png"),
];

impl Layout {
    /// What names look like; of the manifest nothing is read from names.
    pub(super) fn template(&self) -> Template {
        let text = match self {
            Self::Template(template) => return template.clone(),
            Self::Manifest => "{prompt_id}_{seed}",
            Self::GenEval => "{number}/samples/{index}",
            Self::CompBench => "{prompt}_{index}",
            Self::Visor => "{number}_{index}",
            Self::SpatialGenEval => "{number}",
        };
        Template::plain(text)
    }

    /// Whether names tell pictures apart by their seeds.
    pub fn is_by_seed(&self) -> bool {
        match self {
            Self::Manifest => true,
            Self::Template(template) => template.is_by_seed(),
            _ => false,
        }
    }

    /// Whether there is one picture of each prompt.
    pub fn is_single(&self) -> bool {
        match self {
            Self::SpatialGenEval => true,
            Self::Template(template) => template.is_single(),
            _ => false,
        }
    }
}

impl FromStr for Layout {
    type Err = SourceError;

    fn from_str(text: &str) -> Result<Self, SourceError> {
        match NAMES.into_iter().find(|(name, ..)| *name == text) {
            Some((_, layout, _)) => Ok(layout),
            None => Template::parse(text).map(Self::Template),
        }
    }
}

impl TryFrom<String> for Layout {
    type Error = SourceError;

    fn try_from(text: String) -> Result<Self, SourceError> {
        text.parse()
    }
}

impl From<Layout> for String {
    fn from(layout: Layout) -> Self {
        layout.to_string()
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Template(template) => f.write_str(template.text()),
            named => {
                let mut all = NAMES.iter();
                f.write_str(
                    all.find(|(_, layout, _)| layout == named)
                        .map_or("", |(name, ..)| name),
                )
            }
        }
    }
}
