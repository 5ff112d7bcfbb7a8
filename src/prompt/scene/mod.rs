//! What a prompt shows: its objects and how they stand to each other.

mod relation;
mod tokens;

use std::ops::Range;

use thiserror::Error;

use super::PromptError;

pub use relation::Relation;
pub use tokens::TokenPolicy;

/// A thing that the prompt names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SceneObject {
    /// As in the prompt, without article and number: `red car`, `dogs`.
    pub phrase: String,
    /// The noun that the phrase is about, singular and in lower case: `car`, `dog`, `teddy bear`.
    pub noun: String,
    /// How many; none for a plural without a number.
    pub count: Option<usize>,
    /// The bytes of the phrase in the prompt as typed, at its first mention.
    pub bytes: Range<usize>,
}

/// A statement of the prompt: the subject stands in this relation to the objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatedRelation {
    /// Index into [`Scene::objects`].
    pub subject: usize,
    /// The relation.
    pub relation: Relation,
    /// Indices into [`Scene::objects`]: two for [`Relation::Between`], otherwise one.
    pub objects: Vec<usize>,
}

/// The objects of a prompt, in the order of their first mention, and its relations.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scene {
    /// The objects.
    pub objects: Vec<SceneObject>,
    /// The relations, none of which contradicts the others.
    pub relations: Vec<StatedRelation>,
}

/// Why a prompt's scene cannot be used.
#[derive(Debug, Error)]
pub enum SceneError {
    /// A relation that is not one of [`Relation::ALL`].
    #[error(
        "{0:?} is no relation; there are: left of, right of, above, below, above left of, above right of, \
         below left of, below right of, near, far from, between, in front of, behind"
    )]
    UnknownRelation(String),
    /// The prompt names nothing.
    #[error("the prompt names no object")]
    NoObject,
    /// An object's phrase has no tokens of its own in the prompt.
    #[error("{0:?} is not among the tokens of the prompt")]
    NoTokens(String),
    /// The prompt itself cannot be used.
    #[error(transparent)]
    Prompt(#[from] PromptError),
}

impl Scene {
    /// Reads the objects and relations of a prompt.
    pub fn parse(prompt: &str) -> Result<Self, SceneError> {
        let mut scene = Self::default();
        let lower = prompt.to_ascii_lowercase();
        let joints = [
            (" to the left of ", Some(Relation::LeftOf)),
            (" to the right of ", Some(Relation::RightOf)),
            (" above ", Some(Relation::Above)),
            (" below ", Some(Relation::Below)),
            (" near ", Some(Relation::Near)),
            (" and ", None),
        ];
        let mut at = 0;
        let mut relation = None;
        while at < prompt.len() {
            let next = joints
                .iter()
                .filter_map(|joint| lower[at..].find(joint.0).map(|i| (at + i, joint)))
                .min_by_key(|(i, _)| *i);
            let end = next.map_or(prompt.len(), |(i, _)| i);
            scene.push(prompt, at..end);
            let last = scene.objects.len().saturating_sub(1);
            if let Some(relation) = relation.take()
                && last > 0
            {
                scene.relations.push(StatedRelation {
                    subject: last - 1,
                    relation,
                    objects: vec![last],
                });
            }
            let Some((i, joint)) = next else { break };
            relation = joint.1;
            at = i + joint.0.len();
        }
        if scene.objects.is_empty() {
            return Err(SceneError::NoObject);
        }
        Ok(scene)
    }

    fn push(&mut self, prompt: &str, bytes: Range<usize>) {
        let mut start = bytes.start;
        for skip in ["a photo of ", "a ", "an ", "the "] {
            if prompt[start..bytes.end]
                .to_ascii_lowercase()
                .starts_with(skip)
            {
                start += skip.len();
            }
        }
        let phrase = prompt[start..bytes.end].trim().trim_end_matches(['.', ',']);
        if !phrase.is_empty() {
            self.objects.push(SceneObject {
                phrase: phrase.to_owned(),
                noun: phrase.rsplit(' ').next().unwrap_or(phrase).to_lowercase(),
                count: Some(1),
                bytes: start..start + phrase.len(),
            });
        }
    }
}
