//! From a prompt's scene to the questions that a detector answers.

use thiserror::Error;

use super::Detection;
use super::rules::{Case, Wanted};
use super::spatialbench::{Question, RelationError, Size};
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

impl Question {
    /// Whether `object_a` stands in `relation` to `object_b`, both as the detector's labels.
    ///
    /// # Errors
    /// A relation that boxes do not show.
    pub fn new(
        relation: Relation,
        object_a: String,
        object_b: String,
    ) -> Result<Self, RelationError> {
        match relation.direction() {
            Some(_) => Ok(Self {
                relation,
                object_a,
                object_b,
            }),
            None => Err(RelationError {
                relation: relation.to_string(),
            }),
        }
    }

    /// What a detector with these labels (none: any phrase) is asked about a scene: one question for each relation.
    ///
    /// # Errors
    /// [`AskError`].
    pub fn of_scene(scene: &Scene, vocabulary: Option<&[String]>) -> Result<Vec<Self>, AskError> {
        let questions: Vec<_> =
            Self::of_each_relation(scene, vocabulary).collect::<Result<_, _>>()?;
        match questions.is_empty() {
            true => Err(AskError::NoRelation),
            false => Ok(questions),
        }
    }

    /// As [`of_scene`](Self::of_scene), but each relation by itself: some may be asked where others cannot.
    pub fn of_each_relation<'a>(
        scene: &'a Scene,
        vocabulary: Option<&'a [String]>,
    ) -> impl Iterator<Item = Result<Self, AskError>> + 'a {
        scene.relations.iter().map(move |stated: &StatedRelation| {
            let Some((subject, object)) = stated.two() else {
                return Err(AskError::Three(scene.describe(stated)));
            };
            let label = |index: usize| label_of(vocabulary, &scene.objects[index]);
            Ok(Self::new(stated.relation, label(subject)?, label(object)?)?)
        })
    }

    /// What is asked of one picture and what was found in it, for the published scoring rules.
    pub fn case(questions: &[Self], [width, height]: Size, found: Vec<Detection>) -> Case {
        let objects = questions
            .iter()
            .flat_map(|one| [&one.object_a, &one.object_b]);
        let relations = questions
            .iter()
            .enumerate()
            .map(|(index, one)| StatedRelation::of_two(2 * index, one.relation, 2 * index + 1));
        Case {
            size: Some((width as usize, height as usize)),
            objects: objects.map(Wanted::one).collect(),
            relations: relations.collect(),
            detections: found,
            ..Case::default()
        }
    }
}
