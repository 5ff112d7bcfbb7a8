//! From a prompt's scene to the questions that a detector answers.

use std::sync::Arc;

use thiserror::Error;

use super::Detection;
use super::rules::depth::DepthMap;
use super::rules::{
    Case, Options, Outcome, Rule, RuleError, Wanted, by_name, hrs, ots, t2i, t2i_depth,
};
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
    #[error("{0:?} is about three objects; the checker decides relations between two")]
    Three(String),
    /// Depth, of which there is no map.
    #[error("{0:?} is about depth, which needs a depth map of the picture (--depth)")]
    Depth(String),
    /// Far.
    #[error(transparent)]
    Relation(#[from] RelationError),
    /// The detector does not know a thing.
    #[error(transparent)]
    Unknown(#[from] UnknownObject),
}

/// What a published rule says of a picture where the checker's own has nothing to say: on which side the first-mentioned
/// object of a neutral prompt is, and how well a relation that boxes alone do not decide holds.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleQuestion {
    /// The rule's name.
    pub rule: &'static str,
    /// In words: `dog near cat`, `dog and cat`.
    pub said: String,
    /// The detector's words for the objects.
    pub objects: Vec<String>,
    /// The relation; none of a neutral prompt.
    pub relation: Option<StatedRelation>,
}

/// What is asked of a picture, and what of its prompt cannot be.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Questions {
    /// For the checker.
    pub checker: Vec<Question>,
    /// For the published rules.
    pub rules: Vec<RuleQuestion>,
    /// What nobody decides.
    pub unasked: Vec<AskError>,
}

impl Questions {
    /// What a detector with these labels (none: any phrase) and the rules are asked about a scene. `depth`: whether there is
    /// a depth map of the picture.
    pub fn of_scene(scene: &Scene, vocabulary: Option<&[String]>, depth: bool) -> Self {
        let mut all = Self::default();
        let asked = Question::of_each_relation(scene, vocabulary);
        for (stated, asked) in scene.relations.iter().zip(asked) {
            let error = match asked {
                Ok(question) => {
                    all.checker.push(question);
                    continue;
                }
                Err(error) => error,
            };
            match RuleQuestion::of_relation(scene, stated, vocabulary, depth) {
                Ok(Some(question)) => all.rules.push(question),
                Ok(None) => all.unasked.push(error),
                Err(unknown) => all.unasked.push(unknown),
            }
        }
        if scene.relations.is_empty() {
            match RuleQuestion::of_pair(scene, vocabulary) {
                Ok(Some(question)) => all.rules.push(question),
                Ok(None) => all.unasked.push(AskError::NoRelation),
                Err(unknown) => all.unasked.push(unknown),
            }
        }
        all
    }

    /// Whether there is nothing to ask.
    pub fn is_empty(&self) -> bool {
        self.checker.is_empty() && self.rules.is_empty()
    }
}

impl RuleQuestion {
    /// On which side the first of two objects is.
    fn of_pair(scene: &Scene, vocabulary: Option<&[String]>) -> Result<Option<Self>, AskError> {
        let [first, second] = scene.objects.as_slice() else {
            return Ok(None);
        };
        let objects = vec![label_of(vocabulary, first)?, label_of(vocabulary, second)?];
        let said = format!("{} and {}", first.phrase, second.phrase);
        let distinct = !objects[0].eq_ignore_ascii_case(&objects[1]);
        Ok(distinct.then_some(Self {
            rule: ots::Homogenization.name(),
            said,
            objects,
            relation: None,
        }))
    }

    /// How well a relation holds by the rule that scores it; none if none does.
    fn of_relation(
        scene: &Scene,
        stated: &StatedRelation,
        vocabulary: Option<&[String]>,
        depth: bool,
    ) -> Result<Option<Self>, AskError> {
        let rule: &dyn Rule = match stated.relation {
            Relation::Near => &t2i::T2i,
            Relation::Between => &hrs::Hrs,
            Relation::InFrontOf | Relation::Behind if depth => &t2i_depth::T2iDepth,
            Relation::InFrontOf | Relation::Behind => {
                return Err(AskError::Depth(scene.describe(stated)));
            }
            _ => return Ok(None),
        };
        let named = std::iter::once(&stated.subject).chain(&stated.objects);
        let objects = named.map(|&object| label_of(vocabulary, &scene.objects[object]));
        let objects: Vec<String> = objects.collect::<Result<_, _>>()?;
        let relation = StatedRelation {
            subject: 0,
            relation: stated.relation,
            objects: (1..objects.len()).collect(),
        };
        Ok(Some(Self {
            rule: rule.name(),
            said: scene.describe(stated),
            objects,
            relation: Some(relation),
        }))
    }

    /// What the rule says of a picture.
    ///
    /// # Errors
    /// It cannot score this picture.
    pub fn answer(
        &self,
        [width, height]: Size,
        found: &[Detection],
        depth: Option<Arc<DepthMap>>,
    ) -> Result<Outcome, RuleError> {
        let case = Case {
            size: Some((width as usize, height as usize)),
            objects: self.objects.iter().map(Wanted::one).collect(),
            relations: self.relation.iter().cloned().collect(),
            detections: found.to_vec(),
            depth,
            ..Case::default()
        };
        let rule = by_name(self.rule).ok_or(RuleError::NoRelation)?;
        let report = rule.score(&mut std::iter::once(case), &Options::default());
        let mut outcomes = report.outcomes.into_iter();
        outcomes.next().unwrap_or(Err(RuleError::NoRelation))
    }
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
