//! Pictures as prompts: what an IP-Adapter is shown, how strongly, when and where.

mod parse;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::guidance::boxes::BBox;

/// A picture that an IP-Adapter shows to the network, from the command line's `--ip-picture`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PicturePrompt {
    /// Where the picture is.
    pub path: PathBuf,
    /// SHA-256 of the file, filled in when it is read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Which of the model's adapters shows it, from 1.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub adapter: usize,
    /// What its attention is multiplied with.
    #[serde(default = "full", skip_serializing_if = "is_full")]
    pub scale: f64,
    /// Factors of the scale by block of the network; blocks that are not named have 0, and with none named all have 1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocks: Vec<BlockScale>,
    /// The first step with it, from 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub first_step: usize,
    /// The last step with it; none for the last of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_step: Option<usize>,
    /// Where it acts; none for everywhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<PictureRegion>,
    /// Whether it has a softmax of its own although another picture of the same adapter has the same settings.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub own_softmax: bool,
}

/// Where a picture acts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PictureRegion {
    /// Inside a box.
    Box(BBox),
    /// Where a picture of the same shape is bright.
    Mask {
        /// Where the picture is.
        path: PathBuf,
        /// SHA-256 of the file, filled in when it is read.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sha256: Option<String>,
    },
}

/// The factors of one block of the network: one for all of its transformers, or one each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlockScale {
    /// `down0`, `mid`, `up1` and so on, as diffusers counts `down_blocks` and `up_blocks`.
    pub block: String,
    /// In the order of execution.
    pub scales: Vec<f64>,
}

/// What is wrong with a picture as a prompt.
#[derive(Debug, Error, PartialEq)]
pub enum PicturePromptError {
    /// Not `FILE,key=value`.
    #[error(
        "{given:?} is not a picture with options: {why}; write FILE, then options after commas, as in {EXAMPLE:?}"
    )]
    Syntax {
        /// As given.
        given: String,
        /// What is wrong.
        why: String,
    },
    /// A number out of its range.
    #[error("the {what} of {} is {value}, but must be {range}", path.display())]
    Range {
        /// The picture.
        path: PathBuf,
        /// Which number.
        what: &'static str,
        /// What it is.
        value: String,
        /// What it may be.
        range: String,
    },
    /// An adapter that is not there.
    #[error(
        "{} is for the IP-Adapter {adapter}, but there {}; give one with --ip-adapter FILE",
        path.display(),
        match adapters { 0 => "is none".into(), 1 => "is one".into(), n => format!("are {n}") }
    )]
    Adapter {
        /// The picture.
        path: PathBuf,
        /// Asked for, from 1.
        adapter: usize,
        /// How many there are.
        adapters: usize,
    },
    /// A block that the network does not have, or with another number of transformers.
    #[error("blocks of {}: {block:?} with {given} factors; this network has {known}", path.display())]
    Block {
        /// The picture.
        path: PathBuf,
        /// As given.
        block: String,
        /// How many factors.
        given: usize,
        /// The network's blocks with their numbers of transformers.
        known: String,
    },
    /// A mask of another shape than the picture that is made.
    #[error(
        "the mask {} is {width}x{height}, which is a different shape from the picture of {to_width}x{to_height}; give one \
         of that size",
        path.display()
    )]
    MaskShape {
        /// The mask.
        path: PathBuf,
        /// Its own.
        width: usize,
        /// Its own.
        height: usize,
        /// The picture's.
        to_width: usize,
        /// The picture's.
        to_height: usize,
    },
    /// A mask that lets nothing through.
    #[error("the region of {} is empty; a mask is white where the picture acts", path.display())]
    EmptyRegion {
        /// The picture.
        path: PathBuf,
    },
}

const EXAMPLE: &str = "dog.png,scale=0.6,steps=0-14,region=0:0:0.5:1";

/// The largest scale that is taken: far beyond any use.
const MOST: f64 = 100.0;

impl PicturePrompt {
    /// The picture at `path`, everywhere and at all steps, at full scale.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            sha256: None,
            adapter: 1,
            scale: 1.0,
            blocks: Vec::new(),
            first_step: 0,
            last_step: None,
            region: None,
            own_softmax: false,
        }
    }

    /// Whether it acts at a step, from 0.
    pub fn acts_at(&self, step: usize) -> bool {
        (self.first_step..=self.last_step.unwrap_or(usize::MAX)).contains(&step)
    }

    /// Whether the tokens of both stand in one softmax, as those of several pictures of an adapter do in diffusers.
    fn joins(&self, other: &Self) -> bool {
        let alone = |picture: &Self| picture.own_softmax || picture.region.is_some();
        let settings = |picture: &Self| {
            (
                picture.adapter,
                picture.scale,
                picture.first_step,
                picture.last_step,
            )
        };
        !alone(self)
            && !alone(other)
            && settings(self) == settings(other)
            && self.blocks == other.blocks
    }

    /// Which of `pictures` stand in one softmax: their numbers, by softmax.
    pub fn groups(pictures: &[Self]) -> Vec<Vec<usize>> {
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for (number, picture) in pictures.iter().enumerate() {
            let joined = |group: &&mut Vec<usize>| pictures[group[0]].joins(picture);
            match groups.iter_mut().find(joined) {
                Some(group) => group.push(number),
                None => groups.push(vec![number]),
            }
        }
        groups
    }

    /// The files that it names.
    pub fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        let mask = match &self.region {
            Some(PictureRegion::Mask { path, .. }) => Some(path),
            _ => None,
        };
        std::iter::once(&self.path).chain(mask)
    }

    /// Refuses numbers out of their range for a run of `steps` steps with so many adapters.
    ///
    /// # Errors
    /// [`PicturePromptError`] names the first.
    pub fn check(&self, steps: usize, adapters: usize) -> Result<(), PicturePromptError> {
        let range = |what, value: String, range: String| PicturePromptError::Range {
            path: self.path.clone(),
            what,
            value,
            range,
        };
        if !(1..=adapters).contains(&self.adapter) {
            return Err(PicturePromptError::Adapter {
                path: self.path.clone(),
                adapter: self.adapter,
                adapters,
            });
        }
        let scales = self.blocks.iter().flat_map(|block| &block.scales);
        for scale in std::iter::once(&self.scale).chain(scales) {
            if !(scale.is_finite() && scale.abs() <= MOST) {
                let limits = format!("between {} and {MOST}", -MOST);
                return Err(range("scale", scale.to_string(), limits));
            }
        }
        if self.first_step >= steps {
            let last = steps.saturating_sub(1);
            let limits = format!("one of the run's, 0 to {last}");
            return Err(range("first step", self.first_step.to_string(), limits));
        }
        match self.last_step {
            Some(last) if last < self.first_step => {
                let limits = format!("at least the first, {}", self.first_step);
                Err(range("last step", last.to_string(), limits))
            }
            _ => Ok(()),
        }
    }

    /// The scale in each of `layers`, by their names in the checkpoint.
    ///
    /// # Errors
    /// A block that is not among them, or with another number of transformers.
    pub fn scales(&self, layers: &[String]) -> Result<Vec<f32>, PicturePromptError> {
        if self.blocks.is_empty() {
            return Ok(vec![self.scale as f32; layers.len()]);
        }
        let places: Vec<(String, usize)> = layers.iter().map(|name| place(name)).collect();
        let mut known: Vec<(&str, usize)> = Vec::new();
        for (block, transformer) in &places {
            match known.iter_mut().find(|(name, _)| name == block) {
                Some((_, count)) => *count = (*count).max(transformer + 1),
                None => known.push((block, transformer + 1)),
            }
        }
        for BlockScale { block, scales } in &self.blocks {
            let fits = |(name, count): &(&str, usize)| {
                name == block && (scales.len() == 1 || scales.len() == *count)
            };
            if !known.iter().any(fits) {
                let known = known
                    .iter()
                    .map(|(name, count)| format!("{name} ({count})"));
                return Err(PicturePromptError::Block {
                    path: self.path.clone(),
                    block: block.clone(),
                    given: scales.len(),
                    known: known.collect::<Vec<_>>().join(", "),
                });
            }
        }
        let factor = |(block, transformer): &(String, usize)| {
            let named = self.blocks.iter().find(|named| named.block == *block);
            named.map_or(0.0, |named| match named.scales.as_slice() {
                [all] => *all,
                each => each.get(*transformer).copied().unwrap_or(0.0),
            })
        };
        let scales = places
            .iter()
            .map(|place| (self.scale * factor(place)) as f32);
        Ok(scales.collect())
    }
}

/// The block of a layer as users name it, and which of the block's transformers it is in.
fn place(layer: &str) -> (String, usize) {
    let mut parts = layer.split('.');
    let block = match (parts.next(), parts.next()) {
        (Some("down_blocks"), Some(number)) => format!("down{number}"),
        (Some("up_blocks"), Some(number)) => format!("up{number}"),
        _ => "mid".into(),
    };
    let mut parts = layer.split('.').skip_while(|part| *part != "attentions");
    let transformer = parts.nth(1).and_then(|number| number.parse().ok());
    (block, transformer.unwrap_or(0))
}

fn one() -> usize {
    1
}

fn is_one(number: &usize) -> bool {
    *number == 1
}

fn full() -> f64 {
    1.0
}

fn is_full(scale: &f64) -> bool {
    *scale == 1.0
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> PicturePrompt {
        text.parse().unwrap()
    }

    #[test]
    fn pictures_with_equal_settings_share_a_softmax() {
        let pictures = [
            "a",
            "b,scale=0.5",
            "c",
            "d,softmax=own",
            "e,region=0:0:1:1",
            "f,adapter=2",
            "g,scale=0.5",
        ];
        let groups = PicturePrompt::groups(&pictures.map(read));
        assert_eq!(groups, [vec![0, 2], vec![1, 6], vec![3], vec![4], vec![5]]);
    }

    #[test]
    fn scales_go_by_block() {
        let layers = [
            "down_blocks.0.attentions.0.transformer_blocks.0.attn2",
            "mid_block.attentions.0.transformer_blocks.0.attn2",
            "up_blocks.1.attentions.0.transformer_blocks.0.attn2",
            "up_blocks.1.attentions.1.transformer_blocks.0.attn2",
            "up_blocks.1.attentions.1.transformer_blocks.1.attn2",
        ]
        .map(String::from);
        let scales = |text: &str| {
            read(text)
                .scales(&layers)
                .map_err(|error| error.to_string())
        };
        assert_eq!(scales("a,scale=0.5").unwrap(), [0.5; 5]);
        assert_eq!(
            scales("a,scale=0.5,blocks=up1:2:4+mid:1").unwrap(),
            [0.0, 0.5, 1.0, 2.0, 2.0]
        );
        assert_eq!(scales("a,blocks=up1:3").unwrap(), [0.0, 0.0, 3.0, 3.0, 3.0]);
        for wrong in ["a,blocks=up2:1", "a,blocks=up1:1:1:1"] {
            assert!(scales(wrong).unwrap_err().contains("up1 (2)"), "{wrong}");
        }
    }

    #[test]
    fn numbers_have_ranges() {
        let refused = |text: &str| read(text).check(10, 1).unwrap_err().to_string();
        assert!(refused("a,adapter=2").contains("there is one"));
        assert!(refused("a,scale=1000").contains("between -100 and 100"));
        assert!(refused("a,scale=nan").contains("NaN"));
        assert!(refused("a,steps=10-").contains("0 to 9"));
        assert!(refused("a,steps=5-4").contains("at least the first"));
        assert!(read("a,steps=9-20").check(10, 1).is_ok());
        assert!(
            read("a")
                .check(10, 0)
                .unwrap_err()
                .to_string()
                .contains("there is none")
        );
    }
}
