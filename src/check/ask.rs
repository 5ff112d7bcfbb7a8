//! From a prompt's scene to what a detector is asked.

use thiserror::Error;

use super::Detection;
use super::rules::{Case, Wanted};
use super::spatialbench::{Question, RelationError};
use super::vocabulary::{UnknownObject, label_of};
use prepose_scene::{Relation, Scene, StatedRelation};

/// Why a scene cannot be checked.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AskError {
    /// There is nothing to check.
    #[error("no relation is stated; say what should hold with --relation \"dog | left of | cat\"")]
    NoRelation,
    /// "Between" and the like.
    #[error("{0:?} is about three objects; the checker decides relations of two")]
    Three(String),
    /// Near, far, depth.
    #[error(transparent)]
    Relation(#[from] RelationError),
    /// The detector does not know a thing.
    #[error(transparent)]
    Unknown(#[from] UnknownObject),
}

/// One relation of a scene, with the detector's labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// How `object_a` should stand to `object_b`.
    pub relation: Relation,
    /// The relation's subject.
    pub object_a: String,
    /// Its object.
    pub object_b: String,
}

impl Ask {
    /// Whether `object_a` stands in `relation` to `object_b`.
    ///
    /// # Errors
    /// A relation that boxes do not show.
    pub fn new(relation: Relation, object_a: String, object_b: String) -> Result<Self, AskError> {
        match relation.direction() {
            Some(_) => Ok(Self {
                relation,
                object_a,
                object_b,
            }),
            None => Err(AskError::Relation(RelationError {
                relation: relation.to_string(),
            })),
        }
    }

    /// What a detector with these labels (none: any phrase) is asked about a scene: one for each relation.
    ///
    /// # Errors
    /// [`AskError`].
    pub fn all(scene: &Scene, vocabulary: Option<&[String]>) -> Result<Vec<Self>, AskError> {
        let ask = |stated: &StatedRelation| {
            let &[object] = stated.objects.as_slice() else {
                return Err(AskError::Three(scene.describe(stated)));
            };
            Self::new(
                stated.relation,
                label_of(vocabulary, &scene.objects[stated.subject])?,
                label_of(vocabulary, &scene.objects[object])?,
            )
        };
        let asks: Vec<_> = scene.relations.iter().map(ask).collect::<Result<_, _>>()?;
        match asks.is_empty() {
            true => Err(AskError::NoRelation),
            false => Ok(asks),
        }
    }

    /// What it is of a picture of `width` × `height` pixels.
    pub fn question(&self, width: usize, height: usize) -> Question {
        Question {
            relation: self.relation,
            object_a: self.object_a.clone(),
            object_b: self.object_b.clone(),
            width: width as u32,
            height: height as u32,
        }
    }

    /// Several of one picture and what was found in it, for the published scoring rules.
    pub fn case(asks: &[Self], width: usize, height: usize, found: Vec<Detection>) -> Case {
        let objects = asks.iter().flat_map(|ask| [&ask.object_a, &ask.object_b]);
        let relations = asks.iter().enumerate().map(|(index, ask)| StatedRelation {
            subject: 2 * index,
            relation: ask.relation,
            objects: vec![2 * index + 1],
        });
        Case {
            size: Some((width, height)),
            objects: objects.map(Wanted::one).collect(),
            relations: relations.collect(),
            detections: found,
            ..Case::default()
        }
    }
}
